//! Calls that are the kernel's as the program makes them: on descriptors that are not ours, and on connections that
//! stay in the kernel for a while, as the judge says. They are made outside of all that is ours: nothing is postponed,
//! checked or waited for here. What others must know is written all the same: the call is in flight, and its bytes.
//!
//! What a call touches beside the kernel counts: where many processes take turns on a processor, each line of memory
//! and each page of code that it needs was pushed out meanwhile (`docs/design/carriers.md`).

use super::judge;
use crate::abi::SEND_DUMMY;
use crate::answer::Straight;
use crate::counts;
use crate::fd_table::{self, Entry};
use crate::memory;
use crate::message;
use crate::object::in_flight::{InFlight, LOOKS, SLEEPS, has_to_stay};
use crate::object::{Kind, Object};
use crate::runtime::Runtime;
use crate::threads::THREADS;
use core::sync::atomic::Ordering;
use libc::{c_int, nfds_t, pollfd, ssize_t};

/// Calls of a settled connection until the judge looks again.
const CALLS: u32 = 64;

/// Flags of calls that move bytes and leave the connection as it is.
const PLAIN: c_int =
    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_PEEK | libc::MSG_TRUNC | libc::MSG_CMSG_CLOEXEC;

/// A receive, or else a send, that is in the kernel with a settled connection.
pub struct Settled<const RECEIVES: bool>(InFlight);

