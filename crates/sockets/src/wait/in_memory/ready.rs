//! Readiness of a connection in memory, and what those who wait for it sleep on.

use super::{Bell, after, room};
use crate::fd_table;
use crate::object::Object;
use crate::object::room::{Inner, Way};
use crate::runtime::Runtime;
use crate::wait::epoll;
use ::memory::{End, Source, Wants};
use core::sync::atomic::Ordering;
use stack::Ready;

/// One look at what has come; whether anything has. Edges are told to those who wait.
#[inline]
pub(crate) fn poll(runtime: &'static Runtime, object: &'static Object, now: u64) -> bool {
    turn(runtime, object, now, Bell::IfDue)
}

/// As [`poll`], for who is told when the bell rings.
#[inline]
pub(crate) fn poll_unheard(runtime: &'static Runtime, object: &'static Object, now: u64) -> bool {
    turn(runtime, object, now, Bell::Unheard)
}

/// As [`poll`], after a sleep that the bell ended.
pub(crate) fn rung(runtime: &'static Runtime, object: &'static Object) {
    turn(runtime, object, sys::clock::now(), Bell::Rung);
}

/// A peer asked for attention, which one it does not say.
pub(crate) fn look_at_all(runtime: &'static Runtime) {
    let sockets = (0..fd_table::end()).filter_map(fd_table::socket);
    sockets.filter(|object| super::is_in(object)).for_each(|object| rung(runtime, object));
}

fn turn(runtime: &'static Runtime, object: &'static Object, now: u64, bell: Bell) -> bool {
    let Some(room) = room(object) else { return false };
    let news = {
        let mut inner = room.inner.lock();
        if !super::is_in(object) {
            return false;
        }
        inner.go_on(object.fd.load(Ordering::SeqCst), now, bell)
    };
    after(runtime, object, &news);
    news.edges != Ready::default()
}

/// The part of the readiness that is not the kernel's to tell.
pub(crate) fn ready(object: &Object) -> Ready {
    let Some(room) = room(object) else { return Ready::default() };
    let (ready, became_stuck) = {
        let mut inner = room.inner.lock();
        let was_stuck = inner.is_stuck;
        (inner.ready(object.shut.load(Ordering::Relaxed)), inner.is_stuck && !was_stuck)
    };
    if became_stuck {
        epoll::look_at(object);
    }
    ready
}

impl Inner {
    /// Whether something was sent to a peer that was gone, or did not read it before it went: the RST has come.
    pub(crate) fn has_drawn_reset(&self) -> bool {
        self.sent_in_vain
            || !self.part.receives
                && matches!(&self.way, Way::Joined(joined) if joined.was_left_unread() && !joined.has_left())
    }

    /// `shut`: the directions that were shut down from here, as in [`Object::shut`].
    fn ready(&mut self, shut: u8) -> Ready {
        let mut ready = Ready::default();
        let (part, told_reset, has_drawn_reset) = (self.part, self.told_reset, self.has_drawn_reset());
        let Way::Joined(joined) = &mut self.way else { return ready };
        let end = joined.ended();
        let mut peer_ended = false;
        if joined.source() == Source::Segment && joined.unread() > 0 {
            ready |= Ready::IN;
        }
        if !part.receives {
            peer_ended = joined.peer_has_ended();
            if end.is_some() || shut & 1 != 0 {
                ready |= Ready::IN;
            }
            if peer_ended || shut & 1 != 0 {
                ready |= Ready::RDHUP;
            }
        }
        let is_reset = end == Some(End::Reset);
        if is_reset && !told_reset {
            ready |= Ready::ERR;
        }
        // What was sent to nobody has drawn the RST.
        if is_reset || has_drawn_reset || peer_ended && shut & 2 != 0 || shut == 3 {
            ready |= Ready::HUP;
        }
        if !part.sends && (joined.is_writable() || shut & 2 != 0) && !joined.is_leaving() {
            ready |= Ready::OUT;
        } else if !part.sends {
            self.is_stuck = true;
        }
        ready
    }
}

/// What the kernel's socket is to be asked for of `events`: 0, nothing.
pub(crate) fn kernel_part(object: &Object, events: i16) -> i16 {
    let part = room(object).map_or_else(super::Part::default, |room| room.inner.lock().part);
    let mut mine = 0;
    if part.receives {
        mine |= libc::POLLIN | libc::POLLRDNORM | libc::POLLRDHUP | libc::POLLPRI | libc::POLLRDBAND;
    }
    if part.sends {
        mine |= libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND;
    }
    events & mine
}

/// A thread is about to sleep: the peer is told what to ring for. The caller looks once more before it sleeps.
pub(crate) fn arm(object: &'static Object) {
    let Some(room) = room(object) else { return };
    let inner = room.inner.lock();
    if let Way::Joined(joined) = &inner.way {
        joined.want(if inner.is_stuck { Wants::BOTH } else { Wants::DATA });
    }
}

/// A sleep is over that something else has ended: the peer need not ring. False: there is nobody to tell. Who else
/// sleeps for the connection is to say what to ring for again: threads are woken here, sets the caller tells.
pub(crate) fn disarm(object: &Object) -> bool {
    let Some(room) = room(object) else { return false };
    match &room.inner.lock().way {
        Way::Joined(joined) if !joined.has_peer_hung_up() => joined.want_no_more(Wants::BOTH),
        _ => return false,
    }
    object.watch.wake_sleepers();
    true
}

/// The descriptor that ends such a sleep; `None`: there is nothing more to hear.
pub(crate) fn bell(object: &Object) -> Option<i32> {
    with_bell(object, |bell| bell)
}

/// Hangs the bell up somewhere, or takes it down: under the room's lock, so that it is not closed meanwhile, and its
/// number another one's. `None`: there is nothing more to hear.
pub(crate) fn with_bell<T>(object: &Object, act: impl FnOnce(i32) -> T) -> Option<T> {
    let inner = room(object)?.inner.lock();
    let bell = match &inner.way {
        Way::Meeting(meeting) => meeting.descriptor(),
        Way::Joined(joined) if !joined.has_peer_hung_up() => joined.descriptor(),
        _ => return None,
    };
    Some(act(bell))
}

/// As [`with_bell`], of a peer that has ended: its bell is readable for ever.
pub(crate) fn with_silent_bell(object: &Object, act: impl FnOnce(i32)) {
    let Some(room) = room(object) else { return };
    match &room.inner.lock().way {
        Way::Joined(joined) if joined.has_peer_hung_up() => act(joined.descriptor()),
        _ => {}
    }
}
