//! Connections in memory in an epoll set (`crates/sockets/src/memory/`).
//!
//! Those that something came for lately are looked at by every wait: that is a line of memory each. Before a sleep
//! their peers are told to ring, and from then on they are not looked at until the bell, which hangs in the private
//! set, has rung. So many idle connections cost nothing, and busy ones no system call.
//!
//! What must hold: each connection is awake here, or its wish stands in the segment, or its bell is readable. A ring
//! takes the wish away, and any call on the connection, in any thread, may hear it before the set does. So whoever
//! hears one, or wants more than was wished for, tells every set that holds the connection ([`look_at`]). The wish is
//! said again in one place, by who is about to sleep: it tells the peer, looks, and sleeps. Who sleeps already is
//! woken for that.

use super::Set;
use crate::answer::{Answer, Stop};
use crate::memory;
use crate::object::Object;
use crate::os::Os;
use crate::runtime::{self, Runtime};
use core::sync::atomic::{AtomicU32, Ordering, fence};
use std::collections::VecDeque;

/// Connections that are looked at without a bell, at most.
const AWAKE_MAX: usize = 256;
/// Bells that are heard at once.
const RINGS: usize = 64;

/// See the module's page.
pub(super) struct Bells {
    /// Slots of items that are looked at.
    awake: sys::Mutex<VecDeque<u32>>,
    /// Bells that were ever hung here.
    hung: AtomicU32,
}

impl Bells {
    pub(super) fn new() -> Bells {
        Bells { awake: sys::Mutex::new(VecDeque::new()), hung: AtomicU32::new(0) }
    }

    pub(super) fn clear(&self) {
        self.awake.lock().clear();
        self.hung.store(0, Ordering::Relaxed);
    }

    /// In the child of a fork: there are none.
    pub(super) fn after_fork(&self, child: &sys::InChild) {
        self.awake.take_over(child);
        self.clear();
    }

    fn add(&self, slot: u32) {
        let mut awake = self.awake.lock();
        if !awake.contains(&slot) {
            awake.push_back(slot);
        }
    }

    /// One that is not to be looked at any more, as there are more than `most`.
    fn next_beyond(&self, most: usize) -> Option<u32> {
        let mut awake = self.awake.lock();
        if awake.len() > most { awake.pop_front() } else { None }
    }
}

impl Set {
    /// Whether connections in memory are, or were, in this set.
    #[inline]
    pub(super) fn has_bells(&self) -> bool {
        self.bells.hung.load(Ordering::Relaxed) != 0
    }

    /// As [`Set::has_bells`], or in a set within it.
    pub(crate) fn hears_bells(&self) -> bool {
        self.has_bells()
            || self.has_inner.load(Ordering::Acquire)
                && self.relations.lock().inner.clone().into_iter().any(Set::hears_bells)
    }

    /// The item's connection is in memory: its bell ends sleeps on this set.
    pub(super) fn hang_bell(&'static self, os: &Os, slot: u32, object: &'static Object) -> Answer<()> {
        let Some(bell) = memory::is_in(object).then(|| memory::bell(object)).flatten() else { return Ok(()) };
        if self.items.lock().get_mut(slot).is_some_and(|item| item.has_bell) {
            // What is asked for may be another thing: the wish is said anew.
            self.wake_up(slot);
            return Ok(());
        }
        let is_first = {
            let mut side = self.side.lock();
            let is_first = side.is_none();
            let side = match &mut *side {
                Some(side) => side,
                none => none.insert(self.open_side(os)?),
            };
            let data = u64::from(slot) + 1;
            let hang = |operation| {
                sys::poll::epoll_control(side.epoll.raw(), operation, bell, libc::EPOLLIN as u32, data)
            };
            match hang(libc::EPOLL_CTL_ADD) {
                // It hung here before, for another item of the same connection.
                Err(libc::EEXIST) => hang(libc::EPOLL_CTL_MOD),
                hung => hung,
            }
            .map_err(Stop::Errno)?;
            is_first
        };
        if let Some(item) = self.items.lock().get_mut(slot) {
            item.has_bell = true;
        }
        self.wake_up(slot);
        if self.bells.hung.fetch_add(1, Ordering::SeqCst) == 0 || is_first {
            self.moved();
        }
        Ok(())
    }

