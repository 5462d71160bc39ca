//! `sidestep capture`: the frames of running programs as pcapng, which neither tcpdump nor the kernel sees. Programs
//! copy them into rings while somebody reads (`docs/design/capture.md`); nothing here can hold one up.
//!
//! Reading order: `programs` (who is captured), `whose` (which socket a packet belongs to), `libpcap` (filters),
//! `pcapng`.

mod asked;
mod libpcap;
mod pcapng;
mod programs;
mod whose;

use crate::host::live::statistics_folder;
use ::capture::{Direction, Wish};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use libpcap::Filter;
use programs::{Choice, Programs, Seen, Told};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use whose::Ends;

/// Between two looks at the rings: while packets come, and while none do.
const BUSY: Duration = Duration::from_millis(1);
const IDLE: Duration = Duration::from_millis(10);

pub(crate) fn command() -> Command {
    let value = |name: &'static str, short: char, of: &'static str, help: &'static str| {
        Arg::new(name).long(name).short(short).value_name(of).help(help)
    };
    Command::new("capture")
        .about("Write the packets of running programs as pcapng, for Wireshark and tcpdump")
        .arg(
            value("interface", 'i', "IF", "Packets of this interface alone; may be repeated")
                .action(ArgAction::Append),
        )
        .arg(value("write", 'w', "FILE", "Where to; - is the standard output, and the default"))
        .arg(
            value("pid", 'p', "PID", "This program alone; may be repeated. Ends with the last of them")
                .value_parser(value_parser!(u32))
                .action(ArgAction::Append),
        )
        .arg(
            value("direction", 'Q', "WHICH", "Packets that go this way: in, out or inout")
                .value_parser(["in", "out", "inout"])
                .default_value("inout"),
        )
        .arg(
            value("count", 'c', "COUNT", "End after so many packets")
                .value_parser(value_parser!(u64).range(1..)),
        )
        .arg(
            value("snapshot-length", 's', "BYTES", "The most that is kept of a packet")
                .value_parser(value_parser!(u32).range(1..=i64::from(Wish::SNAP_MAX)))
                .default_value("262144"),
        )
        .arg(
            value(
                "buffer-size",
                'B',
                "KIB",
                "Memory for packets on their way, for each program and interface",
            )
            .value_parser(value_parser!(u32).range(64..=1 << 20))
            .default_value("8192"),
        )
        .arg(
            Arg::new("directory")
                .long("directory")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("Where programs keep their statistics; default VMA_STATS_SHMEM_DIR or /tmp"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Tell at the end what was captured as one JSON object (with -w - on standard error)"),
        )
        .arg(
            Arg::new("filter")
                .value_name("FILTER")
                .action(ArgAction::Append)
                .trailing_var_arg(true)
                .help("Which packets, as tcpdump has it: pcap-filter(7)"),
        )
        .after_help(
            "Examples:\n  sidestep capture -w - | wireshark -k -i -\n  \
             sidestep capture -w - 'tcp port 6379' | tcpdump -n -r -\n\n\
             Exit status: 0 done; 2 it could not be done.",
        )
}

pub(crate) fn run(options: &ArgMatches) -> Result<ExitCode, String> {
    let words = options.get_many::<String>("filter").unwrap_or_default().cloned().collect::<Vec<_>>();
    let expression = words.join(" ");
    let number = |name: &str| options.get_one::<u32>(name).copied().unwrap_or_default();
    let snap = number("snapshot-length");
    let filter = match expression.trim() {
        "" => None,
        text => Some(Filter::compile(text, snap)?),
    };
    let mut interfaces: Vec<String> = options.get_many("interface").unwrap_or_default().cloned().collect();
    if interfaces.iter().any(|name| name == "any") {
        interfaces.clear();
    }
    let folder = options.get_one::<PathBuf>("directory").map(|folder| vma_stats::place::absolute(folder));
    let choice = Choice {
        folder: folder.unwrap_or_else(|| PathBuf::from(statistics_folder())),
        pids: options.get_many("pid").unwrap_or_default().copied().collect(),
        interfaces,
        snap,
        size_log2: (number("buffer-size") * 1024).next_power_of_two().trailing_zeros() as u8,
    };
    let file = options.get_one::<String>("write").map_or("-", String::as_str);
    let direction = match options.get_one::<String>("direction").map(String::as_str) {
        Some("in") => Some(Direction::In),
        Some("out") => Some(Direction::Out),
        _ => None,
    };
    let wanted =
        Wanted { filter, expression, direction, snap, most: options.get_one::<u64>("count").copied() };
    asked::check(&choice)?;
    let ended = signals()?;
    let mut output = Output::open(file, wanted)?;
    let programs = capture(&mut output, choice, &ended)?;
    output.tell(&programs, options.get_flag("json"), file == "-");
    Ok(ExitCode::SUCCESS)
}

/// Set when a signal came. SIGPIPE among them: who has read enough ends the capture in good order.
fn signals() -> Result<Arc<AtomicBool>, String> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGPIPE] {
        signal_hook::flag::register(signal, ended.clone()).map_err(|error| error.to_string())?;
    }
    Ok(ended)
}

