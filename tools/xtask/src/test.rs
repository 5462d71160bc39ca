//! `cargo x test`: unit tests of the workspace, hostile input, faults that are planted in the engine, then whole
//! products between namespaces; one summary. `--inert` asks instead whether the last would notice a library that does
//! nothing.
//!
//! What failed runs once more when everything else is done. What passes then, on a machine that is otherwise idle, is
//! called unsteady, by name: it fails the run only with `--steady`.
//!
//! The last line is `N passed, N failed, N skipped`, on a line of its own.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use rig::{Context, Package, Result};

use crate::arguments::Arguments;
use crate::{build, demo, guests, inert, long};

mod tally;
mod watch;

use tally::Follow;
pub(crate) use tally::Tally;
use watch::Said;

/// Debian programs that the tests run, beside the tools of [`rig::TOOLS`] and what the programs of [`rig::apps`]
/// install.
const PACKAGES: [Package; 9] = [
    demo::SOCKPERF,
    Package { program: "redis-server", package: "redis-server" },
    Package { program: "redis-benchmark", package: "redis-tools" },
    Package { program: "iperf3", package: "iperf3" },
    Package { program: "curl", package: "curl" },
    Package { program: "openssl", package: "openssl" },
    Package { program: "cc", package: "gcc" },
    Package { program: "/usr/bin/python3", package: "python3" },
    Package { program: "/usr/sbin/nginx", package: "nginx-light" },
];

/// Title, words for `cargo test`, words for the test programs.
type Suite = (&'static str, &'static str, &'static str);

const SUITES: [Suite; 5] = [
    ("unit tests", "--workspace --exclude tests", ""),
    // Outside of the workspace: the corpora, and fixed mutations of them.
    ("hostile input", "--manifest-path fuzz/Cargo.toml --target-dir target/fuzz", ""),
    // Faults in the engine that somebody must notice, one after the other.
    ("planted faults, simulator", "-p sim --profile sim --features mutations --test mutations", ""),
    (
        "planted faults, hostile input",
        "--manifest-path fuzz/Cargo.toml --target-dir target/fuzz --features planted --test planted",
        "",
    ),
    // One at a time: most of these spin on both CPUs.
    ("whole products", "-p tests", "--test-threads=1"),
];

/// Nothing spins under a library that does nothing; most of these wait for what does not come.
const INERT_SUITES: [Suite; 1] = [("whole products", "-p tests", "--test-threads=4")];

/// Test binaries that run longer are named at the end: whoever shortens the tests begins with them.
const SLOW: Duration = Duration::from_secs(30);

pub(crate) fn run(words: &[String]) -> Result<ExitCode> {
    let mut arguments = Arguments::new(words);
    let verbose = arguments.flag("--verbose");
    let steady = arguments.flag("--steady");
    let is_inert = arguments.flag("--inert");
    let (guests, short) = (arguments.flag("--guests"), arguments.flag("--short"));
    let (is_long, runs) = (arguments.flag("--long"), arguments.number("--runs", 10)?);
    let filter = arguments.word();
    arguments.end()?;
    if guests {
        return guests::run(short, filter.as_deref());
    }
    if is_long {
        return long::run(runs, filter.as_deref());
    }
    std::fs::create_dir_all(build::target()).context("target")?;
    let log_path = build::target().join(if is_inert { "x-test-inert.log" } else { "x-test.log" });
    let skipped_path = build::target().join("x-test.skipped");
    let _ = std::fs::remove_file(&skipped_path);
    let log = File::create(&log_path).context(log_path.display())?;

    let wanted: Vec<Package> = rig::TOOLS.into_iter().chain(PACKAGES).collect();
    if let Err(missing) = rig::install(&wanted) {
        eprintln!("{missing}");
    }
    let library = if is_inert { inert::library()? } else { build::library(None)? };
    if !is_inert {
        build::run_cargo("build --quiet --release -p libsdp -p sockperf")?;
    }
    // Cargo does not build a cdylib for its own crate's tests.
    build::run_cargo("build --quiet -p preload")?;
    let mut runner = Runner { tally: Tally::default(), log, verbose };
    let suites = if is_inert { &INERT_SUITES[..] } else { &SUITES[..] };
    let cargo_test = |words: &str, for_tests: &mut dyn Iterator<Item = &str>| {
        let mut command = build::cargo();
        command.arg("test").arg("--no-fail-fast").args(words.split_whitespace()).arg("--").args(for_tests);
        command.env(rig::skip::FILE_VARIABLE, &skipped_path).env("SIDESTEP_LIBRARY", &library);
        if is_inert {
            command.env(inert::VARIABLE, "1");
        }
        command
    };
    let mut to_repeat = Vec::new();
    for (title, words, for_tests) in suites {
        println!("== {title}");
        let (begun, passed, before) = (Instant::now(), runner.tally.passed.len(), runner.tally.failed.len());
        let for_tests = for_tests.split_whitespace();
        runner.follow(&mut cargo_test(words, &mut filter.as_deref().into_iter().chain(for_tests)))?;
        let failed = &runner.tally.failed[before..];
        let passed = runner.tally.passed.len() - passed;
        println!("   {passed} passed, {} failed, in {} s", failed.len(), begun.elapsed().as_secs());
        to_repeat.extend(
            failed
                .iter()
                .filter(|full| !is_inert || inert::counts_when_failed(full))
                .map(|full| (*words, full.clone())),
        );
    }
    for (words, full) in &to_repeat {
        println!("== once more: {full}");
        let exactly = ["--exact", test_name(full)];
        runner.repeat(full, &mut cargo_test(words, &mut exactly.into_iter()))?;
    }
    let skipped = skipped(&skipped_path);
    let tally = if is_inert { inert::judged(runner.tally, &skipped) } else { runner.tally };
    Ok(summary(&tally, &skipped, &log_path, steady))
}

/// Where all output goes, and what was found in it.
struct Runner {
    tally: Tally,
    log: File,
    verbose: bool,
}

impl Runner {
    /// Runs cargo test, counting as it goes.
    fn follow(&mut self, command: &mut Command) -> Result<()> {
        let mut follow = Follow::new(self.verbose);
        let (status, left) = watch::follow(command, watch::STANDSTILL, |said| match said {
            Said::Line(line) => {
                let _ = writeln!(self.log, "{line}");
                follow.line(line, &mut self.tally);
            }
            Said::StandsStill { after, who } => {
                println!("nothing was printed for minutes after {after:?}; these run, and are ended:");
                for one in who {
                    println!("  {one}");
                }
                follow.stands_still(after, &mut self.tally);
            }
        })?;
        follow.binary_ends(&mut self.tally);
        self.tally.left.extend(left.iter().map(ToString::to_string));
        if !status.success() && self.tally.failed.is_empty() && self.tally.broken.is_empty() {
            self.tally.broken.push(format!("cargo test: {status}"));
        }
        Ok(())
    }

    /// Runs again what failed as `full`, in the same binary of `command`'s: all that passes makes it unsteady.
    fn repeat(&mut self, full: &str, command: &mut Command) -> Result<()> {
        let first = std::mem::take(&mut self.tally);
        self.follow(command)?;
        let again = std::mem::replace(&mut self.tally, first);
        self.tally.settle(full, &again);
        Ok(())
    }
}

/// The test's own name in what [`Tally`] calls it.
pub(crate) fn test_name(full: &str) -> &str {
    full.rsplit(": ").next().unwrap_or(full)
}

/// Lines `test<TAB>reason` that tests left when they could not run here.
fn skipped(path: &std::path::Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    distinct(text.lines())
}

/// A test may say it more than once.
fn distinct<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut known = std::collections::BTreeSet::new();
    lines.filter(|line| known.insert(*line)).map(str::to_owned).collect()
}

