//! Calls that are in the kernel with a socket that it carries. Nobody moves the socket under one: a call that sleeps
//! there would sleep on when the bytes come elsewhere.
//!
//! Whoever moves a socket says so first (its kind, its price), then looks at the count; a call counts itself first,
//! then looks who carries the socket. Each step is SeqCst, so one of the two sees the other.

use super::{Kind, Object};
use crate::counts;
use core::sync::atomic::Ordering;
use stats::Verdict;

/// A call that looks, and one that may sleep there.
pub(crate) const LOOKS: u32 = 1;
pub(crate) const SLEEPS: u32 = 1 << 16;

/// A change of legs waits for the kernel and for lanes, and may lose its processor meanwhile. Nanoseconds.
const CHANGE_ENDS_NS: u64 = 50_000_000;

/// The socket is gone. The last call that was in the kernel with it makes the object another one's.
const RELEASED: u32 = 1 << 31;

/// An object whose socket is gone may be another one's, once no call is in the kernel with it.
pub(crate) fn release(object: &'static Object) {
    object.in_flight.fetch_or(RELEASED, Ordering::SeqCst);
    give_on(object);
}

fn give_on(object: &'static Object) {
    let free = object.in_flight.compare_exchange(RELEASED, 0, Ordering::SeqCst, Ordering::SeqCst);
    if free.is_ok() {
        object.give_on();
    }
}

/// So much is in the object's count until this is dropped. A handler that leaves the call by siglongjmp leaves it
/// there: the socket stays the kernel's, and its object nobody else's.
pub(crate) struct InFlight(&'static Object, u32);

impl InFlight {
    /// The caller looks behind it who carries the socket, by SeqCst loads.
    #[inline]
    pub(crate) fn begin(object: &'static Object, how: u32) -> InFlight {
        object.in_flight.fetch_add(how, Ordering::SeqCst);
        InFlight(object, how)
    }

    pub(crate) fn object(&self) -> &'static Object {
        self.0
    }

    /// `None`: calls are in the kernel with the socket, or another thread moves it.
    pub(crate) fn alone(object: &'static Object) -> Option<InFlight> {
        let first = object.in_flight.compare_exchange(0, LOOKS, Ordering::SeqCst, Ordering::SeqCst);
        first.is_ok().then(|| InFlight(object, LOOKS))
    }

    /// The caller gives a socket of datagrams legs, or takes them: as long as this lives no other thread does, or moves
    /// it. Who does is waited for; not for ever, as a handler may run on top of it, and goes on beside it then.
    pub(crate) fn changes(object: &'static Object) -> InFlight {
        let end = sys::clock::now() + CHANGE_ENDS_NS;
        loop {
            let before = object.in_flight.load(Ordering::SeqCst);
            let is_free = before.is_multiple_of(SLEEPS);
            if is_free || sys::clock::now() >= end {
                let next = object.in_flight.compare_exchange(
                    before,
                    before + LOOKS,
                    Ordering::SeqCst,
                    Ordering::SeqCst,
                );
                if next.is_ok() {
                    return InFlight(object, LOOKS);
                }
            } else {
                sys::process::yield_now();
            }
        }
    }
}

impl InFlight {
    /// As [`InFlight::changes`]; `None`: another thread does just now.
    pub(crate) fn changes_now(object: &'static Object) -> Option<InFlight> {
        let before = object.in_flight.load(Ordering::SeqCst);
        let next = before.checked_add(LOOKS).filter(|_| before.is_multiple_of(SLEEPS))?;
        let first = object.in_flight.compare_exchange(before, next, Ordering::SeqCst, Ordering::SeqCst);
        first.is_ok().then(|| InFlight(object, LOOKS))
    }
}

impl Drop for InFlight {
    #[inline]
    fn drop(&mut self) {
        let before = self.0.in_flight.fetch_sub(self.1, Ordering::SeqCst);
        if before == RELEASED + self.1 {
            give_on(self.0);
        } else if before & !RELEASED < self.1 {
            // A handler forked on top of the call, and in the child nobody was in one.
            self.0.in_flight.store(0, Ordering::SeqCst);
        }
    }
}

/// Whether a call may be asleep in the kernel with the socket.
pub(crate) fn has_sleepers(object: &Object) -> bool {
    object.in_flight.load(Ordering::SeqCst) >= SLEEPS
}

