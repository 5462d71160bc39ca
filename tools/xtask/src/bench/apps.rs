//! `cargo x bench apps`: programs that people run, on the kernel, accelerated and mixed, interleaved in one run; every
//! answer is checked, and a wrong one stops that program's row, not the others.

use rig::apps::{ALL, App, Ends, Figures};
use rig::sockperf::Witness;
use rig::{Error, Options, Result, TwoHosts};
use serde_json::{Value, json};

use super::rounds::Rounds;
use super::{Plan, save};
use crate::progress::Progress;
use crate::table::{Table, thousands};

/// Client, server accelerated; the kernel first, as what the others are compared with.
const WAYS: [(bool, bool); 4] = [(false, false), (true, true), (true, false), (false, true)];

/// One program one way, and what its rounds gave.
struct Cell {
    app: &'static App,
    way: (bool, bool),
    rounds: Rounds,
    wire_packets: u64,
    kernel_packets: u64,
    failure: Option<String>,
}

impl Cell {
    /// Counts what the accelerated ends carried, and what of it their kernels handled.
    fn add(&mut self, outcome: Result<(Figures, Witness)>) {
        match outcome {
            Ok((figures, witness)) => {
                self.rounds.0.push(figures);
                for (accelerated, counters) in [(self.way.0, &witness.client), (self.way.1, &witness.server)]
                {
                    if accelerated {
                        self.wire_packets += counters.wire_packets();
                        self.kernel_packets += counters.transport_packets();
                    }
                }
            }
            Err(error) => self.failure = Some(error.to_string()),
        }
    }
}

/// The apps of these names; all of them if there are none.
pub(super) fn chosen(names: &[String]) -> Result<Vec<&'static App>> {
    if names.is_empty() {
        return Ok(ALL.iter().copied().flatten().collect());
    }
    let known = || ALL.iter().copied().flatten().map(|app| app.name).collect::<Vec<_>>().join(" ");
    let find = |name: &String| {
        App::by_name(name).ok_or_else(|| Error::new(format!("no program {name:?}; there are {}", known())))
    };
    names.iter().map(find).collect()
}

pub(super) fn run(plan: &Plan, apps: &[&'static App]) -> Result<()> {
    let mut cells = Vec::new();
    for &app in apps {
        if let Err(missing) = app.install() {
            eprintln!("{} is left out: {missing}", app.name);
            continue;
        }
        let cell = |way| Cell {
            app,
            way,
            rounds: Rounds::default(),
            wire_packets: 0,
            kernel_packets: 0,
            failure: None,
        };
        cells.extend(WAYS.map(cell));
    }
    let mut progress = Progress::new(cells.len() * plan.rounds as usize);
    for group in cells.chunks_mut(WAYS.len()) {
        for round in 1..=plan.rounds {
            for cell in &mut *group {
                let ends = ends(plan, cell);
                progress.step(&format!("{}, round {round}, {ends}", cell.app.name));
                if cell.failure.is_none() {
                    // New hosts each time: the connections that one run leaves in TIME-WAIT, with the timestamps of
                    // another TCP, would hold up the next.
                    cell.add(cell.app.run(&hosts(cell.app)?, ends, plan.seconds));
                }
            }
        }
    }
    drop(progress);
    show(plan, &cells);
    save("apps", &cells.iter().map(as_json).collect())?;
    match cells.iter().filter(|cell| cell.failure.is_some()).count() {
        0 => Ok(()),
        count => Err(Error::new(format!("{count} rows failed: see above"))),
    }
}

fn hosts(app: &App) -> Result<TwoHosts> {
    let loss_permille = app.middle.then_some(0);
    // The kernel with all its offloads is what the kernel can do; taking them away would flatter us.
    rig::two_hosts(&Options { loss_permille, ..Options::default() })
}

fn show(plan: &Plan, cells: &[Cell]) {
    println!(
        "Median of {} interleaved rounds of about {} s; client on CPU 0, server on CPU 1. Every answer was checked.\n",
        plan.rounds, plan.seconds
    );
    let mut table = Table::new(&[
        "",
        "rate",
        "p50 µs",
        "p99 µs",
        "× kernel",
        "best rounds",
        "× kernel",
        "on wire",
        "through kernel",
    ]);
    for group in cells.chunks(WAYS.len()) {
        let Some(kernel) = group.first() else { continue };
        table.row(vec![format!("{}: {}, {}", kernel.app.name, kernel.app.what, kernel.app.unit)]);
        for cell in group {
            table.row(row(plan, cell, kernel));
        }
        table.rule();
    }
    table.print();
    for cell in cells {
        if let Some(failure) = &cell.failure {
            println!("\nFAILED {failure}");
        }
    }
    goals(cells);
}

fn row(plan: &Plan, cell: &Cell, kernel: &Cell) -> Vec<String> {
    let name = format!("  {}", ends(plan, cell));
    if cell.failure.is_some() {
        return vec![name, "FAILED".to_owned()];
    }
    let shown = |value: f64| if value.is_nan() { "-".to_owned() } else { format!("{value:.0}") };
    let mut row = vec![
        name,
        thousands(cell.rounds.rate() as u64),
        shown(cell.rounds.percentile(|round| round.p50_us)),
        shown(cell.rounds.percentile(|round| round.p99_us)),
        format!("{:.2}", cell.rounds.rate() / kernel.rounds.rate()),
        thousands(cell.rounds.best() as u64),
        format!("{:.2}", cell.rounds.best() / kernel.rounds.best()),
    ];
    if cell.way != WAYS[0] {
        row.extend([thousands(cell.wire_packets), thousands(cell.kernel_packets)]);
    }
    row
}

fn ends<'p>(plan: &'p Plan, cell: &Cell) -> Ends<'p> {
    Ends {
        library: &plan.library,
        client: cell.way.0,
        server: cell.way.1,
        strict: false,
        environment: &[],
        everywhere: &[],
    }
}

/// What the product promises, against what was measured.
fn goals(cells: &[Cell]) {
    println!();
    for group in cells.chunks(WAYS.len()) {
        let [kernel, accelerated, ..] = group else { continue };
        let Some(goal) = kernel.app.goal else { continue };
        let ratio = accelerated.rounds.rate() / kernel.rounds.rate();
        let verdict = if ratio >= goal { "reached" } else { "missed" };
        println!("goal {verdict}: {} {ratio:.2} times the kernel, wanted {goal:.1}", kernel.app.name);
    }
}

fn as_json(cell: &Cell) -> Value {
    let rounds = cell
        .rounds
        .0
        .iter()
        .map(|round| json!({"rate": round.rate, "p50_us": round.p50_us, "p99_us": round.p99_us}));
    json!({
        "program": cell.app.name, "what": cell.app.what, "unit": cell.app.unit,
        "client_accelerated": cell.way.0, "server_accelerated": cell.way.1,
        "rate": cell.rounds.rate(), "best": cell.rounds.best(), "failure": cell.failure,
        "packets_on_the_wire": cell.wire_packets,
        "packets_through_kernel_transport": cell.kernel_packets,
        "rounds": rounds.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_choose_and_unknown_ones_are_refused_with_the_list() {
        assert_eq!(chosen(&["redis-1".to_owned()]).unwrap().len(), 1);
        assert!(chosen(&[]).unwrap().len() > 20);
        let error = chosen(&["redis".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("redis-50"), "{error}");
    }
}
