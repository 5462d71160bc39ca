//! What ends: an object with the last descriptor that names it, whatever carries its bytes, and what is known of a
//! number that the kernel gave out anew.

use crate::describe;
use crate::family::FAMILY;
use crate::fd_table::{self, Entry};
use crate::object::holders;
use crate::object::pin::await_pins;
use crate::object::{Kind, Object};
use crate::runtime::{self, Runtime};
use crate::udp_legs;
use crate::{counts, memory, tcp};
use core::sync::atomic::Ordering;
use libc::c_int;

/// A descriptor no longer names `entry`; the last one ends it, when whoever changes it by that number has done so. The
/// caller took it out of the table, and holds no lock. `shadow`: where its kernel socket still is; -1: nowhere.
pub(crate) fn let_go(runtime: &'static Runtime, entry: Entry, fd: c_int, shadow: c_int) {
    match entry {
        Entry::Epoll(set) => {
            if set.fds.fetch_sub(1, Ordering::AcqRel) == 1 {
                set.release();
            } else if set.fd.load(Ordering::Relaxed) == fd {
                // What the kernel's set is told goes by the number.
                set.fd.store(other_number(|other| fd_table::is_of(other, set)), Ordering::Relaxed);
            }
        }
        Entry::Socket(object) => {
            await_pins(object);
            if object.fds.fetch_sub(1, Ordering::SeqCst) == 1 {
                for (set, slot) in object.watch.sets() {
                    set.forget(&runtime.os, object, slot);
                }
                end_unless_used(runtime, object, shadow);
            } else {
                if object.fd.load(Ordering::Relaxed) == fd {
                    // Whoever takes a step of a connection in memory uses the number under this lock.
                    let _step = object.room().map(|room| room.inner.lock());
                    let other = other_number(|other| fd_table::names(other, object));
                    object.fd.store(other, Ordering::Relaxed);
                    counts::renamed(object.counts(), other);
                }
                registrations_stay(runtime, object, fd, object.fd.load(Ordering::Relaxed));
            }
        }
    }
}

/// A number that still names what another number named, of which `names` tells; -1: none.
fn other_number(names: impl Fn(c_int) -> bool) -> c_int {
    (0..fd_table::end()).find(|other| names(*other)).unwrap_or(-1)
}

/// A number will not name its socket any more, which has others: what was registered in epoll sets by it stays.
/// `known`: a number that names the socket now.
pub(crate) fn registrations_stay(runtime: &Runtime, object: &'static Object, fd: c_int, known: c_int) {
    for (set, slot) in object.watch.sets() {
        set.put_aside(&runtime.os, slot, fd, known);
    }
}

/// Ends a socket that no descriptor names any more, or leaves that to the calls that wait on it. They get a duplicate
/// of the shadow: the descriptor's number may soon mean something else.
fn end_unless_used(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    if object.users.load(Ordering::SeqCst) > 0
        && let Ok(shadow) = sys::Fd::duplicate_of(fd)
    {
        let number = shadow.raw();
        object.control.lock().kept = Some(shadow);
        object.fd.store(number, Ordering::SeqCst);
        object.ending.store(true, Ordering::SeqCst);
        object.watch.wake_all();
        if object.users.load(Ordering::SeqCst) > 0 || !object.ending.swap(false, Ordering::SeqCst) {
            return;
        }
        return end(runtime, object, number);
    }
    end(runtime, object, fd);
}

/// The last call that waited on a closed socket returns.
pub(crate) fn end_deferred(object: &'static Object) {
    if let Some(runtime) = runtime::get() {
        end(runtime, object, object.fd.load(Ordering::SeqCst));
    }
}

fn end(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    if matches!(object.kind(), Kind::Stream | Kind::Udp) && FAMILY.keep(object, fd) {
        return;
    }
    describe::last_words(runtime, object);
    match object.kind() {
        Kind::Udp => {
            udp_legs::close(object);
            holders::leave(object);
        }
        Kind::TcpIdle | Kind::Listener | Kind::Stream => tcp::close(runtime, object, fd),
        Kind::Lent | Kind::Inherited => FAMILY.decline(object),
        Kind::Carried => holders::leave(object),
        Kind::Memory => memory::close(object, fd),
        Kind::Moving => debug_assert!(false, "who moves a connection holds a pin"),
        Kind::Free => {}
    }
    object.watch.wake_all();
    object.release();
}

/// A descriptor number that the kernel just gave out by a call that makes no socket of ours (open, pipe, accept of
/// another family, ...): whatever we still knew of that number is stale.
pub fn recycled(fd: c_int) {
    became_other(fd, -1);
}

/// The number named `entry`, which is out of the table, and is another file's by now. `shadow`: as for
/// [`became_other`].
pub(crate) fn replaced(runtime: &'static Runtime, entry: Entry, fd: c_int, shadow: c_int) {
    if let Entry::Socket(object) = entry {
        object.shadow_changed.store(true, Ordering::Relaxed);
    }
    let_go(runtime, entry, fd, shadow);
}

/// The number is another file's by now. `shadow`: a duplicate of what it was; -1: there is none.
pub(crate) fn became_other(fd: c_int, shadow: c_int) {
    if let (Some(entry), Some(runtime)) = (fd_table::remove(fd), runtime::get()) {
        replaced(runtime, entry, fd, shadow);
    }
    counts::closed(fd..fd + 1);
}
