//! How long a blocking call polls before it sleeps.
//!
//! VMA_RX_POLL and VMA_SELECT_POLL, where the user set them, are obeyed: -1 polls for ever, a number polls for that
//! long. Where they are left at their defaults the budget adapts: polling that was answered soon goes on, polling that
//! ended in a long sleep shrinks, so that an idle process sleeps and a busy one does not pay for sleeping and waking
//! (5 to 10 microseconds, more than a whole round trip).
//!
//! An adaptive budget does not keep others from the processor: see `sharing.rs`.

pub(crate) mod sharing;

use core::sync::atomic::{AtomicU32, Ordering};
use sharing::Processor;

/// A loop of polling costs about this much; VMA_RX_POLL counts loops.
const LOOP_NS: u64 = 100;

/// Where an adaptive budget starts, and its bounds, nanoseconds.
const START: u32 = 50_000;
const LEAST: u32 = 5_000;
const MOST: u32 = 500_000;

/// The budget of one kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Budget {
    /// As waiting went before; remembered per socket or set.
    Adaptive,
    /// This long, nanoseconds.
    Fixed(u64),
    /// Until ready or interrupted.
    Forever,
}

impl Budget {
    /// From VMA_RX_POLL (loops).
    pub(crate) fn from_loops(loops: i32, is_default: bool) -> Budget {
        match loops {
            ..0 => Budget::Forever,
            _ if is_default => Budget::Adaptive,
            n => Budget::Fixed(n as u64 * LOOP_NS),
        }
    }

    /// From VMA_SELECT_POLL (microseconds).
    pub(crate) fn from_usec(usec: i32, is_default: bool) -> Budget {
        match usec {
            ..0 => Budget::Forever,
            _ if is_default => Budget::Adaptive,
            n => Budget::Fixed(n as u64 * 1000),
        }
    }

    /// Begins to poll.
    #[inline]
    pub(crate) fn begin(self, memory: &AtomicU32, now: u64) -> Spin {
        Spin { until: now.saturating_add(self.span(memory)), shares: self == Budget::Adaptive }
    }

    /// Nanoseconds to poll now.
    pub(crate) fn span(self, memory: &AtomicU32) -> u64 {
        match self {
            Budget::Forever => u64::MAX,
            Budget::Fixed(ns) => ns,
            Budget::Adaptive => match memory.load(Ordering::Relaxed) {
                0 => u64::from(START),
                ns => u64::from(ns),
            },
        }
    }

    /// Learns from a wait that lasted `waited` nanoseconds.
    pub(crate) fn learn(self, memory: &AtomicU32, waited: u64) {
        if self != Budget::Adaptive {
            return;
        }
        let old = self.span(memory) as u32;
        let new = if waited <= u64::from(MOST) {
            old.max((waited as u32).saturating_mul(2)).min(MOST)
        } else {
            (old / 2).max(LEAST)
        };
        if new != old {
            memory.store(new, Ordering::Relaxed);
        }
    }
}

/// Polling under way.
pub(crate) struct Spin {
    until: u64,
    /// VMA's fixed budgets have yields of their own (VMA_RX_POLL_YIELD).
    shares: bool,
}

impl Spin {
    /// Whether to attempt once more, rather than to sleep. Yields the processor where that is due.
    #[inline]
    pub(crate) fn goes_on(&mut self, now: u64) -> bool {
        if now >= self.until {
            return false;
        }
        core::hint::spin_loop();
        if self.shares {
            match sharing::while_polling(now) {
                Processor::Kept => {}
                Processor::Lent(ns) => self.until = self.until.saturating_add(ns),
                Processor::Hogged => return false,
            }
        }
        true
    }

    /// The wait is over, by what was there at once.
    #[inline]
    pub(crate) fn found(&self, now: u64) {
        if self.shares {
            sharing::while_working(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_waits_shrink_the_budget_and_busy_ones_restore_it() {
        let memory = AtomicU32::new(0);
        for _ in 0..10 {
            Budget::Adaptive.learn(&memory, 1_000_000_000);
        }
        assert_eq!(Budget::Adaptive.span(&memory), u64::from(LEAST));
        Budget::Adaptive.learn(&memory, 100_000);
        assert_eq!(Budget::Adaptive.span(&memory), 200_000);
    }

    #[test]
    fn what_the_user_set_is_obeyed() {
        assert_eq!(Budget::from_loops(-1, false), Budget::Forever);
        assert_eq!(Budget::from_usec(50, false), Budget::Fixed(50_000));
        assert_eq!(Budget::from_loops(100_000, true), Budget::Adaptive);
    }
}