/// Until a signal, the count, the end of the programs, or that of who reads.
fn capture(output: &mut Output, choice: Choice, ended: &AtomicBool) -> Result<Vec<Told>, String> {
    let folder = choice.folder.clone();
    let mut programs = Programs::new(choice);
    programs.attend()?;
    if programs.is_empty() {
        eprintln!(
            "sidestep capture: no program that could be captured is in {} yet: waiting",
            folder.display()
        );
    }
    let mut waiting: Vec<Seen> = Vec::new();
    let outcome = loop {
        let is_last = ended.load(Ordering::Relaxed) || programs.are_over();
        if let Err(why) = programs.attend() {
            break Err(why);
        }
        // What is younger waits for its elders in rings that were read before it.
        let horizon = if is_last { u64::MAX } else { now_ns() };
        programs.collect(|seen| waiting.push(seen));
        waiting.sort_by_key(|seen| seen.packet.time_ns);
        let ripe = waiting.partition_point(|seen| seen.packet.time_ns < horizon);
        match output.packets(&mut programs, waiting.drain(..ripe)) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                break Err(format!("cannot write: {error}"));
            }
            Ok(false) if !is_last => {}
            _ => break Ok(()),
        }
        std::thread::sleep(if ripe == 0 { IDLE } else { BUSY });
    };
    // Whatever went wrong, programs are not left copying.
    let told = programs.end();
    outcome.map(|()| told)
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64)
}

/// Which packets are written.
struct Wanted {
    filter: Option<Filter>,
    expression: String,
    direction: Option<Direction>,
    snap: u32,
    most: Option<u64>,
}

/// An interface in the file.
struct Interface {
    number: u32,
    seen: u64,
}

/// The file, and what went there.
struct Output {
    wanted: Wanted,
    writer: pcapng::Writer<BufWriter<File>>,
    interfaces: BTreeMap<(u32, String), Interface>,
    written: u64,
    bytes: u64,
}

impl Output {
    fn open(file: &str, wanted: Wanted) -> Result<Output, String> {
        let told = |error: io::Error| format!("cannot write {file}: {error}");
        let to = if file == "-" {
            if io::stdout().is_terminal() {
                return Err(
                    "the standard output is a terminal; -w FILE writes a file, and sidestep capture -w - | \
                            tcpdump -n -r - shows packets"
                        .to_owned(),
                );
            }
            io::stdout().as_fd().try_clone_to_owned().map(File::from).map_err(told)?
        } else {
            File::create(file).map_err(told)?
        };
        let mut writer = pcapng::Writer::new(BufWriter::with_capacity(1 << 16, to)).map_err(told)?;
        // So that a reader on a pipe knows at once what it gets.
        writer.flush().map_err(told)?;
        Ok(Output { wanted, writer, interfaces: BTreeMap::new(), written: 0, bytes: 0 })
    }

    /// Writes those that are wanted. True: there are enough.
    fn packets(&mut self, programs: &mut Programs, seen: impl Iterator<Item = Seen>) -> io::Result<bool> {
        for Seen { packet, pid, interface } in seen {
            if self.wanted.most.is_some_and(|most| self.written >= most) {
                break;
            }
            let number = self.interface(interface)?;
            let passes = |filter: &Filter| filter.passes(&packet.bytes, packet.original);
            if self.wanted.direction.is_some_and(|wanted| wanted != packet.direction)
                || !self.wanted.filter.as_ref().is_none_or(passes)
            {
                continue;
            }
            let comment = programs.whose(pid, Ends::of(&packet.bytes, packet.direction));
            self.writer.packet(&pcapng::Packet {
                interface: number,
                time_ns: packet.time_ns,
                is_inbound: packet.direction == Direction::In,
                original: packet.original,
                bytes: &packet.bytes,
                comment: &comment,
            })?;
            self.written += 1;
            self.bytes += u64::from(packet.original);
        }
        self.writer.flush()?;
        Ok(self.wanted.most.is_some_and(|most| self.written >= most))
    }

    fn interface(&mut self, interface: (u32, String)) -> io::Result<u32> {
        if let Some(known) = self.interfaces.get_mut(&interface) {
            known.seen += 1;
            return Ok(known.number);
        }
        let number = self.writer.interface(&interface.1, self.wanted.snap, &self.wanted.expression)?;
        self.interfaces.insert(interface, Interface { number, seen: 1 });
        Ok(number)
    }

    /// The end: in the file, and for the user.
    fn tell(&mut self, programs: &[Told], as_json: bool, is_piped: bool) {
        let dropped: u64 = programs.iter().map(|told| told.dropped).sum();
        let now = now_ns();
        for (at, interface) in self.interfaces.values().enumerate() {
            // Which interface a dropped packet had is known where there is one only.
            let dropped = if at == 0 { dropped } else { 0 };
            // Who reads a pipe may be gone.
            let _ = self.writer.statistics(interface.number, now, interface.seen, dropped);
        }
        let _ = self.writer.flush();
        let seen: u64 = programs.iter().map(|told| told.packets).sum();
        if !as_json {
            eprintln!("{} packets captured", self.written);
            eprintln!("{seen} packets of {} programs", programs.len());
            eprintln!("{dropped} packets dropped, as there was no room for them (-B)");
            return;
        }
        let programs: Vec<serde_json::Value> = programs.iter().map(json).collect();
        let all = serde_json::json!({
            "captured": self.written,
            "bytes": self.bytes,
            "seen": seen,
            "dropped": dropped,
            "programs": programs,
        });
        let line = format!("{all}\n");
        let _ = if is_piped {
            io::stderr().write_all(line.as_bytes())
        } else {
            io::stdout().write_all(line.as_bytes())
        };
    }
}

fn json(told: &Told) -> serde_json::Value {
    serde_json::json!({
        "pid": told.pid,
        "name": told.name,
        "interfaces": told.interfaces,
        "packets": told.packets,
        "dropped": told.dropped,
    })
}
