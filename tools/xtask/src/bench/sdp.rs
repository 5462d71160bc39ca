//! `cargo x bench sdp`: streams and requests between two processes of one host, through memory, beside the kernel's
//! loopback (blocking and spinning), AF_UNIX, and what memory itself allows. `sidestep perf` and Debian's sockperf
//! are both ends.
//!
//! All ways take turns in each round, so that whatever else the machine does strikes all of them; figures are medians
//! of rounds, and ratios are what is to be read.

mod goals;
mod programs;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rig::sockperf::Latency;
use rig::{Context, Error, Host, Program, Result, TwoHosts};
use serde_json::{Value, json};

use super::{Plan, median, save};
use crate::build;
use crate::progress::Progress;
use crate::table::{Table, thousands};

pub(super) use programs::run as run_programs;

const GRACE: Duration = rig::PATIENCE;
const RULES: &str = "use both server * *:*\nuse both client * *:*\n";
const SOCKPERF_PORT: u16 = 11111;

/// How both ends are joined, and how they wait.
#[derive(Debug, PartialEq, Eq)]
struct Way {
    name: &'static str,
    carrier: Carrier,
    waits: Waits,
}

#[derive(Debug, PartialEq, Eq)]
enum Carrier {
    Loopback,
    Unix,
    Sdp,
}

#[derive(Debug, PartialEq, Eq)]
enum Waits {
    /// In blocking calls.
    Blocks,
    /// In blocking calls that the library may not poll in.
    Sleeps,
    /// By calls that do not block, in a loop.
    Spins,
}

static BLOCKING: Way = Way { name: "loopback", carrier: Carrier::Loopback, waits: Waits::Blocks };
static SPINNING: Way = Way { name: "loopback spinning", carrier: Carrier::Loopback, waits: Waits::Spins };
static UNIX: Way = Way { name: "AF_UNIX", carrier: Carrier::Unix, waits: Waits::Blocks };
static UNIX_SPINNING: Way = Way { name: "AF_UNIX spinning", carrier: Carrier::Unix, waits: Waits::Spins };
static SDP: Way = Way { name: "SDP", carrier: Carrier::Sdp, waits: Waits::Blocks };
static SDP_SPINNING: Way = Way { name: "SDP spinning", carrier: Carrier::Sdp, waits: Waits::Spins };
static SDP_ASLEEP: Way = Way { name: "SDP asleep", carrier: Carrier::Sdp, waits: Waits::Sleeps };

/// The first is what the others are compared with.
static WAYS: [&Way; 7] = [&BLOCKING, &SPINNING, &UNIX, &UNIX_SPINNING, &SDP, &SDP_SPINNING, &SDP_ASLEEP];
/// sockperf knows no AF_UNIX.
static OF_SOCKPERF: [&Way; 4] = [&BLOCKING, &SPINNING, &SDP, &SDP_ASLEEP];

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Debian's sockperf, TCP ping-pong.
    Sockperf,
    /// Requests and answers of the same size.
    Requests,
    /// Sends of this size.
    Stream,
    /// A connection for each request.
    Connections,
}

impl What {
    const ALL: [What; 4] = [What::Sockperf, What::Requests, What::Stream, What::Connections];

    fn title(self) -> &'static str {
        match self {
            What::Sockperf => "sockperf ping-pong --tcp, µs one way",
            What::Requests => "requests and answers, µs one way",
            What::Stream => "stream",
            What::Connections => "a connection for each request",
        }
    }

    fn sizes(self, quick: bool) -> &'static [u64] {
        match (self, quick) {
            (What::Sockperf, _) => &[64],
            (What::Requests, false) => &[1, 64, 1024, 4096, 16_384, 65_536],
            (What::Requests, true) => &[64],
            (What::Stream, false) => &[64, 1024, 65_536, 1 << 20],
            (What::Stream, true) => &[64, 65_536],
            (What::Connections, _) => &[1],
        }
    }
}

/// One way of one measurement, and what its rounds gave.
struct Cell {
    what: What,
    size: u64,
    way: &'static Way,
    rounds: Vec<Value>,
}

impl Cell {
    fn median(&self, path: &str) -> f64 {
        median(self.rounds.iter().filter_map(|round| round.pointer(path)?.as_f64()))
    }

    /// Microseconds of a processor, both ends together, for 1024 bytes or a transaction.
    fn demand(&self) -> f64 {
        self.median("/local/service_demand_us") + self.median("/remote/service_demand_us")
    }

    fn one_way(&self, percentile: &str) -> f64 {
        self.median(&format!("/round_trip_us/{percentile}")) / 2.0
    }
}

/// What all measurements share.
struct World {
    hosts: TwoHosts,
    library: PathBuf,
    perf: PathBuf,
    rules: PathBuf,
    seconds: u32,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.rules);
    }
}