    /// An item of this connection was removed: its bell is nobody's here, or that of another item of the connection.
    pub(super) fn take_down_bell(&'static self, os: &Os, object: &'static Object) {
        if !self.has_bells() || !memory::is_in(object) {
            return;
        }
        let other = object.watch.sets().into_iter().find(|(set, _)| core::ptr::eq(*set, self));
        if let Some((_, slot)) = other {
            let _ = self.hang_bell(os, slot, object);
        } else if let Some(bell) = memory::bell(object) {
            drop_bell(self, bell);
        }
    }

    /// The item is looked at from now on, until a thread that is about to sleep tells the peer to ring.
    fn wake_up(&self, slot: u32) {
        self.bells.add(slot);
        // Against who counts itself among those who wait, then tells the peers to ring.
        fence(Ordering::SeqCst);
        if self.is_waited_for() {
            self.wake();
        }
    }

    /// The peers of those that are awake, but for the last `most`, are told to ring; then what came meanwhile is an
    /// edge. The bell is not heard here: what it says stays for the sleep, which it ends.
    fn arm_beyond(&self, most: usize) {
        while let Some(slot) = self.bells.next_beyond(most) {
            if let Some(object) = self.object_in(slot) {
                memory::arm(object);
                self.look(slot, memory::UNHEARD);
            }
        }
    }

    fn object_in(&self, slot: u32) -> Option<&'static Object> {
        self.items.lock().get_mut(slot).map(|item| item.object).filter(|object| memory::is_in(object))
    }

    /// True: there is a connection in memory in this slot.
    fn look(&self, slot: u32, now: u64) -> bool {
        match (runtime::get(), self.object_in(slot)) {
            (Some(runtime), Some(object)) => {
                memory::poll(runtime, object, now);
                true
            }
            _ => false,
        }
    }

    /// Looks what came for those that are awake.
    #[inline]
    pub(super) fn poll_bells(&self, now: u64) {
        if self.has_bells() {
            self.poll_awake(now);
        }
    }

    fn poll_awake(&self, now: u64) {
        self.arm_beyond(AWAKE_MAX);
        let mut at = 0;
        loop {
            let Some(slot) = self.bells.awake.lock().get(at).copied() else { return };
            if self.look(slot, now) {
                at += 1;
                continue;
            }
            let mut awake = self.bells.awake.lock();
            if awake.get(at) == Some(&slot) {
                awake.remove(at);
            }
        }
    }

    /// A thread is about to sleep on the set: all peers are told to ring. It looks once more before it sleeps.
    pub(crate) fn arm_bells(&'static self) {
        if self.has_inner.load(Ordering::Acquire) {
            let inner = self.relations.lock().inner.clone();
            inner.into_iter().for_each(Set::arm_bells);
        }
        if self.has_bells() {
            self.arm_beyond(0);
        }
    }

    /// A sleep on the set is over, or the kernel says that something rang.
    pub(crate) fn hear_bells(&self, runtime: &'static Runtime) {
        if self.has_inner.load(Ordering::Acquire) {
            let inner = self.relations.lock().inner.clone();
            inner.into_iter().for_each(|inner| inner.hear_bells(runtime));
        }
        self.hear_own_bells(runtime);
    }

    pub(super) fn hear_own_bells(&self, runtime: &'static Runtime) {
        if !self.has_bells() {
            return;
        }
        let mut rung = [libc::epoll_event { events: 0, u64: 0 }; RINGS];
        let count = match &*self.side.lock() {
            Some(side) => sys::poll::epoll_wait(side.epoll.raw(), &mut rung, 0, None).unwrap_or(0),
            None => 0,
        };
        for event in &rung[..count] {
            let Some(slot) = event.u64.checked_sub(1) else { continue };
            if let Some(object) = self.object_in(slot as u32) {
                memory::rung(runtime, object);
                if memory::bell(object).is_none() {
                    self.forget_rung(object);
                }
            }
        }
    }

    /// The peer has ended: its end of the bell is readable for ever.
    fn forget_rung(&self, object: &Object) {
        if let Some(bell) = memory::silent_bell(object) {
            drop_bell(self, bell);
        }
    }
}

/// The connection's wish is not in its segment: every set that holds it looks at it, and says the wish before a sleep.
pub(crate) fn look_at(object: &Object) {
    for (set, slot) in object.watch.sets() {
        if set.has_bells() {
            set.wake_up(slot);
        }
    }
}

/// A bell is about to be closed, or has nothing more to say.
pub(crate) fn drop_bell(set: &Set, bell: i32) {
    if let Some(side) = &*set.side.lock() {
        let _ = sys::poll::epoll_control(side.epoll.raw(), libc::EPOLL_CTL_DEL, bell, 0, 0);
    }
}
