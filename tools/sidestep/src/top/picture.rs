//! What the programs' statistics say at one moment, and per second since the look before: rows, ready to be sorted and
//! shown. Files are read, never written.

use stats::report::{self, Carried, carrier, end, fd, interface, protocol, reason, since_s, tcp_state};
use stats::{Carrier, Lane, Process, Snapshot, Socket, Why, flag};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use vma_stats::Failure;
use vma_stats::programs::{self, Program};

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Picture {
    pub(super) programs: Vec<ProgramRow>,
    pub(super) sockets: Vec<SocketRow>,
}

/// Per second, in both directions; unknown at the first look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) calls: f64,
    pub(super) bytes: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ProgramRow {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) wire: usize,
    pub(super) memory: usize,
    pub(super) kernel: usize,
    /// Sockets left to the kernel, ever.
    pub(super) left: u64,
    pub(super) moves: u64,
    pub(super) rates: Option<Rates>,
    /// Why sockets were left to the kernel, the most frequent first.
    pub(super) reasons: Vec<(Why, u64)>,
    pub(super) lanes: Vec<String>,
    /// What is the matter with its statistics.
    pub(super) unreadable: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct SocketRow {
    pub(super) pid: u32,
    pub(super) program: String,
    pub(super) fd: i64,
    pub(super) protocol: &'static str,
    pub(super) local: String,
    pub(super) remote: String,
    pub(super) state: &'static str,
    pub(super) carrier: Carrier,
    /// Seconds; of one that nothing carries yet, 0.
    pub(super) since_s: f64,
    pub(super) moves: u64,
    pub(super) rates: Option<Rates>,
    pub(super) reason: String,
}

/// Looks at programs again and again.
pub(super) struct Watcher {
    folder: PathBuf,
    /// One program alone.
    pid: Option<u32>,
    earlier: BTreeMap<u32, (Snapshot, Instant)>,
}

impl Watcher {
    pub(super) fn new(folder: PathBuf, pid: Option<u32>) -> Watcher {
        Watcher { folder, pid, earlier: BTreeMap::new() }
    }

    /// What there is now. An error: the folder cannot be read.
    pub(super) fn look(&mut self) -> Result<Picture, String> {
        let pids = programs::of(&self.folder, true).map_err(|failure| match failure {
            Failure::Told(text) => text,
            Failure::Output(error) => error.to_string(),
        })?;
        let wall_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
        let mut earlier = std::mem::take(&mut self.earlier);
        let mut picture = Picture::default();
        for pid in pids.into_iter().filter(|pid| self.pid.is_none_or(|wanted| wanted == *pid)) {
            let looked = Program::open(&self.folder, pid).and_then(|program| program.look());
            let at = Instant::now();
            match looked {
                Ok(now) => {
                    let then = earlier.remove(&pid).filter(|(then, _)| then.started_ns == now.started_ns);
                    let then = then.map(|(then, when)| (then, at.saturating_duration_since(when)));
                    picture.add(&now, then.as_ref(), wall_ns);
                    self.earlier.insert(pid, (now, at));
                }
                Err(_) if !programs::lives(pid) => {}
                Err(failure) => picture.programs.push(unreadable(pid, failure)),
            }
        }
        Ok(picture)
    }
}

impl Rates {
    /// What a block counted since the look before, `span` seconds ago; one that is new counts from its beginning.
    fn between(now: &Socket, then: Option<&Socket>, span: f64) -> Rates {
        // By whatever carried them, in both directions.
        let traffic = |socket: &Socket| [report::calls(socket), report::bytes(socket)].map(Carried::all);
        let [calls, bytes] = traffic(now);
        let [calls_then, bytes_then] = then.map_or([0; 2], traffic);
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / span.max(1e-3);
        Rates { calls: rate(calls, calls_then), bytes: rate(bytes, bytes_then) }
    }

