//! `cargo x bench vma-tables`: the tables of VMA's manuals, measured here with our sockperf, beside the manuals' own
//! figures. Their hardware was another one; what can be compared are the ratios to the kernel.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rig::{Context, Error, Host, Options, Program, Protocol, Result, TwoHosts};
use serde_json::{Value, json};

use super::{Plan, median, save};
use crate::build;
use crate::progress::Progress;
use crate::table::{Table, thousands};

const GROUP: &str = "224.4.2.216";
const GRACE: Duration = Duration::from_secs(30);

/// One table of a manual: a sockperf command, and rows.
struct Manual {
    title: &'static str,
    protocol: Protocol,
    /// Of the client; of the server only the address and the protocol.
    words: &'static str,
    multicast: bool,
    measures: Measure,
    rows: &'static [Row],
}

#[derive(Clone, Copy, PartialEq)]
enum Measure {
    /// Microseconds, less is better.
    Latency,
    /// Messages per second at the receiver, more is better.
    Rate,
}

/// One row: how both ends run, and what the manual says.
struct Row {
    name: &'static str,
    accelerated: bool,
    environment: &'static [(&'static str, &'static str)],
    manual: f64,
}

const KERNEL: Row = Row { name: "kernel", accelerated: false, environment: &[], manual: 0.0 };
const VMA: Row = Row { name: "accelerated", accelerated: true, environment: &[], manual: 0.0 };

/// User manual, appendix A (tables 12 and 13); its newer sockperf appendix (UDP throughput); the benchmarks' note.
const MANUALS: [Manual; 4] = [
    Manual {
        title: "UDP multicast ping-pong, average latency in µs",
        protocol: Protocol::Udp,
        words: "pp",
        multicast: true,
        measures: Measure::Latency,
        rows: &[Row { manual: 6.825, ..KERNEL }, Row { manual: 1.809, ..VMA }],
    },
    Manual {
        title: "TCP throughput, 100 bytes, messages/s",
        protocol: Protocol::Tcp,
        words: "tp --tcp -m 100",
        multicast: false,
        measures: Measure::Rate,
        rows: &[Row { manual: 1_165_457.0, ..KERNEL }, Row { manual: 7_648_873.0, ..VMA }],
    },
    Manual {
        title: "UDP multicast throughput, 1472 bytes, messages/s",
        protocol: Protocol::Udp,
        words: "tp -m 1472",
        multicast: true,
        measures: Measure::Rate,
        rows: &[Row { manual: 851_796.0, ..KERNEL }, Row { manual: 4_228_326.0, ..VMA }],
    },
    Manual {
        title: "TCP ping-pong, 14 bytes, average latency in µs",
        protocol: Protocol::Tcp,
        words: "pp --tcp -m 14",
        multicast: false,
        measures: Measure::Latency,
        rows: &[
            Row { manual: 22.448, ..KERNEL },
            Row {
                name: "accelerated, interrupts",
                environment: &[("VMA_SPEC", "latency"), ("VMA_RX_POLL", "0"), ("VMA_SELECT_POLL", "0")],
                manual: 12.907,
                ..VMA
            },
            Row {
                name: "accelerated, polling",
                environment: &[("VMA_SPEC", "latency")],
                manual: 1.354,
                ..VMA
            },
        ],
    },
];

/// What the rounds of one row gave.
#[derive(Default)]
struct Measured {
    values: Vec<f64>,
    /// Latency only.
    p50: Vec<f64>,
    wire_packets: u64,
    kernel_packets: u64,
}

impl Measured {
    fn value(&self) -> f64 {
        median(self.values.iter().copied())
    }
}

pub(super) fn run(plan: &Plan) -> Result<()> {
    eprintln!("building target/release/sockperf");
    build::run_cargo("build --quiet --release -p sockperf")?;
    let sockperf = build::target().join("release/sockperf");
    let hosts = rig::two_hosts(&Options::default())?;
    for host in [&hosts.left, &hosts.right] {
        host.namespace.ip(&format!("route add 224.0.0.0/4 dev {}", host.interface))?;
    }
    let rows: usize = MANUALS.iter().map(|manual| manual.rows.len()).sum();
    let mut progress = Progress::new(rows * plan.rounds as usize);
    let mut results: Vec<Vec<Measured>> = Vec::new();
    for manual in &MANUALS {
        let mut measured: Vec<Measured> = manual.rows.iter().map(|_| Measured::default()).collect();
        for round in 1..=plan.rounds {
            for (row, into) in manual.rows.iter().zip(&mut measured) {
                progress.step(&format!("{}, round {round}, {}", manual.title, row.name));
                once(plan, &hosts, &sockperf, manual, row, into)?;
            }
        }
        results.push(measured);
    }
    drop(progress);
    show(plan, &results);
    let tables = MANUALS.iter().zip(&results).map(|(manual, measured)| as_json(manual, measured));
    save("vma-tables", &tables.collect())
}