impl World {
    fn new(plan: &Plan) -> Result<World> {
        let rules = std::env::temp_dir().join(format!("bench-sdp-{}.conf", std::process::id()));
        std::fs::write(&rules, RULES).context(rules.display())?;
        let perf = build::release("sidestep")?;
        Ok(World {
            hosts: rig::one_host()?,
            library: plan.library.clone(),
            perf,
            rules,
            seconds: plan.seconds,
        })
    }

    /// One end.
    fn end(&self, host: &Host, name: &Path, way: &Way) -> Program {
        let program = host.program(name);
        if way.carrier != Carrier::Sdp {
            return program;
        }
        let program = program
            .preload(Some(&self.library))
            .may_fall_back()
            .environment("LIBSDP_CONFIG_FILE", &self.rules);
        if way.waits == Waits::Sleeps { program.environment("VMA_RX_POLL", "0") } else { program }
    }

    /// Both ends of one measurement, to their end.
    fn measure(&self, cell: &Cell) -> Result<Value> {
        match cell.what {
            What::Sockperf => self.sockperf(cell.way, cell.size),
            What::Requests => self.perf(cell.way, &format!("rr --request {0} --response {0}", cell.size)),
            What::Stream => self.perf(cell.way, &format!("stream --size {}", cell.size)),
            What::Connections => self.perf(cell.way, "crr"),
        }
    }

    fn perf(&self, way: &Way, words: &str) -> Result<Value> {
        let at = match way.carrier {
            Carrier::Unix => std::env::temp_dir().join(format!("bench-sdp-{}", std::process::id())),
            Carrier::Loopback | Carrier::Sdp => PathBuf::from("127.0.0.1:0"),
        };
        let spin = if way.waits == Waits::Spins { "--spin" } else { "" };
        let server = self.end(&self.hosts.right, &self.perf, way).words("perf serve --once").words(spin);
        let mut server = server.argument(at).start()?;
        server.wait_for_output("\n", GRACE)?;
        let said = server.stdout();
        let address = said.trim().strip_prefix("serving at ").ok_or_else(|| Error::new(said.clone()))?;
        let client = self.end(&self.hosts.left, &self.perf, way).words("perf").words(words).words(spin);
        let client = client.words(&format!("--json --seconds {}", self.seconds)).argument(address);
        let client = client.run(GRACE + Duration::from_secs(self.seconds.into()))?.success()?;
        server.finish(GRACE)?.success()?;
        serde_json::from_str(&client.stdout).context("the JSON of sidestep perf")
    }

    fn sockperf(&self, way: &Way, size: u64) -> Result<Value> {
        let at = format!("--tcp -i 127.0.0.1 -p {SOCKPERF_PORT}");
        let spin = if way.waits == Waits::Spins { "--nonblocked" } else { "" };
        let end = |host: &Host, mode: &str| {
            self.end(host, Path::new("sockperf"), way).words(mode).words(&at).words(spin)
        };
        let mut server = end(&self.hosts.right, "server").start()?;
        server.wait_for_port(rig::Protocol::Tcp, SOCKPERF_PORT, GRACE)?;
        // Half a second of it warms up and cools down.
        let client = end(&self.hosts.left, &format!("ping-pong -m {size} -t {}", self.seconds + 1));
        let said = client.run(GRACE + Duration::from_secs(self.seconds.into()))?.success()?.stdout;
        let _ = server.signal(libc::SIGINT);
        server.finish(GRACE)?;
        let latency = Latency::read(&said)?;
        let whole = |one_way: f64| one_way * 2.0;
        Ok(json!({
            "rate": latency.rate,
            "round_trip_us":
                {"p50": whole(latency.p50), "p99": whole(latency.p99), "p99.9": whole(latency.p999)},
        }))
    }
}

/// What memory allows, by name: nanoseconds one way, and MB/s.
type Floors = Vec<(String, Vec<(f64, f64)>)>;

/// One round of the example `floor` of the crate `memory`.
fn add_floors(floors: &mut Floors, world: &World, program: &Path) -> Result<()> {
    let said = world.hosts.left.program(program).any_cpu().words("--words 1").run(GRACE)?.success()?.stdout;
    for line in said.lines() {
        let mut words = line.splitn(3, ' ');
        let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(f64::NAN);
        let (figures, name) = ((number(), number()), words.next().unwrap_or_default().to_owned());
        match floors.iter_mut().find(|(known, _)| *known == name) {
            Some((_, rounds)) => rounds.push(figures),
            None => floors.push((name, vec![figures])),
        }
    }
    Ok(())
}

/// Median nanoseconds and MB/s.
fn floor(floors: &Floors, name: &str) -> (f64, f64) {
    let rounds = floors.iter().find(|(known, _)| known == name).map_or(&[][..], |(_, rounds)| rounds);
    let of =
        |figure: fn(&(f64, f64)) -> f64| median(rounds.iter().map(figure).filter(|value| !value.is_nan()));
    (of(|round| round.0), of(|round| round.1))
}

