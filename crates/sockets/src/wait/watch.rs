//! Who waits for a socket: sleeping threads, and epoll sets that hold it.
//!
//! A thread that sleeps for a socket may find that another thread's turn already took the packets in: the AF_XDP
//! descriptors it sleeps on are quiet again. So it registers an eventfd here before its last look, and every edge of
//! the socket writes to it.

use super::epoll::Set;
use crate::object::Object;
use core::sync::atomic::{AtomicU32, Ordering};
use stack::Ready;

/// Those who wait for one socket.
pub(crate) struct Watch {
    /// How many, so that the common case of none costs one load.
    count: AtomicU32,
    inner: sys::Mutex<Inner>,
}

struct Inner {
    sleepers: Vec<i32>,
    sets: Vec<(&'static Set, u32)>,
}

impl Watch {
    /// Nobody waits.
    pub(crate) const fn new() -> Watch {
        Watch {
            count: AtomicU32::new(0),
            inner: sys::Mutex::new(Inner { sleepers: Vec::new(), sets: Vec::new() }),
        }
    }

    /// Nobody waits any more.
    pub(crate) fn clear(&self) {
        let mut inner = self.inner.lock();
        inner.sleepers.clear();
        inner.sets.clear();
        self.count.store(0, Ordering::Relaxed);
    }

    /// In the child of a fork: those who wait are threads of the parent.
    pub(crate) fn after_fork(&self, child: &sys::InChild) {
        self.inner.force_unlock(child);
        self.clear();
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.inner.lock();
        change(&mut inner);
        let count = inner.sleepers.len() + inner.sets.len();
        self.count.store(count as u32, Ordering::SeqCst);
    }

    /// A thread goes to sleep and wants its eventfd written.
    pub(crate) fn add_sleeper(&self, eventfd: i32) {
        self.change(|inner| inner.sleepers.push(eventfd));
    }

    /// It is awake again.
    pub(crate) fn remove_sleeper(&self, eventfd: i32) {
        self.change(|inner| {
            if let Some(at) = inner.sleepers.iter().position(|fd| *fd == eventfd) {
                inner.sleepers.swap_remove(at);
            }
        });
    }

    /// An epoll set holds the socket in its item `slot`.
    pub(crate) fn add_set(&self, set: &'static Set, slot: u32) {
        self.change(|inner| {
            // Nearly always the only one.
            inner.sets.reserve_exact(1);
            inner.sets.push((set, slot));
        });
    }

    /// The set let go of it.
    pub(crate) fn remove_set(&self, set: &Set, slot: u32) {
        self.change(|inner| inner.sets.retain(|(known, at)| !(core::ptr::eq(*known, set) && *at == slot)));
    }

    /// The sets that hold the socket.
    pub(crate) fn sets(&self) -> Vec<(&'static Set, u32)> {
        if self.count.load(Ordering::SeqCst) == 0 { Vec::new() } else { self.inner.lock().sets.clone() }
    }

    /// The socket had an edge. Called under its lane's lock.
    #[inline]
    pub(crate) fn edge(&self, object: &Object, edges: Ready) {
        if self.count.load(Ordering::SeqCst) != 0 {
            self.tell(object, edges);
        }
    }

    fn tell(&self, _object: &Object, edges: Ready) {
        let inner = self.inner.lock();
        for eventfd in &inner.sleepers {
            sys::fd::signal(*eventfd);
        }
        for (set, slot) in &inner.sets {
            set.edge(*slot, edges);
        }
    }

    /// Wakes everybody, whatever they wait for: the socket was closed or shut down.
    pub(crate) fn wake_all(&self, object: &Object) {
        let all = Ready::IN | Ready::OUT | Ready::RDHUP | Ready::HUP | Ready::ERR;
        self.edge(object, all);
    }
}
