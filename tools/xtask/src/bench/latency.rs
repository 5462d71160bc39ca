//! `cargo x bench latency`: one-way latency by size, protocol and way, with the ratios to the blocking kernel and to
//! the AF_XDP floor.

use rig::sockperf::{self, Latency, Run};
use rig::{Options, Protocol, Result};
use serde_json::{Value, json};

use super::{
    ACCELERATED, FROM_KERNEL, KERNEL, Plan, SPINNING, TO_KERNEL, Way, floor, latency_json, median, name, save,
};
use crate::progress::Progress;
use crate::table::{Table, thousands};

const WAYS: [Way; 5] = [KERNEL, SPINNING, ACCELERATED, TO_KERNEL, FROM_KERNEL];

/// One cell of the plan and what its rounds gave.
struct Cell {
    protocol: Protocol,
    size: u32,
    way: &'static Way,
    rounds: Vec<Latency>,
    kernel_packets: u64,
    wire_packets: u64,
}

impl Cell {
    fn median(&self, of: impl Fn(&Latency) -> f64) -> f64 {
        median(self.rounds.iter().map(of))
    }
}

pub(super) fn run(plan: &Plan) -> Result<()> {
    let sizes: &[u32] = if plan.quick { &[14] } else { &[14, 64, 1400] };
    let floor_program = floor::program()?;
    let hosts = rig::two_hosts(&Options::default())?;
    let mut cells = cells(sizes);
    let mut floors: Vec<(u32, Vec<f64>)> = sizes.iter().map(|size| (*size, Vec::new())).collect();
    let mut progress = Progress::new((cells.len() + floors.len()) * plan.rounds as usize);
    for round in 1..=plan.rounds {
        for (size, medians) in &mut floors {
            progress.step(&format!("round {round}, AF_XDP floor, {size} bytes"));
            if let Some(program) = &floor_program {
                medians.push(floor::one_way_us(&hosts, program, *size)?);
            }
        }
        for cell in &mut cells {
            progress.step(&format!(
                "round {round}, {} {} bytes, {}",
                name(cell.protocol),
                cell.size,
                cell.way.name
            ));
            let (client, server) = cell.way.sides(plan);
            let run = Run { protocol: cell.protocol, size: cell.size, seconds: plan.seconds, client, server };
            let (latency, witness) = sockperf::ping_pong(&hosts, &run)?;
            cell.rounds.push(latency);
            cell.kernel_packets += witness.kernel_packets();
            cell.wire_packets += witness.wire_packets();
        }
    }
    drop((progress, hosts));
    let floors: Vec<(u32, f64)> =
        floors.into_iter().map(|(size, us)| (size, median(us.into_iter()))).collect();
    show(plan, &cells, &floors);
    save("latency", &as_json(&cells, &floors))
}

fn cells(sizes: &[u32]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        for &size in sizes {
            for way in &WAYS {
                cells.push(Cell {
                    protocol,
                    size,
                    way,
                    rounds: Vec::new(),
                    kernel_packets: 0,
                    wire_packets: 0,
                });
            }
        }
    }
    cells
}

fn show(plan: &Plan, cells: &[Cell], floors: &[(u32, f64)]) {
    println!(
        "One-way latency in µs, median of {} interleaved rounds of {} s, CPUs 0 and 1.\n",
        plan.rounds, plan.seconds
    );
    let header =
        ["", "p50", "p99", "p99.9", "round trips/s", "× kernel", "× floor", "on wire", "through kernel"];
    let mut table = Table::new(&header);
    for (size, floor) in floors {
        let shown = if floor.is_nan() { "not measured".to_owned() } else { format!("{floor:.2}") };
        table.row(vec![format!("AF_XDP frames, {size} bytes"), shown]);
    }
    table.rule();
    for group in cells.chunks(WAYS.len()) {
        let Some(kernel) = group.first() else { continue };
        table.row(vec![format!("{}, {} bytes", name(kernel.protocol), kernel.size)]);
        for cell in group {
            table.row(row(cell, kernel, floor_of(floors, cell.size)));
        }
        table.rule();
    }
    table.print();
}

fn floor_of(floors: &[(u32, f64)], size: u32) -> f64 {
    floors.iter().find(|(of, _)| *of == size).map_or(f64::NAN, |(_, floor)| *floor)
}

fn row(cell: &Cell, kernel: &Cell, floor: f64) -> Vec<String> {
    let p50 = cell.median(|latency| latency.p50);
    let ratio = |to: f64| if to.is_nan() { "-".to_owned() } else { format!("{:.2}", p50 / to) };
    vec![
        format!("  {}", cell.way.name),
        format!("{p50:.2}"),
        format!("{:.2}", cell.median(|latency| latency.p99)),
        format!("{:.2}", cell.median(|latency| latency.p999)),
        thousands(cell.median(|latency| latency.rate) as u64),
        ratio(kernel.median(|latency| latency.p50)),
        ratio(floor),
        thousands(cell.wire_packets),
        thousands(cell.kernel_packets),
    ]
}

fn as_json(cells: &[Cell], floors: &[(u32, f64)]) -> Value {
    let cells: Vec<Value> = cells
        .iter()
        .map(|cell| {
            json!({
                "protocol": name(cell.protocol), "size": cell.size, "way": cell.way.name,
                "p50_us": cell.median(|latency| latency.p50), "p99_us": cell.median(|latency| latency.p99),
                "p99.9_us": cell.median(|latency| latency.p999),
                "packets_on_the_wire": cell.wire_packets,
                "packets_through_kernel_transport": cell.kernel_packets,
                "rounds": cell.rounds.iter().map(latency_json).collect::<Vec<_>>(),
            })
        })
        .collect();
    let floors: Vec<Value> =
        floors.iter().map(|(size, us)| json!({"size": size, "one_way_us": us})).collect();
    json!({ "floor": floors, "cells": cells })
}
