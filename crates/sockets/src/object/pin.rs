//! Who changes what carries a socket holds a pin on it: the socket does not end meanwhile, nor does the number by which
//! it is changed become another file's. A close of that number waits until the pins are gone, some ten microseconds;
//! so nobody holds one while it waits for a peer or for the program. (Where the wire is demanded, an interface may be
//! opened under one, and a close waits for that.)
//!
//! A socket that is left to the kernel while it is pinned becomes another one's with the last pin.
//!
//! Who closes takes the number out of the table first, then looks for pins; who pins counts itself first, then looks
//! whether the number names the socket still. Each step is SeqCst, so one of the two sees the other.

use super::Object;
use core::sync::atomic::Ordering;

/// A pin in the count of those who use a socket (`Object::users`): it is a use, and one that a close waits for.
pub(crate) const PIN: u32 = 1 << 16 | 1;
/// From here on the count has pins.
const PINS: u32 = 1 << 16;

/// Tries before who waits sleeps between them: it may have the processor that the other needs.
const YIELDS: u32 = 100;
const PAUSE_NS: u64 = 20_000;

/// The socket stays what it is until this is dropped (wait/presence.rs).
pub(crate) struct Pin(&'static Object);

impl Pin {
    /// The caller looks behind it whether the socket is still what it takes it for.
    pub(crate) fn begin(object: &'static Object) -> Pin {
        object.users.fetch_add(PIN, Ordering::SeqCst);
        Pin(object)
    }

    /// Of a socket that no descriptor names yet.
    pub(crate) fn of_new(object: &'static Object) -> Pin {
        Pin::begin(object)
    }

    pub(crate) fn object(&self) -> &'static Object {
        self.0
    }
}

/// A number that named the socket does not any more, and is about to be another file's: returns when nobody who began
/// before changes the socket by it.
#[inline]
pub(crate) fn await_pins(object: &Object) {
    let mut tries = 0;
    while object.users.load(Ordering::SeqCst) >= PINS {
        pause(&mut tries);
    }
}

/// Between two looks at what another thread is about to do.
#[cold]
pub(crate) fn pause(tries: &mut u32) {
    *tries += 1;
    match *tries {
        ..YIELDS => sys::process::yield_now(),
        _ => sys::thread::sleep(PAUSE_NS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd_table;
    use crate::object::Kind;

    fn times_free(object: &'static Object) -> usize {
        crate::object::lock_free().iter().filter(|free| core::ptr::eq(**free, object)).count()
    }

    #[test]
    fn who_closes_a_number_waits_for_who_changes_the_socket_by_it() {
        let number = 900_030;
        let object = Object::new(Kind::Carried, number, false);
        assert!(fd_table::enter_socket(number, object));
        let pin = Pin::by(object, number).unwrap();
        let closed = std::thread::spawn(move || {
            fd_table::remove(number);
            await_pins(object);
            object.release();
        });
        while fd_table::names(number, object) {
            sys::process::yield_now();
        }
        assert!(Pin::by(object, number).is_none(), "it is being closed");
        assert!(!closed.is_finished() && object.kind() == Kind::Carried);
        drop(pin);
        closed.join().unwrap();
        assert_eq!(object.kind(), Kind::Free);
    }

    #[test]
    fn a_number_that_names_another_socket_pins_none() {
        let [one, other] = [900_031, 900_032].map(|number| {
            let object = Object::new(Kind::Udp, number, false);
            assert!(fd_table::enter_socket(number, object));
            object
        });
        assert!(Pin::by(one, 900_032).is_none() && Pin::known(one).is_some());
        fd_table::remove(900_032);
        other.fds.store(0, Ordering::SeqCst);
        assert!(Pin::known(other).is_none());
        assert_eq!((one.users.load(Ordering::SeqCst), other.users.load(Ordering::SeqCst)), (0, 0));
        fd_table::remove(900_031);
        one.release();
        other.release();
        assert_eq!(times_free(one), 1);
    }
}
