//! Descriptor number to object: one load, no lock.
//!
//! Objects are type-stable (never freed, see object.rs), so a reference read here stays valid whatever other threads
//! close meanwhile; what it names is checked by generation in the engine.

use crate::counts;
use crate::object::pin::{self, Pin};
use crate::object::set::Set;
use crate::object::{Kind, Object};
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering, fence};

/// Descriptors at and above this number are the kernel's alone.
pub(crate) const LEN: usize = 1 << 20;

/// Low bit of an entry: it is an epoll set.
const EPOLL_TAG: usize = 1;

/// 8 MiB of zero pages, touched only where a descriptor is ours.
static TABLE: [AtomicUsize; LEN] = [const { AtomicUsize::new(0) }; LEN];

/// The highest descriptor ever entered, so that walks over the table are short.
static HIGHEST: AtomicI32 = AtomicI32::new(-1);

/// What a descriptor of ours is.
#[derive(Clone, Copy)]
pub(crate) enum Entry {
    /// A socket.
    Socket(&'static Object),
    /// An epoll set.
    Epoll(&'static Set),
}

#[inline]
fn decode(word: usize) -> Option<Entry> {
    if word == 0 {
        return None;
    }
    if word & EPOLL_TAG == 0 {
        // SAFETY: `enter_socket` stored a &'static Object.
        Some(Entry::Socket(unsafe { &*(word as *const Object) }))
    } else {
        // SAFETY: `enter_epoll` stored a &'static Set with the tag bit, which alignment leaves free.
        Some(Entry::Epoll(unsafe { &*((word & !EPOLL_TAG) as *const Set) }))
    }
}

/// What `fd` is, if it is ours.
#[inline]
pub(crate) fn entry(fd: i32) -> Option<Entry> {
    let slot = TABLE.get(fd as usize)?;
    decode(slot.load(Ordering::Acquire))
}

/// The socket behind `fd`, if it is one of ours.
#[inline]
pub(crate) fn socket(fd: i32) -> Option<&'static Object> {
    match entry(fd) {
        Some(Entry::Socket(object)) => Some(object),
        _ => None,
    }
}

/// The epoll set behind `fd`, if it is one of ours.
#[inline]
pub(crate) fn epoll(fd: i32) -> Option<&'static Set> {
    match entry(fd) {
        Some(Entry::Epoll(set)) => Some(set),
        _ => None,
    }
}

fn enter(fd: i32, word: usize) -> bool {
    let Some(slot) = TABLE.get(fd as usize) else { return false };
    HIGHEST.fetch_max(fd, Ordering::Relaxed);
    slot.store(word, Ordering::Release);
    true
}

/// Enters a socket; `false` if the number is out of range.
pub(crate) fn enter_socket(fd: i32, object: &'static Object) -> bool {
    enter(fd, core::ptr::from_ref(object) as usize)
}

/// Enters an epoll set; `false` if the number is out of range.
pub(crate) fn enter_epoll(fd: i32, set: &'static Set) -> bool {
    enter(fd, core::ptr::from_ref(set) as usize | EPOLL_TAG)
}

/// Takes the entry out; the caller lets go of what it named.
pub(crate) fn remove(fd: i32) -> Option<Entry> {
    decode(TABLE.get(fd as usize)?.swap(0, Ordering::SeqCst))
}

/// As [`remove`], of a socket. Whoever changes it by this number has done so when this returns.
pub(crate) fn remove_socket(fd: i32) -> Option<&'static Object> {
    let object = socket(fd)?;
    take_out(fd, object).then(|| pin::await_pins(object)).map(|()| object)
}

/// Takes the entry out if it still names this socket: false if another thread was faster.
pub(crate) fn take_out(fd: i32, object: &'static Object) -> bool {
    let word = core::ptr::from_ref(object) as usize;
    let slot = TABLE.get(fd as usize);
    slot.is_some_and(|slot| slot.compare_exchange(word, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok())
}

/// One past the highest descriptor that was ever ours.
pub(crate) fn end() -> i32 {
    HIGHEST.load(Ordering::Relaxed) + 1
}

/// Whether a descriptor names this socket.
pub(crate) fn names(fd: i32, object: &Object) -> bool {
    socket(fd).is_some_and(|known| core::ptr::eq(known, object))
}

/// Whether a descriptor is of this set.
pub(crate) fn is_of(fd: i32, set: &Set) -> bool {
    epoll(fd).is_some_and(|known| core::ptr::eq(known, set))
}

/// Every descriptor that names a socket, to remove it or to put something else in its place. Most have one, which the
/// socket knows; only for duplicates the table is searched, until all are found.
pub(crate) fn each_of(object: &Object, mut visit: impl FnMut(i32)) {
    let mut left = object.fds.load(Ordering::Relaxed);
    let known = object.fd.load(Ordering::Relaxed);
    if names(known, object) {
        visit(known);
        left = left.saturating_sub(1);
    }
    for fd in (0..end()).filter(|fd| *fd != known) {
        if left == 0 {
            return;
        }
        if names(fd, object) {
            visit(fd);
            left -= 1;
        }
    }
}

impl Pin {
    /// The caller changes the socket by the number `fd`. `None`: that does not name it (any more).
    pub(crate) fn by(object: &'static Object, fd: i32) -> Option<Pin> {
        let pin = Pin::begin(object);
        fence(Ordering::SeqCst);
        names(fd, object).then_some(pin)
    }

    /// The caller changes the socket by the number that it knows. `None`: it is closed.
    pub(crate) fn known(object: &'static Object) -> Option<Pin> {
        let mut tries = 0;
        while tries < TRIES {
            if let Some(pin) = Pin::by(object, object.fd.load(Ordering::SeqCst)) {
                return Some(pin);
            }
            if object.fds.load(Ordering::SeqCst) == 0 {
                break;
            }
            // One of its numbers is being closed, and it will know another.
            pin::pause(&mut tries);
        }
        None
    }
}

/// Looks for a number that names a socket. A close takes some microseconds, with the processor.
const TRIES: u32 = 1000;

impl Object {
    /// It counts from now on, if it did not: what came by a fork does not, nor what came before there were statistics.
    pub(crate) fn claim_counts(&'static self, fd: i32) {
        if !core::ptr::eq(self.counts(), &counts::NOBODY) {
            return;
        }
        let block = counts::claim(Kind::Carried, fd, self.nonblocking.load(Ordering::Relaxed));
        if !self.exchange_counts(&counts::NOBODY, block) {
            // Another thread was faster.
            return counts::release(block);
        }
        let is_closed = !names(fd, self);
        // Whoever takes the block out gives it back: who closes the socket may have.
        if is_closed && self.exchange_counts(block, &counts::NOBODY) {
            counts::release(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_descriptor_of_a_socket_is_found_once_and_no_other() {
        let known = 900_001;
        let (one, other) =
            (Object::new(Kind::TcpIdle, known, false), Object::new(Kind::TcpIdle, 900_002, false));
        assert!(enter_socket(known, one) && enter_socket(900_002, other) && enter_socket(900_000, one));
        one.fds.store(2, Ordering::Relaxed);
        let mut found = Vec::new();
        each_of(one, |fd| found.push(fd));
        assert_eq!(found, [known, 900_000]);
        each_of(one, |fd| _ = remove(fd));
        assert!(socket(known).is_none() && socket(900_000).is_none() && names(900_002, other));
    }
}
