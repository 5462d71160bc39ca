//! What carries a socket, and waits that begin on one carrier and end on another.
//!
//! A socket of ours is carried by the kernel or by an engine, and that changes while threads wait: a datagram socket
//! without a port gets one, a descriptor in an epoll set is connected, a connection goes to the kernel. So every wait
//! is known to what it waits for, whatever carries that at the moment: it registers its thread's eventfd with each
//! socket and each set, then looks who carries them, then sleeps on something that the eventfd ends. Whoever changes a
//! carrier says so here, afterwards, by one call; all who wait look again from the start.
//!
//! ```text
//!   the wait                             carried by an engine               carried by the kernel
//!   recv, accept, send, connect          block.rs                           in_kernel.rs, `call`
//!   poll, select                         block.rs, over both                in_kernel.rs, `poll`
//!   epoll_wait                           block.rs, over both                epoll/wait.rs, until its private set
//! ```
//!
//! A wait learns of a change by the count of moves of what it waits for: it reads that first, then who carries what.

use super::LOOK_NS;
use super::epoll::{self, Set};
use super::presence::{Mark, Presence};
use super::waker;
use crate::object::Object;
use crate::os::Os;
use core::sync::atomic::{Ordering, fence};

/// The carrier of this socket changed: its legs came, went, or stand elsewhere. Wakes all who wait, in whatever call,
/// and brings the epoll sets that hold it into the new form. No lane's lock may be held.
pub(crate) fn changed(os: &Os, object: &'static Object) {
    epoll::follow(os, object, None);
    moved(object);
}

/// As [`changed`], for a socket that the sets have let go of already, or that is in none.
pub(crate) fn moved(object: &Object) {
    object.moves.fetch_add(1, Ordering::SeqCst);
    object.watch.wake_sleepers();
}

/// What a wait is about: sockets, and epoll sets that are polled as descriptors.
#[derive(Clone, Copy, Default)]
pub(crate) struct Watched<'a> {
    pub objects: &'a [&'static Object],
    pub sets: &'a [&'static Set],
}

impl Watched<'_> {
    /// How often carriers have changed, all together.
    #[inline]
    pub(crate) fn moves(&self) -> u32 {
        let objects = self.objects.iter().map(|object| object.moves.load(Ordering::Acquire));
        let sets = self.sets.iter().map(|set| set.moves.load(Ordering::Acquire));
        objects.chain(sets).fold(0, u32::wrapping_add)
    }
}

/// The calling thread is known as a sleeper until this is dropped, or a handler runs.
pub(super) struct Sleeper {
    presence: Presence,
    pub eventfd: i32,
}

impl Sleeper {
    /// Registers the thread. The caller looks at carriers and readiness once more, then sleeps.
    pub(super) fn begin(watched: Watched<'_>) -> Sleeper {
        let eventfd = waker::of_this_thread();
        let objects = watched.objects.iter().map(|object| Mark::SleepsFor(object, eventfd));
        let sets = watched.sets.iter().map(|set| Mark::Polls(set, eventfd));
        let presence = Presence::begin(objects.chain(sets));
        // Against who changes a carrier, then looks for sleepers.
        fence(Ordering::SeqCst);
        Sleeper { presence, eventfd }
    }

    /// For how long it may sleep of what is `left`. Without an eventfd nobody wakes it: another thread may have taken
    /// the ring, or the packets, that it sleeps for. Then it looks by itself.
    pub(super) fn part(&self, left: Option<u64>) -> Option<u64> {
        match self.eventfd {
            0.. => left,
            _ => Some(left.map_or(LOOK_NS, |left| left.min(LOOK_NS))),
        }
    }

    /// See [`Presence::has_left`].
    pub(super) fn has_left(&self) -> bool {
        self.presence.has_left()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_be_woken_looks_by_itself() {
        let of = |eventfd| Sleeper { presence: Presence::begin(core::iter::empty()), eventfd };
        assert_eq!((of(900).part(None), of(900).part(Some(LOOK_NS * 9))), (None, Some(LOOK_NS * 9)));
        assert_eq!((of(-1).part(None), of(-1).part(Some(LOOK_NS * 9))), (Some(LOOK_NS), Some(LOOK_NS)));
        assert_eq!(of(-1).part(Some(1)), Some(1));
    }
}
