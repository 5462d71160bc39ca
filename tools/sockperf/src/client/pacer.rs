//! The schedule of a paced run. Waiting is spinning: sleeping would add the kernel's wake-up to the latency.

use crate::client::Test;
use crate::client::outbox::Outbox;
use crate::clock::Clock;
use crate::extra_api;
use crate::settings::Pace;
use crate::signals;

/// Cycle times: the next is a fixed step behind the last, whatever happened in between.
pub struct Pacer {
    clock: Clock,
    step: f64,
    start: u64,
    cycles: u64,
    dummy_step: u64,
    late_limit: u64,
    /// Cycles that began more than 50 microseconds late.
    pub late: u64,
}

impl Pacer {
    /// A schedule that begins at `start`. A rate of zero steps is no schedule.
    pub fn new(test: &Test, start: u64) -> Pacer {
        let step = match test.s.pace {
            Pace::Max => 0.0,
            Pace::PerSecond(rate) => test.rate.per_sec * f64::from(test.s.burst) / f64::from(rate),
        };
        // On a plain kernel a dummy would really leave.
        let dummy_send = test.s.dummy_send.filter(|_| extra_api::is_present());
        let dummy_step = match dummy_send {
            None => 0,
            Some(Pace::Max) => 1,
            Some(Pace::PerSecond(rate)) => (test.rate.per_sec / f64::from(rate)) as u64,
        };
        Pacer {
            clock: test.clock,
            step,
            start,
            cycles: 0,
            dummy_step,
            late_limit: test.ticks(50e-6),
            late: 0,
        }
    }

    /// Waits for the next cycle; its scheduled time, or `None` without a schedule.
    #[inline]
    pub fn next(&mut self, outbox: &mut Outbox) -> Option<u64> {
        if self.step == 0.0 {
            return None;
        }
        // From the start each time, so that rounding does not add up over hours.
        let intended = self.start + (self.step * self.cycles as f64) as u64;
        self.cycles += 1;
        self.wait_until(intended, outbox);
        Some(intended)
    }

    /// Spins until `intended`, sending dummies when asked for.
    #[inline]
    pub fn wait_until(&mut self, intended: u64, outbox: &mut Outbox) {
        let mut now = self.clock.now();
        if now > intended + self.late_limit {
            self.late += 1;
        }
        let mut next_dummy = now + self.dummy_step;
        while now < intended && !signals::stopped() {
            if self.dummy_step > 0 && now >= next_dummy && now + self.dummy_step < intended {
                outbox.dummy();
                next_dummy += self.dummy_step;
            }
            std::hint::spin_loop();
            now = self.clock.now();
        }
    }
}
