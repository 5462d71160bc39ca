//! `cargo x test --long`: programs that wait in every way there is, again and again, both ends accelerated and each
//! alone. Whoever hangs is ended by its deadline, and fails; the table counts. Then tests of which `cargo x test` has
//! a shorter form: 10 000 rounds, or a connection that moves between the carriers a hundred thousand times.

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

/// Tests (their names are those of their files), what says how long they are, and so long: rounds, MiB.
const TESTS: [(&str, &str, &str); 3] = [
    ("sdp_killed", "SIDESTEP_KILLED_ROUNDS", "10000"),
    ("keeper_killed", "SIDESTEP_KEEPER_ROUNDS", "10000"),
    ("moves", "SIDESTEP_TRANSFER_MIB", "10240"),
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
    let tests = TESTS.iter().filter(|(name, ..)| name.contains(filter.unwrap_or_default()));
    if apps.is_empty() && tests.clone().next().is_none() {
        let names = TESTS.map(|(name, ..)| name).join(" ");
        return Err(Error::new(format!("no such program; there are {} {names}", PROGRAMS.join(" "))));
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
    failures.extend(tests.filter_map(|test| in_full(test).err()).map(|error| error.to_string()));
    table.print();
    failures.iter().for_each(|failure| println!("\nFAILED {failure}"));
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One of [`TESTS`], which says itself what it found.
fn in_full((test, variable, length): &(&str, &str, &str)) -> Result<()> {
    build::run_cargo("build --quiet --release -p libsdp -p preload")?;
    let mut command = build::cargo();
    command.args(["test", "-p", "tests", "--test", test, "--", "--nocapture", "--test-threads", "1"]);
    let status = command.env(variable, length).status().context("cargo test")?;
    if status.success() { Ok(()) } else { Err(Error::new(format!("{test}, {variable}={length}: {status}"))) }
}
