//! Our overhead beside the original's: both programs in turn, on loopback. In ping-pong client and server are of the same
//! kind; in throughput both clients send to the original's server, because a sender on loopback also pays for waking
//! the receiver, and only the senders are compared.
//!
//! `cargo build --release -p sockperf && cargo run --release -p sockperf --example against_original -- [ROUNDS]`
//!
//! Rounds are interleaved, so that a busy machine disturbs both alike. The ping-pong figure is the median latency, the
//! throughput figure the client's rate of sending; medians over the rounds are compared, and the best round of each,
//! which is the one to look at on a machine that does other things too.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const ORIGINAL: &str = "/usr/bin/sockperf";

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(7);
    let mut ours = std::env::current_exe().expect("the path of this program");
    ours.pop();
    ours.pop();
    ours.push("sockperf");
    if !ours.exists() || !PathBuf::from(ORIGINAL).exists() {
        eprintln!("needs {} (cargo build --release -p sockperf) and {ORIGINAL}", ours.display());
        std::process::exit(1);
    }
    let programs = [ours.to_string_lossy().into_owned(), ORIGINAL.to_string()];
    let [median, best] = ["median of rounds", "best round"];
    println!("{:<24} {median:>32} {best:>32}", "");
    let columns = format!("{:>10} {:>10} {:>10}", "ours", "original", "ratio");
    println!("{:<24} {columns} {columns}", "");
    for (port, transport) in [(23_401, ""), (23_411, "--tcp")] {
        for (test, figure) in [
            ("pp -t 1 -m 14", "percentile 50.000 ="),
            ("pp -t 1 -m 1400", "percentile 50.000 ="),
            ("tp -t 1 -m 14", "Message Rate is "),
            ("tp -t 1 -m 1472", "Message Rate is "),
        ] {
            compare(&programs, test, figure, port, transport, rounds);
        }
    }
}

fn compare(programs: &[String; 2], test: &str, figure: &str, port: u16, transport: &str, rounds: usize) {
    let mut values = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for turn in 0..2 {
            // Who goes first changes, so that neither always follows a warm or a tired machine.
            let which = (turn + round) % 2;
            let program = &programs[which];
            let port = port + which as u16;
            let server = if test.starts_with("tp") { ORIGINAL } else { program.as_str() };
            let _server = serve(server, port, transport);
            if let Some(value) = measure(program, test, figure, port, transport) {
                values[which].push(value);
            }
        }
    }
    for list in &mut values {
        list.sort_by(f64::total_cmp);
    }
    let lower_is_better = test.starts_with("pp");
    let median = |list: &Vec<f64>| list.get(list.len() / 2).copied().unwrap_or(f64::NAN);
    let best = |list: &Vec<f64>| {
        (if lower_is_better { list.first() } else { list.last() }).copied().unwrap_or(f64::NAN)
    };
    let columns =
        |ours: f64, original: f64| format!("{ours:>10.3} {original:>10.3} {:>10.4}", ours / original);
    let [ours, original] = &values;
    println!(
        "{:<24} {} {}",
        format!("{test} {transport}"),
        columns(median(ours), median(original)),
        columns(best(ours), best(original))
    );
}

fn serve(program: &str, port: u16, transport: &str) -> Server {
    let child = Command::new(program)
        .args(["sr", "-i", "127.0.0.1", "-p", &port.to_string()])
        .args(transport.split_whitespace())
        .stdout(Stdio::null())
        .spawn()
        .expect("a server");
    std::thread::sleep(Duration::from_millis(400));
    Server(child)
}

fn measure(program: &str, test: &str, figure: &str, port: u16, transport: &str) -> Option<f64> {
    let out = Command::new(program)
        .args(test.split_whitespace())
        .args(["-i", "127.0.0.1", "-p", &port.to_string()])
        .args(transport.split_whitespace())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&out.stdout);
    let at = text.find(figure)? + figure.len();
    let word = text[at..].split_whitespace().next()?;
    word.parse().ok()
}
