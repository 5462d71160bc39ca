//! One function per intercepted call, with libc's name and arguments. `Kernel` means: call the genuine function with
//! the same arguments. Null pointers are allowed wherever libc allows them.
//!
//! # Safety
//! All of these: pointers are the application's, valid as the call's manual page demands.
#![allow(clippy::missing_safety_doc)]

mod confine;
mod descriptor;
mod passing;
mod process;
mod receive;
pub mod sdp;
mod select;
mod send;
mod socket;
mod wait;
mod whole;

pub use crate::answer::Straight;
pub use crate::carrier::{Settled, SettledPoll, polled, received, received_message, sent, sent_message};
pub use crate::closing::recycled;
pub use crate::ending::exiting;
pub use crate::message::{can_be_read, faults_are_caught};
pub use crate::wait::epoll::{InKernel, waited};
pub use crate::wait::presence::leave;
pub use confine::{confine, confine_ports, filter, leaving_files};
pub use descriptor::{close, close_range, dup, dup3, fcntl, ioctl, is_internal, knows};
pub use passing::{copying, hand_on, passing, rings_are_unseen, starting_program, used_by};
pub use process::{
    executing, fork_begins, fork_done, fork_done_in_child, forked_child, opened, panicked, start,
    tells_of_crashes,
};
pub use receive::{readv, recvfrom, recvmmsg, recvmsg};
pub use send::{sendmmsg, sendmsg, sendto, writev};
pub use socket::{
    accept4, accepted, accepts, accepts_next, bind, connect, getpeername, getsockname, getsockopt, listen,
    setsockopt, shutdown, socket, took_client,
};
pub use wait::{epoll_create1, epoll_ctl, epoll_pwait2, has_unseen_sets, ppoll, pselect};
pub use whole::{sendfile64, splice};

use crate::answer::{Answer, Stop};
use crate::carrier;
use crate::fd_table;
use crate::lookup::{hearing, hearing_for, kernel, ours, ours_for};
use crate::object::in_flight::InFlight;
use crate::object::{Kind, Object};
use core::sync::atomic::Ordering;
use libc::c_int;

/// A call that does not wait, by whatever carries the socket: `ours`, or where that says so the kernel's, during which
/// nobody moves the connection.
pub fn steady<T>(fd: c_int, ours: impl FnMut() -> Answer<T>, genuine: impl Fn() -> T) -> Answer<T> {
    by_what_carries(fd, carrier::looks, ours, genuine)
}

/// As [`steady`], for a call that may wait: `genuine` lets handlers run.
pub fn steady_wait<T>(fd: c_int, ours: impl FnMut() -> Answer<T>, genuine: impl Fn() -> T) -> Answer<T> {
    by_what_carries(fd, carrier::waits_there, ours, genuine)
}

#[inline]
fn by_what_carries<T>(
    fd: c_int,
    in_kernel: impl Fn(&'static Object) -> Option<InFlight>,
    mut ours: impl FnMut() -> Answer<T>,
    genuine: impl Fn() -> T,
) -> Answer<T> {
    loop {
        // Who moves it changes the kind first, and counts the move a little later.
        let carried = |object: &Object| (object.kind(), object.moves.load(Ordering::SeqCst));
        let before = fd_table::socket(fd).map(|object| (object, carried(object)));
        let answer = ours();
        let (Err(Stop::Kernel(_)), Some((object, before))) = (&answer, before) else { return answer };
        if let Some(_in_flight) = in_kernel(object) {
            return Ok(genuine());
        }
        if carried(object) == before {
            return answer;
        }
    }
}

/// Whether the descriptor's connection is the kernel's, and may move.
#[cold]
fn is_carried(object: &'static Object, fd: c_int) -> bool {
    matches!(object.kind(), Kind::Carried | Kind::Moving) && fd_table::names(fd, object)
}

/// Whether a call that found no connection where it looked is to look again who carries it: it has moved since the
/// count was `moves`, perhaps there and back. Its shadow would answer for a connection that it has not got.
#[cold]
fn has_moved(object: &'static Object, fd: c_int, moves: u32) -> bool {
    let has_come_back = object.kind() == Kind::Stream && object.moves.load(Ordering::Acquire) != moves;
    is_carried(object, fd) || has_come_back && fd_table::names(fd, object)
}
