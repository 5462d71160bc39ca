//! Runs worlds, many at a time, and keeps the first one that fails.

use crate::ledger::Violation;
use crate::plan::{Plan, Scope};
use crate::trace::Trace;
use crate::world::{self, Report};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Runs the world of one seed. A panic of the engine is a violation like any other.
pub fn run_seed(seed: u64, scope: Scope, trace: Trace) -> (Report, Trace) {
    run_plan(|| Plan::from_seed(seed, scope), trace)
}

/// Runs one plan; see `run_seed`.
pub fn run_plan(plan: impl FnOnce() -> Plan, trace: Trace) -> (Report, Trace) {
    match catch_unwind(AssertUnwindSafe(|| world::run(plan(), trace))) {
        Ok(result) => result,
        Err(panic) => {
            let what = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()))
                .unwrap_or_else(|| "?".to_string());
            let violation = Some(Violation { at: 0, host: usize::MAX, what: format!("panic: {what}") });
            (Report { violation, ..Report::default() }, Trace::default())
        }
    }
}

/// What many worlds were like.
#[derive(Default)]
pub struct Sum {
    pub seeds: u64,
    pub frames: u64,
    pub bytes_read: u64,
    pub letters_read: u64,
    pub conversations_done: u64,
    /// Virtual time of all worlds together, s.
    pub virtual_seconds: f64,
    /// Seeds that failed, at most `failures_max`.
    pub failures: Vec<(u64, Violation)>,
}

/// Runs seeds from `first` on, until `end` (exclusive), the time is over or `failures_max` have failed.
pub fn run_many(first: u64, end: u64, time: Option<Duration>, scope: Scope, failures_max: usize) -> Sum {
    let next = AtomicU64::new(first);
    let sum = Mutex::new(Sum::default());
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                loop {
                    if time.is_some_and(|time| began.elapsed() >= time) {
                        return;
                    }
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let (report, _) = run_seed(seed, scope, Trace::default());
                    let mut sum = sum.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    if sum.failures.len() >= failures_max {
                        return;
                    }
                    sum.add(seed, report);
                }
            });
        }
    });
    let mut sum = sum.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    sum.failures.sort_by_key(|(seed, _)| *seed);
    sum
}

impl Sum {
    fn add(&mut self, seed: u64, report: Report) {
        self.seeds += 1;
        self.frames += report.frames;
        self.bytes_read += report.bytes_read;
        self.letters_read += report.letters_read;
        self.conversations_done += report.conversations_done;
        self.virtual_seconds += report.span as f64 / 1e9;
        if let Some(violation) = report.violation {
            self.failures.push((seed, violation));
        }
    }
}
