//! Plays the scripts of `tests/drill` on Linux and on the engine. Prints as the standard test harness does.
//!
//! `cargo test -p drill --test conformance -- WORD` plays those with the word in their name. A failure shows all that
//! happened until then.

use drill::play::Difference;
use drill::report::{Behaviour, difference_is_stale, on_engine, on_kernel, page, read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Scripts played on the kernel at a time: they mostly wait.
const AT_A_TIME: usize = 12;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let filter = words.iter().find(|word| !word.starts_with('-')).cloned().unwrap_or_default();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let behaviours = match read(&root.join("tests/drill")) {
        Ok(behaviours) => behaviours,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let chosen: Vec<&Behaviour> =
        behaviours.iter().filter(|behaviour| behaviour.name.contains(&filter)).collect();
    println!("\nrunning tests of {} scripts", chosen.len());
    let mut report = Report::default();
    if filter.is_empty() {
        report.add(
            "the_page_of_conformance_is_fresh",
            fresh_page(&root.join("docs/conformance.md"), &page(&behaviours)),
        );
    }
    for behaviour in &chosen {
        report.add(&format!("engine::{}", behaviour.name), engine(behaviour));
    }
    kernel(&chosen, &mut report);
    report.end()
}

#[derive(Default)]
struct Report {
    passed: usize,
    failures: Vec<String>,
}

impl Report {
    fn add(&mut self, name: &str, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => {
                self.passed += 1;
                println!("test {name} ... ok");
            }
            Err(why) => {
                println!("test {name} ... FAILED");
                self.failures.push(format!("---- {name} ----\n{why}"));
            }
        }
    }

    fn end(self) -> ExitCode {
        for failure in &self.failures {
            println!("\n{failure}");
        }
        let (word, code) =
            if self.failures.is_empty() { ("ok", ExitCode::SUCCESS) } else { ("FAILED", ExitCode::FAILURE) };
        println!("\ntest result: {word}. {} passed; {} failed; 0 ignored", self.passed, self.failures.len());
        code
    }
}

fn engine(behaviour: &Behaviour) -> Result<(), String> {
    on_engine(&behaviour.script).map_err(show)?;
    if difference_is_stale(&behaviour.script) {
        return Err("the engine does what the script says of Linux only: nothing differs any more".into());
    }
    Ok(())
}

fn kernel(chosen: &[&Behaviour], report: &mut Report) {
    if !rig::is_root() || !std::path::Path::new("/dev/net/tun").exists() {
        let reason = "not root, or no /dev/net/tun: the scripts were not compared with Linux";
        rig::skip::skipped("linux::all scripts", reason);
        return report.add("linux::all scripts", Ok(()));
    }
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(behaviour) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = on_kernel(&behaviour.script).map_err(show);
                    if let Ok(mut outcomes) = outcomes.lock() {
                        outcomes.push((format!("linux::{}", behaviour.name), outcome));
                    }
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_default();
    outcomes.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, outcome) in outcomes {
        report.add(&name, outcome);
    }
}

fn show(difference: Difference) -> String {
    format!("{}\n{}", difference.what, difference.trace)
}

/// The page is written anew where it is old, and that is a failure once.
fn fresh_page(path: &std::path::Path, page: &str) -> Result<(), String> {
    if std::fs::read_to_string(path).is_ok_and(|old| old == page) {
        return Ok(());
    }
    std::fs::write(path, page).map_err(|error| format!("{}: {error}", path.display()))?;
    Err(format!("{} was old; it is written anew: look at it and commit it", path.display()))
}
