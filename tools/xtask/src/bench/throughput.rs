//! `cargo x bench throughput`: how many messages a second arrive, counted by the receiving program.

use rig::sockperf::{self, Run, Throughput};
use rig::{Options, Protocol, Result};
use serde_json::{Value, json};

use super::{ACCELERATED, FROM_KERNEL, KERNEL, Plan, TO_KERNEL, Way, median, name, save};
use crate::progress::Progress;
use crate::table::{Table, thousands};

const WAYS: [Way; 4] = [KERNEL, ACCELERATED, TO_KERNEL, FROM_KERNEL];

/// One cell of the plan and what its rounds gave.
struct Cell {
    protocol: Protocol,
    size: u32,
    way: &'static Way,
    rounds: Vec<Throughput>,
}

impl Cell {
    fn rate(&self) -> f64 {
        median(self.rounds.iter().map(Throughput::rate))
    }

    fn lost(&self) -> f64 {
        median(self.rounds.iter().map(|round| 1.0 - round.received as f64 / round.sent.max(1) as f64))
    }
}

pub(super) fn run(plan: &Plan) -> Result<()> {
    let sizes: &[u32] = if plan.quick { &[64] } else { &[64, 1400] };
    // The kernel with all its offloads is what the kernel can do; taking them away would flatter us.
    let hosts = rig::two_hosts(&Options::default())?;
    let mut cells = Vec::new();
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        for &size in sizes {
            cells.extend(WAYS.iter().map(|way| Cell { protocol, size, way, rounds: Vec::new() }));
        }
    }
    let mut progress = Progress::new(cells.len() * plan.rounds as usize);
    for round in 1..=plan.rounds {
        for cell in &mut cells {
            progress.step(&format!(
                "round {round}, {} {} bytes, {}",
                name(cell.protocol),
                cell.size,
                cell.way.name
            ));
            let (client, server) = cell.way.sides(plan);
            let run = Run { protocol: cell.protocol, size: cell.size, seconds: plan.seconds, client, server };
            cell.rounds.push(sockperf::throughput(&hosts, &run)?.0);
        }
    }
    drop((progress, hosts));
    show(plan, &cells);
    save("throughput", &cells.iter().map(as_json).collect())
}

fn show(plan: &Plan, cells: &[Cell]) {
    println!(
        "Messages per second counted at the receiver, median of {} interleaved rounds of {} s, CPUs 0 and 1.\n",
        plan.rounds, plan.seconds
    );
    let mut table = Table::new(&["", "messages/s", "MB/s", "lost", "× kernel"]);
    for group in cells.chunks(WAYS.len()) {
        let Some(kernel) = group.first() else { continue };
        table.row(vec![format!("{}, {} bytes", name(kernel.protocol), kernel.size)]);
        for cell in group {
            table.row(vec![
                format!("  {}", cell.way.name),
                thousands(cell.rate() as u64),
                format!("{:.1}", cell.rate() * f64::from(cell.size) / 1e6),
                format!("{:.1} %", cell.lost() * 100.0),
                format!("{:.2}", cell.rate() / kernel.rate()),
            ]);
        }
        table.rule();
    }
    table.print();
}

fn as_json(cell: &Cell) -> Value {
    let rounds = cell.rounds.iter().map(|round| {
        json!({"sent": round.sent, "received": round.received, "seconds": round.seconds, "rate": round.rate()})
    });
    json!({
        "protocol": name(cell.protocol), "size": cell.size, "way": cell.way.name,
        "messages_per_second": cell.rate(), "lost": cell.lost(), "rounds": rounds.collect::<Vec<_>>(),
    })
}
