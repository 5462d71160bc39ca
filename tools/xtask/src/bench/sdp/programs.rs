//! `cargo x bench sdp --programs [NAME..]`: servers and clients that people run, on 127.0.0.1, by the kernel's
//! loopback, under libsdp.so, and under libvma.so at both ends and at the server's alone, interleaved; every answer is
//! checked.

use rig::apps::{App, Ends};
use rig::{Error, Result};
use serde_json::{Value, json};

use super::World;
use crate::bench::rounds::Rounds;
use crate::bench::{Plan, save};
use crate::build;
use crate::progress::Progress;
use crate::table::{Table, thousands};

/// Those that talk over loopback in the first place, and what SDP owes them: times loopback's rate.
const PROGRAMS: [(&str, f64); 22] = [
    ("redis-1", 3.0),
    ("redis-50", 0.95),
    ("redis-pipeline", 0.95),
    ("memcached-1", 0.95),
    ("memcached-4", 0.95),
    ("memcached-binary", 0.95),
    ("nginx-keepalive", 0.95),
    ("nginx-close", 0.95),
    ("nginx-file", 0.95),
    ("postgresql", 0.95),
    ("memcached-threads", 0.95),
    ("threaded", 0.95),
    ("asio", 0.95),
    ("tokio-multi", 0.95),
    ("libuv", 0.95),
    ("java-loop", 0.95),
    ("java-nio", 0.95),
    ("asyncio", 0.95),
    ("node", 0.95),
    ("grpc", 0.95),
    ("socat", 0.95),
    ("iperf3-8", 0.95),
];

/// What one of the servers owes that alone has libvma.so: its peer never comes.
const ALONE: f64 = 0.95;

/// Who has which library.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Loopback,
    Sdp,
    Vma,
    ServersVma,
}

const WAYS: [Way; 4] = [Way::Loopback, Way::Sdp, Way::Vma, Way::ServersVma];

/// A program one way.
struct Cell {
    app: &'static App,
    goal: f64,
    way: Way,
    rounds: Rounds,
    failure: Option<String>,
}

impl Cell {
    fn name(&self) -> &'static str {
        match self.way {
            Way::Loopback => "loopback",
            Way::Sdp => "libsdp.so",
            Way::Vma => "libvma.so",
            Way::ServersVma => "libvma.so, server alone",
        }
    }
}

pub(in crate::bench) fn run(plan: &Plan, names: &[String]) -> Result<()> {
    let mut cells = Vec::new();
    for (name, goal) in chosen(names)? {
        let app = App::by_name(name).ok_or_else(|| Error::new(format!("no app {name}")))?;
        if let Err(missing) = app.install() {
            eprintln!("{name} is left out: {missing}");
            continue;
        }
        let cell = |way| {
            let goal = if way == Way::ServersVma { ALONE } else { goal };
            Cell { app, goal, way, rounds: Rounds::default(), failure: None }
        };
        cells.extend(WAYS.map(cell));
    }
    let vma = build::library(None)?;
    let world = World::new(plan)?;
    let everywhere = [("LIBSDP_CONFIG_FILE".to_owned(), world.rules.display().to_string())];
    let mut progress = Progress::new(cells.len() * plan.rounds as usize);
    for round in 1..=plan.rounds {
        for cell in cells.iter_mut().filter(|cell| cell.failure.is_none()) {
            progress.step(&format!("round {round}, {}, {}", cell.app.name, cell.name()));
            let ends = Ends {
                library: if cell.way == Way::Sdp { &world.library } else { &vma },
                client: matches!(cell.way, Way::Sdp | Way::Vma),
                server: cell.way != Way::Loopback,
                strict: false,
                environment: &[],
                everywhere: &everywhere,
            };
            match cell.app.run(&world.hosts, ends, plan.seconds) {
                Ok((figures, _)) => cell.rounds.0.push(figures),
                Err(error) => cell.failure = Some(error.to_string()),
            }
        }
    }
    drop((progress, world));
    show(plan, &cells);
    save("sdp-programs", &cells.iter().map(as_json).collect())?;
    match cells.iter().filter(|cell| cell.failure.is_some()).count() {
        0 => Ok(()),
        count => Err(Error::new(format!("{count} rows failed: see above"))),
    }
}

fn chosen(names: &[String]) -> Result<Vec<(&'static str, f64)>> {
    let known = || PROGRAMS.map(|(name, _)| name).join(" ");
    let find = |name: &String| {
        let found = PROGRAMS.into_iter().find(|(known, _)| known == name);
        found.ok_or_else(|| Error::new(format!("no program {name:?}; there are {}", known())))
    };
    if names.is_empty() { Ok(PROGRAMS.to_vec()) } else { names.iter().map(find).collect() }
}

fn show(plan: &Plan, cells: &[Cell]) {
    println!(
        "Median of {} interleaved rounds of about {} s on 127.0.0.1; client on CPU 0, server on CPU 1. Every answer was \
         checked.\n",
        plan.rounds, plan.seconds
    );
    let shown = |value: f64| if value.is_nan() { "-".to_owned() } else { format!("{value:.0}") };
    let mut table = Table::new(&["", "rate", "p50 µs", "p99 µs", "× loopback", "best round", "× loopback"]);
    for rows in cells.chunks(WAYS.len()) {
        let loopback = &rows[0];
        table.row(vec![format!("{}: {}, {}", loopback.app.name, loopback.app.what, loopback.app.unit)]);
        for cell in rows {
            table.row(vec![
                format!("  {}", cell.name()),
                thousands(cell.rounds.rate() as u64),
                shown(cell.rounds.percentile(|round| round.p50_us)),
                shown(cell.rounds.percentile(|round| round.p99_us)),
                format!("{:.2}", cell.rounds.rate() / loopback.rounds.rate()),
                thousands(cell.rounds.best() as u64),
                format!("{:.2}", cell.rounds.best() / loopback.rounds.best()),
            ]);
        }
        table.rule();
    }
    table.print();
    for rows in cells.chunks(WAYS.len()) {
        for failure in rows.iter().filter_map(|cell| cell.failure.as_ref()) {
            println!("\nFAILED {failure}");
        }
        let loopback = &rows[0];
        for cell in &rows[1..] {
            let ratio = cell.rounds.rate() / loopback.rounds.rate();
            let verdict = if ratio >= cell.goal { "reached" } else { "missed" };
            let best = cell.rounds.best() / loopback.rounds.best();
            println!(
                "goal {verdict}: {}, {} {ratio:.2} times loopback, wanted {} (best rounds {best:.2})",
                cell.app.name,
                cell.name(),
                cell.goal
            );
        }
    }
}

fn as_json(cell: &Cell) -> Value {
    let rounds = cell
        .rounds
        .0
        .iter()
        .map(|round| json!({"rate": round.rate, "p50_us": round.p50_us, "p99_us": round.p99_us}));
    json!({
        "program": cell.app.name, "what": cell.app.what, "unit": cell.app.unit, "way": cell.name(),
        "rate": cell.rounds.rate(), "best": cell.rounds.best(), "failure": cell.failure, "rounds": rounds.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_one_of_the_rig_and_unknown_ones_are_refused_with_the_list() {
        for (name, _) in chosen(&[]).unwrap() {
            assert!(App::by_name(name).is_some(), "{name}");
        }
        let error = chosen(&["redis".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("redis-pipeline"), "{error}");
    }
}
