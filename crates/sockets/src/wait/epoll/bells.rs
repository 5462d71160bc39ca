//! Connections in memory in an epoll set (`crates/sockets/src/memory/`).
//!
//! Those that something came for lately are looked at by every wait: that is a line of memory each. Before a sleep
//! their peers are told to ring, and from then on they are not looked at until the bell, which hangs in the private
//! set, has rung. So many idle connections cost nothing, and busy ones no system call.
//!
//! A bell is hung up and taken down under its connection's lock: an item's mark that it hangs is about the bell that
//! the connection has then, also where it parts from its peer and meets it again while threads wait.
//!
//! What must hold: each connection is awake here, or its wish stands in the segment, or its bell is readable. A ring
//! takes the wish away, and any call on the connection, in any thread, may hear it before the set does. So whoever
//! hears one, or wants more than was wished for, tells every set that holds the connection ([`look_at`]). The wish is
//! said again in one place, by who is about to sleep: it tells the peer, looks, and sleeps. Who sleeps already is
//! woken for that, and again where a look of another thread has taken that signal back. The look may hear a ring, too,
//! of a wish that an earlier sleep has said: then nobody sleeps.
//!
//! A sleep tells all peers to ring, and one ring ends it. So behind it the wishes of those that had something to say
//! lately are taken back, before each of them rings a system call for somebody who is awake.

use super::Set;
use crate::answer::{Answer, Stop};
use crate::object::Object;
use crate::object::set::{Awake, Seen};
use crate::os::Os;
use crate::runtime::{self, Runtime};
use crate::wait::in_memory;
use core::sync::atomic::{Ordering, fence};

/// Connections that are looked at without a bell, at most.
const AWAKE_MAX: usize = 256;
/// Bells that are heard at once.
const RINGS: usize = 64;
/// A connection that had nothing to say for so many sleeps is left to its bell.
const QUIET: u32 = 4;

impl Set {
    /// Whether connections in memory are in this set, or were some waits ago.
    #[inline]
    pub(super) fn has_bells(&self) -> bool {
        self.bells.hung.load(Ordering::Relaxed) != 0
    }

    /// As [`Set::has_bells`], or in a set within it.
    pub(crate) fn hears_bells(&self) -> bool {
        self.has_bells() || self.has_inner_with_bells()
    }

    /// Whether connections in memory are in a set within this one. What the kernel says of such a set is looked over
    /// first: its descriptor is readable, too, for wishes that are to be said.
    pub(super) fn has_inner_with_bells(&self) -> bool {
        self.has_inner.load(Ordering::Acquire)
            && self.relations.lock().inner.clone().into_iter().any(Set::hears_bells)
    }

    /// The item's connection is in memory: its bell ends sleeps on this set.
    pub(super) fn hang_bell(&'static self, os: &Os, slot: u32, object: &'static Object) -> Answer<()> {
        if !in_memory::is_in(object) {
            return Ok(());
        }
        let is_first = match in_memory::with_bell(object, |bell| self.hang(os, slot, bell)) {
            None => return Ok(()),
            Some(hung) => hung?,
        };
        // Where it hung already, what is asked for may be another thing: the wish is said anew.
        self.wake_up(slot);
        if is_first {
            self.moved();
        }
        Ok(())
    }

    /// See [`in_memory::with_bell`]. True: it is the first here, or in a new private set.
    fn hang(&self, os: &Os, slot: u32, bell: i32) -> Answer<bool> {
        if self.items.lock().get_mut(slot).is_none_or(|item| item.has_bell) {
            return Ok(false);
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
        Ok(self.bells.hung.fetch_add(1, Ordering::SeqCst) == 0 || is_first)
    }

    /// An item of this connection was removed: its bell is nobody's here, or that of another item of the connection.
    pub(super) fn take_down_bell(&'static self, os: &Os, object: &'static Object) {
        if !self.has_bells() || !in_memory::is_in(object) {
            return;
        }
        let other = object.watch.sets().into_iter().find(|(set, _)| core::ptr::eq(*set, self));
        if let Some((_, slot)) = other {
            // It may hang here under the slot that is gone.
            if let Some(item) = self.items.lock().get_mut(slot) {
                item.has_bell = false;
            }
            let _ = self.hang_bell(os, slot, object);
        } else {
            in_memory::with_bell(object, |bell| self.take_down(bell));
        }
    }

    /// The item is looked at from now on, until a thread that is about to sleep tells the peer to ring.
    fn wake_up(&self, slot: u32) {
        self.bells.add(Awake { slot, quiet: 0 });
        // Against who counts itself among those who wait, then tells the peers to ring.
        fence(Ordering::SeqCst);
        if self.is_waited_for() {
            self.wake();
        }
    }

    /// The peers of those that are awake, but for the last `most`, are told to ring; then what came meanwhile is an
    /// edge. The bell is not heard here: what it says stays for the sleep, which it ends.
    fn arm_beyond(&self, most: usize) {
        while let Some(one) = self.bells.next_beyond(most) {
            if let Some(object) = self.object_in(one.slot) {
                in_memory::arm(object);
                self.look(one.slot, sys::clock::now());
                if most == 0 && one.quiet < QUIET {
                    self.bells.asleep.lock().push(Awake { quiet: one.quiet + 1, ..one });
                }
            }
        }
    }

    /// A sleep on the set is over: see the top of this file. What others wait for, too, is left to its bell: they would
    /// wake each other.
    pub(crate) fn take_back_wishes(&self) {
        if !self.has_bells() || self.is_waited_for() {
            return;
        }
        while let Some(one) = self.next_asleep() {
            let is_ours_alone = |object: &&'static Object| object.watch.count() == 1;
            let object =
                self.object_in(one.slot).filter(is_ours_alone).filter(|object| in_memory::disarm(object));
            let Some(object) = object else { continue };
            self.bells.add(one);
            object.watch.each_set(|set, slot| {
                if (!core::ptr::eq(set, self) || slot != one.slot) && set.has_bells() {
                    set.wake_up(slot);
                }
            });
        }
        // As in `wake_up`.
        fence(Ordering::SeqCst);
        if self.is_waited_for() {
            self.wake();
        }
    }

    fn next_asleep(&self) -> Option<Awake> {
        self.bells.asleep.lock().pop()
    }

    fn object_in(&self, slot: u32) -> Option<&'static Object> {
        self.items.lock().get_mut(slot).map(|item| item.object).filter(|object| in_memory::is_in(object))
    }

