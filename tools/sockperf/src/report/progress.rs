//! Live progress: the `-a`/`-A` marks of the original, and interim rates on standard error.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::clock::{Clock, Rate};
use crate::report::{say, say_part};
use crate::settings::Settings;

/// A counter on a cache line of its own: the hot loop stores, the progress thread looks now and then.
#[repr(align(64))]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Publishes the value.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// Messages sent so far.
pub static SENT: Gauge = Gauge(AtomicU64::new(0));

/// The marks of `-a` and `-A`.
#[derive(Clone)]
pub struct Activity {
    every: u64,
    table: bool,
    left: u64,
    total: u64,
    rows: u64,
    last: u64,
    clock: Clock,
    rate: Rate,
}

impl Activity {
    /// As the options say; without them it never prints.
    pub fn new(s: &Settings, clock: Clock, rate: Rate) -> Activity {
        let (every, table) = s.activity.unwrap_or((u64::MAX, false));
        Activity { every, table, left: every, total: 0, rows: 0, last: clock.now(), clock, rate }
    }

    /// One message more.
    #[inline]
    pub fn one(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            self.mark();
        }
    }

    #[cold]
    fn mark(&mut self) {
        self.left = self.every;
        self.total += self.every;
        if !self.table {
            say_part(".");
            return;
        }
        if self.rows.is_multiple_of(20) {
            say("    -- Interval --     -- Message Rate --  -- Total Message Count --");
        }
        self.rows += 1;
        let now = self.clock.now();
        let us = self.rate.us(now - self.last).max(1e-3);
        self.last = now;
        let rate = self.every as f64 * 1e6 / us;
        say(&format!(" {us:10.0} [usec]    {rate:10.0} [msg/s]    {:13} [msg]", self.total));
    }
}

/// A thread that prints interim rates; it ends when dropped.
pub struct Progress {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts the thread when asked for, or when a person is watching.
    pub fn start(s: &Settings) -> Option<Progress> {
        let every = s.progress.unwrap_or(if std::io::stderr().is_terminal() { 1.0 } else { 0.0 });
        SENT.set(0);
        if every <= 0.0 {
            return None;
        }
        let stopping = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stopping);
        let thread =
            std::thread::Builder::new().name(String::from("progress")).spawn(move || watch(every, &seen));
        Some(Progress { stopping, thread: thread.ok() })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn watch(every: f64, stopping: &AtomicBool) {
    let begin = Instant::now();
    let (mut last_count, mut last_time) = (0, begin);
    loop {
        let wake = last_time + Duration::from_secs_f64(every);
        while Instant::now() < wake {
            if stopping.load(Ordering::Relaxed) {
                return;
            }
            std::thread::park_timeout(wake.saturating_duration_since(Instant::now()));
        }
        let now = Instant::now();
        let count = SENT.0.load(Ordering::Relaxed);
        let rate = count.saturating_sub(last_count) as f64 / now.duration_since(last_time).as_secs_f64();
        let line = format!(
            "sockperf: {:7.1} s  {rate:12.0} msg/s  {count:14} sent\n",
            begin.elapsed().as_secs_f64()
        );
        let _ = std::io::stderr().write_all(line.as_bytes());
        (last_count, last_time) = (count, now);
    }
}
