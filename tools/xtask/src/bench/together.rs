//! `cargo x bench together`: servers that people run and their clients, all at once on one interface, with a keeper on
//! each host, against each of them alone on its interface. Each client is another ordinary user's.
//!
//! What counts is how many times the kernel each is, alone and in company. The machine is as loaded in both: beside one
//! that is alone, all others run as well, in the same way, but between two hosts of their own.

use rig::apps::company::{self, Asking, Company, GROUP, Member};
use rig::{Result, Running, TwoHosts};
use serde_json::{Value, json};

use super::{Plan, median, save};
use crate::build;
use crate::progress::Progress;
use crate::table::{Table, thousands};

/// In company each may lose so much of its ratio, and no more.
const LEAST: f64 = 0.85;

/// One server with its client, and what they did in a second: in rounds, by the kernel and accelerated.
struct Row {
    member: Member,
    alone: [Vec<f64>; 2],
    together: [Vec<f64>; 2],
}

/// Two hosts, with a keeper on each where programs are accelerated. What runs there is dropped before.
struct Stage {
    hosts: TwoHosts,
    _keepers: Vec<Running>,
}

impl Stage {
    fn new(accelerated: bool) -> Result<Stage> {
        let hosts = rig::two_hosts(&rig::Options::default())?;
        let keeper = build::target().join("release/sidestepd");
        let start = |host: &rig::Host| {
            let words = format!("--hold 1 --group {GROUP}");
            let keeper = host.program(&keeper).words(&words).any_cpu().start()?;
            rig::eventually("the keeper listens", || keeper.stderr().contains("listens at"));
            Ok(keeper)
        };
        let sides = if accelerated { vec![&hosts.left, &hosts.right] } else { Vec::new() };
        let _keepers = sides.into_iter().map(start).collect::<Result<Vec<_>>>()?;
        Ok(Stage { hosts, _keepers })
    }
}

pub(super) fn run(plan: &Plan) -> Result<()> {
    build::release("sidestepd")?;
    let members = company::members()?;
    // By the kernel, and accelerated.
    let stages = [Stage::new(false)?, Stage::new(true)?];
    let elsewhere = [Stage::new(false)?, Stage::new(true)?];
    let measured = companies(plan, &stages, &members)?;
    let beside = companies(plan, &elsewhere, &members)?;
    let row = |member| Row { member, alone: Default::default(), together: Default::default() };
    let mut rows: Vec<Row> = members.iter().copied().map(row).collect();
    let mut progress = Progress::new(plan.rounds as usize * 2 * (rows.len() + 1));
    let sides = [&stages[1].hosts.left, &stages[1].hosts.right];
    let (mut wire, mut kernel) = (0, 0);
    for round in 1..=plan.rounds {
        for way in [0, 1] {
            for row in &mut rows {
                progress.step(&format!("round {round}, {} alone", row.member.title()));
                let others: Vec<Member> = members.iter().copied().filter(|one| *one != row.member).collect();
                let others = begin(&beside[way], &others, plan)?;
                row.alone[way].push(measured[way].begin(row.member, plan.seconds)?.rate()?);
                drop(others);
            }
            progress.step(&format!("round {round}, all at once"));
            let before = [sides[0].counters()?, sides[1].counters()?];
            let asking = begin(&measured[way], &members, plan)?;
            for (row, asking) in rows.iter_mut().zip(asking) {
                row.together[way].push(asking.rate()?);
            }
            for (host, before) in sides.iter().zip(&before) {
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

fn companies<'s>(plan: &'s Plan, stages: &'s [Stage; 2], members: &[Member]) -> Result<[Company<'s>; 2]> {
    let start = |stage: &'s Stage, library| Company::start(&stage.hosts, library, members);
    Ok([start(&stages[0], None)?, start(&stages[1], Some(&plan.library))?])
}

fn begin(company: &Company<'_>, members: &[Member], plan: &Plan) -> Result<Vec<Asking>> {
    members.iter().map(|member| company.begin(*member, plan.seconds)).collect()
}

/// Kernel, accelerated, and how many times the kernel.
fn ratio(rounds: &[Vec<f64>; 2]) -> [f64; 3] {
    let [kernel, accelerated] = rounds.each_ref().map(|rounds| median(rounds.iter().copied()));
    [kernel, accelerated, accelerated / kernel]
}

fn show(plan: &Plan, rows: &[Row]) {
    println!(
        "Medians of {} interleaved rounds of {} s; clients on CPU 0, servers on CPU 1. Alone: on the interface; the \
         others run beside, on another one.\n",
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
        let mut cells = vec![row.member.title().to_owned()];
        for [kernel, accelerated, ratio] in [alone, together] {
            cells.extend([thousands(kernel as u64), thousands(accelerated as u64), format!("{ratio:.2}")]);
        }
        cells.push(format!("{:.2}", together[2] / alone[2]));
        table.row(cells);
    }
    table.print();
    for row in rows.iter().filter(|row| ratio(&row.together)[2] < LEAST * ratio(&row.alone)[2]) {
        let lost = 100.0 * (1.0 - LEAST);
        println!("goal missed: {} loses more than {lost:.0} % of its ratio", row.member.title());
    }
}

fn as_json(row: &Row) -> Value {
    json!({ "program": row.member.title(), "alone": row.alone, "together": row.together })
}
