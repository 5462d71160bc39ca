//! Who waits for a socket: sleeping threads, and epoll sets that hold it.
//!
//! A thread that sleeps for a socket may find that another thread's turn already took the packets in: the AF_XDP
//! descriptors it sleeps on are quiet again. So it registers an eventfd here before its last look, and every edge of
//! the socket writes to it.

use super::set::Set;
use crate::locks::Rank;
use core::sync::atomic::{AtomicU32, Ordering, fence};
use stack::Ready;

/// Those who wait for one socket.
pub(crate) struct Watch {
    /// How many, so that the common case of none costs one load.
    count: AtomicU32,
    inner: sys::Mutex<Inner>,
}

/// Nearly every socket is in one set or in none, and nobody sleeps for one in a set.
#[derive(Default)]
struct Inner {
    set: Option<(&'static Set, u32)>,
    others: Option<Box<Others>>,
}

#[derive(Default)]
struct Others {
    sleepers: Vec<i32>,
    sets: Vec<(&'static Set, u32)>,
}

impl Inner {
    const NOBODY: Inner = Inner { set: None, others: None };

    fn sleepers(&self) -> &[i32] {
        self.others.as_ref().map_or(&[], |others| &others.sleepers)
    }

    fn sets(&self) -> impl Iterator<Item = (&'static Set, u32)> {
        let others = self.others.iter().flat_map(|others| &others.sets);
        self.set.iter().chain(others).copied()
    }

    fn others(&mut self) -> &mut Others {
        self.others.get_or_insert_default()
    }
}

impl Watch {
    /// Nobody waits.
    pub(crate) const fn new() -> Watch {
        Watch { count: AtomicU32::new(0), inner: Rank::Watch.lock(Inner::NOBODY) }
    }

    /// Nobody waits any more.
    pub(crate) fn clear(&self) {
        *self.inner.lock() = Inner::NOBODY;
        self.count.store(0, Ordering::Relaxed);
    }

    /// In the child of a fork: those who wait are threads of the parent.
    pub(crate) fn after_fork(&self, child: &sys::InChild) {
        self.inner.take_over(child);
        self.clear();
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.inner.lock();
        change(&mut inner);
        let count = inner.sleepers().len() + inner.sets().count();
        self.count.store(count as u32, Ordering::SeqCst);
    }

    /// A thread goes to sleep and wants its eventfd written.
    pub(crate) fn add_sleeper(&self, eventfd: i32) {
        self.change(|inner| inner.others().sleepers.push(eventfd));
    }

    /// It is awake again.
    pub(crate) fn remove_sleeper(&self, eventfd: i32) {
        self.change(|inner| {
            if let Some(at) = inner.sleepers().iter().position(|fd| *fd == eventfd) {
                inner.others().sleepers.swap_remove(at);
            }
        });
    }

    /// An epoll set holds the socket in its item `slot`.
    pub(crate) fn add_set(&self, set: &'static Set, slot: u32) {
        self.change(|inner| {
            if inner.set.is_none() {
                inner.set = Some((set, slot));
            } else {
                inner.others().sets.push((set, slot));
            }
        });
    }

    /// The set let go of it.
    pub(crate) fn remove_set(&self, set: &Set, slot: u32) {
        let is_it = |(known, at): &(&'static Set, u32)| core::ptr::eq(*known, set) && *at == slot;
        self.change(|inner| {
            inner.set = inner.set.filter(|one| !is_it(one));
            if let Some(others) = &mut inner.others {
                others.sets.retain(|one| !is_it(one));
            }
        });
    }

    /// The sets that hold the socket.
    pub(crate) fn sets(&self) -> Vec<(&'static Set, u32)> {
        if self.count.load(Ordering::SeqCst) == 0 { Vec::new() } else { self.inner.lock().sets().collect() }
    }

    /// How many wait: threads that sleep for the socket, and sets that hold it.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }

    /// For each set that holds the socket, in its item of this slot. `act` takes no lock of sockets.
    pub(crate) fn each_set(&self, mut act: impl FnMut(&'static Set, u32)) {
        if self.count.load(Ordering::SeqCst) != 0 {
            self.inner.lock().sets().for_each(|(set, slot)| act(set, slot));
        }
    }

    /// The socket had an edge. Called under its lane's lock.
    #[inline]
    pub(crate) fn edge(&self, edges: Ready) {
        if self.count.load(Ordering::SeqCst) != 0 {
            self.tell(edges);
        }
    }

    fn tell(&self, edges: Ready) {
        let inner = self.inner.lock();
        for eventfd in inner.sleepers() {
            sys::fd::signal(*eventfd);
        }
        for (set, slot) in inner.sets() {
            set.edge(slot, edges);
        }
    }

    /// What carries the socket changed: those who sleep for it look again from the start.
    pub(crate) fn wake_sleepers(&self) {
        // Against a sleeper that registers, then looks at the carrier.
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::SeqCst) != 0 {
            for eventfd in self.inner.lock().sleepers() {
                sys::fd::signal(*eventfd);
            }
        }
    }

    /// Wakes everybody, whatever they wait for: the socket was closed or shut down.
    pub(crate) fn wake_all(&self) {
        let all = Ready::IN | Ready::OUT | Ready::RDHUP | Ready::HUP | Ready::ERR;
        self.edge(all);
    }
}
