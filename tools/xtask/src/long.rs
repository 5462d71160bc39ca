//! `cargo x test --long`: programs that wait in every way there is, again and again, both ends accelerated and each
//! alone. Whoever hangs is ended by its deadline, and fails; the table counts.

use std::process::ExitCode;

use rig::apps::{App, Ends};
use rig::{Error, Options, Result};

use crate::build;
use crate::progress::Progress;
use crate::table::Table;

/// Event loops in threads of their own, threads that block, and what has hung before.
const PROGRAMS: [&str; 14] = [
    "tokio-multi",
    "tokio-current",
    "asio",
    "libuv",
    "libevent",
    "libev",
    "grpc",
    "grpc-python",
    "java-loop",
    "sockperf-modes",
    "nuttcp",
    "dnsperf",
    "memcached-threads",
    "redis-50",
];

/// Client, server accelerated.
const WAYS: [(bool, bool); 3] = [(true, true), (true, false), (false, true)];

/// Runs each program `runs` times in each way; those whose name contains `filter`.
pub(crate) fn run(runs: u32, filter: Option<&str>) -> Result<ExitCode> {
    build::require_namespaces()?;
    rig::on_signals();
    let library = build::library(None)?;
    let chosen = PROGRAMS.iter().filter(|name| name.contains(filter.unwrap_or_default()));
    let apps: Vec<&App> = chosen.filter_map(|name| App::by_name(name)).collect();
    if apps.is_empty() {
        return Err(Error::new(format!("no such program; there are {}", PROGRAMS.join(" "))));
    }
    let mut table = Table::new(&["", "both ends", "client", "server"]);
    let mut progress = Progress::new(apps.len() * WAYS.len() * runs as usize);
    let mut failures = Vec::new();
    for app in apps {
        if let Err(missing) = app.install() {
            failures.push(format!("{} is left out: {missing}", app.name));
            continue;
        }
        let mut row = vec![format!("{}: {}", app.name, app.what)];
        for (client, server) in WAYS {
            let ends = Ends { library: &library, client, server, strict: app.bypasses, environment: &[] };
            let mut good = 0;
            for number in 1..=runs {
                progress.step(&format!("{}, {ends}, run {number}", app.name));
                match rig::two_hosts(&Options::default()).and_then(|hosts| app.run(&hosts, ends, 1)) {
                    Ok(_) => good += 1,
                    Err(error) => failures.push(format!("{}, {ends}, run {number}: {error}", app.name)),
                }
            }
            row.push(format!("{good} of {runs}"));
        }
        table.row(row);
    }
    drop(progress);
    table.print();
    failures.iter().for_each(|failure| println!("\nFAILED {failure}"));
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
