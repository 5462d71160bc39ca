//! TCP between two namespaces, on the kernel and with the library: what acceleration gives on this host.

use super::namespaces::{Side, pair};
use super::{percentile, rounded};
use crate::host::facts::PingPong;
use clap::{Arg, ArgMatches, Command};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

const PORT: u16 = 7777;
const LENGTH: Duration = Duration::from_millis(250);
/// The first round trips make connections, pages and caches.
const WARM_UP: usize = 200;
/// An odd number: each side has a median turn.
const TURNS: usize = 3;

/// In turns, so that what else happens on the host happens to both: kernel against kernel, library against library.
pub(crate) fn measure(library: &str) -> std::io::Result<PingPong> {
    let before = Used::now()?;
    let (mut kernel, mut accelerated) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        kernel.push(between(None)?);
        accelerated.push(between(Some(library))?);
    }
    let others_used = Used::now()?.by_others_since(&before);
    let faster =
        kernel.iter().zip(&accelerated).filter(|(kernel, accelerated)| accelerated.0 < kernel.0).count();
    let ((kernel_us, kernel_99_us), (accelerated_us, accelerated_99_us)) =
        (middle(kernel), middle(accelerated));
    let (turns, faster) = (TURNS as u32, faster as u32);
    Ok(PingPong { kernel_us, kernel_99_us, accelerated_us, accelerated_99_us, turns, faster, others_used })
}

/// The turn whose first value is in the middle.
fn middle(mut turns: Vec<(f64, f64)>) -> (f64, f64) {
    turns.sort_by(|one, other| one.0.total_cmp(&other.0));
    turns.get(turns.len() / 2).copied().unwrap_or_default()
}

/// Processor time up to now, in ticks: of all, and of this process with the ended ones that it started.
struct Used {
    at: Instant,
    all: u64,
    own: u64,
}

impl Used {
    fn now() -> std::io::Result<Used> {
        let (all, own) =
            (std::fs::read_to_string("/proc/stat")?, std::fs::read_to_string("/proc/self/stat")?);
        Ok(Used { at: Instant::now(), all: ticks_of_all(&all), own: ticks_of_process(&own) })
    }

    /// How many processors were somebody else's meanwhile, on the average. A hypervisor's other guests count.
    fn by_others_since(&self, before: &Used) -> f64 {
        const TICKS_A_SECOND: f64 = 100.0;
        let others = (self.all - before.all).saturating_sub(self.own - before.own);
        rounded(others as f64 / TICKS_A_SECOND / (self.at - before.at).as_secs_f64())
    }
}

/// user, nice, system and steal of the first line of /proc/stat. Interrupts are left out: most are for the packets.
fn ticks_of_all(stat: &str) -> u64 {
    let words = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    [0, 1, 2, 7].iter().filter_map(|&at| ticks.get(at)).sum()
}

/// utime, stime, cutime and cstime of /proc/PID/stat; the name before them may have blanks.
fn ticks_of_process(stat: &str) -> u64 {
    let words = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    words.skip(11).take(4).filter_map(|word| word.parse::<u64>().ok()).sum()
}

fn between(library: Option<&str>) -> std::io::Result<(f64, f64)> {
    let (one, other) = pair()?;
    let mut server = Ended(start(&one, library, &["serve", &one.address.to_string()])?);
    line(&mut server.0)?;
    let mut client = Ended(start(&other, library, &["call", &one.address.to_string()])?);
    let answer = line(&mut client.0)?;
    let mut numbers = answer.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(half), Some(most)) => Ok((half, most)),
        _ => Err(std::io::Error::other(format!("it said {answer:?}"))),
    }
}

/// A process of ours, ended with the measurement.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This program again, inside, as one of the two ends.
fn start(side: &Side, library: Option<&str>, words: &[&str]) -> std::io::Result<Child> {
    let own = std::env::current_exe()?;
    side.inside(|| {
        let mut command = std::process::Command::new(own);
        command
            .arg("ping-pong")
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command.env_remove("LD_PRELOAD");
        if let Some(library) = library {
            // Strict: what is measured is acceleration, or an error.
            command.env("LD_PRELOAD", library).env("SIDESTEP_STRICT", "1").env("VMA_TRACELEVEL", "error");
        }
        command.spawn()
    })?
}

fn line(child: &mut Child) -> std::io::Result<String> {
    let output = child.stdout.as_mut().ok_or_else(|| std::io::Error::other("no output"))?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    if line.is_empty() { Err(std::io::Error::other("an end ended early")) } else { Ok(line) }
}

/// The two ends, for this program to start; not for people.
pub(crate) fn command() -> Command {
    Command::new("ping-pong")
        .hide(true)
        .arg(Arg::new("role").required(true).value_parser(["serve", "call"]))
        .arg(Arg::new("address").required(true))
}

pub(crate) fn run(options: &ArgMatches) -> Result<ExitCode, String> {
    let text = |name: &str| options.get_one::<String>(name).cloned().unwrap_or_default();
    let outcome = if text("role") == "serve" { serve(&text("address")) } else { call(&text("address")) };
    outcome.map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string())
}

fn serve(address: &str) -> std::io::Result<()> {
    let listener = TcpListener::bind((address, PORT))?;
    println!("ready");
    let (mut peer, _) = listener.accept()?;
    peer.set_nodelay(true)?;
    let mut message = [0; 64];
    while peer.read_exact(&mut message).is_ok() {
        peer.write_all(&message)?;
    }
    Ok(())
}

fn call(address: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect((address, PORT))?;
    stream.set_nodelay(true)?;
    let (mut trips, mut message) = (Vec::new(), [0; 64]);
    let begun = Instant::now();
    while begun.elapsed() < LENGTH || trips.len() <= WARM_UP {
        let sent = Instant::now();
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        trips.push(sent.elapsed());
    }
    let trips = &mut trips[WARM_UP..];
    println!("{} {}", percentile(trips, 50.0), percentile(trips, 99.0));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read() {
        assert_eq!(ticks_of_all("cpu  100 20 3 4000 5 6 7 1000 9 9\ncpu0 1 1 1 1\n"), 1123);
        assert_eq!(ticks_of_process("7 (a b) c) S 1 7 7 0 -1 4194560 1 2 3 4 10 20 300 4000 20 0 1 0"), 4330);
    }

    #[test]
    fn others_are_who_is_not_ours() {
        let before = Used { at: Instant::now(), all: 1000, own: 100 };
        let after = Used { at: before.at + Duration::from_secs(2), all: 1400, own: 350 };
        assert_eq!(after.by_others_since(&before), 0.8);
    }

    #[test]
    fn the_turn_in_the_middle_is_told() {
        assert_eq!(middle(vec![(9.0, 1.0), (3.0, 2.0), (5.0, 3.0)]), (5.0, 3.0));
    }
}
