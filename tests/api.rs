//! Runs the programs of `api/`: each on the kernel first, which must pass, being the oracle; then with the client, the
//! server and both accelerated. Prints as the standard test harness does, so that one summary counts all.
//!
//! A program has two roles, `client` and `server`, on two hosts; see `api/api.h`. Declared differences stand in
//! `api/differences.toml`, each with its reason: they must fail, and are printed at the end.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use rig::{Error, Host, KernelCounters, Options, Result, TwoHosts};
use tests::{World, compile, folder};

/// The port of the next run, which may use the seven above it as well. Each has its own: what runs before it left in TIME-WAIT
/// in the kernel, and a client whose port happens to be that of such a connection is the kernel's to answer.
static PORT: AtomicU16 = AtomicU16::new(7000);
const PORTS: u16 = 8;
/// The programs end themselves after 20 seconds.
const DEADLINE: Duration = Duration::from_secs(25);

/// Who is accelerated.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Way {
    name: &'static str,
    client: bool,
    server: bool,
}

const ORACLE: Way = Way { name: "kernel", client: false, server: false };
const WAYS: [Way; 3] = [
    Way { name: "accelerated", client: true, server: true },
    Way { name: "accelerated_client", client: true, server: false },
    Way { name: "accelerated_server", client: false, server: true },
];

/// A program that is known to behave differently when accelerated.
struct Difference {
    program: String,
    reason: String,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let filter = words.iter().find(|word| !word.starts_with('-')).cloned().unwrap_or_default();
    let sources = match sources(&filter) {
        Ok(sources) => sources,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let differences = differences();
    println!("\nrunning {} tests", sources.len() * (1 + WAYS.len()));
    let Some(world) = tests::world(&Options::default()) else {
        println!("test programs ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored");
        return ExitCode::SUCCESS;
    };
    let mut report = Report::default();
    for source in &sources {
        all_ways(&world, source, &differences, &mut report);
    }
    drop(world);
    report.print(&differences)
}

/// Outcomes so far.
#[derive(Default)]
struct Report {
    passed: usize,
    failures: Vec<String>,
    differing: Vec<String>,
}

impl Report {
    fn add(&mut self, name: &str, result: Result<()>) {
        match result {
            Ok(()) => {
                self.passed += 1;
                println!("test {name} ... ok");
            }
            Err(error) => {
                self.failures.push(format!("{name}: {error}"));
                println!("test {name} ... FAILED");
            }
        }
    }

    fn print(&self, differences: &[Difference]) -> ExitCode {
        for failure in &self.failures {
            println!("---- {failure}\n");
        }
        for name in &self.differing {
            let program = name.split("::").next().unwrap_or_default();
            let is_it = |one: &&Difference| one.program == program || one.program == *name;
            let reason = differences.iter().find(is_it).map_or("", |one| &one.reason);
            println!("declared difference: {name}: {reason}");
        }
        let outcome = if self.failures.is_empty() { "ok" } else { "FAILED" };
        println!(
            "\ntest result: {outcome}. {} passed; {} failed; 0 ignored",
            self.passed,
            self.failures.len()
        );
        if self.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn sources(filter: &str) -> Result<Vec<PathBuf>> {
    let folder = folder().join("api");
    let entries =
        std::fs::read_dir(&folder).map_err(|error| Error::new(format!("{}: {error}", folder.display())))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let is_wanted =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "c") && stem(path).contains(filter);
    let mut sources: Vec<PathBuf> = paths.filter(is_wanted).collect();
    sources.sort();
    Ok(sources)
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn all_ways(world: &World, source: &Path, differences: &[Difference], report: &mut Report) {
    let program = stem(source);
    let executable = match compile(&format!("api/{program}.c")) {
        Ok(executable) => executable,
        Err(error) => return report.add(&format!("{program}::compile"), Err(error)),
    };
    let oracle = run(world, executable.path(), ORACLE);
    let counted = oracle.as_ref().ok().cloned().unwrap_or_default();
    report.add(&format!("{program}::{}", ORACLE.name), oracle.map(drop));
    for way in WAYS {
        let name = format!("{program}::{}", way.name);
        let result =
            run(world, executable.path(), way).and_then(|seen| went_past_the_kernel(way, &counted, &seen));
        let declared = differences.iter().any(|one| one.program == program || one.program == name);
        match (result, declared) {
            (Err(_), true) => {
                report.differing.push(name.clone());
                report.add(&name, Ok(()));
            }
            (Ok(()), true) => {
                let why =
                    "is declared in api/differences.toml but behaves as on the kernel: delete its entry";
                report.add(&name, Err(Error::new(why)));
            }
            (result, false) => report.add(&name, result),
        }
    }
}

/// Both roles to their end; returns what the kernels of client and server counted.
fn run(world: &World, executable: &Path, way: Way) -> Result<[KernelCounters; 2]> {
    let TwoHosts { left, right, .. } = &world.hosts;
    let before = [left.counters()?, right.counters()?];
    let program = |host: &Host, accelerated: bool, role: &str| {
        let preload = accelerated.then_some(world.library.as_path());
        host.program(executable).any_cpu().argument(role).preload(preload)
    };
    let port = PORT.fetch_add(PORTS, Ordering::Relaxed);
    let words = format!("{} {port} {}", right.address, left.address);
    let mut server = program(right, way.server, "server").words(&words).start()?;
    server.wait_for_output("ready\n", DEADLINE)?;
    let client = program(left, way.client, "client").words(&words).run(DEADLINE)?.success();
    let server = server.finish(DEADLINE).and_then(rig::Finished::success);
    // Both sides' complaints explain a failure.
    if let (Err(client), Err(server)) = (&client, &server) {
        return Err(Error::new(format!("{client}\n{server}")));
    }
    client.and(server)?;
    Ok([left.counters()?.since(&before[0]), right.counters()?.since(&before[1])])
}

/// On an accelerated host the kernel received at most half of what it received in the oracle's run. (What remains is
/// what belongs to the kernel: fragments, refusals, the first packets before a flow is steered.)
fn went_past_the_kernel(way: Way, oracle: &[KernelCounters; 2], seen: &[KernelCounters; 2]) -> Result<()> {
    let received = |counters: &KernelCounters| counters.udp_in() + counters.tcp_in();
    for (side, accelerated, index) in [("client", way.client, 0), ("server", way.server, 1)] {
        let (before, now) = (received(&oracle[index]), received(&seen[index]));
        if accelerated && before >= 4 && now * 2 > before {
            return Err(Error::new(format!(
                "not accelerated: the {side}'s kernel received {now} packets of {before}"
            )));
        }
    }
    Ok(())
}

/// `[[difference]]` tables with `program = "..."` and `reason = "..."`, one per line: all of TOML that is used here.
fn differences() -> Vec<Difference> {
    let text = std::fs::read_to_string(folder().join("api/differences.toml")).unwrap_or_default();
    let value = |line: &str, key: &str| {
        let rest = line.trim().strip_prefix(key)?.trim_start().strip_prefix('=')?.trim();
        Some(rest.trim_matches('"').to_owned())
    };
    let mut differences: Vec<Difference> = Vec::new();
    for line in text.lines() {
        if let Some(program) = value(line, "program") {
            differences.push(Difference { program, reason: String::new() });
        } else if let (Some(reason), Some(last)) = (value(line, "reason"), differences.last_mut()) {
            last.reason = reason;
        }
    }
    differences
}
