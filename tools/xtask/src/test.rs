//! `cargo x test`: unit tests of the workspace, then whole products between namespaces; one summary.
//!
//! The last line is `N passed, N failed, N skipped`, on a line of its own.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::process::{Command, ExitCode, Stdio};

use rig::{Context, Package, Result};

use crate::arguments::Arguments;
use crate::{build, demo};

/// Debian programs that the whole-product tests run.
const PACKAGES: [Package; 10] = [
    demo::SOCKPERF,
    Package { program: "redis-server", package: "redis-server" },
    Package { program: "redis-benchmark", package: "redis-tools" },
    Package { program: "iperf3", package: "iperf3" },
    Package { program: "curl", package: "curl" },
    Package { program: "openssl", package: "openssl" },
    Package { program: "nft", package: "nftables" },
    Package { program: "ethtool", package: "ethtool" },
    Package { program: "cc", package: "gcc" },
    Package { program: "ip", package: "iproute2" },
];

/// What was found in the output so far.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: Vec<String>,
    ignored: Vec<String>,
    /// Test binaries that did not build or died.
    broken: Vec<String>,
}

pub(crate) fn run(words: &[String]) -> Result<ExitCode> {
    let mut arguments = Arguments::new(words);
    let verbose = arguments.flag("--verbose");
    let filter = arguments.word();
    arguments.end()?;
    std::fs::create_dir_all(build::target()).context("target")?;
    let log_path = build::target().join("x-test.log");
    let skipped_path = build::target().join("x-test.skipped");
    let _ = std::fs::remove_file(&skipped_path);
    let mut log = File::create(&log_path).context(log_path.display())?;

    if let Err(missing) = rig::install(&PACKAGES) {
        eprintln!("{missing}");
    }
    let library = build::library(None)?;
    // Cargo does not build a cdylib for its own crate's tests.
    build::run_cargo("build --quiet -p preload")?;
    let mut tally = Tally::default();
    for (title, words, threads) in [
        ("unit tests", "--workspace --exclude tests", None),
        // Outside of the workspace: the corpora, and fixed mutations of them.
        ("hostile input", "--manifest-path fuzz/Cargo.toml --target-dir target/fuzz", None),
        // One at a time: most of these spin on both CPUs.
        ("whole products", "-p tests", Some("--test-threads=1")),
    ] {
        println!("== {title}");
        let mut command = build::cargo();
        command.arg("test").arg("--no-fail-fast").args(words.split_whitespace()).arg("--");
        command.args(&filter).args(threads);
        command.env(rig::skip::FILE_VARIABLE, &skipped_path).env("SIDESTEP_LIBRARY", &library);
        follow(&mut command, &mut tally, &mut log, verbose)?;
    }
    Ok(summary(&tally, &skipped(&skipped_path), &log_path))
}

/// Runs cargo test, counting as it goes.
fn follow(command: &mut Command, tally: &mut Tally, log: &mut File, verbose: bool) -> Result<()> {
    let (reader, writer) = std::io::pipe().context("pipe")?;
    command.stdin(Stdio::null()).stdout(writer.try_clone().context("pipe")?).stderr(writer);
    let mut child = command.spawn().context("cargo test")?;
    // The command holds the pipe's writing ends; without this the reader would never see the end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut progress = Follow { binary: String::new(), binary_failed: false, shown: verbose };
    for line in BufReader::new(reader).lines() {
        let line = line.unwrap_or_default();
        let _ = writeln!(log, "{line}");
        progress.line(&line, tally);
    }
    let status = child.wait().context("cargo test")?;
    if !status.success() && tally.failed.is_empty() && tally.broken.is_empty() {
        tally.broken.push(format!("cargo test: {status}"));
    }
    Ok(())
}

/// Where in cargo's output we are.
struct Follow {
    binary: String,
    binary_failed: bool,
    /// Everything, or only what failed.
    shown: bool,
}

impl Follow {
    fn line(&mut self, line: &str, tally: &mut Tally) {
        let trimmed = line.trim();
        if let Some(rest) = trimmed.strip_prefix("Running ").or_else(|| trimmed.strip_prefix("Doc-tests ")) {
            self.binary = rest.split(" (").next().unwrap_or(rest).to_owned();
            self.binary_failed = false;
            if std::io::stderr().is_terminal() {
                eprint!("\r\x1b[K{}", self.binary);
            }
        } else if let Some((name, outcome)) = test_line(trimmed) {
            let full = format!("{}: {name}", self.binary);
            match outcome {
                "ok" => tally.passed += 1,
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

fn summary(tally: &Tally, skipped: &[String], log: &std::path::Path) -> ExitCode {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
    println!("\nall output: {}", log.display());
    let all_skipped: Vec<&String> = skipped.iter().chain(&tally.ignored).collect();
    for line in &all_skipped {
        println!("skipped  {}", line.replace('\t', ": "));
    }
    for line in tally.failed.iter().chain(&tally.broken) {
        println!("FAILED   {line}");
    }
    // A test that skipped itself returned like one that passed.
    let passed = tally.passed.saturating_sub(skipped.len());
    let failed = tally.failed.len() + tally.broken.len();
    println!("{passed} passed, {failed} failed, {} skipped", all_skipped.len());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(lines: &[&str]) -> Tally {
        let mut tally = Tally::default();
        let mut follow = Follow { binary: String::new(), binary_failed: false, shown: false };
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
        assert_eq!(tally.passed, 1);
        assert_eq!(tally.failed, ["unittests src/lib.rs: c"]);
        assert_eq!(tally.ignored.len(), 1);
    }

    #[test]
    fn a_crate_that_does_not_compile_is_a_failure() {
        assert_eq!(
            tally(&["error: could not compile `stack` (lib) due to 1 previous error"]).broken.len(),
            1
        );
    }
}
