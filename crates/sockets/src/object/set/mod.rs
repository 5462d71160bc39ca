//! An epoll set as this layer sees it: what it holds, what may be ready, who sleeps on it. How waits, changes and forks
//! deal with it is in `wait/epoll/`.

mod bells;
mod item;
mod owed;

pub(crate) use bells::{Awake, Seen};
pub(crate) use item::{Candidate, Item, Items, epoll_bits, revents};
pub(crate) use owed::{One, Owed};

use crate::locks::Rank;
use crate::object::Object;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use libc::c_int;
use stack::Ready;

/// One epoll set. Type-stable like objects: made once, reused, never freed. What a wait needs that is the kernel's own
/// is in one line of the cache (`wait/epoll/straight.rs`).
#[repr(C, align(64))]
pub(crate) struct Set {
    /// The word under which the private set is registered; 0 before.
    pub secret: AtomicU64,
    /// The application's descriptor.
    pub fd: AtomicI32,
    /// Lanes whose descriptors are in the private set.
    pub lanes: AtomicU32,
    /// Threads in the kernel's own wait, begun while none of ours was active in the set.
    pub in_kernel: AtomicU32,
    /// Somebody polls this set through another one: readiness must show in the kernel.
    pub nested: AtomicBool,
    /// Somebody polls this set past every hook: what is in it is the kernel's.
    pub is_unseen: AtomicBool,
    /// There are sets in this one.
    pub has_inner: AtomicBool,
    /// The kernel owes something.
    pub owes: AtomicBool,
    /// In the child of a fork, until it parts from the parent's set (`wait/epoll/fork.rs`): the sockets that it held.
    pub has_held: AtomicBool,
    /// The kernel's set is the parent's.
    pub is_parents: AtomicBool,
    /// Descriptors that name it (dup).
    pub fds: AtomicU32,
    /// The private set and its eventfd, once one of our sockets was active in it.
    pub side: sys::Mutex<Option<Side>>,
    /// The eventfd of `side`; -1 before.
    pub wake: AtomicI32,
    /// Threads asleep in the kernel on this set.
    pub asleep: AtomicU32,
    /// How often the lanes changed by which packets for this set come (wait/moves.rs). Never reset.
    pub moves: AtomicU32,
    /// Sets that this one is in, and those that are in this one.
    pub relations: sys::Mutex<Relations>,
    /// Adaptive spin budget.
    pub spin: AtomicU32,
    /// Waits in a row that found none of ours active.
    pub waits_without: AtomicU32,
    /// There are, or were, descriptors in it of which the kernel alone knows whether they are ready.
    pub has_foreign: AtomicBool,
    /// When the kernel's side was looked at last.
    pub looked: AtomicU64,
    pub items: sys::Mutex<Items>,
    /// Held while an item is brought into another form: what the kernel is told of it has an order.
    pub settling: sys::Mutex<Owed>,
    /// Connections in memory among them.
    pub bells: bells::Bells,
    /// In the child of a fork, until it parts from the parent's set (`wait/epoll/fork.rs`): the sockets that it held.
    pub held: sys::Mutex<Vec<Held>>,
}

#[derive(Default)]
pub(crate) struct Relations {
    pub outer: Vec<&'static Set>,
    pub inner: Vec<&'static Set>,
    /// Eventfds of threads that poll this set's descriptor.
    pub pollers: Vec<i32>,
}

pub(crate) struct Side {
    pub epoll: sys::Fd,
    pub _wake: sys::Fd,
}

/// A socket that a set held when the process was forked.
pub(crate) struct Held {
    pub object: &'static Object,
    pub registered: Registered,
    pub disarmed: bool,
}

/// A descriptor in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registered {
    pub fd: c_int,
    pub events: u32,
    pub data: u64,
}

static FREE: sys::Mutex<Vec<&'static Set>> = Rank::Sets.lock(Vec::new());

/// For a fork: keeps others from taking sets and giving them back.
pub(crate) fn lock_free() -> sys::MutexGuard<'static, Vec<&'static Set>> {
    FREE.lock()
}

