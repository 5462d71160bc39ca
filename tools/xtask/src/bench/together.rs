//! `cargo x bench together`: servers that people run and their clients, all at once on one interface, with a keeper on
//! each host, against each of them alone. What counts is how many times the kernel each is, alone and in company: the
//! same machine is shared by all of them in both ways. (`tests/product/together.rs` has each client by another user.)

use rig::apps::{App, Ends};
use rig::sockperf::{Run, Side, ping_pong};
use rig::{Error, Options, Protocol, Result, Running, TwoHosts};
use serde_json::{Value, json};

use super::{Plan, median, name, save};
use crate::build;
use crate::progress::Progress;
use crate::table::{Table, thousands};

const APPS: [&str; 4] = ["redis-50", "memcached-4", "nginx-keepalive", "postgresql"];

/// In company each may lose so much of its ratio, and no more.
const LEAST: f64 = 0.85;

/// sockperf waits so many seconds before it begins; the others are there for as long.
const SETTLE: u32 = 2;

#[derive(Clone, Copy)]
enum Load {
    App(&'static App),
    /// sockperf's, messages of 14 bytes.
    PingPong(Protocol),
}

/// One server with its client, and what they did in a second: in rounds, of each way.
struct Row {
    load: Load,
    alone: [Vec<f64>; 2],
    together: [Vec<f64>; 2],
}

impl Row {
    fn of(load: Load) -> Row {
        Row { load, alone: Default::default(), together: Default::default() }
    }

    fn title(&self) -> String {
        match self.load {
            Load::App(app) => format!("{}, {}", app.name, app.unit),
            Load::PingPong(protocol) => format!("sockperf {}, round trips/s", name(protocol)),
        }
    }
}

impl Load {
    fn measure(self, plan: &Plan, hosts: &TwoHosts, accelerated: bool) -> Result<f64> {
        let ends = Ends {
            library: &plan.library,
            client: accelerated,
            server: accelerated,
            strict: false,
            environment: &[],
            everywhere: &[],
        };
        let side = if accelerated { Side::Accelerated(&plan.library) } else { Side::Kernel };
        match self {
            Load::App(app) => app.run(hosts, ends, plan.seconds + SETTLE).map(|(figures, _)| figures.rate),
            Load::PingPong(protocol) => {
                let run = Run { protocol, size: 14, seconds: plan.seconds, client: side, server: side };
                ping_pong(hosts, &run).map(|(latency, _)| latency.rate)
            }
        }
    }
}

/// Two hosts, each with a keeper where programs are accelerated.
struct Stage {
    _keepers: Vec<Running>,
    hosts: TwoHosts,
}

impl Stage {
    fn new(accelerated: bool) -> Result<Stage> {
        let hosts = rig::two_hosts(&Options::default())?;
        let keeper = build::target().join("release/sidestepd");
        let start = |host: &rig::Host| {
            let keeper = host.program(&keeper).words("--hold 1").any_cpu().start()?;
            rig::eventually("the keeper listens", || keeper.stderr().contains("listens at"));
            Ok(keeper)
        };
        let sides = if accelerated { vec![&hosts.left, &hosts.right] } else { Vec::new() };
        let _keepers = sides.into_iter().map(start).collect::<Result<Vec<_>>>()?;
        Ok(Stage { _keepers, hosts })
    }
}

pub(super) fn run(plan: &Plan) -> Result<()> {
    build::release("sidestepd")?;
    let mut rows: Vec<Row> =
        [Protocol::Udp, Protocol::Tcp].map(|protocol| Row::of(Load::PingPong(protocol))).into();
    for app in APPS.iter().filter_map(|name| App::by_name(name)) {
        match app.install() {
            Ok(()) => rows.push(Row::of(Load::App(app))),
            Err(missing) => eprintln!("{} is left out: {missing}", app.name),
        }
    }
    let mut progress = Progress::new(plan.rounds as usize * 2 * (rows.len() + 1));
    let (mut wire, mut kernel) = (0, 0);
    for round in 1..=plan.rounds {
        for accelerated in [false, true] {
            for row in &mut rows {
                progress.step(&format!("round {round}, {} alone", row.title()));
                let stage = Stage::new(accelerated)?;
                let rate = row.load.measure(plan, &stage.hosts, accelerated)?;
                row.alone[usize::from(accelerated)].push(rate);
            }
            progress.step(&format!("round {round}, all at once"));
            let stage = Stage::new(accelerated)?;
            let sides = [&stage.hosts.left, &stage.hosts.right];
            let before = [sides[0].counters()?, sides[1].counters()?];
            let rates = all_at_once(plan, &rows, &stage.hosts, accelerated)?;
            for (row, rate) in rows.iter_mut().zip(rates) {
                row.together[usize::from(accelerated)].push(rate);
            }
            for (host, before) in sides.iter().zip(&before).filter(|_| accelerated) {
                let since = host.counters()?.since(before);
                wire += since.wire_packets();
                kernel += since.transport_packets();
            }
        }
    }
    drop(progress);
    show(plan, &rows);
    println!(
        "\nAll at once, accelerated: {} of {} packets by the kernels.",
        thousands(kernel),
        thousands(wire)
    );
    save("together", &rows.iter().map(as_json).collect())
}

fn all_at_once(plan: &Plan, rows: &[Row], hosts: &TwoHosts, accelerated: bool) -> Result<Vec<f64>> {
    std::thread::scope(|scope| {
        let begin = |row: &Row| {
            let load = row.load;
            scope.spawn(move || load.measure(plan, hosts, accelerated))
        };
        let running: Vec<_> = rows.iter().map(begin).collect();
        let end = |one: std::thread::ScopedJoinHandle<'_, Result<f64>>| {
            one.join().unwrap_or_else(|_| Err(Error::new("a measurement panicked")))
        };
        // All of them, before a failure is told.
        let ended: Vec<_> = running.into_iter().map(end).collect();
        ended.into_iter().collect()
    })
}

/// Kernel, accelerated, and how many times the kernel.
fn ratio(rounds: &[Vec<f64>; 2]) -> [f64; 3] {
    let [kernel, accelerated] = rounds.each_ref().map(|rounds| median(rounds.iter().copied()));
    [kernel, accelerated, accelerated / kernel]
}

fn show(plan: &Plan, rows: &[Row]) {
    println!(
        "Medians of {} interleaved rounds of {} s; clients on CPU 0, servers on CPU 1.\n",
        plan.rounds, plan.seconds
    );
    let mut table = Table::new(&[
        "",
        "alone",
        "accelerated",
        "× kernel",
        "at once",
        "accelerated",
        "× kernel",
        "of alone",
    ]);
    for row in rows {
        let (alone, together) = (ratio(&row.alone), ratio(&row.together));
        let mut cells = vec![row.title()];
        for [kernel, accelerated, ratio] in [alone, together] {
            cells.extend([thousands(kernel as u64), thousands(accelerated as u64), format!("{ratio:.2}")]);
        }
        cells.push(format!("{:.2}", together[2] / alone[2]));
        table.row(cells);
    }
    table.print();
    for row in rows.iter().filter(|row| ratio(&row.together)[2] < LEAST * ratio(&row.alone)[2]) {
        println!("goal missed: {} loses more than {:.0} % of its ratio", row.title(), 100.0 * (1.0 - LEAST));
    }
}

fn as_json(row: &Row) -> Value {
    json!({ "program": row.title(), "alone": row.alone, "together": row.together })
}
