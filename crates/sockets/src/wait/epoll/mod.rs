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
mod owed;
mod straight;
mod wait;

use control::Because;

pub(crate) use crate::object::set::{Set, lock_free};
pub(crate) use bells::{drop_bell, look_at};
pub(crate) use fork::registered;
pub use straight::{InKernel, waited};
pub(crate) use wait::wait;

use crate::answer::{Answer, Stop};
use crate::lane::Lane;
use crate::object::Object;
use crate::object::set::{Side, epoll_bits};
use crate::os::Os;
use crate::runtime::{self};
use crate::wait::Lanes;
use core::sync::atomic::{Ordering, fence};

/// Waits in a row, of all threads, without anything of ours, after which a set is the kernel's again: to let go of
/// lanes and take them back costs a few system calls each.
const WAITS_WITHOUT: u32 = 64;

/// Threads in the kernel's own wait that are woken at once when the set moves; each wakes another one when it leaves.
/// Some of those that are counted may have left by siglongjmp.
const WOKEN_MOST: u32 = 16;

impl Set {
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
            if epoll_bits(super::ready(candidate.object), candidate.events) != 0 {
                return self.requeue(candidate.slot);
            }
        }
        self.look_over();
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
        let is_without_ours = self.secret.load(Ordering::SeqCst) == 0
            || self.lanes.load(Ordering::SeqCst) == 0
                && !self.is_parents.load(Ordering::Relaxed)
                && !self.is_nested()
                && !self.has_bells();
        is_without_ours && !self.has_inner_with_bells()
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

    /// Others that sleep on the set are to look, too.
    fn wake_sleepers(&self) {
        if self.asleep.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
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