/// Whether a thread moves the socket ([`InFlight::alone`]), of one whose calls do not look while they are counted.
pub(crate) fn is_moved(object: &Object) -> bool {
    !object.in_flight.load(Ordering::SeqCst).is_multiple_of(SLEEPS)
}

/// What the kernel carries stays there, for this reason.
pub(crate) fn stays(object: &Object, verdict: Verdict) {
    let before = object.price.swap(u32::MAX, Ordering::SeqCst);
    wait_while_moving(object);
    if before != u32::MAX && object.kind() == Kind::Carried {
        counts::show();
        counts::judged(object.counts(), verdict, (0, 0));
    }
}

/// Returns when nobody moves the connection.
#[inline]
pub(crate) fn wait_while_moving(object: &Object) {
    while object.kind() == Kind::Moving {
        sys::process::yield_now();
    }
}

/// A call goes into the kernel with the connection. `None`: the kernel does not carry it any more. Who moves it, and
/// may give up, is waited for.
pub(crate) fn in_kernel(object: &'static Object, how: u32) -> Option<InFlight> {
    while matches!(object.kind(), Kind::Carried | Kind::Moving) {
        wait_while_moving(object);
        let begun = InFlight::begin(object, how);
        if object.kind() == Kind::Carried {
            return Some(begun);
        }
    }
    None
}

/// A call that does not wait goes into the kernel with the connection. `None`: the kernel does not carry it (any more).
#[inline]
pub(crate) fn looks(object: &'static Object) -> Option<InFlight> {
    in_kernel(object, LOOKS)
}

/// A call that does not wait, and is the kernel's whoever carries the connection: nobody moves it meanwhile.
pub(crate) fn standing_there<T>(object: &'static Object, call: impl FnOnce() -> T) -> T {
    let _in_flight = looks(object);
    call()
}

/// As [`looks`], for a call that may wait.
#[inline]
pub(crate) fn waits_there(object: &'static Object) -> Option<InFlight> {
    in_kernel(object, SLEEPS)
}

/// Whether no call is in the kernel with the connection, which the caller made [`Kind::Moving`], so that none begins.
/// Those that have begun are waited for: where two threads call all the time, one is always in a call. Not for ever: a
/// signal handler may run on top of one, or have left it. One that sleeps there is not waited for.
pub(crate) fn calls_are_over(object: &Object) -> bool {
    let end = sys::clock::now() + CALLS_END_NS;
    loop {
        let calls = object.in_flight.load(Ordering::SeqCst);
        if calls == 0 {
            return true;
        }
        if calls >= SLEEPS || sys::clock::now() >= end {
            return false;
        }
        sys::process::yield_now();
    }
}

/// A call copies what a socket's buffer holds at the most, and may lose its processor meanwhile. Nanoseconds.
const CALLS_END_NS: u64 = 4_000_000;

/// Whether the kernel carries it for good.
pub(crate) fn has_to_stay(object: &Object) -> bool {
    object.price.load(Ordering::SeqCst) == u32::MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::lock_free;

    fn times_free(object: &'static Object) -> usize {
        lock_free().iter().filter(|free| core::ptr::eq(**free, object)).count()
    }

    #[test]
    fn an_object_is_given_on_when_its_last_call_is_over() {
        let object = Object::new(Kind::Carried, -1, false);
        let (first, second) = (InFlight::begin(object, SLEEPS), InFlight::begin(object, LOOKS));
        object.release();
        assert_eq!(times_free(object), 0, "calls are in the kernel with it");
        drop(first);
        assert_eq!(times_free(object), 0, "one still is");
        lock_free().clear();
        drop(second);
        assert_eq!(times_free(object), 1);
    }

    #[test]
    fn who_is_not_alone_leaves_the_count_as_it_is() {
        let object = Object::new(Kind::Udp, -1, false);
        let mover = InFlight::alone(object);
        assert!(mover.is_some() && InFlight::alone(object).is_none());
        assert!(InFlight::alone(object).is_none() && is_moved(object));
        drop(mover);
        assert!(!is_moved(object));
        drop(InFlight::begin(object, SLEEPS));
        object.release();
    }

    #[test]
    fn an_object_of_a_call_that_was_left_is_nobody_elses() {
        let object = Object::new(Kind::Carried, -1, false);
        core::mem::forget(InFlight::begin(object, SLEEPS));
        object.release();
        assert_eq!(times_free(object), 0);
    }
}
