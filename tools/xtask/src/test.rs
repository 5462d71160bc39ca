//! `cargo x test`: unit tests of the workspace, hostile input, faults that are planted in the engine, then whole
//! products between namespaces; one summary. `--inert` asks instead whether the last would notice a library that does
//! nothing.
//!
//! What failed runs once more when everything else is done. What passes then, on a machine that is otherwise idle, is
//! called unsteady, by name: it fails the run only with `--steady`.
//!
//! The last line is `N passed, N failed, N skipped`, on a line of its own.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rig::{Context, Package, Result};

use crate::arguments::Arguments;
use crate::{build, demo, guests, inert, long};

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

/// Test binaries that run longer are named at the end: whoever shortens the tests begins with them.
const SLOW: Duration = Duration::from_secs(30);

/// What was found in the output so far.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) passed: Vec<String>,
    pub(crate) failed: Vec<String>,
    pub(crate) ignored: Vec<String>,
    /// Failed, and passed when they ran once more.
    pub(crate) unsteady: Vec<String>,
    /// Test binaries that did not build or died.
    pub(crate) broken: Vec<String>,
    /// How long each test binary ran, its build not counted.
    pub(crate) times: Vec<(Duration, String)>,
}

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
    let suites = if is_inert { &SUITES[SUITES.len() - 1..] } else { &SUITES[..] };
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
        let before = runner.tally.failed.len();
        let for_tests = for_tests.split_whitespace();
        runner.follow(&mut cargo_test(words, &mut filter.as_deref().into_iter().chain(for_tests)))?;
        let failed = &runner.tally.failed[before..];
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
        let (reader, writer) = std::io::pipe().context("pipe")?;
        command.stdin(Stdio::null()).stdout(writer.try_clone().context("pipe")?).stderr(writer);
        let mut child = command.spawn().context("cargo test")?;
        // The command holds the pipe's writing ends; without this the reader would never see the end.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut progress = Follow { shown: self.verbose, ..Follow::default() };
        for line in BufReader::new(reader).lines() {
            let line = line.unwrap_or_default();
            let _ = writeln!(self.log, "{line}");
            progress.line(&line, &mut self.tally);
        }
        progress.binary_ends(&mut self.tally);
        let status = child.wait().context("cargo test")?;
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

impl Tally {
    /// What `again` says about the test that failed as `full`.
    fn settle(&mut self, full: &str, again: &Tally) {
        let passed = again.passed.iter().any(|name| name == full);
        if passed && again.failed.is_empty() && again.broken.is_empty() {
            self.failed.retain(|name| name != full);
            self.passed.push(full.to_owned());
            self.unsteady.push(full.to_owned());
        }
    }
}

/// The test's own name in what [`Tally`] calls it.
pub(crate) fn test_name(full: &str) -> &str {
    full.rsplit(": ").next().unwrap_or(full)
}

/// Where in cargo's output we are.
#[derive(Default)]
struct Follow {
    binary: String,
    binary_failed: bool,
    begun: Option<Instant>,
    /// Everything, or only what failed.
    shown: bool,
}

impl Follow {
    fn line(&mut self, line: &str, tally: &mut Tally) {
        let trimmed = line.trim();
        if let Some(rest) = trimmed.strip_prefix("Running ").or_else(|| trimmed.strip_prefix("Doc-tests ")) {
            self.binary_ends(tally);
            self.binary = rest.split(" (").next().unwrap_or(rest).to_owned();
            self.binary_failed = false;
            self.begun = Some(Instant::now());
            if std::io::stderr().is_terminal() {
                eprint!("\r\x1b[K{}", self.binary);
            }
        } else if let Some((name, outcome)) = test_line(trimmed) {
            let full = format!("{}: {name}", self.binary);
            match outcome {
                "ok" => tally.passed.push(full),
                "FAILED" => {
                    self.binary_failed = true;
                    tally.failed.push(full);
                }
                _ => tally.ignored.push(format!("{full}\t{outcome}")),
            }
        } else if trimmed.starts_with("error: could not compile")
            || trimmed.starts_with("process didn't exit successfully") && trimmed.contains("(signal: ")
        {
            tally.broken.push(trimmed.to_owned());
        }
        let compiler_said = line.starts_with("error") || line.starts_with("warning: unused");
        if self.shown || self.binary_failed && !trimmed.ends_with("... ok") || compiler_said {
            println!("{line}");
        }
    }

    fn binary_ends(&mut self, tally: &mut Tally) {
        if let Some(begun) = self.begun.take() {
            tally.times.push((begun.elapsed(), self.binary.clone()));
        }
    }
}

/// `test name ... outcome`
fn test_line(line: &str) -> Option<(&str, &str)> {
    let (name, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    Some((name, outcome.split(',').next().unwrap_or(outcome)))
}

/// Lines `test<TAB>reason` that tests left when they could not run here.
fn skipped(path: &std::path::Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
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
    for line in tally.failed.iter().chain(&tally.broken) {
        println!("FAILED   {line}");
    }
    // A test that skipped itself returned like one that passed.
    let passed = tally.passed.len().saturating_sub(skipped.len());
    let failed = tally.failed.len() + tally.broken.len();
    println!("{passed} passed, {failed} failed, {} skipped", all_skipped.len());
    let good = failed == 0 && (tally.unsteady.is_empty() || !steady);
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(lines: &[&str]) -> Tally {
        let mut tally = Tally::default();
        let mut follow = Follow::default();
        for line in lines {
            follow.line(line, &mut tally);
        }
        tally
    }

    #[test]
    fn outcomes_are_counted_by_binary() {
        let tally = tally(&[
            "     Running unittests src/lib.rs (target/debug/deps/rig-1)",
            "test a::b ... ok",
            "test c ... FAILED",
            "test d ... ignored, needs a NIC",
            "test result: FAILED. 1 passed; 1 failed; 1 ignored",
        ]);
        assert_eq!(tally.passed, ["unittests src/lib.rs: a::b"]);
        assert_eq!(tally.failed, ["unittests src/lib.rs: c"]);
        assert_eq!(tally.ignored.len(), 1);
    }

    #[test]
    fn what_fails_once_is_unsteady_and_what_fails_again_has_failed() {
        let of = |line| tally(&["     Running unittests src/lib.rs (target/debug/deps/rig-1)", line]);
        let full = "unittests src/lib.rs: a::b";
        let mut passes = of("test a::b ... FAILED");
        passes.settle(full, &of("test a::b ... ok"));
        assert_eq!(
            (passes.failed.len(), passes.passed.len(), passes.unsteady.as_slice()),
            (0, 1, &[full.to_owned()][..])
        );
        let mut fails = of("test a::b ... FAILED");
        fails.settle(full, &of("test a::b ... FAILED"));
        fails.settle(full, &of("test result: ok. 0 passed; 1 filtered out"));
        assert_eq!((fails.failed.len(), fails.unsteady.len()), (1, 0));
    }

    #[test]
    fn a_crate_that_does_not_compile_is_a_failure() {
        assert_eq!(
            tally(&["error: could not compile `stack` (lib) due to 1 previous error"]).broken.len(),
            1
        );
    }
}