    /// The bell is not heard here: it hangs in the private set, which tells.
    fn look(&self, slot: u32, now: u64) -> Seen {
        match (runtime::get(), self.object_in(slot)) {
            (Some(runtime), Some(object)) if in_memory::poll_unheard(runtime, object, now) => Seen::News,
            (Some(_), Some(_)) => Seen::Nothing,
            _ => Seen::Gone,
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
        let (mut all, mut count) = ([Awake { slot: 0, quiet: 0 }; AWAKE_MAX], 0);
        for (place, one) in all.iter_mut().zip(self.bells.awake.lock().iter()) {
            *place = *one;
            count += 1;
        }
        for one in &all[..count] {
            let seen = self.look(one.slot, now);
            if seen == Seen::Gone || seen == Seen::News && one.quiet > 0 {
                self.bells.note(one.slot, seen);
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
            self.bells.asleep.lock().clear();
            self.arm_beyond(0);
        }
    }

    /// A wait is over. Its looks may have taken back the signal that was to have another sleeper say a wish, and the
    /// thread may not come again soon.
    #[inline]
    pub(super) fn leave_wishes(&self) {
        if self.has_bells() && self.is_waited_for() && self.is_to_say_wishes() {
            self.wake();
        }
    }

    /// Whether a connection is awake here, or in a set within: nobody may sleep before its wish is said.
    pub(crate) fn is_to_say_wishes(&self) -> bool {
        self.has_bells() && !self.bells.awake.lock().is_empty()
            || self.has_inner.load(Ordering::Acquire)
                && self.relations.lock().inner.clone().into_iter().any(Set::is_to_say_wishes)
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
                in_memory::rung(runtime, object);
                in_memory::with_silent_bell(object, |bell| self.take_down(bell));
            }
        }
    }

    fn take_down(&self, bell: i32) {
        if let Some(side) = &*self.side.lock() {
            let _ = sys::poll::epoll_control(side.epoll.raw(), libc::EPOLL_CTL_DEL, bell, 0, 0);
        }
    }
}

/// The connection's wish is not in its segment: every set that holds it looks at it, and says the wish before a sleep.
pub(crate) fn look_at(object: &Object) {
    object.watch.each_set(|set, slot| {
        if set.has_bells() {
            set.wake_up(slot);
        }
    });
}

/// A bell is about to be closed: the connection in this item has none, or gets another one. See
/// [`in_memory::with_bell`].
pub(crate) fn drop_bell(set: &Set, slot: u32, bell: i32) {
    if let Some(item) = set.items.lock().get_mut(slot) {
        item.has_bell = false;
    }
    set.take_down(bell);
}

#[cfg(test)]
mod tests {
    use super::super::WAITS_WITHOUT;
    use super::*;

    #[test]
    fn a_set_whose_connections_have_left_the_memory_is_the_kernels_again() {
        let set = Set::new(900_002);
        set.secret.store(1, Ordering::SeqCst);
        set.bells.hung.store(1, Ordering::SeqCst);
        assert!(!set.is_kernels());
        assert!((0..WAITS_WITHOUT).all(|_| !set.is_kernels_by_now()));
        assert!(set.is_kernels_by_now() && set.is_kernels() && !set.hears_bells());
        set.secret.store(0, Ordering::SeqCst);
        set.release();
    }

    #[test]
    fn nobody_sleeps_while_a_connection_is_awake() {
        let set = Set::new(900_004);
        set.bells.hung.store(1, Ordering::SeqCst);
        assert!(!set.is_to_say_wishes());
        set.wake_up(7);
        assert!(set.is_to_say_wishes(), "a ring was heard behind the wishes of a sleep");
        set.arm_bells();
        assert!(!set.is_to_say_wishes());
        let eventfd = sys::fd::eventfd().unwrap();
        set.wake.store(eventfd.raw(), Ordering::SeqCst);
        set.falls_asleep();
        set.wake_up(7);
        let is_woken = || sys::fd::read(eventfd.raw(), &mut [0; 8]).is_ok();
        assert!(is_woken(), "who sleeps says the wish");
        set.leave_wishes();
        assert!(is_woken(), "a look took the signal back, and leaves");
        set.arm_bells();
        set.leave_wishes();
        assert!(!is_woken(), "the wish was said");
        set.awake();
        set.wake.store(-1, Ordering::SeqCst);
        set.bells.clear();
        set.release();
    }
}
