//! The programs that talk, and what is expected of them at rest.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rig::{Host, Program, Running, TwoHosts};
use stats::Snapshot;

use super::Choices;

/// What a party does: signals of `apps/soak.c`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    /// Asks; what is begun and ended in this mode must succeed.
    Strict = libc::SIGUSR1 as isize,
    /// Asks; what arrives must be right.
    Storm = libc::SIGUSR2 as isize,
    /// Asks no more.
    Idle = libc::SIGHUP as isize,
}

const READY: Duration = Duration::from_secs(20);
/// What a process takes at most to end by SIGTERM.
const FAREWELL: Duration = Duration::from_secs(10);
/// Outlasts the servers' patience (4 s), the bounded lingering of closed connections, and a look of the worker.
const REST: Duration = Duration::from_secs(7);
/// Shadows that are kept for connections to come: `crates/sockets/src/tcp/spares.rs`.
const SPARES: usize = 16;
/// Received frames are replaced in batches.
const POSTED_SLACK: u64 = 64;
const ACCELERATED: u16 = 9501;
const KERNEL: u16 = 9502;

/// One program.
struct Party {
    program: Program,
    running: Running,
    label: String,
    mortal: bool,
    accelerated: bool,
}

/// Two hosts, two links (parties on the second are killed), accelerated or not: eight.
pub(crate) struct Crew {
    parties: Vec<Party>,
    statistics: PathBuf,
    mode: Mode,
    killed: u64,
}

/// What a long-lived party holds when nobody asks.
#[derive(Debug)]
pub(crate) struct Remains {
    label: String,
    descriptors: usize,
    rss_kib: u64,
    lane: Option<Lane>,
}

#[derive(Debug)]
struct Lane {
    /// Owned by the lane, and neither free nor in a socket's queue.
    frames_lost: u64,
    frames_posted: u64,
    frames_held: u64,
    refused_descriptors: u64,
    sockets_open: u64,
    sockets_accelerated: u64,
    panics: u64,
}

impl Crew {
    pub(crate) fn start(hosts: &TwoHosts, library: &Path, program: &Path, seed: u64) -> Crew {
        let statistics = std::env::temp_dir().join(format!("sidestep-soak-{}", std::process::id()));
        std::fs::create_dir_all(&statistics).unwrap();
        let mut parties = Vec::new();
        for number in 0..8 {
            let (at, link, accelerated) = (number & 1, number >> 1 & 1, number & 4 == 0);
            let host: &Host = [&hosts.left, &hosts.right][at];
            let port = if accelerated { ACCELERATED } else { KERNEL };
            let (mortal, mark) = if link == 1 { (true, "") } else { (false, "+") };
            let [own, peer] = [at, 1 - at].map(|host| format!("10.77.{}.{}", link + 1, host + 1));
            let program = host
                .program(program)
                .any_cpu()
                .words(&format!("{} {own} {port}", seed.wrapping_add(number as u64)))
                .words(&format!("{peer}:{ACCELERATED}{mark} {peer}:{KERNEL}{mark}"))
                .environment("VMA_STATS_SHMEM_DIR", &statistics)
                .environment("VMA_TRACELEVEL", "warning")
                .preload(accelerated.then_some(library));
            let label = format!("{own}:{port}");
            let running = begin(&program);
            parties.push(Party { program, running, label, mortal, accelerated });
        }
        Crew { parties, statistics, mode: Mode::Idle, killed: 0 }
    }

    pub(crate) fn tell(&mut self, mode: Mode) {
        self.mode = mode;
        for party in &self.parties {
            party.running.signal(mode as i32).unwrap();
        }
    }

    /// Some time in a mode.
    pub(crate) fn spend(&mut self, mode: Mode, time: Duration) {
        self.tell(mode);
        let end = Instant::now() + time;
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(200));
            self.look();
        }
    }

    /// A mortal party is killed, with or without time to tell its peers, and another takes its place at once.
    pub(crate) fn kill_one(&mut self, choices: &mut Choices) {
        let mortal: Vec<usize> = (0..self.parties.len()).filter(|i| self.parties[*i].mortal).collect();
        let party = &mut self.parties[mortal[choices.below(mortal.len() as u64) as usize]];
        if choices.below(2) == 0 {
            party.running.signal(libc::SIGKILL).unwrap();
        } else {
            party.running.signal(libc::SIGTERM).unwrap();
            party.wait_for_end();
        }
        let said = party.running.stdout() + &party.running.stderr();
        no_complaint(&party.label, &said);
        party.running = begin(&party.program);
        party.running.signal(self.mode as i32).unwrap();
        self.killed += 1;
    }

    /// Nobody has ended by itself, and nobody complains.
    pub(crate) fn look(&mut self) {
        for party in &self.parties {
            let said = party.running.stdout() + &party.running.stderr();
            assert!(party.is_alive(), "{} has ended:\n{said}", party.label);
            no_complaint(&party.label, &said);
        }
    }

    /// What the long-lived parties hold once nobody has asked for a while.
    pub(crate) fn at_rest(&mut self) -> Vec<Remains> {
        self.tell(Mode::Idle);
        std::thread::sleep(REST);
        self.look();
        self.parties
            .iter()
            .filter(|party| !party.mortal)
            .map(|party| party.remains(&self.statistics))
            .collect()
    }

    pub(crate) fn end(mut self) {
        self.tell(Mode::Idle);
        std::thread::sleep(Duration::from_millis(300));
        println!("soak: {} killed", self.killed);
        for party in &self.parties {
            let said = party.running.stdout();
            println!("soak: {} {}", party.label, said.trim().lines().last().unwrap_or_default());
            assert!(total(&said, "complete") > 0 && total(&said, "served") > 0, "{}: {said}", party.label);
            if !party.mortal {
                let (sent, echoed) = (total(&said, "udp_sent"), total(&said, "udp_echoed"));
                assert!(echoed > 0 && echoed * 3 > sent, "{}: {echoed} of {sent} echoed", party.label);
            }
        }
        for party in self.parties.drain(..) {
            party.running.kill().unwrap();
        }
        let _ = std::fs::remove_dir_all(&self.statistics);
    }
}

