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
    /// Connections of a client that came before, made and answered meanwhile, and of clients that are new.
    known: Served,
    new: Served,
    /// KiB that the server's memory grew by.
    grown: i64,
}

/// Connections, and the longest that one of them took.
struct Served {
    count: u64,
    longest: Duration,
}

impl Served {
    /// By what `knock` said, once or twice.
    fn read(said: [&str; 2]) -> Result<Served> {
        let mut all = Served { count: 0, longest: Duration::ZERO };
        for said in said {
            all.count += word_after(said, "times")?;
            all.longest = all.longest.max(Duration::from_micros(word_after(said, "longest")?));
        }
        Ok(all)
    }

    fn cell(&self) -> String {
        format!("{:.1} ms of {}", self.longest.as_secs_f64() * 1e3, thousands(self.count))
    }
}

pub(super) fn run(plan: &Plan) -> Result<()> {
    build::release("xtask")?;
    let hosts = rig::two_hosts(&Options::default())?;
    // Answers to the invented sources go back where they came from, and die there.
    hosts.right.namespace.ip(&format!("route add 198.18.0.0/15 via {}", hosts.left.address))?;
    // New clients: every address of this network is the left host's.
    hosts.right.namespace.ip(&format!("route add 10.99.0.0/16 via {}", hosts.left.address))?;
    hosts.left.namespace.ip("route add local 10.99.0.0/16 dev lo")?;
    let syns = if plan.quick { SYNS / 10 } else { SYNS };
    let ways = [("kernel", false), ("accelerated", true)];
    let mut table = Table::new(&["", "SYNs", "known clients wait", "new clients wait", "memory grew"]);
    let mut results = Vec::new();
    for (name, accelerated) in ways {
        let outcome = attack(plan, &hosts, accelerated, syns)?;
        table.row(vec![
            name.to_owned(),
            thousands(outcome.sent),
            outcome.known.cell(),
            outcome.new.cell(),
            format!("{} KiB", outcome.grown),
        ]);
        results.push(as_json(name, &outcome));
    }
    drop(hosts);
    println!(
        "A client that came before, and one that comes from a new address each time, connect and are answered, again\n\
         and again, while SYNs arrive and for a second after: the longest that one of them waited.\n"
    );
    table.print();
    save("syn-flood", &Value::Array(results))
}

fn attack(plan: &Plan, hosts: &TwoHosts, accelerated: bool, syns: u32) -> Result<Outcome> {
    let address = format!("{}:7000", hosts.right.address);
    let mut server = plan.endpoint(&hosts.right, accelerated)?.words(&format!("echo {address} 1")).start()?;
    server.wait_for_output("ready", Duration::from_secs(10))?;
    let client = |words: String| Ok(plan.endpoint(&hosts.left, false)?.words(&words));
    // What the first connection alone takes is not the flood's doing.
    client(format!("knock {address} 100"))?.run(Duration::from_secs(30))?.success()?;
    let before = resident(&server)?;
    let flood = client(format!("flood {address} {syns}"))?.start()?;
    let mut said = [Vec::new(), Vec::new()];
    for _ in ["while they arrive", "after"] {
        let new = client(format!("knock-new {address} 1000"))?.start()?;
        let known = client(format!("knock {address} 1000"))?.run(Duration::from_secs(60))?.success()?;
        said[0].push(known.stdout);
        said[1].push(new.finish(Duration::from_secs(60))?.success()?.stdout);
    }
    let sent = flood.finish(Duration::from_secs(120))?.success()?.stdout;
    let grown = resident(&server)? - before;
    server.kill()?;
    let [known, new] = said.map(|said| Served::read([&said[0], &said[1]]));
    Ok(Outcome {
        sent: sent.split(' ').next().unwrap_or_default().parse().context("SYNs sent")?,
        known: known?,
        new: new?,
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
        "server": name, "syns": outcome.sent, "grown_kib": outcome.grown,
        "served": outcome.known.count, "longest_us": outcome.known.longest.as_micros() as u64,
        "new_served": outcome.new.count, "new_longest_us": outcome.new.longest.as_micros() as u64,
    })
}
