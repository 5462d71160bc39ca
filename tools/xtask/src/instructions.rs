//! `cargo x bench instructions`: what a packet costs in the engine, in instructions, which no busy neighbour on this
//! machine can move. callgrind counts; the counts of the last release are committed beside, and what may have grown
//! since, with the reason. A new release has nothing accepted yet.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use rig::{Context, Error, Package, Result};
use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::build;
use crate::table::{Table, thousands};

const VALGRIND: Package = Package { program: "valgrind", package: "valgrind" };
const PATHS: [&str; 4] = ["udp-receive", "udp-send", "tcp-receive", "tcp-send"];
const SIZES: [u32; 2] = [64, 1448];
/// Enough that what happens once in a while (a delayed acknowledgment, a measured round trip) has its share.
const PACKETS: u32 = 2000;
/// Percent that a count may grow by with `--check`: the allocator and memcpy differ that much between systems.
const TOLERANCE: u32 = 3;

pub(crate) fn run(words: &[String]) -> Result<ExitCode> {
    let mut arguments = Arguments::new(words);
    let (check, save) = (arguments.flag("--check"), arguments.flag("--save"));
    let tolerance = arguments.number("--tolerance", TOLERANCE)?;
    arguments.end()?;
    rig::install(&[VALGRIND])?;
    let binary = binary()?;
    let release = Counts::committed()?;
    let mut table = Table::new(&["path", "bytes", "instructions", "release", "change"]);
    let (mut now, mut grown) = (Counts::default(), Vec::new());
    for path in PATHS {
        for size in SIZES {
            let name = format!("{path}-{size}");
            let count = count(&binary, path, size)?;
            let before = release.of(&name);
            let change = before.map(|before| percent(before, count));
            let limit = release.accepted(&name).or(before);
            if limit.is_some_and(|limit| percent(limit, count) > f64::from(tolerance)) {
                grown.push(name.clone());
            }
            table.row(vec![
                path.replace('-', " "),
                size.to_string(),
                thousands(count),
                before.map_or("-".to_owned(), thousands),
                change.map_or("-".to_owned(), |change| format!("{change:+.1} %")),
            ]);
            now.0.insert(name, json!(count));
        }
    }
    table.print();
    println!(
        "\ninstructions for each packet, through the engine alone: receiving is from the frame to the application's\n\
         buffer, with the acknowledgments that it sends; sending is from the buffer to the frame, with an\n\
         acknowledgment received for every second segment"
    );
    if save {
        now.commit()?;
    }
    if check && !grown.is_empty() {
        println!(
            "\nmore than {tolerance} % above the release, or what was accepted since: {}",
            grown.join(", ")
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn binary() -> Result<PathBuf> {
    build::run_cargo("build --quiet --release -p stack --features testing --example instructions")?;
    Ok(build::target().join("release/examples/instructions"))
}

/// Instructions for one packet.
fn count(binary: &Path, path: &str, size: u32) -> Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*measured*", "--callgrind-out-file=/dev/null"])
        .arg(binary)
        .args([path, &size.to_string(), &PACKETS.to_string()])
        .output()
        .context("valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    match collected(&said).filter(|_| output.status.success()) {
        Some(all) if all > 0 => Ok(all / u64::from(PACKETS)),
        _ => Err(Error::new(format!("callgrind counted nothing for {path} {size}:\n{said}"))),
    }
}

/// The total that callgrind prints at its end.
fn collected(said: &str) -> Option<u64> {
    let (_, rest) = said.split_once("Collected :")?;
    rest.split_whitespace().next()?.parse().ok()
}

fn percent(before: u64, now: u64) -> f64 {
    (now as f64 / before.max(1) as f64 - 1.0) * 100.0
}

/// Counts by path and size, and those that were accepted since, each with its reason.
#[derive(Default)]
struct Counts(Map<String, Value>, Map<String, Value>);

impl Counts {
    fn path() -> PathBuf {
        build::root().join("tests/perf/instructions.json")
    }

    /// Those of the last release; empty if there are none.
    fn committed() -> Result<Counts> {
        let path = Counts::path();
        let Ok(text) = std::fs::read_to_string(&path) else { return Ok(Counts::default()) };
        let value: Value = serde_json::from_str(&text).context(path.display())?;
        let part = |name| value.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
        Ok(Counts(part("instructions"), part("accepted")))
    }

    fn of(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    fn accepted(&self, name: &str) -> Option<u64> {
        self.1.get(name)?.get("instructions")?.as_u64()
    }

    fn commit(&self) -> Result<()> {
        let path = Counts::path();
        let version = Command::new("rustc").arg("--version").output().context("rustc")?;
        let value = json!({
            "release": env!("CARGO_PKG_VERSION"),
            "compiler": String::from_utf8_lossy(&version.stdout).trim(),
            "instructions": self.0,
        });
        std::fs::create_dir_all(path.parent().unwrap_or(&path)).context(path.display())?;
        std::fs::write(&path, format!("{value:#}\n")).context(path.display())?;
        println!("\n{}", path.display());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_from_what_callgrind_says() {
        assert_eq!(collected("==1== \n==1== Events    : Ir\n==1== Collected : 4500\n"), Some(4500));
        assert_eq!(collected("==1== nothing"), None);
    }

    #[test]
    fn what_was_accepted_has_a_count_and_a_reason() {
        let release = Counts::committed().expect("readable counts");
        for (name, accepted) in &release.1 {
            assert!(release.of(name).is_some() && release.accepted(name) > release.of(name), "{name}");
            assert!(
                accepted.get("reason").and_then(Value::as_str).is_some_and(|reason| reason.len() > 20),
                "{name}"
            );
        }
    }

    #[test]
    fn every_path_has_a_committed_count() {
        let release = Counts::committed().expect("readable counts");
        for path in PATHS {
            for size in SIZES {
                assert!(release.of(&format!("{path}-{size}")).is_some(), "{path} {size}");
            }
        }
    }
}