pub(super) fn run(plan: &Plan) -> Result<()> {
    build::run_cargo("build --quiet --release -p memory --example floor")?;
    let floor_program = build::target().join("release/examples/floor");
    let world = World::new(plan)?;
    let mut cells = Vec::new();
    for what in What::ALL {
        let ways = if what == What::Sockperf { &OF_SOCKPERF[..] } else { &WAYS[..] };
        for &size in what.sizes(plan.quick) {
            cells.extend(ways.iter().map(|way| Cell { what, size, way, rounds: Vec::new() }));
        }
    }
    let mut floors = Floors::new();
    let mut progress = Progress::new((cells.len() + 1) * plan.rounds as usize);
    for round in 1..=plan.rounds {
        progress.step(&format!("round {round}, what memory allows"));
        add_floors(&mut floors, &world, &floor_program)?;
        for cell in &mut cells {
            progress.step(&format!(
                "round {round}, {}, {} bytes, {}",
                cell.what.title(),
                cell.size,
                cell.way.name
            ));
            let found = world.measure(cell)?;
            cell.rounds.push(found);
        }
    }
    drop((progress, world));
    show(plan, &cells, &floors);
    let goals = goals::judged(&cells, &floors);
    goals.iter().for_each(|goal| println!("{goal}"));
    save(
        "sdp",
        &json!({
            "floors": floors.iter().map(|(name, _)| {
                let (ns, rate) = floor(&floors, name);
                json!({"name": name, "one_way_ns": ns, "mb_per_second": rate})
            }).collect::<Vec<_>>(),
            "cells": cells.iter().map(as_json).collect::<Vec<_>>(),
            "goals": goals,
        }),
    )
}

fn show(plan: &Plan, cells: &[Cell], floors: &Floors) {
    println!(
        "Medians of {} interleaved rounds of {} s; client on CPU 0, server on CPU 1. Processor time is both ends' together.\n",
        plan.rounds, plan.seconds
    );
    let shown = |value: f64, digits: usize| {
        if value.is_nan() { "-".to_owned() } else { format!("{value:.digits$}") }
    };
    let mut table = Table::new(&["what memory allows", "ns one way", "MB/s"]);
    for (name, _) in floors {
        let (ns, rate) = floor(floors, name);
        table.row(vec![format!("  {name}"), shown(ns, 0), shown(rate, 0)]);
    }
    table.rule();
    table.print();
    let header =
        ["", "p50", "p99", "p99.9", "/s", "MB/s", "× loopback", "× spinning", "CPU µs", "by the kernel"];
    let mut table = Table::new(&header);
    for group in cells.chunk_by(|one, other| (one.what, one.size) == (other.what, other.size)) {
        let [first, ..] = group else { continue };
        table.row(vec![format!("{}, {} bytes", first.what.title(), first.size)]);
        let of = |way: &Way| group.iter().find(|cell| cell.way == way).map_or(f64::NAN, worth);
        for cell in group {
            let is_stream = cell.what == What::Stream;
            let mut row = vec![format!("  {}", cell.way.name)];
            row.extend(["p50", "p99", "p99.9"].map(|name| shown(cell.one_way(name), 2)));
            let rate = cell.median("/rate");
            row.push(thousands(if is_stream { rate * 1e6 / 8.0 / cell.size as f64 } else { rate } as u64));
            row.push(shown(if is_stream { rate / 8.0 } else { f64::NAN }, 0));
            row.extend([&BLOCKING, &SPINNING].map(|way| shown(worth(cell) / of(way), 2)));
            row.push(shown(cell.demand(), 3));
            row.push(shown(cell.median("/kernel_part") * 100.0, 1));
            table.row(row);
        }
        table.rule();
    }
    table.print();
    println!(
        "CPU µs: for 1024 bytes of a stream, for a transaction elsewhere. By the kernel: percent of all bytes.\n"
    );
}

/// What is compared, more being better: speed by the median round trip, which others on the machine disturb least.
fn worth(cell: &Cell) -> f64 {
    match cell.what {
        What::Sockperf | What::Requests => 1.0 / cell.one_way("p50"),
        What::Stream | What::Connections => cell.median("/rate"),
    }
}

fn as_json(cell: &Cell) -> Value {
    json!({
        "what": cell.what.title(), "size": cell.size, "way": cell.way.name,
        "p50_us": cell.one_way("p50"), "p99_us": cell.one_way("p99"), "p99.9_us": cell.one_way("p99.9"),
        "rate": cell.median("/rate"), "cpu_us": cell.demand(), "kernel_part": cell.median("/kernel_part"),
        "rounds": cell.rounds,
    })
}
