//! Our overhead beside the original's, on loopback. In ping-pong client and server are of the same kind; in throughput
//! both clients send to a server of the original's, because a sender on loopback also pays for waking the receiver, and
//! only the senders are compared.
//!
//! `cargo build --release -p sockperf && cargo run --release -p sockperf --example against_original -- [ROUNDS]
//! [WORD..]`
//!
//! The words choose tests: `udp tp 14`. The figure is the median latency in ping-pong, the client's rate of sending in
//! throughput; what is said of a test is the median over the rounds of ours divided by the original's, with a 95 %
//! confidence interval that assumes no distribution.
//!
//! A machine's speed drifts by more from second to second than the programs differ. Senders over UDP never wait, so
//! both run at the same time on one processor, which the scheduler gives to each for half of the time, a few
//! milliseconds at once: whatever slows the machine slows both. Each reaches half of its rate; the ratio stays. All
//! other tests take turns, a second each, and who goes first changes. Servers have a processor of their own.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const ORIGINAL: &str = "/usr/bin/sockperf";

/// Enough for an interval, few enough for a break.
const ROUNDS: usize = 21;
/// With fewer, no interval of 95 % exists.
const FEWEST_ROUNDS: usize = 6;

/// The original sleeps so much longer than ours before each test. Tests at the same time must begin together: whoever
/// were alone at first would pay for waking the machine.
const HEAD_START: Duration = Duration::from_secs(2);

const LATENCY: &str = "percentile 50.000 =";
const RATE: &str = "Message Rate is ";

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One line of the table.
struct Test {
    /// Transport, mode, size.
    name: String,
    /// What both clients are told.
    arguments: Vec<String>,
    /// What stands before the figure in their output.
    figure: &'static str,
    /// Both clients at once, instead of one after the other.
    together: bool,
    /// Each client has a server of its own kind, instead of the original's.
    own_servers: bool,
}

impl Test {
    fn new(transport: &str, mode: &str, size: &str) -> Test {
        let ping_pong = mode == "pp";
        let together = !ping_pong && transport == "udp";
        let seconds = if together { "-t4" } else { "-t1" };
        let mut arguments = vec![mode.to_string(), format!("-m{size}"), seconds.to_string()];
        if transport == "tcp" {
            arguments.push(String::from("--tcp"));
        }
        Test {
            name: format!("{transport} {mode} {size}"),
            arguments,
            figure: if ping_pong { LATENCY } else { RATE },
            together,
            own_servers: ping_pong,
        }
    }

    fn is_chosen(&self, words: &[String]) -> bool {
        words.iter().all(|wanted| self.name.split(' ').any(|word| word == wanted))
    }
}

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let rounds = words.first().and_then(|a| a.parse::<usize>().ok());
    if rounds.is_some() {
        words.remove(0);
    }
    let rounds = rounds.unwrap_or(ROUNDS).max(FEWEST_ROUNDS);
    let mut ours = std::env::current_exe().expect("the path of this program");
    ours.pop();
    ours.pop();
    ours.push("sockperf");
    if !ours.exists() || !Path::new(ORIGINAL).exists() {
        eprintln!("needs {} (cargo build --release -p sockperf) and {ORIGINAL}", ours.display());
        std::process::exit(1);
    }
    let programs = [ours.to_string_lossy().into_owned(), ORIGINAL.to_string()];
    println!("medians of {rounds} rounds");
    println!("{:<12} {:>12} {:>12} {:>8}   95 % interval", "", "ours", "original", "ratio");
    for transport in ["udp", "tcp"] {
        for (mode, size) in [("pp", "14"), ("pp", "1400"), ("tp", "14"), ("tp", "64"), ("tp", "1472")] {
            let test = Test::new(transport, mode, size);
            if test.is_chosen(&words) {
                compare(&programs, &test, rounds);
            }
        }
    }
}

fn compare(programs: &[String; 2], test: &Test, rounds: usize) {
    let servers = if test.together { 0..1 } else { 0..2 };
    let _servers: Vec<Server> = servers
        .map(|which| serve(if test.own_servers { &programs[which] } else { ORIGINAL }, test, which))
        .collect();
    let mut values = [Vec::new(), Vec::new()];
    let mut ratios = Vec::new();
    for round in 0..rounds {
        let mut pair = [None; 2];
        if test.together {
            let original = start(&programs[1], test, 1);
            std::thread::sleep(HEAD_START);
            let ours = start(&programs[0], test, 0);
            pair = [ours, original].map(|client| figure(client, test));
        } else {
            for which in [round % 2, (round + 1) % 2] {
                pair[which] = figure(start(&programs[which], test, which), test);
            }
        }
        if let [Some(ours), Some(original)] = pair {
            values[0].push(ours);
            values[1].push(original);
            ratios.push(ours / original);
        }
    }
    for list in values.iter_mut().chain([&mut ratios]) {
        list.sort_by(f64::total_cmp);
    }
    let name = &test.name;
    let Some((low, high)) = interval(&ratios) else {
        println!("{name:<12} only {} of {rounds} rounds gave a result", ratios.len());
        return;
    };
    let [ours, original, ratio] = [&values[0], &values[1], &ratios].map(|list| list[list.len() / 2]);
    println!("{name:<12} {ours:>12.3} {original:>12.3} {ratio:>8.4}   {low:.4} - {high:.4}");
}

/// Bounds between which the median lies with at least 95 %: of `n` values, binomially many are below it.
fn interval(sorted: &[f64]) -> Option<(f64, f64)> {
    let n = sorted.len();
    let mut outside = 0;
    let mut chance = 0.5f64.powi(n as i32);
    let mut sum = chance;
    while sum <= 0.025 {
        chance *= (n - outside) as f64 / (outside + 1) as f64;
        sum += chance;
        outside += 1;
    }
    (outside > 0).then(|| (sorted[outside - 1], sorted[n - outside]))
}

/// Clients at the same time share the first server: two would compete for its processor.
fn port(which: usize, test: &Test) -> String {
    (23_401 + if test.together { 0 } else { which }).to_string()
}

fn serve(program: &str, test: &Test, which: usize) -> Server {
    let child = on_processor(0, program)
        .args(["sr", "-i", "127.0.0.1", "-p", &port(which, test)])
        .args(test.arguments.iter().filter(|argument| *argument == "--tcp"))
        .stdout(Stdio::null())
        .spawn()
        .expect("a server");
    std::thread::sleep(Duration::from_millis(400));
    Server(child)
}

fn start(program: &str, test: &Test, which: usize) -> Child {
    // A question that the original's server does not answer would make our beginning late.
    let unasked = (test.together && program != ORIGINAL).then_some("--no-peer-query");
    on_processor(1, program)
        .args(&test.arguments)
        .args(["-i", "127.0.0.1", "-p", &port(which, test)])
        .args(unasked)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a client")
}

fn figure(client: Child, test: &Test) -> Option<f64> {
    let out = client.wait_with_output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout);
    let at = text.find(test.figure)? + test.figure.len();
    let word = text[at..].split_whitespace().next()?;
    word.parse().ok()
}

/// A command on one processor, where there are two.
fn on_processor(number: usize, program: &str) -> Command {
    if std::thread::available_parallelism().is_ok_and(|processors| processors.get() < 2) {
        return Command::new(program);
    }
    let mut command = Command::new("taskset");
    command.args(["-c", &number.to_string(), program]);
    command
}
