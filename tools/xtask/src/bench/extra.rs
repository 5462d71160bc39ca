//! `cargo x bench extra`: what VMA's extra API gains: CPU for each KiB that is received without a copy, against recv;
//! and an echo by completions, against epoll, by our sockperf. Interleaved, receives within one process; the client
//! is the same in both.

use std::time::Duration;

use rig::{Context, Error, Options, Program, Protocol, Result, TwoHosts};
use serde_json::{Value, json};

use super::{Plan, median, save};
use crate::build;
use crate::progress::Progress;
use crate::table::{Table, thousands};

const PORT: u16 = 11111;
const GRACE: Duration = rig::PATIENCE;

/// One comparison: the server by the socket calls, and by the API.
struct Row {
    what: &'static str,
    protocol: Protocol,
    measures: Measure,
}

#[derive(Clone, Copy, PartialEq)]
enum Measure {
    /// Nanoseconds of the receiver's CPU for each KiB, in messages of 1400 bytes, as many as come: woken for those that
    /// come, or taking each millisecond what came meanwhile.
    Receive(&'static str),
    /// The median of an echo, nanoseconds.
    Echo,
}

const ROWS: [Row; 6] = [
    Row {
        what: "UDP, 1400 bytes, in bursts, ns of CPU a KiB",
        protocol: Protocol::Udp,
        measures: Measure::Receive("nap"),
    },
    Row {
        what: "UDP, 1400 bytes, woken for each",
        protocol: Protocol::Udp,
        measures: Measure::Receive("wake"),
    },
    Row {
        what: "TCP, 1400 bytes, in bursts, ns of CPU a KiB",
        protocol: Protocol::Tcp,
        measures: Measure::Receive("nap"),
    },
    Row {
        what: "TCP, 1400 bytes, woken for each",
        protocol: Protocol::Tcp,
        measures: Measure::Receive("wake"),
    },
    Row { what: "UDP echo, ns", protocol: Protocol::Udp, measures: Measure::Echo },
    Row { what: "TCP echo, ns", protocol: Protocol::Tcp, measures: Measure::Echo },
];

pub(super) fn run(plan: &Plan) -> Result<()> {
    build::release("sockperf")?;
    let mut table = Table::new(&["", "recv, epoll", "extra API", "ratio", "of rounds"]);
    let mut all = Vec::new();
    let mut progress = Progress::new(ROWS.len() * plan.rounds as usize);
    for row in &ROWS {
        let mut rounds = Vec::new();
        for round in 1..=plan.rounds {
            progress.step(&format!("{}, round {round}", row.what));
            rounds.push(match row.measures {
                Measure::Receive(waits) => receive(plan, row.protocol, waits)?,
                Measure::Echo => [echo(plan, row.protocol, false)?, echo(plan, row.protocol, true)?],
            });
        }
        let [plain, api] = [0, 1].map(|side| median(rounds.iter().map(|round| round[side])));
        let mut ratios: Vec<f64> = rounds.iter().map(|[plain, api]| api / plain).collect();
        ratios.sort_by(f64::total_cmp);
        let mut cells = vec![row.what.to_owned(), thousands(plain as u64), thousands(api as u64)];
        cells.push(format!("{:.2}", median(ratios.iter().copied())));
        cells.push(format!("{:.2}-{:.2}", ratios[0], ratios[ratios.len() - 1]));
        table.row(cells);
        all.push(json!({"what": row.what, "rounds": rounds}));
    }
    drop(progress);
    println!("Medians of {} interleaved rounds of {} s; less is better.\n", plan.rounds, plan.seconds);
    table.print();
    save("extra", &Value::Array(all))
}

fn server(plan: &Plan, hosts: &TwoHosts) -> Program {
    let program = hosts.right.program(build::target().join("release/sockperf"));
    program.preload(Some(&plan.library))
}

/// By recv and by the API. Senders are the kernel's; nobody polls, so that what the server uses is what its messages
/// cost.
fn receive(plan: &Plan, protocol: Protocol, waits: &str) -> Result<[f64; 2]> {
    let hosts = rig::two_hosts(&Options::default())?;
    let address = hosts.right.address;
    let (name, tcp) = if protocol == Protocol::Tcp { ("tcp", "--tcp") } else { ("udp", "") };
    let program = hosts.right.program(receiver()?).words(&format!("{name} {address} {PORT} {waits}"));
    let program = program.preload(Some(&plan.library)).environment("VMA_RX_POLL", "0");
    let mut server = program.start()?;
    server.wait_for_output("ready", GRACE)?;
    let words = format!("throughput -i {address} -p {PORT} -m 1400 -t {} {tcp}", plan.seconds);
    let client = hosts.left.program("sockperf").words(&words);
    client.run(Duration::from_secs(plan.seconds.into()) + GRACE)?.success()?;
    // Of a stream, the end of its client ends it.
    let _ = server.signal(libc::SIGINT);
    let said = server.finish(GRACE)?.success()?.stdout;
    let each = |way: &str| {
        let line = said.lines().find(|line| line.starts_with(way))?;
        line.split(", ns ").nth(1)?.split(' ').next()?.parse::<f64>().ok().filter(|ns| ns.is_finite())
    };
    let both = each("recv").zip(each("zero"));
    both.map(|(recv, zero)| [recv, zero])
        .ok_or_else(|| Error::new(format!("too little was received:\n{said}")))
}

/// The receiver, compiled.
fn receiver() -> Result<std::path::PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/apps/extra_receive.c");
    let program = build::target().join("extra_receive");
    rig::run_tool(std::process::Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(source))?;
    Ok(program)
}

/// Both ends poll, and the client is accelerated.
fn echo(plan: &Plan, protocol: Protocol, by_api: bool) -> Result<f64> {
    let hosts = rig::two_hosts(&Options::default())?;
    let address = hosts.right.address;
    let feed = std::env::temp_dir().join(format!("rig-{}-extra.feed", std::process::id()));
    let letter = if protocol == Protocol::Tcp { 'T' } else { 'U' };
    std::fs::write(&feed, format!("{letter}:{address}:{PORT}\n")).context(feed.display())?;
    let way = if by_api { "x" } else { "e" };
    let program = server(plan, &hosts).words(&format!("server -F {way} -f")).argument(&feed);
    let program = program.environment("VMA_SOCKETXTREME", if by_api { "1" } else { "0" });
    let mut server = program.environment("VMA_SELECT_POLL", "-1").start()?;
    server.wait_for_port(protocol, PORT, GRACE)?;
    let tcp = if protocol == Protocol::Tcp { "--tcp" } else { "" };
    let words = format!("ping-pong -i {address} -p {PORT} -t {} --no-peer-query {tcp}", plan.seconds);
    let client = hosts.left.program(build::target().join("release/sockperf")).words(&words);
    let client = client.preload(Some(&plan.library)).environment("VMA_RX_POLL", "-1");
    let said = client.run(Duration::from_secs(plan.seconds.into()) + GRACE)?.success()?.stdout;
    server.kill()?;
    let _ = std::fs::remove_file(&feed);
    let line = said.lines().find(|line| line.contains("percentile 50.000")).unwrap_or_default();
    let median = line.split('=').nth(1).and_then(|text| text.trim().parse::<f64>().ok());
    median.map(|us| us * 1e3).ok_or_else(|| Error::new(format!("no median in:\n{said}")))
}
