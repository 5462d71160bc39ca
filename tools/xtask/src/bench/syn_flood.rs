//! `cargo x bench syn-flood`: SYNs from invented sources against an accelerated server, and against the kernel's.

use std::time::Duration;

use rig::{Context, Error, Options, Result, Running, TwoHosts};
use serde_json::{Value, json};

use super::{Plan, save};
use crate::build;
use crate::table::{Table, thousands};

const SYNS: u32 = 200_000;

/// What one flood did.
struct Outcome {
    /// SYNs that left the attacker.
    sent: u64,
    /// Connections made and answered meanwhile, and the longest that one of them took.
    served: u64,
    longest: Duration,
    /// KiB that the server's memory grew by.
    grown: i64,
}

pub(super) fn run(plan: &Plan) -> Result<()> {
    build::release("xtask")?;
    let hosts = rig::two_hosts(&Options::default())?;
    // Answers to the invented sources go back where they came from, and die there.
    hosts.right.namespace.ip(&format!("route add 198.18.0.0/15 via {}", hosts.left.address))?;
    let syns = if plan.quick { SYNS / 10 } else { SYNS };
    let ways = [("kernel", false), ("accelerated", true)];
    let mut table = Table::new(&["", "SYNs", "clients served", "longest wait", "memory grew"]);
    let mut results = Vec::new();
    for (name, accelerated) in ways {
        let outcome = attack(plan, &hosts, accelerated, syns)?;
        table.row(vec![
            name.to_owned(),
            thousands(outcome.sent),
            thousands(outcome.served),
            format!("{:.1} ms", outcome.longest.as_secs_f64() * 1e3),
            format!("{} KiB", outcome.grown),
        ]);
        results.push(as_json(name, &outcome));
    }
    drop(hosts);
    println!(
        "A client connects and is answered, again and again, while SYNs arrive and for a second after.\n"
    );
    table.print();
    save("syn-flood", &Value::Array(results))
}

fn attack(plan: &Plan, hosts: &TwoHosts, accelerated: bool, syns: u32) -> Result<Outcome> {
    let address = format!("{}:7000", hosts.right.address);
    let mut server = plan.endpoint(&hosts.right, accelerated)?.words(&format!("echo {address} 1")).start()?;
    server.wait_for_output("ready", Duration::from_secs(10))?;
    let client = |words: &str| Ok(plan.endpoint(&hosts.left, false)?.words(words));
    // What the first connection alone takes is not the flood's doing.
    client(&format!("knock {address} 100"))?.run(Duration::from_secs(30))?.success()?;
    let before = resident(&server)?;
    let flood = client(&format!("flood {address} {syns}"))?.start()?;
    let during = client(&format!("knock {address} 1000"))?.run(Duration::from_secs(60))?.success()?;
    let sent = flood.finish(Duration::from_secs(120))?.success()?.stdout;
    let after = client(&format!("knock {address} 1000"))?.run(Duration::from_secs(60))?.success()?;
    let grown = resident(&server)? - before;
    server.kill()?;
    let longest = |said: &str| word_after(said, "longest").map(Duration::from_micros);
    Ok(Outcome {
        sent: sent.split(' ').next().unwrap_or_default().parse().context("SYNs sent")?,
        served: word_after(&during.stdout, "times")? + word_after(&after.stdout, "times")?,
        longest: longest(&during.stdout)?.max(longest(&after.stdout)?),
        grown,
    })
}

/// The number behind `name` in what an endpoint said.
pub(super) fn word_after(said: &str, name: &str) -> Result<u64> {
    let word = said.split_whitespace().skip_while(|word| *word != name).nth(1);
    word.and_then(|word| word.parse().ok())
        .ok_or_else(|| Error::new(format!("no number after {name} in {said:?}")))
}

/// VmRSS, KiB.
fn resident(server: &Running) -> Result<i64> {
    let path = format!("/proc/{}/status", server.pid());
    let status = std::fs::read_to_string(&path).context(&path)?;
    word_after(&status, "VmRSS:").map(|kib| kib as i64)
}

fn as_json(name: &str, outcome: &Outcome) -> Value {
    json!({
        "server": name, "syns": outcome.sent, "served": outcome.served,
        "longest_us": outcome.longest.as_micros() as u64, "grown_kib": outcome.grown,
    })
}