/// How many tests such lines are of.
fn tests_in(lines: &[String]) -> usize {
    lines.iter().filter_map(|line| line.split('\t').next()).collect::<std::collections::BTreeSet<_>>().len()
}

fn summary(tally: &Tally, skipped: &[String], log: &std::path::Path, steady: bool) -> ExitCode {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
    println!("\nall output: {}", log.display());
    let mut times: Vec<_> = tally.times.iter().filter(|(time, _)| *time >= SLOW).collect();
    times.sort_by(|one, other| other.cmp(one));
    for (time, binary) in times {
        println!("slow     {binary}: {} s", time.as_secs());
    }
    let all_skipped: Vec<&String> = skipped.iter().chain(&tally.ignored).collect();
    for line in &all_skipped {
        println!("skipped  {}", line.replace('\t', ": "));
    }
    for line in &tally.unsteady {
        println!("UNSTEADY {line}: failed, then passed by itself");
    }
    for line in &tally.left {
        println!("LEFT     {line}: a test left it running");
    }
    for line in tally.failed.iter().chain(&tally.broken) {
        println!("FAILED   {line}");
    }
    // A test that skipped itself returned like one that passed.
    let passed = tally.passed.len().saturating_sub(tests_in(skipped));
    let failed = tally.failed.len() + tally.broken.len();
    println!("{passed} passed, {failed} failed, {} skipped", tests_in(skipped) + tally.ignored.len());
    let good = failed == 0 && (tally.unsteady.is_empty() || !steady);
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_skips_twice_is_one() {
        let lines = distinct("a\tno root\na\tno root\na\tno openssl\nb\tno root".lines());
        assert_eq!(lines, ["a\tno root", "a\tno openssl", "b\tno root"]);
        assert_eq!(tests_in(&lines), 2);
    }
}
