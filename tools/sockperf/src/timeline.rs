//! Interim values in constant memory: a few hundred intervals however long the run is.

use crate::client::Test;
use crate::settings::Span;

/// Intervals a run is divided into.
const INTERVALS: f64 = 240.0;
/// Shortest interval in seconds.
const SHORTEST_SEC: f64 = 0.02;

/// One interval. Times are ticks from the start of the test.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// End of the interval.
    pub at: u64,
    /// Messages: answers, or sends in throughput.
    pub count: u64,
    /// Mean round trip.
    pub mean: u64,
    /// Longest round trip.
    pub max: u64,
}

/// The open interval and those before.
pub struct Timeline {
    start: u64,
    step: u64,
    next: u64,
    count: u64,
    sum: u64,
    max: u64,
    samples: Vec<Sample>,
}

impl Timeline {
    /// A time line for a test that starts at `start`.
    pub fn new(test: &Test, start: u64) -> Timeline {
        let played = test.s.playback.last().map(|r| r.0);
        let seconds = match test.s.span {
            _ if played.is_some() => played.unwrap_or(1.0),
            Span::Seconds(seconds) => f64::from(seconds) + 0.45,
            Span::Messages(_) => 10.0,
        };
        let step = test.ticks((seconds / INTERVALS).max(SHORTEST_SEC)).max(1);
        Timeline { start, step, next: start + step, count: 0, sum: 0, max: 0, samples: Vec::new() }
    }

    /// One answer at `rx` after `rtt`.
    #[inline]
    pub fn answer(&mut self, rx: u64, rtt: u64) {
        if rx >= self.next {
            self.roll(rx);
        }
        self.count += 1;
        self.sum += rtt;
        self.max = self.max.max(rtt);
    }

    /// `count` sends until `now`.
    #[inline]
    pub fn sends(&mut self, now: u64, count: u64) {
        if now >= self.next {
            self.roll(now);
        }
        self.count += count;
    }

    #[cold]
    fn roll(&mut self, now: u64) {
        let mean = self.sum.checked_div(self.count).unwrap_or(0);
        let sample = Sample { at: self.next - self.start, count: self.count, mean, max: self.max };
        // A run by count has no known end: the list stays bounded and the last sample takes the rest.
        if self.samples.len() < 4 * INTERVALS as usize {
            self.samples.push(sample);
        }
        (self.count, self.sum, self.max) = (0, 0, 0);
        let passed = (now - self.next) / self.step + 1;
        self.next += passed * self.step;
    }

    /// All intervals, the open one included.
    pub fn finish(mut self, now: u64) -> Vec<Sample> {
        if self.count > 0 {
            self.next = now.clamp(self.start, self.next);
            self.roll(now);
        }
        self.samples
    }
}