impl Set {
    /// A set for a fresh epoll descriptor.
    pub(crate) fn new(fd: i32) -> &'static Set {
        let set = FREE.lock().pop().unwrap_or_else(|| Box::leak(Box::new(Set::blank())));
        set.fd.store(fd, Ordering::Relaxed);
        set.fds.store(1, Ordering::Relaxed);
        set
    }

    fn blank() -> Set {
        Set {
            fd: AtomicI32::new(-1),
            fds: AtomicU32::new(0),
            side: Rank::Side.lock(None),
            wake: AtomicI32::new(-1),
            secret: AtomicU64::new(0),
            lanes: AtomicU32::new(0),
            asleep: AtomicU32::new(0),
            in_kernel: AtomicU32::new(0),
            moves: AtomicU32::new(0),
            nested: AtomicBool::new(false),
            is_unseen: AtomicBool::new(false),
            relations: Rank::Relations.lock(Relations::default()),
            has_inner: AtomicBool::new(false),
            spin: AtomicU32::new(0),
            waits_without: AtomicU32::new(0),
            has_foreign: AtomicBool::new(false),
            looked: AtomicU64::new(0),
            items: Rank::Items.lock(Items::default()),
            settling: Rank::Settling.lock(Owed::default()),
            owes: AtomicBool::new(false),
            bells: bells::Bells::new(),
            held: Rank::Held.lock(Vec::new()),
            has_held: AtomicBool::new(false),
            is_parents: AtomicBool::new(false),
        }
    }

    /// The last descriptor of the set was closed.
    pub(crate) fn release(&'static self) {
        let items = core::mem::take(&mut *self.items.lock());
        for (slot, item) in items.iter() {
            item.object.watch.remove_set(self, slot);
        }
        let relations = core::mem::take(&mut *self.relations.lock());
        for set in relations.inner.into_iter().chain(relations.outer) {
            set.part_from(self);
        }
        self.has_inner.store(false, Ordering::Relaxed);
        self.wake.store(-1, Ordering::Relaxed);
        self.secret.store(0, Ordering::Relaxed);
        self.lanes.store(0, Ordering::Relaxed);
        self.nested.store(false, Ordering::Relaxed);
        self.is_unseen.store(false, Ordering::Relaxed);
        self.spin.store(0, Ordering::Relaxed);
        self.waits_without.store(0, Ordering::Relaxed);
        self.has_foreign.store(false, Ordering::Relaxed);
        self.looked.store(0, Ordering::Relaxed);
        *self.settling.lock() = Owed::default();
        self.owes.store(false, Ordering::Relaxed);
        self.held.lock().clear();
        self.has_held.store(false, Ordering::Relaxed);
        self.is_parents.store(false, Ordering::Relaxed);
        self.bells.clear();
        *self.side.lock() = None;
        FREE.lock().push(self);
    }

    /// This set and `other` have nothing to do with each other any more.
    pub(crate) fn part_from(&self, other: &Set) {
        let mut relations = self.relations.lock();
        relations.inner.retain(|set| !core::ptr::eq(*set, other));
        relations.outer.retain(|set| !core::ptr::eq(*set, other));
    }

    /// Ends the sleep of a thread on the set.
    pub(crate) fn wake(&self) {
        let wake = self.wake.load(Ordering::Acquire);
        if wake >= 0 {
            sys::fd::signal(wake);
        }
    }

    /// A socket of this set had an edge. Called under its lane's lock.
    pub(crate) fn edge(&self, slot: u32, edges: Ready) {
        let queued = {
            let mut items = self.items.lock();
            let queued = items.edge(slot, edges);
            items.is_shown |= queued && self.is_nested();
            queued
        };
        if queued && self.is_waited_for() {
            self.wake();
        }
    }

    /// An item that was ready when it was looked at may be so still.
    pub(crate) fn requeue(&self, slot: u32) {
        let mut items = self.items.lock();
        items.requeue(slot);
        self.show(&mut items);
    }

    /// Somebody looked at all that was queued, or is about to look at the set's descriptor.
    pub(crate) fn look_over(&self) {
        self.show(&mut self.items.lock());
    }

    /// The kernel told of the set's eventfd. It is quiet then, unless the set is watched and something is queued.
    pub(crate) fn heard(&self) {
        let mut items = self.items.lock();
        if self.is_nested() {
            return self.show(&mut items);
        }
        items.is_shown = false;
        sys::fd::clear(self.wake.load(Ordering::Relaxed));
    }

    /// Where another set or poll watches this one, its descriptor is readable as long as something is queued:
    /// who comes from outside finds what nobody has taken, and sleeps where there is nothing. The lock is held
    /// meanwhile, so that no edge's signal is lost.
    fn show(&self, items: &mut Items) {
        let wake = self.wake.load(Ordering::Relaxed);
        if !items.any_queued() {
            items.is_shown = false;
            sys::fd::clear(wake);
        } else if self.is_nested() && !items.is_shown {
            items.is_shown = true;
            sys::fd::signal(wake);
        }
    }

    /// Whether another set or poll watches this one.
    pub(crate) fn is_nested(&self) -> bool {
        self.nested.load(Ordering::Relaxed)
    }

    /// Whether threads sleep on the set, or something watches it.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.asleep.load(Ordering::SeqCst) > 0
            || self.in_kernel.load(Ordering::SeqCst) > 0
            || self.nested.load(Ordering::Relaxed)
    }
}
