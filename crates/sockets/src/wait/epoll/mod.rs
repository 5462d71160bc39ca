//! epoll over our sockets and the kernel's.
//!
//! The application's epoll descriptor is the kernel's. The kernel's own descriptors are registered in it as the
//! application asked; the readiness of our sockets is kept here, O(ready). One private epoll set, nested in the
//! application's under a secret word, holds the AF_XDP sockets and an eventfd, so that one sleep covers everything. It
//! is made when the first of ours becomes active; until then, and again when none has been active for some waits, a
//! wait is the kernel's own, one system call, which that eventfd ends when the moment comes.
//!
//! An item (a socket in a set) is in one of three forms:
//!
//! ```text
//!   form      what the object is                        registered in the kernel
//!   dormant   a candidate without legs (not connected)  as the application asked
//!   merged    UDP or listener with legs                 its shadow, for input only
//!   ours      a TCP stream                              not
//! ```

mod bells;
mod control;
mod fork;
mod item;
mod owed;
mod straight;
mod wait;

use control::Because;

pub(crate) use bells::{drop_bell, look_at};
pub use straight::{InKernel, waited};
pub(crate) use wait::wait;

use crate::answer::{Answer, Stop};
use crate::fd_table;
use crate::lane::Lane;
use crate::locks::Rank;
use crate::object::Object;
use crate::os::Os;
use crate::runtime::{self, Runtime};
use crate::wait::Lanes;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
use item::Items;
use owed::Owed;
use stack::Ready;

/// One epoll set. Type-stable like objects: made once, reused, never freed. What a wait needs that is the kernel's own
/// is in one line of the cache (`straight.rs`).
#[repr(C, align(64))]
pub(crate) struct Set {
    /// The word under which the private set is registered; 0 before.
    secret: AtomicU64,
    /// The application's descriptor.
    pub fd: AtomicI32,
    /// Lanes whose descriptors are in the private set.
    lanes: AtomicU32,
    /// Threads in the kernel's own wait, begun while none of ours was active in the set.
    in_kernel: AtomicU32,
    /// Somebody polls this set through another one: readiness must show in the kernel.
    nested: AtomicBool,
    /// There are sets in this one.
    has_inner: AtomicBool,
    /// The kernel owes something.
    owes: AtomicBool,
    /// In the child of a fork, until it parts from the parent's set (see `fork.rs`): the sockets that it held.
    has_held: AtomicBool,
    /// The kernel's set is the parent's.
    is_parents: AtomicBool,
    /// Descriptors that name it (dup).
    pub fds: AtomicU32,
    /// The private set and its eventfd, once one of our sockets was active in it.
    side: sys::Mutex<Option<Side>>,
    /// The eventfd of `side`; -1 before.
    wake: AtomicI32,
    /// Threads asleep in the kernel on this set.
    asleep: AtomicU32,
    /// How often the lanes changed by which packets for this set come (wait/moves.rs). Never reset.
    pub moves: AtomicU32,
    /// Sets that this one is in, and those that are in this one.
    relations: sys::Mutex<Relations>,
    /// Adaptive spin budget.
    spin: AtomicU32,
    /// Waits in a row that found none of ours active.
    waits_without: AtomicU32,
    /// There are, or were, descriptors in it of which the kernel alone knows whether they are ready.
    has_foreign: AtomicBool,
    /// When the kernel's side was looked at last.
    looked: AtomicU64,
    items: sys::Mutex<Items>,
    /// Held while an item is brought into another form: what the kernel is told of it has an order.
    settling: sys::Mutex<Owed>,
    /// Connections in memory among them.
    bells: bells::Bells,
    /// In the child of a fork, until it parts from the parent's set (see `fork.rs`): the sockets that it held.
    held: sys::Mutex<Vec<fork::Held>>,
}

/// Waits in a row, of all threads, without anything of ours, after which a set is the kernel's again: to let go of
/// lanes and take them back costs a few system calls each.
const WAITS_WITHOUT: u32 = 64;

/// Threads in the kernel's own wait that are woken at once when the set moves; each wakes another one when it leaves.
/// Some of those that are counted may have left by siglongjmp.
const WOKEN_MOST: u32 = 16;

#[derive(Default)]
struct Relations {
    outer: Vec<&'static Set>,
    inner: Vec<&'static Set>,
    /// Eventfds of threads that poll this set's descriptor.
    pollers: Vec<i32>,
}

struct Side {
    epoll: sys::Fd,
    _wake: sys::Fd,
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

    /// What a wait says about the set's sockets: the child of a fork uses them.
    pub(crate) fn before_wait(&'static self, runtime: &'static Runtime) {
        if self.has_held.load(Ordering::Relaxed) {
            self.part(runtime);
        }
    }

    /// Before the set changes: one of ours must not come into a set of the parent.
    pub(crate) fn before_change(&'static self, runtime: &'static Runtime, fd: i32) {
        if self.is_parents.load(Ordering::Relaxed) && fd_table::entry(fd).is_some() {
            self.part(runtime);
        }
    }

