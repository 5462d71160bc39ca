//! The order in which a thread takes locks. Debug builds assert it, in others nothing is left of it.
//!
//! A lock with a rank is waited for only by who holds none of its rank or of a higher one. Two threads that each wait
//! for what the other holds would need one that goes down, so there are none. Who does not wait ([`Mutex::try_lock`],
//! or for a limited time) may take any; what it then waits for must be above that, too. Locks without a rank are not
//! looked at.
//!
//! [`Mutex::try_lock`]: crate::Mutex::try_lock

/// The rank of a lock that is not looked at.
pub(crate) const NONE: u8 = 0;

#[cfg(debug_assertions)]
mod held {
    use super::NONE;
    use core::cell::Cell;

    /// Ranks are below this.
    const RANKS: usize = 64;

    thread_local! {
        /// How many locks of each rank the thread holds.
        static HELD: [Cell<u8>; RANKS] = const { [const { Cell::new(0) }; RANKS] };
    }

    /// The calling thread is about to wait for a lock of this rank; `beside`: while it has others of it, all of which
    /// every thread takes in the same order.
    pub(crate) fn waits_for(rank: u8, beside: bool) {
        if rank == NONE {
            return;
        }
        let above = usize::from(rank) + usize::from(beside);
        let held = HELD.with(|held| (above..RANKS).rev().find(|rank| held[*rank].get() > 0));
        assert!(held.is_none(), "a lock of rank {rank} is taken by who holds one of rank {held:?}");
    }

    pub(crate) fn took(rank: u8) {
        HELD.with(|held| held[usize::from(rank)].update(|count| count + 1));
    }

    pub(crate) fn freed(rank: u8) {
        HELD.with(|held| held[usize::from(rank)].update(|count| count.saturating_sub(1)));
    }
}

#[cfg(debug_assertions)]
pub(crate) use held::{freed, took, waits_for};
