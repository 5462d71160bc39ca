//! One number of 64 bits. All accesses are relaxed: a counter orders nothing, and a reader may see two counters of one
//! event at different moments.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! cells {
    ($($(#[$doc:meta])* $name:ident),+) => { $(
        $(#[$doc])*
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(AtomicU64);

        impl $name {
            /// A cell with this value.
            pub const fn new(value: u64) -> $name {
                $name(AtomicU64::new(value))
            }

            /// The value now.
            #[inline]
            pub fn value(&self) -> u64 {
                self.0.load(Relaxed)
            }
        }
    )+ };
}

cells! {
    /// Counts events; one writer at a time (the holder of the lane), so no locked instruction.
    Count,
    /// Counts events from any thread.
    Shared,
    /// Something that goes up and down; any thread.
    Level,
    /// The largest value seen; one writer at a time.
    Peak,
    /// A value that describes rather than counts: an address, a state, a number of a thread.
    State
}

impl Count {
    /// One more.
    #[inline]
    pub fn one(&self) {
        self.add(1);
    }

    /// Some more.
    #[inline]
    pub fn add(&self, some: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(some), Relaxed);
    }
}

impl Count {
    /// To the total of a count that is kept elsewhere.
    #[inline]
    pub fn follow(&self, total: u64) {
        self.0.store(total, Relaxed);
    }
}

impl Shared {
    /// One more.
    #[inline]
    pub fn one(&self) {
        self.add(1);
    }

    /// Some more.
    #[inline]
    pub fn add(&self, some: u64) {
        self.0.fetch_add(some, Relaxed);
    }
}

impl Shared {
    /// Some more, without a locked instruction: of two threads at once one may not be counted.
    #[inline]
    pub fn add_loosely(&self, some: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(some), Relaxed);
    }
}

impl Level {
    /// Up.
    #[inline]
    pub fn add(&self, some: u64) {
        self.0.fetch_add(some, Relaxed);
    }

    /// Down.
    #[inline]
    pub fn subtract(&self, some: u64) {
        self.0.fetch_sub(some, Relaxed);
    }

    /// To this value.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
}

impl Peak {
    /// Seen now.
    #[inline]
    pub fn seen(&self, value: u64) {
        if value > self.0.load(Relaxed) {
            self.0.store(value, Relaxed);
        }
    }
}

impl State {
    /// To this value.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
}

impl State {
    /// Takes a cell that is 0 by setting it; false if it was not 0.
    pub(crate) fn claim(&self, value: u64) -> bool {
        self.0.compare_exchange(0, value, Relaxed, Relaxed).is_ok()
    }

    /// Sets a cell that has this value to 0; false if it had another.
    pub(crate) fn give(&self, value: u64) -> bool {
        self.0.compare_exchange(value, 0, Relaxed, Relaxed).is_ok()
    }

    /// Reads and sets to 0 in one.
    pub(crate) fn take(&self) -> u64 {
        self.0.swap(0, Relaxed)
    }
}

/// Sets any cell, for the segment.
pub(crate) trait Cell {
    fn put(&self, value: u64);
}

macro_rules! put {
    ($($name:ident),+) => { $(impl Cell for $name {
        fn put(&self, value: u64) {
            self.0.store(value, Relaxed);
        }
    })+ };
}
put!(Count, Shared, Level, Peak, State);
