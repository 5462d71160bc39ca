//! The background thread as the rest of the library knows it: whom to wake, and when that must be. What it does is in
//! `worker.rs`.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// The one of this process.
pub(crate) static BACKGROUND: Background = Background {
    running: AtomicBool::new(false),
    wake: AtomicI32::new(-1),
    asleep: AtomicBool::new(false),
    dozing: AtomicBool::new(false),
    hurry: AtomicU32::new(0),
    stopping: AtomicBool::new(false),
    tid: AtomicI32::new(0),
};

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
}

impl Background {
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

    /// In the child of a fork there is none.
    pub(crate) fn after_fork(&self) {
        self.stopping.store(false, Ordering::Release);
        self.running.store(false, Ordering::Release);
        self.wake.store(-1, Ordering::Release);
        self.asleep.store(false, Ordering::Release);
        self.dozing.store(false, Ordering::Release);
    }
}
