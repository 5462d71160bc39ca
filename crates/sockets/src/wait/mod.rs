//! Waiting: all blocking of the library is here.
//!
//! `block.rs` spins, then sleeps, for every call; `poll.rs` and `epoll/` compute readiness over our
//! sockets and the kernel's; `object/watch.rs` wakes those who sleep when another thread's turn made their socket
//! ready; `moves.rs` wakes them when something else carries their socket from now on, and `in_kernel.rs` is how they
//! sleep while the kernel does; `presence.rs` is what others know of a wait, until it ends or a signal handler runs.

pub(crate) mod block;
pub(crate) mod epoll;
pub(crate) mod in_kernel;
pub(crate) mod in_memory;
pub(crate) mod moves;
pub(crate) mod poll;
pub(crate) mod presence;
pub(crate) mod waker;

use crate::lane::Lane;
use crate::object::{Kind, Object};
use stack::Ready;

/// The shadow is looked at this often while we spin, nanoseconds: the look is a system call.
pub(crate) const LOOK_NS: u64 = 20_000;

/// Readiness of a socket with legs, all legs together. The shadow's share is the kernel's to tell.
pub(crate) fn ready(object: &'static Object) -> Ready {
    if object.is_filtered() {
        crate::filter::vet(object);
    }
    if object.kind() == Kind::Memory {
        return in_memory::ready(object);
    }
    let mut ready = Ready::default();
    for (lane, id) in object.legs() {
        let inner = lane.lock();
        // One that has left its engine while the lock was waited for is somebody else's to tell.
        if object.leg_on(lane) == Some(id) {
            ready |= inner.stack.ready(id);
        }
    }
    ready
}

/// What the kernel's shadow of an active socket can contribute: datagrams and connections that came through the
/// kernel.
pub(crate) fn shadow_contributes(object: &Object) -> bool {
    matches!(object.kind(), Kind::Udp | Kind::Listener)
}

/// Whether the readiness of a socket is computed here, or a part of it.
#[inline]
pub(crate) fn is_active(object: &Object) -> bool {
    object.kind() == Kind::Memory || object.leg().is_some() && object.kind() != Kind::Free
}

/// A set of lanes as a mask of slots.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lanes(pub u32);

impl Lanes {
    /// Adds the lanes of a socket.
    pub(crate) fn add(&mut self, object: &Object) {
        for (lane, _) in object.legs() {
            self.0 |= 1 << lane.slot;
        }
    }

    /// The lanes of one socket.
    pub(crate) fn of(object: &Object) -> Lanes {
        let mut lanes = Lanes::default();
        lanes.add(object);
        lanes
    }

    /// A wait reports `count` ready sockets of these lanes.
    #[inline]
    pub(crate) fn report(self, count: usize, now: u64) {
        if count > 1 {
            self.each().for_each(|lane| lane.lock().gather.begin_round(count as u32, now));
        }
    }

    /// Each of them.
    #[inline]
    pub(crate) fn each(self) -> impl Iterator<Item = &'static Lane> {
        let runtime = crate::runtime::get();
        let mut left = self.0;
        core::iter::from_fn(move || {
            let slot = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            if slot < 32 { runtime?.lane(slot as usize) } else { None }
        })
    }
}
