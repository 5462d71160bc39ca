//! Connections inside the host that travel through memory (the crate `memory`), as sockets.
//!
//! ```text
//!   the object is      its room holds           bytes go
//!   `Kind::Carried`    nothing, or an offer     by the kernel's socket
//!   `Kind::Memory`     a meeting                by the kernel's socket, until the other side begins
//!   `Kind::Memory`     a joined connection      by the segment; by the socket before and after it
//! ```
//!
//! `meet.rs` says when a connection looks for its other side, and makes it [`Kind::Memory`]: after how many calls
//! (`object/price.rs`), and which connections do so that no rule names (`place.rs`); `data.rs` sends and
//! receives; `leave.rs` goes back to the kernel's socket, and ends; `wait/in_memory/` has the steps that all of these
//! take; `judge.rs` says who is better carried there.
//!
//! As long as the kernel's socket has a part in a connection ([`crate::object::room::Part`]), the kernel tells that
//! part's readiness: its socket stays in poll's array and in epoll sets, for just these events. Whenever the part
//! changes, so does the count of moves, and all who wait look again from the start.

mod data;
mod judge;
mod kept;
mod leave;
mod meet;
mod place;

pub(crate) use data::{receive, send, unread};
pub(crate) use kept::{keeps, or_kept, still_keeps, was_reset};
pub(crate) use leave::{
    after_fork, before_fork, close, is_closed, leave, leave_to_next, shutdown, take_error, tcp_state,
};
pub(crate) use meet::{NoMeetings, accepted, accepted_sdp, before_call, connected, know_options, looks};
pub(crate) use place::{before_first_call, may_be_here, may_ever_meet};

use crate::object::Object;
use crate::object::room::{Sign, Way};
use crate::wait::in_memory::{forget_debts, room};
use ::memory::sign::{self, Takes};

/// In the child of a fork: what the process had on its way is the parent's.
pub(crate) fn forget_parent(child: &sys::InChild) {
    ::memory::attention::after_fork(child);
    forget_debts(child);
    meet::forget_parent();
}

/// A listener speaks SDP from now on: its sign goes up.
pub(crate) fn listens(object: &'static Object, fd: i32, takes: Takes) {
    let up = sys::socket::own_end(fd).and_then(|end| sign::put_up(end, takes));
    object.room_or_new().inner.lock().sign = Some(Sign { takes, _up: up.ok() });
}

/// Whom a listener takes in; `None`: it does not speak SDP.
pub(crate) fn takes(listener: &Object) -> Option<Takes> {
    room(listener)?.inner.lock().sign.as_ref().map(|sign| sign.takes)
}

/// Whether nothing is known of a socket's way through memory.
pub(crate) fn is_strange_to(object: &Object) -> bool {
    room(object).is_none_or(|room| {
        let inner = room.inner.lock();
        inner.role.is_none() && inner.sign.is_none() && matches!(inner.way, Way::Apart)
    })
}
