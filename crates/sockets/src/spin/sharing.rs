//! Sharing a processor with others that poll.
//!
//! A program over the kernel's sockets leaves the processor each time that it finds nothing. One that polls instead
//! would keep it from a second worker of the same server until the scheduler takes it away, milliseconds later. So a
//! thread yields now and then: after some time of polling, at once where the last yield found somebody who polls too,
//! and now and then also between two waits that found work. Where the other one computes, yielding would give it far
//! more than its share: then the thread sleeps instead of polling, and does not yield for a while.

use core::cell::Cell;

/// A thread that polls yields so soon again where the last yield found somebody. Each that found nobody doubles this.
const SHARED_NS: u64 = 1_000;
/// So often the thread yields that is alone: one round trip of a hundred notices.
const ALONE_NS: u64 = 1_000_000;
/// A thread that always finds work yields after this time, and after that of one that polls.
const WORKED_NS: u64 = 100_000;
/// A yield that nobody took is over sooner.
const TAKEN_NS: u64 = 3_000;
/// A yield that took longer found somebody who computes.
const HOGGED_NS: u64 = 500_000;
/// How long there are no yields then.
const REFRAIN_NS: u64 = 100_000_000;

/// What a thread remembers.
#[derive(Clone, Copy)]
struct Memory {
    /// Between two yields of one that polls, and when it yields next.
    patience: u64,
    polling: u64,
    /// When it yields, if it finds work.
    working: u64,
    /// Somebody computes here: until then it does not yield.
    refrains: u64,
}

thread_local! {
    static MEMORY: Cell<Memory> = const { Cell::new(NEW) };
    /// Yields after which somebody else had the processor.
    static LENT: Cell<u32> = const { Cell::new(0) };
}

/// How often the calling thread has lent its processor to others, in all.
pub(crate) fn lent() -> u32 {
    LENT.get()
}

/// What became of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Processor {
    /// It was kept.
    Kept,
    /// It was others' for so many nanoseconds.
    Lent(u64),
    /// Somebody computes here.
    Hogged,
}

/// The thread found nothing and would poll on.
#[inline]
pub(crate) fn while_polling(now: u64) -> Processor {
    let memory = MEMORY.get();
    if now < memory.polling {
        return Processor::Kept;
    }
    if now < memory.refrains {
        return Processor::Hogged;
    }
    sys::process::yield_now();
    let after = sys::clock::now();
    let (memory, processor) = memory.yielded(now, after);
    MEMORY.set(memory);
    processor
}

/// The thread found work.
#[inline]
pub(crate) fn while_working(now: u64) {
    let memory = MEMORY.get();
    if now >= memory.working && now >= memory.refrains {
        sys::process::yield_now();
        MEMORY.set(memory.yielded(now, sys::clock::now()).0);
    }
}

/// The thread slept.
#[inline]
pub(crate) fn slept(now: u64) {
    let memory = MEMORY.get();
    MEMORY.set(Memory { working: now + WORKED_NS, ..memory });
}

const NEW: Memory = Memory { patience: ALONE_NS, polling: 0, working: 0, refrains: 0 };

impl Memory {
    fn yielded(self, from: u64, to: u64) -> (Memory, Processor) {
        let away = to.saturating_sub(from);
        if away >= TAKEN_NS {
            LENT.set(LENT.get().wrapping_add(1));
        }
        let (patience, refrains, processor) = match away {
            HOGGED_NS.. => (0, to + REFRAIN_NS, Processor::Hogged),
            TAKEN_NS.. => (SHARED_NS, self.refrains, Processor::Lent(away)),
            _ => ((self.patience * 2).clamp(SHARED_NS, ALONE_NS), self.refrains, Processor::Kept),
        };
        let working = to + patience.max(WORKED_NS);
        (Memory { patience, polling: to + patience, working, refrains }, processor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_alone_yields_seldom() {
        let (memory, processor) = NEW.yielded(1_000_000, 1_000_400);
        assert_eq!(processor, Processor::Kept);
        assert_eq!(memory.polling, 1_000_400 + ALONE_NS);
        let (mut memory, mut yields) = (Memory { patience: SHARED_NS, ..NEW }, 0);
        while memory.patience < ALONE_NS {
            memory = memory.yielded(memory.polling, memory.polling + 400).0;
            yields += 1;
        }
        assert_eq!(yields, 10);
    }

    #[test]
    fn two_that_poll_take_turns() {
        let (memory, processor) = NEW.yielded(1_000_000, 1_040_000);
        assert_eq!(processor, Processor::Lent(40_000));
        assert_eq!(memory.polling, 1_040_000 + SHARED_NS);
    }

    #[test]
    fn one_who_computes_is_not_given_more_than_its_share() {
        let (memory, processor) = NEW.yielded(1_000_000, 4_000_000);
        assert_eq!(processor, Processor::Hogged);
        assert!(memory.refrains >= 4_000_000 + REFRAIN_NS);
        MEMORY.set(memory);
        assert_eq!(while_polling(5_000_000), Processor::Hogged);
        while_working(5_000_000);
        assert_eq!(MEMORY.get().working, memory.working);
    }
}
