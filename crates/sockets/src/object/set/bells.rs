//! The connections in memory of an epoll set: which of them every wait looks at. What is done with them is in
//! `wait/epoll/bells.rs`.

use crate::locks::Rank;
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::VecDeque;

/// An item that is looked at.
#[derive(Clone, Copy)]
pub(crate) struct Awake {
    pub slot: u32,
    /// Sleeps since something came for it.
    pub quiet: u32,
}

/// Those of a set (`wait/epoll/bells.rs`).
pub(crate) struct Bells {
    pub awake: sys::Mutex<VecDeque<Awake>>,
    /// Those whose peers were told to ring for the last sleep, and may be awake again behind it.
    pub asleep: sys::Mutex<Vec<Awake>>,
    /// Bells that were hung here since the set was the kernel's last.
    pub hung: AtomicU32,
}

impl Bells {
    pub(crate) fn new() -> Bells {
        Bells {
            awake: Rank::Bells.lock(VecDeque::new()),
            asleep: Rank::Asleep.lock(Vec::new()),
            hung: AtomicU32::new(0),
        }
    }

    pub(crate) fn clear(&self) {
        self.awake.lock().clear();
        self.asleep.lock().clear();
        self.hung.store(0, Ordering::Relaxed);
    }

    /// In the child of a fork: there are none.
    pub(crate) fn after_fork(&self, child: &sys::InChild) {
        self.awake.take_over(child);
        self.asleep.take_over(child);
        self.clear();
    }

    pub(crate) fn add(&self, one: Awake) {
        let mut awake = self.awake.lock();
        match awake.iter_mut().find(|known| known.slot == one.slot) {
            Some(known) => known.quiet = known.quiet.min(one.quiet),
            None => awake.push_back(one),
        }
    }

    /// One that is not to be looked at any more, as there are more than `most`.
    pub(crate) fn next_beyond(&self, most: usize) -> Option<Awake> {
        let mut awake = self.awake.lock();
        if awake.len() > most { awake.pop_front() } else { None }
    }

    /// What a look at the item in this slot came to.
    pub(crate) fn note(&self, slot: u32, seen: Seen) {
        let mut awake = self.awake.lock();
        let Some(at) = awake.iter().position(|known| known.slot == slot) else { return };
        match seen {
            Seen::News => awake[at].quiet = 0,
            Seen::Nothing => {}
            Seen::Gone => drop(awake.remove(at)),
        }
    }
}

/// What a look at an item came to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Something came.
    News,
    Nothing,
    /// There is no connection in memory in this slot.
    Gone,
}
