//! Back to the kernel's socket, as far as a step takes it there: what is owed goes by the socket, and then the object
//! is the kernel's.

use super::{debts, drop_bell, room, tell_kernels};
use crate::counts;
use crate::object::price::Role;
use crate::object::room::{Inner, Over, Room, Way, one_less};
use crate::object::{Kind, Object};
use ::memory::Joined;
use core::sync::atomic::Ordering;
use stats::Verdict;

/// For tests: calls that wait for the meeting.
pub(crate) const HURRIES: u32 = 2;

/// Bytes that go back to the socket at a time: on a caller's stack, which may be the smallest that there is.
const PIECE: usize = 2048;

/// Sends what the peer did not read here by the socket, from byte `done` of it on; how much. `ends`: a FIN follows,
/// which then comes with the last bytes: who sees them may count on it, as the end was there before the move. What the
/// socket takes no more, as the peer has ended, is over with.
#[inline(never)]
pub(crate) fn repay(joined: &Joined, tcp: i32, done: u64, ends: bool) -> u64 {
    let mut piece = [0; PIECE];
    let mut sent = 0;
    loop {
        let count = joined.owed(done + sent, &mut piece);
        if count == 0 {
            debts::count_paid(sent);
            return sent;
        }
        // (Others would wait for more that there is no room for.)
        let is_last = ends && is_repaid(joined, done + sent + count as u64);
        let more = if is_last { libc::MSG_MORE } else { 0 };
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | more;
        match sys::socket::send(tcp, &piece[..count], flags) {
            Ok(0) | Err(libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM) => {
                debts::count_paid(sent);
                return sent;
            }
            Ok(count) => sent += count as u64,
            Err(_) => sent += count as u64,
        }
    }
}

/// Whether nothing is owed.
pub(crate) fn is_repaid(joined: &Joined, done: u64) -> bool {
    joined.owed(done, &mut [0]) == 0
}

/// Tells the kernel's socket of the directions in `owed` that it carries; which those were. A FIN goes behind the last
/// byte that the peer did not read here.
pub(crate) fn pass_on_shut(joined: &Joined, tcp: i32, owed: u8, repaid: u64) -> u8 {
    let mut told = 0;
    if owed & 1 != 0 && joined.receives_by_socket() {
        let _ = sys::socket::shutdown(tcp, libc::SHUT_RD);
        told |= 1;
    }
    if owed & 2 != 0 && joined.has_left() && is_repaid(joined, repaid) {
        let _ = sys::socket::shutdown(tcp, libc::SHUT_WR);
        told |= 2;
    }
    told
}

/// Whether the kernel carries both directions again: the two agree, or there is nobody to agree with any more.
pub(crate) fn is_over(joined: &Joined, repaid: u64) -> bool {
    joined.is_back() && is_repaid(joined, repaid) || joined.is_leaving() && joined.has_peer_hung_up()
}

/// The kernel carries it from now on: for good, but where a fork took it there, or the peer for some reason.
pub(crate) fn finish(object: &'static Object, over: Over) {
    let Some(room) = room(object) else { return };
    let mut inner = room.inner.lock();
    if object.kind() != Kind::Memory || inner.meeting != over.meeting {
        return;
    }
    let why = over.why;
    let fd = object.fd.load(Ordering::Relaxed);
    if inner.has_drawn_reset() {
        // What was sent to nobody goes by the socket, and draws the RST there.
        let _ = sys::socket::send(fd, &[0], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    }
    // It was: the application shut it down meanwhile, as far as it knows.
    let shut = object.shut.swap(0, Ordering::Relaxed);
    for (bit, how) in [(1, libc::SHUT_RD), (2, libc::SHUT_WR)] {
        if shut & bit != 0 {
            let _ = sys::socket::shutdown(fd, how);
        }
    }
    let mut before = core::mem::take(&mut *inner);
    inner.rest = core::mem::take(&mut before.rest);
    // No call is made straight before it has looked here.
    object.settled.store(0, Ordering::Relaxed);
    room.keeps.store(inner.rest.kept.is_some(), Ordering::Release);
    if matches!(before.way, Way::Joined(_)) {
        let served = if why == Verdict::EachCallRings { 0 } else { before.served };
        before.role.inspect(|role| role.was_worth(served));
    }
    let comes_back = why == Verdict::PartedFromPeer && !before.stays_out;
    if why == Verdict::Shaken || comes_back {
        looks_again(room, &mut inner, before.role, comes_back);
    } else {
        object.price.store(u32::MAX, Ordering::SeqCst);
        room.looks.store(false, Ordering::Release);
    }
    match &before.way {
        Way::Joined(joined) => drop_bell(object, joined.descriptor()),
        Way::Meeting(meeting) => drop_bell(object, meeting.descriptor()),
        _ => {}
    }
    object.set_kind(Kind::Carried);
    drop(inner);
    drop(before);
    one_less();
    counts::from_memory(object.counts(), why);
    match why {
        Verdict::PartedFromPeer | Verdict::Shaken => logger::debug!("fd {fd}: the kernel carries it again"),
        why => tell_kernels(fd, why),
    }
}

/// A connection that has left looks for its peer again, at the next calls. `by_time`: one of the two may have it
/// together with others for long; for tests they meet as at first.
fn looks_again(room: &Room, inner: &mut Inner, role: Option<Role>, by_time: bool) {
    inner.role = role;
    inner.looks_again = by_time;
    inner.begun = sys::clock::now();
    // Nobody waits for that as for the first time.
    room.calls.store(HURRIES, Ordering::Relaxed);
}
