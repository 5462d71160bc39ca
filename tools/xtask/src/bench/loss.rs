//! `cargo x bench loss`: how much gets through a wire that loses packets, our senders and receivers against the
//! kernel's, all by CUBIC. Each round gives every way the same seed, so that frame n of a direction has the same fate.

use std::time::Duration;

use rig::{BadWire, Context, Error, Options, Result};
use serde_json::json;

use super::{Plan, median, save};
use crate::build;
use crate::progress::Progress;
use crate::table::Table;

/// Connections at a time: the luck of one is not what is measured.
const FLOWS: u32 = 8;
/// Percent of the frames from the sender lost.
const LOSSES: [&str; 3] = ["0.1", "1", "5"];
/// Sender accelerated, receiver accelerated. The kernel first, as what the others are compared with.
const WAYS: [(&str, bool, bool); 3] = [
    ("kernel - kernel", false, false),
    ("accelerated - kernel", true, false),
    ("accelerated - accelerated", true, true),
];

/// MB/s of one way at one loss rate, a round each.
type Cell = Vec<f64>;

pub(super) fn run(plan: &Plan) -> Result<()> {
    let middlebox = build::release("middlebox")?;
    build::release("xtask")?;
    let mut wire = BadWire::new(&Options::default())?;
    let mut cells: Vec<[Cell; WAYS.len()]> = vec![Default::default(); LOSSES.len()];
    let mut progress = Progress::new(LOSSES.len() * WAYS.len() * plan.rounds as usize);
    for round in 1..=plan.rounds {
        for (loss, cell) in LOSSES.iter().zip(&mut cells) {
            for (way, rounds) in WAYS.iter().zip(cell) {
                progress.step(&format!("round {round}, {loss} % lost, {}", way.0));
                let faults = format!("--seed {round} --delay 10ms --left-to-right --loss {loss}%");
                wire.begin(&middlebox, &faults)?;
                rounds.push(goodput(plan, &wire, way.1, way.2)?);
                wire.end()?;
            }
        }
    }
    drop((progress, wire));
    show(plan, &cells);
    let cells = LOSSES.iter().zip(&cells).flat_map(|(loss, cell)| {
        WAYS.iter().zip(cell).map(move |(way, rounds)| {
            let middle = median(rounds.iter().copied());
            json!({"loss_percent": loss, "way": way.0, "megabytes_per_second": middle, "rounds": rounds})
        })
    });
    save("loss", &cells.collect())
}

/// MB/s that the receiving program got, from its first byte to its last.
fn goodput(plan: &Plan, wire: &BadWire, from_us: bool, to_us: bool) -> Result<f64> {
    let right = &wire.hosts.right;
    let address = format!("{}:7000", right.address);
    let patience = Duration::from_secs(60 + u64::from(plan.seconds) + u64::from(plan.mib) * 10);
    let sink = plan.endpoint(right, to_us)?.any_cpu().words(&format!("sink {address} {FLOWS}"));
    let mut sink = sink.start()?;
    sink.wait_for_output("ready", Duration::from_secs(10))?;
    let milliseconds = plan.seconds * 1000;
    let source = plan.endpoint(&wire.hosts.left, from_us)?.any_cpu();
    source
        .words(&format!("source {address} {FLOWS} {milliseconds} {}", plan.mib))
        .run(patience)?
        .success()?;
    let said = sink.finish(patience)?.success()?.stdout;
    let number = |name: &str| -> Result<f64> {
        let mut words = said.split_whitespace().skip_while(|word| *word != name);
        let word = words.nth(1).ok_or_else(|| Error::new(format!("no {name} in {said:?}")))?;
        word.parse().context(word)
    };
    Ok(number("bytes")? * 1e3 / number("ns")?)
}

fn show(plan: &Plan, cells: &[[Cell; WAYS.len()]]) {
    let size = match plan.mib {
        0 => format!("{} s", plan.seconds),
        mib => format!("{mib} MiB"),
    };
    println!(
        "Goodput of {FLOWS} connections, CUBIC, round trip 20 ms; median of {} interleaved rounds of {size}.\n",
        plan.rounds
    );
    let mut table = Table::new(&["", "MB/s", "× kernel"]);
    for (loss, cell) in LOSSES.iter().zip(cells) {
        table.row(vec![format!("{loss} % lost")]);
        for (way, rounds) in WAYS.iter().zip(cell) {
            let middle = median(rounds.iter().copied());
            // Of the rounds' ratios, because each round has its own fate.
            let ratio = median(rounds.iter().zip(&cell[0]).map(|(rate, kernel)| rate / kernel));
            table.row(vec![format!("  {}", way.0), format!("{middle:.2}"), format!("{ratio:.2}")]);
        }
        table.rule();
    }
    table.print();
}