fn begin(program: &Program) -> Running {
    let mut running = program.start().unwrap();
    running.wait_for_output("ready", READY).unwrap();
    running
}

/// `name=number` in the last line of totals.
fn total(said: &str, name: &str) -> u64 {
    let last = said.trim().lines().last().unwrap_or_default();
    let value = last.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    value.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// What strict mode refuses while links and routes are away is said, and meant.
fn no_complaint(label: &str, said: &str) {
    let mut lines = said.lines().filter(|line| !line.contains("refused, as SIDESTEP_STRICT is set"));
    let complains =
        |line: &str| ["WRONG", "VMA ERROR", "VMA PANIC", "panicked"].iter().any(|word| line.contains(word));
    assert!(!lines.any(complains), "{label}:\n{said}");
}

impl Party {
    fn is_alive(&self) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", self.running.pid()));
        state.is_ok_and(|text| !text.contains(") Z "))
    }

    /// SIGTERM was sent: the process may take its time to tell its peers (SIDESTEP_EXIT_LINGER_MSEC), but no longer.
    fn wait_for_end(&self) {
        let begin = Instant::now();
        while self.is_alive() {
            assert!(begin.elapsed() < FAREWELL, "{} does not end by SIGTERM", self.label);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn remains(&self, statistics: &Path) -> Remains {
        let pid = self.running.pid();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let rss = rss.and_then(|rest| rest.split_whitespace().next()).and_then(|text| text.parse().ok());
        let lane = self.accelerated.then(|| {
            let bytes = std::fs::read(statistics.join(stats::segment::file_name(pid))).unwrap();
            let told = Snapshot::parse(&bytes).unwrap();
            let (_, lane) = told.lanes.first().expect("a lane");
            let (owned, posted) = frames(pid);
            Lane {
                frames_lost: owned - lane.frames_free.value() - lane.rx_frames_held.value(),
                frames_posted: posted,
                frames_held: lane.rx_frames_held.value(),
                refused_descriptors: lane.rx_invalid_descs.value() + lane.tx_invalid_descs.value(),
                sockets_open: told.process.sockets_open.value(),
                sockets_accelerated: told.process.sockets_accelerated.value(),
                panics: told.process.panics.value(),
            }
        });
        Remains {
            label: self.label.clone(),
            descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
            rss_kib: rss.unwrap_or(0),
            lane,
        }
    }
}

/// Frames that lanes own, and those posted for receiving, as the arena of a process says (`crates/xdp/src/arena.rs`).
fn frames(pid: u32) -> (u64, u64) {
    const HEADER: u64 = 4096;
    const FRAME: u64 = 4096;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let arena = maps.lines().find(|line| line.contains("/memfd:sidestep-arena")).expect("an arena");
    let range = arena.split(' ').next().and_then(|range| range.split_once('-')).unwrap();
    let address = |text| u64::from_str_radix(text, 16).unwrap();
    let (start, end) = (address(range.0), address(range.1));
    // Two words and the frame itself for each, and less than one more up to the page where the frames begin.
    let count = (end - start - HEADER) / (FRAME + 8);
    let mut file = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    file.seek(SeekFrom::Start(start + HEADER)).unwrap();
    let mut owners = vec![0; 4 * count as usize];
    file.read_exact(&mut owners).unwrap();
    let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let count = |wanted: fn(u32) -> bool| owners.chunks(4).filter(|bytes| wanted(word(bytes))).count() as u64;
    (count(|owner| owner != 0 && owner != u32::MAX), count(|owner| owner == u32::MAX))
}

impl Remains {
    /// Nothing grew, nothing is missing.
    pub(crate) fn compare(before: &[Remains], after: &[Remains]) {
        for (before, after) in before.iter().zip(after) {
            println!("soak: {before:?}\n   -> {after:?}");
        }
        for (before, after) in before.iter().zip(after) {
            let label = &after.label;
            let spares = if after.lane.is_some() { SPARES } else { 0 };
            let (had, has) = (before.descriptors, after.descriptors);
            assert!(has.abs_diff(had) <= spares, "{label}: {had} descriptors, then {has}");
            // Buffers that were used for the first time count, up to a bound.
            assert!(after.rss_kib < before.rss_kib + 8 * 1024, "{label}: memory grew: {before:?} {after:?}");
            if let (Some(before), Some(after)) = (&before.lane, &after.lane) {
                assert_eq!(
                    (after.frames_held, after.panics, after.refused_descriptors),
                    (0, 0, 0),
                    "{label}"
                );
                let accelerated = after.sockets_accelerated - before.sockets_accelerated;
                assert!(accelerated > 50, "{label}: {accelerated} sockets accelerated, so little was shown");
                assert_eq!(after.frames_lost, 0, "{label}: frames that nobody has");
                let posted = after.frames_posted.abs_diff(before.frames_posted);
                assert!(posted <= POSTED_SLACK, "{label}: {posted} posted frames more or less");
                assert_eq!(after.sockets_open, before.sockets_open, "{label}: accelerated sockets");
            }
        }
    }
}
