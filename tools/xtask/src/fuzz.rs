//! `cargo x fuzz`: libFuzzer over the targets of fuzz/, on the stable toolchain: the coverage instrumentation is LLVM's
//! own pass, asked for by flags. What was found stays in target/fuzz/TARGET: `corpus` grows from run to run, `finds`
//! holds the inputs that broke something.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use rig::{Context, Error, Result};

use crate::arguments::Arguments;
use crate::build;
use crate::progress::Progress;
use crate::table::{Table, thousands};

/// What `cargo fuzz` would pass, without the sanitizers, which only the nightly compiler has: the code that is
/// attacked is safe Rust, with overflow checks and assertions on.
const RUSTFLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1";

/// Memory that makes a find, MiB: the engine's own bounds are far below.
const RSS_MAX: u32 = 1024;
/// Seconds for one input that make a find; the slowest ordinary one takes some ten milliseconds.
const INPUT_SECONDS_MAX: u32 = 10;
/// As `fuzz::LEN_MAX`.
const LEN_MAX: u32 = 1024;

pub(crate) fn run(words: &[String]) -> Result<ExitCode> {
    let mut arguments = Arguments::new(words);
    let all = arguments.flag("--all");
    let seconds = arguments.number("--seconds", 60)?;
    let chosen = arguments.word();
    arguments.end()?;
    let known = targets()?;
    let chosen = match chosen {
        None if all => known,
        Some(name) if !all && known.contains(&name) => vec![name],
        _ => return Err(Error::new(format!("say --all or one of: {}", known.join(", ")))),
    };
    eprintln!("building the instrumented targets");
    let binary = binary()?;
    let mut table =
        Table::new(&["target", "runs", "runs/s", "coverage", "corpus", "peak MiB", "seconds", "outcome"]);
    let mut finds = Vec::new();
    let mut progress = Progress::new(chosen.len());
    for name in &chosen {
        progress.step(name);
        let (outcome, log) = attack(&binary, name, seconds)?;
        finds.extend(outcome.find.as_ref().map(|find| format!("{name}: {find}\n  log: {}", log.display())));
        table.row(outcome.row(name));
    }
    drop(progress);
    table.print();
    for find in &finds {
        println!("\n{find}");
    }
    if finds.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("\na find becomes a file in fuzz/corpus/TARGET and a named test beside what it broke");
    Ok(ExitCode::FAILURE)
}

/// The targets have their corpora under their names, which a test of the targets checks.
fn targets() -> Result<Vec<String>> {
    let folder = build::root().join("fuzz/corpus");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).context(folder.display())? {
        names.push(entry.context(folder.display())?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn work() -> PathBuf {
    build::target().join("fuzz")
}

fn binary() -> Result<PathBuf> {
    // Named even where it is the host's: flags then spare build scripts and macros.
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let status = build::cargo()
        .args(["build", "--quiet", "--release", "--features", "guided", "--manifest-path", "fuzz/Cargo.toml"])
        .args(["--target", &triple])
        .env("RUSTFLAGS", RUSTFLAGS)
        .env("CARGO_TARGET_DIR", work())
        .status()
        .context("cargo")?;
    if !status.success() {
        return Err(Error::new("the targets do not build (libFuzzer needs a C++ compiler: apt install g++)"));
    }
    Ok(work().join(triple).join("release/fuzz"))
}

/// Runs one target to its end; what it said is in the log.
fn attack(binary: &Path, name: &str, seconds: u32) -> Result<(Outcome, PathBuf)> {
    let place = work().join(name);
    let (corpus, finds) = (place.join("corpus"), place.join("finds"));
    std::fs::create_dir_all(&corpus).context(corpus.display())?;
    std::fs::create_dir_all(&finds).context(finds.display())?;
    let log = place.join("log");
    let file = std::fs::File::create(&log).context(log.display())?;
    let status = Command::new("nice")
        .arg("-n15")
        .arg(binary)
        .args([
            format!("-max_total_time={seconds}"),
            format!("-rss_limit_mb={RSS_MAX}"),
            format!("-timeout={INPUT_SECONDS_MAX}"),
            format!("-max_len={LEN_MAX}"),
            // Long inputs from the start: a short conversation shows little.
            "-len_control=0".to_owned(),
            "-print_final_stats=1".to_owned(),
            format!("-artifact_prefix={}/", finds.display()),
        ])
        .arg(&corpus)
        .arg(build::root().join("fuzz/corpus").join(name))
        .env("FUZZ_TARGET", name)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file)
        .status()
        .context(binary.display())?;
    let text = String::from_utf8_lossy(&std::fs::read(&log).context(log.display())?).into_owned();
    Ok((Outcome::read(&text, status.success()), log))
}

/// What a run amounted to.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    runs: u64,
    seconds: u64,
    coverage: u64,
    corpus: u64,
    peak: u64,
    find: Option<String>,
}

impl Outcome {
    /// Reads libFuzzer's log.
    fn read(log: &str, success: bool) -> Outcome {
        let mut outcome = Outcome::default();
        let mut said = Vec::new();
        for line in log.lines() {
            let after = |mark: &str| line.split_once(mark).and_then(|(_, rest)| first_number(rest));
            if line.starts_with('#') {
                outcome.coverage = after(" cov: ").unwrap_or(outcome.coverage);
                outcome.corpus = after(" corp: ").unwrap_or(outcome.corpus);
            }
            outcome.runs = after("number_of_executed_units:").unwrap_or(outcome.runs);
            outcome.peak = after("peak_rss_mb:").unwrap_or(outcome.peak);
            outcome.seconds = after(" runs in ").unwrap_or(outcome.seconds);
            let telling = ["panicked at", "ERROR: libFuzzer", "Test unit written to"];
            let after_panic = said.last().is_some_and(|last: &&str| last.contains("panicked at"));
            if after_panic || telling.iter().any(|mark| line.contains(mark)) {
                said.push(line);
            }
        }
        if !success {
            outcome.find =
                Some(if said.is_empty() { "ended without a word".to_owned() } else { said.join("\n  ") });
        }
        outcome
    }

    fn row(&self, name: &str) -> Vec<String> {
        vec![
            name.to_owned(),
            thousands(self.runs),
            thousands(self.runs / self.seconds.max(1)),
            thousands(self.coverage),
            thousands(self.corpus),
            self.peak.to_string(),
            self.seconds.to_string(),
            if self.find.is_some() { "FOUND" } else { "ok" }.to_owned(),
        ]
    }
}

fn first_number(text: &str) -> Option<u64> {
    let digits: String = text.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_find_is_read() {
        let log = "#2\tINITED cov: 10 ft: 20 corp: 1/1b\n\
            #8290\tDONE   cov: 871 ft: 2769 corp: 172/1034b lim: 11 exec/s: 637 rss: 29Mb\n\
            Done 8290 runs in 13 second(s)\n\
            stat::number_of_executed_units: 8290\nstat::peak_rss_mb:              29\n";
        let expected = Outcome { runs: 8290, seconds: 13, coverage: 871, corpus: 172, peak: 29, find: None };
        assert_eq!(Outcome::read(log, true), expected);
    }

    #[test]
    fn a_find_says_what_broke_and_where_the_input_is() {
        let log = "thread '<unnamed>' panicked at src/tcp.rs:268:45:\nthe byte read at 3 is wrong\nnote: more\n\
            artifact_prefix='x/'; Test unit written to x/crash-1\n";
        let find = Outcome::read(log, false).find.unwrap_or_default();
        assert!(
            find.contains("the byte read at 3") && find.contains("x/crash-1") && !find.contains("note"),
            "{find}"
        );
    }
}
