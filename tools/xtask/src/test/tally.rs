//! What `cargo test` prints, counted: outcomes by test binary, and how long each binary ran.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

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
    /// Processes that ran on when their tests had ended.
    pub(crate) left: Vec<String>,
    /// How long each test binary ran, its build not counted.
    pub(crate) times: Vec<(Duration, String)>,
}

impl Tally {
    /// What `again` says about the test that failed as `full`.
    pub(super) fn settle(&mut self, full: &str, again: &Tally) {
        let passed = again.passed.iter().any(|name| name == full);
        if passed && again.failed.is_empty() && again.broken.is_empty() {
            self.failed.retain(|name| name != full);
            self.passed.push(full.to_owned());
            self.unsteady.push(full.to_owned());
        }
    }
}

/// Where in cargo's output we are.
#[derive(Default)]
pub(super) struct Follow {
    binary: String,
    binary_failed: bool,
    begun: Option<Instant>,
    /// Tests of this binary that run for more than a minute, as libtest tells.
    long: Vec<String>,
    /// Everything, or only what failed.
    shown: bool,
}

impl Follow {
    pub(super) fn new(shown: bool) -> Follow {
        Follow { shown, ..Follow::default() }
    }

    pub(super) fn line(&mut self, line: &str, tally: &mut Tally) {
        let trimmed = line.trim();
        if let Some(rest) = trimmed.strip_prefix("Running ").or_else(|| trimmed.strip_prefix("Doc-tests ")) {
            self.binary_ends(tally);
            self.binary = rest.split(" (").next().unwrap_or(rest).to_owned();
            self.binary_failed = false;
            self.long.clear();
            self.begun = Some(Instant::now());
            if std::io::stderr().is_terminal() {
                eprint!("\r\x1b[K{}", self.binary);
            }
        } else if let Some(name) = long_line(trimmed) {
            self.long.push(name.to_owned());
        } else if let Some((name, outcome)) = test_line(trimmed) {
            let full = format!("{}: {name}", self.binary);
            self.long.retain(|long| long != name);
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

    /// Nothing was printed for long after `begun`, the beginning of a line: the tests that run have failed.
    pub(super) fn stands_still(&mut self, begun: &str, tally: &mut Tally) {
        let alone = begun.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... "));
        self.long.extend(alone.map(str::to_owned).filter(|name| !self.long.contains(name)));
        let named = self.long.drain(..).map(|name| format!("{}: {name}", self.binary));
        let before = tally.failed.len();
        tally.failed.extend(named);
        if tally.failed.len() == before {
            tally.broken.push(format!("{} stood still", self.binary));
        }
    }

    pub(super) fn binary_ends(&mut self, tally: &mut Tally) {
        if let Some(begun) = self.begun.take() {
            tally.times.push((begun.elapsed(), self.binary.clone()));
        }
    }
}

/// `test name has been running for over 60 seconds`
fn long_line(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" has been running for over 60 seconds")
}

/// `test name ... outcome`
fn test_line(line: &str) -> Option<(&str, &str)> {
    let (name, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    Some((name, outcome.split(',').next().unwrap_or(outcome)))
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
    fn tests_that_stand_still_have_failed() {
        let mut tally = Tally::default();
        let mut follow = Follow::default();
        for line in [
            "     Running unittests src/lib.rs (target/debug/deps/rig-1)",
            "test slow has been running for over 60 seconds",
            "test hangs has been running for over 60 seconds",
            "test slow ... ok",
        ] {
            follow.line(line, &mut tally);
        }
        follow.stands_still("", &mut tally);
        follow.stands_still("test alone ... ", &mut tally);
        assert_eq!(tally.failed, ["unittests src/lib.rs: hangs", "unittests src/lib.rs: alone"]);
        assert!(tally.broken.is_empty());
        follow.stands_still("", &mut tally);
        assert_eq!(tally.broken.len(), 1);
    }

    #[test]
    fn a_crate_that_does_not_compile_is_a_failure() {
        assert_eq!(
            tally(&["error: could not compile `stack` (lib) due to 1 previous error"]).broken.len(),
            1
        );
    }
}
