//! The background thread as the rest of the library knows it: whom to wake, and when that must be. What it does is in
//! `worker.rs`.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

/// The one of this process.
pub(crate) static BACKGROUND: Background = Background::new();

/// How long it is not tried again where it could not be started, nanoseconds: each meeting would.
const AGAIN_NS: u64 = 10_000_000_000;

/// See the module's page.
pub(crate) struct Background {
    /// It was started, and did not fail to.
    pub running: AtomicBool,
    /// Its eventfd; -1 before it runs.
    pub wake: AtomicI32,
    /// It is asleep for long and must be woken to hurry.
    pub asleep: AtomicBool,
    /// It is asleep for longer than the progress interval: who sends must wake it.
    pub dozing: AtomicBool,
    /// How often somebody was in a hurry.
    pub hurry: AtomicU32,
    /// It is to end, and its work to wait for another thread.
    pub stopping: AtomicBool,
    /// Its number, as the kernel has it.
    pub tid: AtomicI32,
    /// It could not be started, and is not tried before.
    again_at: AtomicU64,
}

impl Background {
    const fn new() -> Background {
        Background {
            running: AtomicBool::new(false),
            wake: AtomicI32::new(-1),
            asleep: AtomicBool::new(false),
            dozing: AtomicBool::new(false),
            hurry: AtomicU32::new(0),
            stopping: AtomicBool::new(false),
            tid: AtomicI32::new(0),
            again_at: AtomicU64::new(0),
        }
    }

    /// Something cannot wait for the progress interval: it gathers, or a neighbour is awaited.
    #[inline]
    pub(crate) fn hurry(&self) {
        self.hurry.fetch_add(1, Ordering::Relaxed);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel) {
            self.look();
        }
    }

    /// Something was sent: what follows from it cannot wait until the worker has dozed enough.
    #[inline]
    pub(crate) fn rouse(&self) {
        if self.dozing.load(Ordering::Relaxed) && self.dozing.swap(false, Ordering::AcqRel) {
            self.look();
        }
    }

    /// There is something new to look at.
    pub(crate) fn look(&self) {
        if self.is_running() {
            sys::fd::signal(self.descriptor());
        }
    }

    /// Its eventfd, for those who are to wake it; -1: it does not run.
    pub(crate) fn descriptor(&self) -> i32 {
        self.wake.load(Ordering::Acquire)
    }

    /// Whether there is a background thread.
    pub(crate) fn is_running(&self) -> bool {
        self.descriptor() >= 0
    }

    /// Whether the caller is to start it.
    pub(crate) fn is_to_start(&self, now: u64) -> bool {
        now >= self.again_at.load(Ordering::Relaxed) && !self.running.swap(true, Ordering::AcqRel)
    }

    /// It could not be started.
    pub(crate) fn is_not_started(&self, now: u64) {
        self.again_at.store(now + AGAIN_NS, Ordering::Relaxed);
        self.wake.store(-1, Ordering::Release);
        self.running.store(false, Ordering::Release);
    }

    /// In the child of a fork there is none.
    pub(crate) fn after_fork(&self) {
        self.again_at.store(0, Ordering::Relaxed);
        self.stopping.store(false, Ordering::Release);
        self.running.store(false, Ordering::Release);
        self.wake.store(-1, Ordering::Release);
        self.asleep.store(false, Ordering::Release);
        self.dozing.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_started_is_not_tried_again_at_once() {
        let background = Background::new();
        assert!(background.is_to_start(7) && !background.is_to_start(7));
        background.is_not_started(7);
        assert!(!background.is_to_start(7) && !background.is_to_start(6 + AGAIN_NS));
        assert!(background.is_to_start(7 + AGAIN_NS));
    }
}