fn once(
    plan: &Plan,
    hosts: &TwoHosts,
    sockperf: &Path,
    manual: &Manual,
    row: &Row,
    into: &mut Measured,
) -> Result<()> {
    let address = if manual.multicast { GROUP.to_owned() } else { hosts.right.address.to_string() };
    let at = |host: &Host, words: &str| {
        let library: Option<&PathBuf> = row.accelerated.then_some(&plan.library);
        let program = host.program(sockperf).words(words).words(&format!("-i {address}"));
        let program = program.preload(library.map(PathBuf::as_path));
        row.environment
            .iter()
            .fold(program, |program: Program, (name, value)| program.environment(name, value))
    };
    let before = (hosts.left.counters()?, hosts.right.counters()?);
    let serve = if manual.protocol == Protocol::Tcp { "sr --tcp" } else { "sr" };
    let mut server = at(&hosts.right, serve).start()?;
    server.wait_for_port(manual.protocol, 11111, GRACE)?;
    let client = at(&hosts.left, &format!("{} -t {}", manual.words, plan.seconds));
    let said = client.run(GRACE + Duration::from_secs(plan.seconds.into()))?.success()?.stdout;
    server.signal(libc::SIGINT)?;
    server.finish(GRACE)?;
    for counters in [hosts.left.counters()?.since(&before.0), hosts.right.counters()?.since(&before.1)] {
        into.wire_packets += counters.wire_packets();
        into.kernel_packets += counters.transport_packets();
    }
    match manual.measures {
        Measure::Latency => {
            into.values.push(number(&said, "Summary: Latency is")?);
            into.p50.push(number(&said, "percentile 50.000 =")?);
        }
        Measure::Rate => into.values.push(number(&said, "%):")?),
    }
    Ok(())
}

/// The number that follows `label`.
fn number(text: &str, label: &str) -> Result<f64> {
    let at = text.find(label).ok_or_else(|| Error::new(format!("sockperf: no {label:?} in:\n{text}")))?;
    let word = text[at + label.len()..].split_whitespace().next().unwrap_or_default();
    word.parse().context(format_args!("sockperf: the number after {label:?}"))
}

/// How many times better than the first row.
fn times_better(measures: Measure, first: f64, value: f64) -> f64 {
    if measures == Measure::Latency { first / value } else { value / first }
}

fn show(plan: &Plan, results: &[Vec<Measured>]) {
    println!(
        "Median of {} interleaved rounds of {} s, CPUs 0 and 1, veth. Ratios: times better than the kernel.\n",
        plan.rounds, plan.seconds
    );
    let header =
        ["", "here", "p50", "× kernel", "× kernel, p50", "manual", "× kernel", "on wire", "through kernel"];
    let mut table = Table::new(&header);
    for (manual, measured) in MANUALS.iter().zip(results) {
        let (Some(kernel), Some(first)) = (measured.first(), manual.rows.first()) else { continue };
        table.row(vec![manual.title.to_owned()]);
        for (row, measured) in manual.rows.iter().zip(measured) {
            let shown = |value: f64| match manual.measures {
                Measure::Latency => format!("{value:.2}"),
                Measure::Rate => thousands(value as u64),
            };
            let p50 = |of: &Measured| median(of.p50.iter().copied());
            let optional = |value: f64| if value.is_nan() { "-".to_owned() } else { format!("{value:.2}") };
            let ratio = |first, value| format!("{:.2}", times_better(manual.measures, first, value));
            table.row(vec![
                format!("  {}", row.name),
                shown(measured.value()),
                optional(p50(measured)),
                ratio(kernel.value(), measured.value()),
                optional(times_better(manual.measures, p50(kernel), p50(measured))),
                shown(row.manual),
                ratio(first.manual, row.manual),
                thousands(measured.wire_packets),
                thousands(measured.kernel_packets),
            ]);
        }
        table.rule();
    }
    table.print();
    println!("\nThe manuals measured 10 Gb/s Ethernet (the last table: InfiniBand) between two machines.");
}

fn as_json(manual: &Manual, measured: &[Measured]) -> Value {
    let rows = manual.rows.iter().zip(measured).map(|(row, measured)| {
        json!({
            "name": row.name, "value": measured.value(), "manual": row.manual,
            "rounds": measured.values, "p50_rounds": measured.p50,
            "packets_on_the_wire": measured.wire_packets,
            "packets_through_kernel_transport": measured.kernel_packets,
        })
    });
    json!({ "table": manual.title, "sockperf": manual.words, "rows": rows.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_latency_and_more_messages_are_better() {
        assert_eq!(times_better(Measure::Latency, 20.0, 5.0), 4.0);
        assert_eq!(times_better(Measure::Rate, 20.0, 5.0), 0.25);
    }

    #[test]
    fn delivered_line_gives_the_receivers_rate() {
        let text =
            "sockperf: [Delivered] 79565 of 132040 messages (60.26%): 79547 msg/s, 8.909 Mbit/s (10^6)";
        assert_eq!(number(text, "%):").unwrap(), 79547.0);
        assert!(number("nothing", "%):").is_err());
    }
}