    /// Another set, or poll, watches this one: from now on its descriptor is readable only if something in it is ready,
    /// not when packets wait. Those who sleep on it watch the lanes themselves.
    pub(crate) fn mark_nested(&self) {
        if self.nested.swap(true, Ordering::SeqCst) {
            return;
        }
        if let Some(side) = &*self.side.lock() {
            for fd in Lanes(self.lanes.load(Ordering::Acquire)).each().flat_map(|lane| &lane.descriptors) {
                let _ = sys::poll::epoll_control(side.epoll.raw(), libc::EPOLL_CTL_DEL, *fd, 0, 0);
            }
        }
        self.wake();
    }

    /// Whether another set or poll watches this one.
    pub(crate) fn is_nested(&self) -> bool {
        self.nested.load(Ordering::Relaxed)
    }

    /// The lanes that packets for this set come by.
    pub(crate) fn lanes(&self) -> Lanes {
        Lanes(self.lanes.load(Ordering::Acquire))
    }

    /// `inner` was added to this set.
    fn take_in(&'static self, os: &Os, inner: &'static Set) {
        inner.mark_nested();
        inner.relations.lock().outer.push(self);
        self.relations.lock().inner.push(inner);
        self.has_inner.store(true, Ordering::Release);
        for lane in inner.lanes().each() {
            let _ = self.add_lane(os, lane);
        }
    }

    /// This set and `other` have nothing to do with each other any more.
    fn part_from(&self, other: &Set) {
        let mut relations = self.relations.lock();
        relations.inner.retain(|set| !core::ptr::eq(*set, other));
        relations.outer.retain(|set| !core::ptr::eq(*set, other));
    }

    /// Before somebody looks at the descriptors of the sets in this one.
    pub(crate) fn refresh_inner(&self) {
        if self.has_inner.load(Ordering::Acquire) {
            let inner = self.relations.lock().inner.clone();
            inner.into_iter().for_each(Set::refresh);
        }
    }

    /// Before somebody looks at this set's descriptor: what was ready may have been taken without asking the set.
    pub(crate) fn refresh(&self) {
        self.refresh_inner();
        if let Some(runtime) = runtime::get() {
            self.hear_own_bells(runtime);
        }
        self.poll_bells(sys::clock::now());
        let mut budget = self.items.lock().queued();
        loop {
            let candidate = self.items.lock().pop(&mut budget);
            let Some(candidate) = candidate else { break };
            if item::epoll_bits(super::ready(candidate.object), candidate.events) != 0 {
                self.items.lock().requeue(candidate.slot);
                return;
            }
        }
        self.quieten();
    }

    /// Nothing is queued: the descriptor is not readable because of ours. The lock is held meanwhile, so that no edge's
    /// signal is lost.
    fn quieten(&self) {
        let items = self.items.lock();
        if !items.any_queued() {
            sys::fd::clear(self.wake.load(Ordering::Relaxed));
        }
    }

    /// A thread polls the set's descriptor, and wants its eventfd written when the set moves.
    pub(crate) fn add_poller(&self, eventfd: i32) {
        self.relations.lock().pollers.push(eventfd);
    }

    /// It does not any more.
    pub(crate) fn remove_poller(&self, eventfd: i32) {
        let pollers = &mut self.relations.lock().pollers;
        if let Some(at) = pollers.iter().position(|known| *known == eventfd) {
            pollers.swap_remove(at);
        }
    }

    /// Packets for this set come by other lanes than before: all who wait look again from the start. Those in the
    /// kernel's own wait are woken one by a signal.
    fn moved(&self) {
        self.moves.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
        for _ in 0..self.in_kernel.load(Ordering::SeqCst).min(WOKEN_MOST) {
            self.wake();
        }
        for eventfd in &self.relations.lock().pollers {
            sys::fd::signal(*eventfd);
        }
    }

    /// A thread is about to sleep on the set: from now on edges write its eventfd.
    pub(crate) fn falls_asleep(&self) {
        self.asleep.fetch_add(1, Ordering::SeqCst);
    }

    /// It is awake again.
    pub(crate) fn awake(&self) {
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }

    /// A wait is the kernel's own: nothing of ours is active.
    fn is_kernels(&self) -> bool {
        self.secret.load(Ordering::SeqCst) == 0
            || self.lanes.load(Ordering::SeqCst) == 0
                && !self.is_parents.load(Ordering::Relaxed)
                && !self.is_nested()
                && !self.hears_bells()
    }

    /// A wait begins. Where none of ours has been active for some waits, which an exchange of carriers or the next
    /// connection would change, the set lets go of lanes and bells, and is the kernel's.
    fn is_kernels_by_now(&'static self) -> bool {
        if self.is_kernels() {
            return true;
        }
        if self.items.lock().any_active() {
            self.waits_without.store(0, Ordering::Relaxed);
            return false;
        }
        self.waits_without.fetch_add(1, Ordering::Relaxed) >= WAITS_WITHOUT && self.let_go()
    }

