//! What others know of a thread's wait: that it uses a socket, sleeps for one, or on a lane or a set.
//!
//! The kernel runs a signal handler when the call that it interrupts is over, so a handler may leave by siglongjmp, and
//! nobody ever hears of that call again. Ours run handlers where a call sleeps or looks for them, on top of the call's
//! frames. So everything that a wait tells others is kept in a list of its thread, and the list is taken back before a
//! handler runs ([`leave`]), not when the call returns. A call whose handler came back to it finds out by
//! [`Presence::has_left`], and makes itself known anew, if what it waited for is there still.
//!
//! Waits in the kernel that are a set's own are counted there alone (epoll/straight.rs): one too many costs little.
//!
//! As a handler finds an empty list, there is one call in it at any time.

use super::epoll::Set;
use crate::closing;
use crate::lane::Lane;
use crate::object::pin::PIN;
use crate::object::{Object, Pin};
use core::cell::{Cell, RefCell};
use core::sync::atomic::Ordering;

/// Something that others were told.
#[derive(Clone, Copy)]
pub(super) enum Mark {
    /// A call waits on this socket: closing its last descriptor takes effect when the call is over, as in the kernel,
    /// where a call holds the file.
    Uses(&'static Object),
    /// This eventfd wakes a thread that sleeps for the socket.
    SleepsFor(&'static Object, i32),
    /// This eventfd wakes a thread that polls the set's descriptor.
    Polls(&'static Set, i32),
    /// A thread sleeps on the lane's descriptors.
    SleepsOn(&'static Lane),
    /// A thread sleeps on the set.
    SleepsIn(&'static Set),
}

impl Mark {
    fn tell(self) {
        match self {
            Mark::Uses(object) => drop(object.users.fetch_add(1, Ordering::SeqCst)),
            Mark::SleepsFor(object, eventfd) => object.watch.add_sleeper(eventfd),
            Mark::Polls(set, eventfd) => set.add_poller(eventfd),
            Mark::SleepsOn(lane) => drop(lane.sleepers.fetch_add(1, Ordering::SeqCst)),
            Mark::SleepsIn(set) => set.falls_asleep(),
        }
    }

    fn take_back(self) {
        match self {
            Mark::Uses(object) => used(object, 1),
            Mark::SleepsFor(object, eventfd) => object.watch.remove_sleeper(eventfd),
            Mark::Polls(set, eventfd) => set.remove_poller(eventfd),
            Mark::SleepsOn(lane) => drop(lane.sleepers.fetch_sub(1, Ordering::Relaxed)),
            Mark::SleepsIn(set) => set.awake(),
        }
    }
}

/// A use of a socket is over; the last one ends what was closed, or left to the kernel, meanwhile.
fn used(object: &'static Object, how: u32) {
    let is_last = object.users.fetch_sub(how, Ordering::SeqCst) == how;
    if is_last && object.ending.swap(false, Ordering::SeqCst) {
        closing::end_deferred(object);
    }
}

/// No lock may be held that the end of a socket takes.
impl Drop for Pin {
    fn drop(&mut self) {
        used(self.object(), PIN);
    }
}

thread_local! {
    /// What stands for the call that this thread is in, oldest first.
    static MARKS: RefCell<Vec<Mark>> = const { RefCell::new(Vec::new()) };
    /// How often a handler has found marks, or could have.
    static DEPARTURES: Cell<u32> = const { Cell::new(0) };
}

/// Marks that stand until this is dropped, which happens in any case: cancellation unwinds.
pub(super) struct Presence {
    /// How many were there before, and after how many departures.
    before: usize,
    departures: u32,
    /// At the thread's very end there is no list any more.
    unlisted: Vec<Mark>,
}

impl Presence {
    /// Tells others.
    pub(super) fn begin(marks: impl IntoIterator<Item = Mark>) -> Presence {
        let departures = DEPARTURES.get();
        let before = MARKS.try_with(|list| list.borrow().len()).unwrap_or(0);
        let mut unlisted = Vec::new();
        for mark in marks {
            mark.tell();
            if MARKS.try_with(|list| list.borrow_mut().push(mark)).is_err() {
                unlisted.push(mark);
            }
        }
        Presence { before, departures, unlisted }
    }

    /// Whether a handler ran since, and the marks are taken back: what they were about may be gone.
    #[inline]
    pub(super) fn has_left(&self) -> bool {
        DEPARTURES.get() != self.departures
    }
}

impl Drop for Presence {
    #[inline]
    fn drop(&mut self) {
        if !self.has_left() {
            take_back_to(self.before);
        }
        self.unlisted.drain(..).for_each(Mark::take_back);
    }
}

/// Takes marks back until `count` are left, the newest first.
fn take_back_to(count: usize) {
    let newest = || {
        MARKS.try_with(|list| {
            let mut list = list.borrow_mut();
            if list.len() > count { list.pop() } else { None }
        })
    };
    // Without a borrow: the last to use a closed socket ends it.
    while let Ok(Some(mark)) = newest() {
        mark.take_back();
    }
}

/// A handler is about to run on top of a call that sleeps, or looks for handlers: it may never return to the call. The
/// call holds no lock.
pub fn leave() {
    DEPARTURES.set(DEPARTURES.get().wrapping_add(1));
    take_back_to(0);
}

/// A call's use of what it waits on.
pub(super) struct Using<'a> {
    objects: &'a [&'static Object],
    /// Of the first of them.
    generation: u32,
    presence: Presence,
}

impl<'a> Using<'a> {
    pub(super) fn begin(objects: &'a [&'static Object]) -> Using<'a> {
        let generation = objects.first().map_or(0, |object| object.generation.load(Ordering::SeqCst));
        Using { objects, generation, presence: Using::tell(objects) }
    }

    fn tell(objects: &[&'static Object]) -> Presence {
        Presence::begin(objects.iter().map(|object| Mark::Uses(object)))
    }

    /// Whether the call still uses its sockets. After a handler, one socket is taken up again unless it was closed
    /// meanwhile; calls on many end with the handler.
    #[inline]
    pub(super) fn stands(&mut self) -> bool {
        !self.presence.has_left() || self.is_taken_up()
    }

    #[cold]
    fn is_taken_up(&mut self) -> bool {
        let [object] = self.objects else { return false };
        self.presence = Using::tell(self.objects);
        // In this order: who closes it lets the count of descriptors fall, then looks for users.
        let is_same = object.generation.load(Ordering::SeqCst) == self.generation;
        is_same && object.fds.load(Ordering::SeqCst) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Kind;

    fn users(object: &Object) -> u32 {
        object.users.load(Ordering::SeqCst)
    }

    #[test]
    fn a_handler_finds_nothing_of_the_call_and_the_call_takes_its_socket_up_again() {
        let object = Object::new(Kind::TcpIdle, -1, false);
        let one = [object];
        let mut using = Using::begin(&one);
        let asleep = Presence::begin([Mark::SleepsFor(object, 7)]);
        assert_eq!(users(object), 1);
        leave();
        assert_eq!(users(object), 0);
        // The handler's own call.
        drop(Using::begin(&one));
        assert!(asleep.has_left());
        drop(asleep);
        assert!(using.stands());
        assert_eq!(users(object), 1);
        drop(using);
        assert_eq!(users(object), 0);
        object.release();
    }

    #[test]
    fn a_socket_that_was_closed_meanwhile_is_not_taken_up() {
        let object = Object::new(Kind::TcpIdle, -1, false);
        let one = [object];
        let mut using = Using::begin(&one);
        leave();
        object.release();
        assert!(!using.stands());
        drop(using);
        assert_eq!(users(object), 0);
    }
}
