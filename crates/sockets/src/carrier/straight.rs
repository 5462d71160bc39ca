//! Calls that are the kernel's as the program makes them: on descriptors that are not ours, and on connections that
//! stay in the kernel for a while, as the judge says. They are made outside of all that is ours: nothing is postponed,
//! checked or waited for here. What others must know is written all the same: the call is in flight, and its bytes.
//!
//! What a call touches beside the kernel counts: where many processes take turns on a processor, each line of memory
//! and each page of code that it needs was pushed out meanwhile (`docs/design/carriers.md`).

use super::carried::has_to_stay;
use super::in_flight::{InFlight, LOOKS, SLEEPS};
use super::judge;
use super::may_wait;
use super::threads::THREADS;
use crate::counts;
use crate::extra::abi::SEND_DUMMY;
use crate::fd_table::{self, Entry};
use crate::memory;
use crate::object::{Kind, Object};
use crate::runtime::Runtime;
use core::sync::atomic::Ordering;
use libc::{c_int, ssize_t};

/// Calls of a settled connection until the judge looks again.
const CALLS: u32 = 64;

/// Flags of calls that move bytes and leave the connection as it is.
const PLAIN: c_int =
    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_PEEK | libc::MSG_TRUNC | libc::MSG_CMSG_CLOEXEC;

/// How a call on a descriptor is made.
pub enum Straight<C> {
    /// The descriptor is the kernel's alone.
    Foreign,
    /// By the kernel, and told when it is over.
    Kernel(C),
    /// By the socket layer.
    Ours,
}

/// A receive, or else a send, that is in the kernel with a settled connection.
pub struct Settled<const RECEIVES: bool>(InFlight);

impl<const RECEIVES: bool> Settled<RECEIVES> {
    /// The kernel's answer, which is the call's. Errno is left alone.
    #[inline]
    pub fn over(self, got: ssize_t) -> Option<ssize_t> {
        if let Ok(bytes @ 1..) = usize::try_from(got) {
            let object = self.0.object();
            object.traffic.add(bytes);
            counts::in_kernel(object, bytes, RECEIVES);
        }
        Some(got)
    }
}

/// How a receive with these flags is made.
#[inline]
pub fn received(fd: c_int, flags: c_int) -> Straight<Settled<true>> {
    straight(fd, flags)
}

/// How a send with these flags is made.
#[inline]
pub fn sent(fd: c_int, flags: c_int) -> Straight<Settled<false>> {
    straight(fd, flags)
}

#[inline]
fn straight<const RECEIVES: bool>(fd: c_int, flags: c_int) -> Straight<Settled<RECEIVES>> {
    let object = match fd_table::entry(fd) {
        Some(Entry::Socket(object)) => object,
        // A dummy send is never the kernel's, which would send it.
        None if flags & SEND_DUMMY == 0 => return Straight::Foreign,
        _ => return Straight::Ours,
    };
    let left = object.settled.load(Ordering::Relaxed);
    if left == 0 || flags & !PLAIN != 0 || THREADS.is_trying() {
        return Straight::Ours;
    }
    object.settled.store(left - 1, Ordering::Relaxed);
    let in_flight = InFlight::begin(object, if may_wait(object, flags) { SLEEPS } else { LOOKS });
    match object.kind() {
        Kind::Carried => Straight::Kernel(Settled(in_flight)),
        _ => Straight::Ours,
    }
}

/// The judge looked at what the kernel carries, and did not move it: calls to come are made straight, if nothing that
/// they have to show could move it. `is_kept`: the process's connections are kept in the kernel.
#[inline]
pub(super) fn settle(runtime: &Runtime, object: &Object, is_kept: bool) {
    let is_settled = has_to_stay(object) || is_kept || judge::is_more_than_small(object);
    if is_settled
        && runtime.parameters.move_every == 0
        && !memory::may_be_here(runtime, object)
        && counts::part(None).is_none()
        && !logger::enabled(logger::Level::Fine)
    {
        object.settled.store(CALLS, Ordering::Relaxed);
    }
}