    #[cold]
    fn let_go(&'static self) -> bool {
        if self.is_nested()
            || self.has_inner.load(Ordering::Acquire)
            || self.is_parents.load(Ordering::Relaxed)
        {
            return false;
        }
        // Against an item that takes its form, then looks whether its lane is here, or hangs its bell.
        let one_at_a_time = self.settling.lock();
        if self.items.lock().any_active() {
            return false;
        }
        self.bells.clear();
        {
            let side = self.side.lock();
            let lanes = Lanes(self.lanes.swap(0, Ordering::SeqCst));
            for fd in lanes.each().flat_map(|lane| &lane.descriptors) {
                if let Some(side) = &*side {
                    let _ = sys::poll::epoll_control(side.epoll.raw(), libc::EPOLL_CTL_DEL, *fd, 0, 0);
                }
            }
        }
        drop(one_at_a_time);
        self.waits_without.store(0, Ordering::Relaxed);
        self.moved();
        true
    }

    /// The eventfd ended a wait in the kernel. Whoever else waits there is told, if it was meant.
    fn hush(&self) {
        sys::fd::clear(self.wake.load(Ordering::Acquire));
        fence(Ordering::SeqCst);
        if !self.is_kernels() {
            self.wake();
        }
    }

    fn wake(&self) {
        let wake = self.wake.load(Ordering::Acquire);
        if wake >= 0 {
            sys::fd::signal(wake);
        }
    }

    /// A socket of this set had an edge. Called under its lane's lock.
    pub(crate) fn edge(&self, slot: u32, edges: Ready) {
        let queued = self.items.lock().edge(slot, edges);
        if queued && self.is_waited_for() {
            self.wake();
        }
    }

    /// Others that sleep on the set are to look, too.
    fn wake_sleepers(&self) {
        if self.asleep.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
    }

    fn is_waited_for(&self) -> bool {
        self.asleep.load(Ordering::SeqCst) > 0
            || self.in_kernel.load(Ordering::SeqCst) > 0
            || self.nested.load(Ordering::Relaxed)
    }

    /// The set sleeps on this lane too from now on.
    fn add_lane(&self, os: &Os, lane: &'static Lane) -> Answer<()> {
        let bit = 1 << lane.slot;
        if self.lanes.load(Ordering::Acquire) & bit != 0 {
            return Ok(());
        }
        let mut side = self.side.lock();
        if side.is_none() {
            *side = Some(self.open_side(os)?);
        }
        if let Some(side) = side.as_ref().filter(|_| !self.is_nested()) {
            for fd in &lane.descriptors {
                let _ = sys::poll::epoll_control(
                    side.epoll.raw(),
                    libc::EPOLL_CTL_ADD,
                    *fd,
                    libc::EPOLLIN as u32,
                    0,
                );
            }
        }
        self.lanes.fetch_or(bit, Ordering::AcqRel);
        drop(side);
        self.moved();
        let outer = self.relations.lock().outer.clone();
        outer.into_iter().try_for_each(|set| set.add_lane(os, lane))
    }

    fn open_side(&self, os: &Os) -> Answer<Side> {
        let errno = |error| Stop::Errno(error);
        let epoll = sys::poll::epoll().map_err(errno)?;
        let wake = sys::fd::eventfd().map_err(errno)?;
        sys::poll::epoll_control(epoll.raw(), libc::EPOLL_CTL_ADD, wake.raw(), libc::EPOLLIN as u32, 0)
            .map_err(errno)?;
        let mut secret = [0u8; 8];
        let _ = sys::process::random(&mut secret);
        let secret = u64::from_ne_bytes(secret) | 1;
        let set = self.fd.load(Ordering::Relaxed);
        os.epoll_control(set, libc::EPOLL_CTL_ADD, epoll.raw(), libc::EPOLLIN as u32, secret)
            .map_err(errno)?;
        self.secret.store(secret, Ordering::Release);
        self.wake.store(wake.raw(), Ordering::Release);
        Ok(Side { epoll, _wake: wake })
    }
}

/// The kernel's sets let go of a socket that is about to change under them; [`follow`] brings it back in its new form.
pub(crate) fn take_from_kernel(os: &Os, object: &'static Object) {
    for (set, slot) in object.watch.sets() {
        set.take_from_kernel(os, slot);
    }
}

/// An object became active, or goes back to the kernel: every set that holds it follows.
pub(crate) fn follow(os: &Os, object: &'static Object, leaving: Option<()>) {
    let because = if leaving.is_some() { Because::Leaves } else { Because::Changed };
    for (set, slot) in object.watch.sets() {
        let _ = set.reclassify(os, slot, because);
    }
}
