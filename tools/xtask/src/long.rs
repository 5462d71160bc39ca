//! `cargo x test --long`: programs that wait in every way there is, again and again, both ends accelerated and each
//! alone. Whoever hangs is ended by its deadline, and fails; the table counts. Then 10 000 rounds of a test of which
//! `cargo x test` has some.

use std::process::ExitCode;

use rig::apps::{App, Ends};
use rig::{Context, Error, Options, Result};

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

/// A test (its name is that of its file), what says how many rounds it has, and so many.
const ROUNDS: (&str, &str, &str) = ("sdp_killed", "SIDESTEP_KILLED_ROUNDS", "10000");

/// Client, server accelerated.
const WAYS: [(bool, bool); 3] = [(true, true), (true, false), (false, true)];

/// Runs each program `runs` times in each way; those whose name contains `filter`.
pub(crate) fn run(runs: u32, filter: Option<&str>) -> Result<ExitCode> {
    build::require_namespaces()?;
    rig::on_signals();
    let library = build::library(None)?;
    let chosen = PROGRAMS.iter().filter(|name| name.contains(filter.unwrap_or_default()));
    let apps: Vec<&App> = chosen.filter_map(|name| App::by_name(name)).collect();
    let kills = ROUNDS.0.contains(filter.unwrap_or_default());
    if apps.is_empty() && !kills {
        return Err(Error::new(format!("no such program; there are {} {}", PROGRAMS.join(" "), ROUNDS.0)));
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
            let ends = Ends {
                library: &library,
                client,
                server,
                strict: app.bypasses,
                environment: &[],
                everywhere: &[],
            };
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
    if kills {
        failures.extend(in_rounds().err().map(|error| error.to_string()));
    }
    table.print();
    failures.iter().for_each(|failure| println!("\nFAILED {failure}"));
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The test of [`ROUNDS`], which says itself what it found.
fn in_rounds() -> Result<()> {
    let (test, variable, rounds) = ROUNDS;
    build::run_cargo("build --quiet --release -p libsdp")?;
    let mut command = build::cargo();
    command.args(["test", "-p", "tests", "--test", test, "--", "--nocapture"]).env(variable, rounds);
    let status = command.status().context("cargo test")?;
    if status.success() { Ok(()) } else { Err(Error::new(format!("{test}, {rounds} rounds: {status}"))) }
}