impl<const RECEIVES: bool> Settled<RECEIVES> {
    /// The kernel's answer, which is the call's. Errno is left alone.
    #[inline]
    pub fn over(self, got: ssize_t) -> Option<ssize_t> {
        if let Ok(bytes @ 1..) = usize::try_from(got) {
            let object = self.0.object();
            object.traffic.add(bytes);
            counts::in_kernel(object.counts(), bytes, RECEIVES);
            if THREADS.is_trying() {
                THREADS.called(bytes);
            }
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
    if !is_settled(object) || flags & !PLAIN != 0 {
        return Straight::Ours;
    }
    let left = object.settled.load(Ordering::Relaxed);
    object.settled.store(left.saturating_sub(1), Ordering::Relaxed);
    let in_flight = InFlight::begin(object, if object.may_wait(flags) { SLEEPS } else { LOOKS });
    match object.kind() {
        Kind::Carried => Straight::Kernel(Settled(in_flight)),
        _ => Straight::Ours,
    }
}

/// As [`received`], for recvmsg(2): what comes by descriptors that are not ours is looked through for others.
#[inline]
pub fn received_message(fd: c_int, flags: c_int) -> Straight<Settled<true>> {
    ours_if_foreign(straight(fd, flags))
}

/// As [`sent`], for sendmsg(2).
#[inline]
pub fn sent_message(fd: c_int, flags: c_int) -> Straight<Settled<false>> {
    ours_if_foreign(straight(fd, flags))
}

fn ours_if_foreign<C>(way: Straight<C>) -> Straight<C> {
    if matches!(way, Straight::Foreign) { Straight::Ours } else { way }
}

/// A poll(2) of more descriptors is never made straight: its own work is what it costs.
const POLLED_MOST: usize = 8;

/// A poll(2) that is in the kernel with settled connections. None of them moves while it sleeps.
pub struct SettledPoll([Option<InFlight>; POLLED_MOST]);

impl SettledPoll {
    /// The kernel's answer, which is the call's. Errno is left alone.
    #[inline]
    pub fn over(self, found: c_int) -> Option<c_int> {
        Some(found)
    }
}

/// How a poll(2) is made. `looks`: it does not wait.
///
/// # Safety
/// `fds` is what the genuine call is given.
#[inline]
pub unsafe fn polled(fds: *mut pollfd, count: nfds_t, looks: bool) -> Straight<SettledPoll> {
    if count as usize > POLLED_MOST || !message::is_room(fds, count as usize) {
        return Straight::Ours;
    }
    let how = if looks { LOOKS } else { SLEEPS };
    let mut polled = SettledPoll(Default::default());
    let mut is_foreign = true;
    for at in 0..count as usize {
        // SAFETY: the caller's promise; `count` are there.
        let fd = unsafe { fds.add(at).read_unaligned() }.fd;
        match fd_table::entry(fd) {
            None => {}
            Some(Entry::Socket(object)) if is_settled(object) => {
                is_foreign = false;
                let in_flight = InFlight::begin(object, how);
                if object.kind() != Kind::Carried {
                    return Straight::Ours;
                }
                polled.0[at] = Some(in_flight);
            }
            _ => return Straight::Ours,
        }
    }
    if is_foreign { Straight::Foreign } else { Straight::Kernel(polled) }
}

/// Whether calls on it are made straight at the moment.
#[inline]
fn is_settled(object: &Object) -> bool {
    object.settled.load(Ordering::Relaxed) != 0 && (!THREADS.is_trying() || THREADS.is_kernels())
}

/// The judge looked at what the kernel carries, and did not move it: calls to come are made straight, if nothing that
/// they have to show could move it. `is_kept`: the process's connections are kept in the kernel.
#[inline]
pub(super) fn settle(runtime: &Runtime, object: &Object, is_kept: bool) {
    let is_settled = has_to_stay(object) || is_kept || judge::is_more_than_small(object);
    if is_settled
        && runtime.parameters.move_every == 0
        && !memory::may_be_here(runtime, object)
        && !memory::keeps(object)
        && counts::part(None).is_none()
        && !logger::enabled(logger::Level::Fine)
    {
        object.settled.store(CALLS, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Pin;

    /// No descriptor of the test's process.
    const NUMBER: c_int = 900_000;

    fn is_kernels(flags: c_int) -> bool {
        matches!(received(NUMBER, flags), Straight::Kernel(_))
    }

    #[test]
    fn what_has_settled_is_called_straight_until_the_judge_is_to_look() {
        assert!(matches!(sent(NUMBER, 0), Straight::Foreign));
        assert!(matches!(sent(NUMBER, SEND_DUMMY), Straight::Ours), "a dummy send is not the kernel's");
        let object = Object::new(Kind::Carried, NUMBER, true);
        assert!(fd_table::enter_socket(NUMBER, object));
        assert!(!is_kernels(0), "it has not settled");
        object.settled.store(2, Ordering::Relaxed);
        assert!(!is_kernels(libc::MSG_WAITALL), "that call decides where it stays");
        let Straight::Kernel(call) = sent(NUMBER, 0) else { panic!("it has settled") };
        assert_eq!(object.in_flight.load(Ordering::SeqCst), LOOKS);
        assert_eq!((call.over(7), object.traffic.seen()), (Some(7), (1, 7)));
        assert_eq!(object.in_flight.load(Ordering::SeqCst), 0);
        assert!(
            object.begin_move(&Pin::of_new(object)) && !is_kernels(0),
            "who moves it finds no call in flight"
        );
        assert_eq!(object.in_flight.load(Ordering::SeqCst), 0);
        object.set_kind(Kind::Carried);
        object.settled.store(1, Ordering::Relaxed);
        object.nonblocking.store(false, Ordering::Relaxed);
        let Straight::Kernel(call) = received(NUMBER, 0) else { panic!("it has settled") };
        assert_eq!(object.in_flight.load(Ordering::SeqCst), SLEEPS, "it may wait there");
        assert_eq!((call.over(-1), object.traffic.seen()), (Some(-1), (1, 7)));
        assert!(!is_kernels(0), "the judge is to look");
        assert!(fd_table::entry(NUMBER).is_some());
        fd_table::remove(NUMBER);
        object.release();
    }

    /// No descriptor of the test's process.
    const POLLED: c_int = 900_003;

    fn poll(fds: &[c_int], looks: bool) -> Straight<SettledPoll> {
        let mut fds: Vec<_> =
            fds.iter().map(|fd| pollfd { fd: *fd, events: libc::POLLIN, revents: 0 }).collect();
        // SAFETY: the array is there.
        unsafe { polled(fds.as_mut_ptr(), fds.len() as nfds_t, looks) }
    }

    #[test]
    fn what_has_settled_is_polled_straight_and_does_not_move_meanwhile() {
        assert!(matches!(poll(&[POLLED, -1], false), Straight::Foreign));
        let object = Object::new(Kind::Carried, POLLED, true);
        assert!(fd_table::enter_socket(POLLED, object));
        assert!(matches!(poll(&[0, POLLED], false), Straight::Ours), "it has not settled");
        object.settled.store(1, Ordering::Relaxed);
        let Straight::Kernel(call) = poll(&[0, POLLED], false) else { panic!("it has settled") };
        assert_eq!(object.in_flight.load(Ordering::SeqCst), SLEEPS);
        assert_eq!(call.over(1), Some(1));
        let Straight::Kernel(call) = poll(&[POLLED, POLLED], true) else { panic!("polls use nothing up") };
        assert_eq!(object.in_flight.load(Ordering::SeqCst), 2 * LOOKS);
        drop(call);
        assert!(matches!(poll(&[POLLED; POLLED_MOST + 1], true), Straight::Ours));
        assert!(
            object.begin_move(&Pin::of_new(object)) && matches!(poll(&[0, POLLED], false), Straight::Ours)
        );
        assert_eq!(object.in_flight.load(Ordering::SeqCst), 0);
        assert!(fd_table::entry(POLLED).is_some());
        fd_table::remove(POLLED);
        object.release();
    }
}
