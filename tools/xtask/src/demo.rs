//! `cargo x demo`: what the product is for, in one table and about a minute.
//!
//! The same unmodified sockperf runs between two hosts on the kernel and under the preload, in turns. The last columns
//! are the proof: how many packets the interfaces carried, and how many of them the kernels' own UDP and TCP handled.

use std::path::Path;
use std::process::ExitCode;

use rig::sockperf::{self, Latency, Run, Side, Throughput, Witness};
use rig::{Options, Package, Protocol, Result, TwoHosts};
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::progress::Progress;
use crate::table::{Table, thousands};
use crate::{bench, build};

/// Message sizes: sockperf's smallest for latency; 64 bytes for throughput.
const PING_PONG_SIZE: u32 = 14;
const THROUGHPUT_SIZE: u32 = 64;

pub(crate) const SOCKPERF: Package = Package { program: "sockperf", package: "sockperf" };

/// What one run gave.
enum Outcome {
    PingPong(Latency),
    Throughput(Throughput),
}

/// One line of the table.
struct Line {
    protocol: Protocol,
    accelerated: bool,
    outcome: Outcome,
    witness: Witness,
}

pub(crate) fn run(words: &[String]) -> Result<ExitCode> {
    let mut arguments = Arguments::new(words);
    let as_json = arguments.flag("--json");
    let seconds = arguments.number("--seconds", 2)?;
    let library = arguments.value("--library")?;
    arguments.end()?;
    build::require_namespaces()?;
    build::warn_if_busy();
    rig::on_signals();
    rig::install(&[SOCKPERF])?;
    let library = build::library(library)?;
    // Offloads stay on: the kernel is measured with all it has.
    let hosts = rig::two_hosts(&Options::default())?;
    let lines = measure(&hosts, &library, seconds)?;
    drop(hosts);
    if as_json {
        println!("{:#}", Value::Array(lines.iter().map(Line::json).collect()));
    } else {
        show(&lines);
    }
    Ok(verdict(&lines))
}

fn measure(hosts: &TwoHosts, library: &Path, seconds: u32) -> Result<Vec<Line>> {
    let mut progress = Progress::new(8);
    let mut lines = Vec::new();
    for throughput in [false, true] {
        for protocol in [Protocol::Udp, Protocol::Tcp] {
            for accelerated in [false, true] {
                let side = if accelerated { Side::Accelerated(library) } else { Side::Kernel };
                let size = if throughput { THROUGHPUT_SIZE } else { PING_PONG_SIZE };
                let run = Run { protocol, size, seconds, client: side, server: side };
                let workload = if throughput { "throughput" } else { "ping-pong" };
                progress.step(&format!("{} {workload}, {}", bench::name(protocol), way(accelerated)));
                let (outcome, witness) = if throughput {
                    let (result, witness) = sockperf::throughput(hosts, &run)?;
                    (Outcome::Throughput(result), witness)
                } else {
                    let (result, witness) = sockperf::ping_pong(hosts, &run)?;
                    (Outcome::PingPong(result), witness)
                };
                lines.push(Line { protocol, accelerated, outcome, witness });
            }
        }
    }
    Ok(lines)
}

fn way(accelerated: bool) -> &'static str {
    if accelerated { "Sidestep" } else { "kernel" }
}

impl Line {
    fn rate(&self) -> f64 {
        match &self.outcome {
            Outcome::PingPong(latency) => latency.rate,
            Outcome::Throughput(throughput) => throughput.rate(),
        }
    }

    /// p50, p99, p99.9; a throughput run has none.
    fn percentiles(&self) -> Option<[f64; 3]> {
        match &self.outcome {
            Outcome::PingPong(latency) => Some([latency.p50, latency.p99, latency.p999]),
            Outcome::Throughput(_) => None,
        }
    }

    fn title(&self) -> String {
        match self.outcome {
            Outcome::PingPong(_) => {
                format!("{} ping-pong, {PING_PONG_SIZE} bytes", bench::name(self.protocol))
            }
            Outcome::Throughput(_) => {
                format!("{} throughput, {THROUGHPUT_SIZE} bytes", bench::name(self.protocol))
            }
        }
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![format!("  {}", way(self.accelerated))];
        match self.percentiles() {
            Some(percentiles) => cells.extend(percentiles.map(|value| format!("{value:.1} µs"))),
            None => cells.extend(std::iter::repeat_n(String::from("-"), 3)),
        }
        cells.push(thousands(self.rate() as u64));
        cells.push(thousands(self.witness.wire_packets()));
        cells.push(thousands(self.witness.kernel_packets()));
        cells
    }

    fn json(&self) -> Value {
        let mut value = json!({
            "protocol": bench::name(self.protocol),
            "accelerated": self.accelerated,
            "messages_per_second": self.rate(),
            "packets_on_the_wire": self.witness.wire_packets(),
            "packets_through_kernel_transport": self.witness.kernel_packets(),
        });
        let more = match &self.outcome {
            Outcome::PingPong(latency) => json!({
                "workload": "ping-pong", "size": PING_PONG_SIZE, "one_way_us": bench::latency_json(latency),
            }),
            Outcome::Throughput(throughput) => json!({
                "workload": "throughput", "size": THROUGHPUT_SIZE,
                "sent": throughput.sent, "received": throughput.received, "seconds": throughput.seconds,
            }),
        };
        if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
            value.extend(more);
        }
        value
    }

    /// At least 99 of 100 packets went past the kernel's transports.
    fn bypassed(&self) -> bool {
        self.witness.kernel_packets() * 100 <= self.witness.wire_packets()
    }
}

fn show(lines: &[Line]) {
    println!(
        "Two hosts joined by a veth pair, Debian's sockperf, unmodified; one-way latency; messages per second"
    );
    println!(
        "counted at the receiver; packets counted by the interfaces and by the kernels' own UDP and TCP.\n"
    );
    let mut table =
        Table::new(&["", "p50", "p99", "p99.9", "messages/s", "packets on wire", "through kernel"]);
    for pair in lines.chunks(2) {
        let [kernel, sidestep] = pair else { continue };
        table.row(vec![kernel.title()]);
        table.row(kernel.cells());
        table.row(sidestep.cells());
        table.row(ratio(kernel, sidestep));
        table.rule();
    }
    table.print();
}

fn ratio(kernel: &Line, sidestep: &Line) -> Vec<String> {
    let mut cells = vec![String::from("  ratio")];
    match (kernel.percentiles(), sidestep.percentiles()) {
        (Some(kernel), Some(sidestep)) => {
            cells.extend(
                kernel.iter().zip(sidestep).map(|(kernel, sidestep)| format!("× {:.2}", sidestep / kernel)),
            );
        }
        _ => cells.extend(std::iter::repeat_n(String::new(), 3)),
    }
    cells.push(format!("× {:.2}", sidestep.rate() / kernel.rate()));
    cells
}

/// Says whether the packets really went past the kernel; a demonstration of nothing is a failure.
fn verdict(lines: &[Line]) -> ExitCode {
    let through_kernel: Vec<String> =
        lines.iter().filter(|line| line.accelerated && !line.bypassed()).map(Line::title).collect();
    if through_kernel.is_empty() {
        eprintln!("Accelerated runs bypassed the kernel's UDP and TCP.");
        return ExitCode::SUCCESS;
    }
    eprintln!("NOT accelerated, the kernel handled the packets: {}.", through_kernel.join("; "));
    eprintln!("The library says why when run with VMA_TRACELEVEL=4.");
    ExitCode::FAILURE
}
