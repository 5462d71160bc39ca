//! Time: the processor's time-stamp counter read directly, or CLOCK_MONOTONIC.
//!
//! Times are kept in ticks from end to end and turned into microseconds once, with the rate found between the
//! first and the last reading of the run. CLOCK_MONOTONIC_RAW is the reference: nobody slews it. A reading is
//! the tightest of several brackets, so a preemption between the two clocks does not enter it.

use std::time::Duration;

/// Source of ticks. Copied into every loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    tsc: bool,
}

/// The counter and the reference clock at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The tick counter.
    pub ticks: u64,
    /// CLOCK_MONOTONIC_RAW, nanoseconds.
    pub raw_ns: u64,
}

/// Ticks per second between two readings.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Ticks per second.
    pub per_sec: f64,
}

impl Clock {
    /// The counter when it is invariant and allowed, the monotonic clock otherwise.
    pub fn new(no_rdtsc: bool) -> Clock {
        Clock { tsc: !no_rdtsc && invariant_tsc() }
    }

    /// True when ticks are the processor's counter.
    pub fn is_tsc(self) -> bool {
        self.tsc
    }

    /// Now, in ticks.
    #[inline(always)]
    pub fn now(self) -> u64 {
        if self.tsc { counter() } else { nanoseconds(libc::CLOCK_MONOTONIC) }
    }

    /// The tightest of 64 brackets of the reference clock by the counter.
    pub fn reading(self) -> Reading {
        let mut best = Reading { ticks: 0, raw_ns: 0 };
        let mut width = u64::MAX;
        for _ in 0..64 {
            let before = self.now();
            let raw_ns = nanoseconds(libc::CLOCK_MONOTONIC_RAW);
            let after = self.now();
            let bracket = after.wrapping_sub(before);
            if bracket < width {
                width = bracket;
                best = Reading { ticks: before + bracket / 2, raw_ns };
            }
        }
        best
    }

    /// Waits until `since` is old enough to calibrate against, then returns the rate from it to now.
    pub fn rate_since(self, since: Reading) -> Rate {
        let elapsed = nanoseconds(libc::CLOCK_MONOTONIC_RAW).saturating_sub(since.raw_ns);
        let wanted = Duration::from_millis(100);
        if let Some(rest) = wanted.checked_sub(Duration::from_nanos(elapsed)) {
            std::thread::sleep(rest);
        }
        Rate::between(since, self.reading())
    }

    /// Cost of one reading in nanoseconds, for `--debug`.
    pub fn cost_ns(self, rate: Rate) -> f64 {
        let rounds = 10_000;
        let begin = self.now();
        for _ in 0..rounds {
            std::hint::black_box(self.now());
        }
        rate.ns(self.now() - begin) / f64::from(rounds)
    }
}

impl Rate {
    /// The rate that makes the ticks between two readings agree with the reference clock.
    pub fn between(first: Reading, last: Reading) -> Rate {
        let ticks = last.ticks.saturating_sub(first.ticks) as f64;
        let ns = last.raw_ns.saturating_sub(first.raw_ns).max(1) as f64;
        Rate { per_sec: ticks * 1e9 / ns }
    }

    /// Ticks as nanoseconds.
    pub fn ns(self, ticks: u64) -> f64 {
        ticks as f64 * 1e9 / self.per_sec
    }

    /// Ticks as microseconds.
    pub fn us(self, ticks: u64) -> f64 {
        ticks as f64 * 1e6 / self.per_sec
    }

    /// Ticks as seconds.
    pub fn sec(self, ticks: u64) -> f64 {
        ticks as f64 / self.per_sec
    }

    /// Seconds as ticks.
    pub fn ticks(self, seconds: f64) -> u64 {
        (seconds * self.per_sec) as u64
    }

    /// How far `self` is from `other`, in parts per million.
    pub fn ppm_from(self, other: Rate) -> f64 {
        (self.per_sec / other.per_sec - 1.0) * 1e6
    }
}

/// A POSIX clock in nanoseconds.
pub fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec for the call to fill.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; `Clock::new` saw that the counter is invariant.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "x86_64")]
fn invariant_tsc() -> bool {
    use core::arch::x86_64::__cpuid;
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn counter() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC)
}

#[cfg(not(target_arch = "x86_64"))]
fn invariant_tsc() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_between_two_readings_is_ticks_over_reference_time() {
        let first = Reading { ticks: 1_000, raw_ns: 5_000 };
        let last = Reading { ticks: 4_000, raw_ns: 6_000 };
        let rate = Rate::between(first, last);
        assert_eq!(rate.per_sec, 3e9);
        assert_eq!(rate.us(3_000), 1.0);
        assert_eq!(rate.ticks(1.0), 3_000_000_000);
    }

    #[test]
    fn monotonic_clock_counts_nanoseconds() {
        let clock = Clock::new(true);
        assert!(!clock.is_tsc());
        let rate = clock.rate_since(clock.reading());
        // NTP may slew CLOCK_MONOTONIC by at most 500 ppm against the raw clock.
        assert!((rate.per_sec / 1e9 - 1.0).abs() < 1e-3, "{}", rate.per_sec);
    }

    #[test]
    fn ticks_never_go_backwards() {
        let clock = Clock::new(false);
        let mut last = clock.now();
        for _ in 0..1000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