    fn and(self, other: Rates) -> Rates {
        Rates { calls: self.calls + other.calls, bytes: self.bytes + other.bytes }
    }
}

impl Picture {
    /// A program, with what happened since the look before, so long ago.
    fn add(&mut self, now: &Snapshot, then: Option<&(Snapshot, Duration)>, wall_ns: u64) {
        let rates = |socket: &Socket| {
            let (then, span) = then?;
            let same = |other: &&Socket| {
                (other.fd.value(), other.generation.value()) == (socket.fd.value(), socket.generation.value())
            };
            Some(Rates::between(socket, then.sockets.iter().find(same), span.as_secs_f64()))
        };
        let row = |socket: &Socket| SocketRow {
            pid: now.pid,
            program: plain(&now.program),
            fd: fd(socket),
            protocol: protocol(socket),
            local: end(socket.local.value()),
            remote: end(socket.remote.value()),
            state: if report::has(socket, flag::TCP) { tcp_state(socket.tcp_state.value()) } else { "" },
            carrier: carrier(socket),
            since_s: if carrier(socket) == Carrier::None { 0.0 } else { since_s(socket, wall_ns) },
            moves: socket.carrier_moves.value(),
            rates: rates(socket),
            reason: reason(socket),
        };
        let rows: Vec<SocketRow> = now.sockets.iter().map(row).collect();
        // What sockets without a block of their own count together.
        let beyond =
            then.map(|(then, span)| Rates::between(&now.others, Some(&then.others), span.as_secs_f64()));
        let all = rows.iter().filter_map(|row| row.rates).fold(beyond.unwrap_or_default(), Rates::and);
        let mut reasons: Vec<(Why, u64)> = now.left.iter().filter(|(_, count)| *count > 0).copied().collect();
        reasons.sort_by_key(|(why, count)| (std::cmp::Reverse(*count), *why as u8));
        let count = |carrier: Carrier| rows.iter().filter(|row| row.carrier == carrier).count();
        self.programs.push(ProgramRow {
            pid: now.pid,
            name: plain(&now.program),
            wire: count(Carrier::Wire),
            memory: count(Carrier::Memory),
            kernel: count(Carrier::Kernel),
            left: now.process.sockets_left.value(),
            moves: moves(&now.process),
            rates: then.is_some().then_some(all),
            reasons,
            lanes: now.lanes.iter().map(|(_, lane)| self::lane(lane)).collect(),
            unreadable: None,
        });
        self.sockets.extend(rows);
    }
}

/// Connections that went over to another carrier, from whichever.
fn moves(process: &Process) -> u64 {
    let counts = [
        &process.moves_to_wire,
        &process.moves_to_kernel,
        &process.moves_to_memory,
        &process.moves_from_memory,
    ];
    counts.into_iter().map(|count| count.value()).sum()
}

fn unreadable(pid: u32, failure: Failure) -> ProgramRow {
    let text = match failure {
        Failure::Told(text) => text,
        Failure::Output(error) => error.to_string(),
    };
    let name = plain(&programs::name(pid).unwrap_or_else(|| "?".to_owned()));
    ProgramRow { pid, name, unreadable: Some(plain(&text)), ..ProgramRow::default() }
}

fn lane(lane: &Lane) -> String {
    let is =
        |bit: u64, yes: &'static str, no: &'static str| if lane.mode.value() & bit != 0 { yes } else { no };
    let dropped = lane.rx_ring_full.value() + lane.rx_fill_empty.value() + lane.rx_dropped.value();
    format!(
        "{}: {} queues, {}, {}, {} frames in, {} out, {dropped} dropped",
        interface(lane),
        lane.queues.value(),
        is(2, "in the driver", "generic"),
        is(1, "zero copy", "copies"),
        lane.rx_frames.value(),
        lane.tx_frames.value(),
    )
}

/// Text of another process, perhaps another user's, as a terminal may get it: a column for each character.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect()
}
