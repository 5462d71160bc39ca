//! Back to the kernel's socket, where all that this process cannot follow happens; and the end of a connection.
//!
//! Who leaves says so in the segment, and waits for nobody. What it did not read comes again by the socket; what it
//! sends waits until the other side has answered, which takes it one call, or one ring of the bell.

use super::{Bell, after, drop_bell, meet, room};
use crate::answer::{Answer, Stop, Why};
use crate::counts;
use crate::errno::fail;
use crate::fd_table;
use crate::object::holders;
use crate::object::room::{Way, one_less};
use crate::object::{Kind, Object};
use crate::runtime::Runtime;
use ::memory::{End, Joined};
use core::sync::atomic::Ordering;
use libc::c_int;
use stack::Ready;
use stats::Verdict;

/// How long a process that is about to fork or to give a connection away waits for the other sides' answers.
const PATIENCE_NS: u64 = 100_000_000;
const LOOK_NS: u64 = 20_000;
/// Bytes that go back to the socket at a time: on a caller's stack, which may be the smallest that there is.
const PIECE: usize = 2048;

/// Sends what the peer did not read here by the socket, from byte `done` of it on; how much. `ends`: a FIN follows,
/// which then comes with the last bytes: who sees them may count on it, as the end was there before the move.
#[inline(never)]
pub(super) fn repay(joined: &Joined, tcp: i32, done: u64, ends: bool) -> u64 {
    let more = if ends { libc::MSG_MORE } else { 0 };
    let mut piece = [0; PIECE];
    let mut sent = 0;
    loop {
        let count = joined.owed(done + sent, &mut piece);
        if count == 0 {
            return sent;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | more;
        match sys::socket::send(tcp, &piece[..count], flags) {
            Ok(count @ 1..) => sent += count as u64,
            _ => return sent,
        }
    }
}

/// Whether nothing is owed.
pub(super) fn is_repaid(joined: &Joined, done: u64) -> bool {
    joined.owed(done, &mut [0]) == 0
}

/// Tells the kernel's socket of the directions in `owed` that it carries; which those were. A FIN goes behind the last
/// byte that the peer did not read here.
pub(super) fn pass_on_shut(joined: &Joined, tcp: i32, owed: u8, repaid: u64) -> u8 {
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
pub(super) fn is_over(joined: &Joined, repaid: u64) -> bool {
    joined.is_back() && is_repaid(joined, repaid) || joined.is_leaving() && joined.is_alone()
}

/// The kernel carries it from now on: for good, but where a fork took it there, or the peer for some reason.
pub(super) fn finish(object: &'static Object, why: Verdict) {
    let Some(room) = room(object) else { return };
    let mut inner = room.inner.lock();
    if object.kind() != Kind::Memory {
        return;
    }
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
    let before = core::mem::take(&mut *inner);
    if matches!(before.way, Way::Joined(_)) {
        let served = if why == Verdict::EachCallRings { 0 } else { before.served };
        before.role.inspect(|role| role.was_worth(served));
    }
    let comes_back = why == Verdict::PartedFromPeer && !before.stays_out;
    if why == Verdict::Shaken || comes_back {
        meet::looks_again(room, &mut inner, before.role, comes_back);
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
        why => super::tell_kernels(fd, why),
    }
}

/// The connection goes back to the kernel's socket, which it stays with. It has when the object is [`Kind::Carried`]:
/// at once, if the peer answers soon.
#[cold]
pub(crate) fn leave(runtime: &'static Runtime, object: &'static Object, why: &str) {
    begin_to_leave(runtime, object, why, true);
    wait_until(runtime, || object.kind() != Kind::Memory, &[object]);
}

/// As [`leave`], before the program is replaced: what it shut down is so for the next one, whatever the peer says.
#[cold]
pub(crate) fn leave_to_next(runtime: &'static Runtime, object: &'static Object, why: &str) {
    leave(runtime, object, why);
    if object.kind() == Kind::Memory && object.shut.load(Ordering::Relaxed) & 2 != 0 {
        let _ = sys::socket::shutdown(object.fd.load(Ordering::Relaxed), libc::SHUT_WR);
    }
}

/// `for_good`: this side does not look for its peer again.
fn begin_to_leave(runtime: &'static Runtime, object: &'static Object, why: &str, for_good: bool) {
    let Some(room) = room(object) else { return };
    let fd = object.fd.load(Ordering::Relaxed);
    let (news, is_apart) = {
        let mut inner = room.inner.lock();
        if object.kind() != Kind::Memory {
            return;
        }
        inner.stays_out |= for_good;
        let mut is_apart = false;
        match core::mem::take(&mut inner.way) {
            Way::Meeting(meeting) => match meeting.give_up(fd) {
                Some(mut joined) => {
                    joined.leave();
                    inner.way = Way::Joined(joined);
                }
                None => is_apart = true,
            },
            Way::Joined(mut joined) => {
                joined.hear(fd);
                joined.take_in();
                if !joined.is_alone() {
                    joined.leave();
                }
                // What the dead have sent is nowhere else; without it the kernel's socket says how they ended.
                is_apart = joined.is_alone() && joined.unread() == 0;
                inner.way = Way::Joined(joined);
            }
            way => inner.way = way,
        }
        logger::debug!("fd {fd}: leaves the memory: {why}");
        let news =
            if is_apart { super::News::default() } else { inner.go_on(fd, sys::clock::now(), Bell::Rung) };
        (news, is_apart)
    };
    if is_apart {
        finish(object, Verdict::PartedFromPeer);
        super::moves::changed(&runtime.os, object);
    }
    after(runtime, object, &news);
}

fn wait_until(runtime: &'static Runtime, is_done: impl Fn() -> bool, objects: &[&'static Object]) {
    let until = sys::clock::now() + PATIENCE_NS;
    while !is_done() && sys::clock::now() < until {
        sys::thread::sleep(LOOK_NS);
        objects.iter().for_each(|object| super::rung(runtime, object));
    }
}

/// Before a fork: what both processes may use afterwards is the kernel's, and nobody comes to a place that two have.
/// Who has a connection alone again looks for the peer again.
pub(crate) fn before_fork(runtime: &'static Runtime) {
    let sockets = || (0..fd_table::end()).filter_map(fd_table::socket);
    let mut leaving = Vec::new();
    for object in sockets() {
        let Some(room) = room(object) else { continue };
        if object.kind() == Kind::Memory {
            begin_to_leave(runtime, object, "the process forks", false);
            leaving.push(object);
        } else if matches!(room.inner.lock().way, Way::Offered(_)) {
            withdraw(object);
        }
    }
    if !leaving.is_empty() {
        let all = || leaving.iter().all(|object| object.kind() != Kind::Memory);
        wait_until(runtime, all, &leaving);
    }
    // The child gets these as well, and nobody counts who has them.
    for object in leaving {
        let Some(room) = room(object) else { continue };
        let mut inner = room.inner.lock();
        inner.stays_out |= object.kind() == Kind::Memory;
    }
}

/// Takes an offer back.
fn withdraw(object: &'static Object) {
    let Some(room) = room(object) else { return };
    let mut inner = room.inner.lock();
    if matches!(inner.way, Way::Offered(_)) {
        inner.way = Way::Apart;
        one_less();
    }
}

/// In the child of a fork: what is in memory is the parent's.
pub(crate) fn after_fork(object: &'static Object, child: &sys::InChild) {
    meet::forget_count();
    let Some(room) = room(object) else { return };
    room.inner.take_over(child);
    let mut inner = room.inner.lock();
    inner.way = Way::Apart;
    if object.kind() == Kind::Memory {
        inner.role = None;
        room.looks.store(false, Ordering::Release);
    }
}

/// shutdown(2).
pub(crate) fn shutdown(runtime: &'static Runtime, object: &'static Object, how: c_int) -> Answer<c_int> {
    let bits = match how {
        libc::SHUT_RD => 1,
        libc::SHUT_WR => 2,
        libc::SHUT_RDWR => 3,
        _ => return fail(libc::EINVAL),
    };
    let Some(room) = room(object) else { return fail(libc::ENOTCONN) };
    super::poll(runtime, object, sys::clock::now());
    {
        let mut inner = room.inner.lock();
        if !super::is_in(object) {
            return Err(Stop::Kernel(Why::NotOurs));
        }
        if !matches!(inner.way, Way::Joined(_)) {
            drop(inner);
            begin_to_leave(runtime, object, "shutdown during the meeting", true);
            if object.kind() != Kind::Memory {
                return Err(Stop::Kernel(Why::NotOurs));
            }
            inner = room.inner.lock();
        }
        object.shut.fetch_or(bits, Ordering::Relaxed);
        let owed = inner.shut_owed | bits;
        let repaid = inner.repaid;
        if let Way::Joined(joined) = &mut inner.way {
            if bits & 2 != 0 {
                joined.shut();
            }
            let told = pass_on_shut(joined, object.fd.load(Ordering::Relaxed), owed, repaid);
            inner.shut_owed = owed & !told;
        }
    }
    object.watch.edge(Ready::IN | Ready::OUT | Ready::RDHUP | Ready::HUP);
    object.watch.wake_sleepers();
    Ok(0)
}

/// SO_ERROR: the error that nobody was told yet; `None`: the kernel tells.
pub(crate) fn take_error(runtime: &'static Runtime, object: &'static Object) -> Option<c_int> {
    super::poll(runtime, object, sys::clock::now());
    let mut inner = room(object)?.inner.lock();
    let Way::Joined(joined) = &inner.way else { return None };
    if inner.part.receives {
        return None;
    }
    let is_reset = joined.ended() == Some(End::Reset);
    if is_reset && !inner.told_reset {
        inner.told_reset = true;
        return Some(libc::ECONNRESET);
    }
    Some(0)
}

/// Whether TCP's state would be CLOSED: the two ends have both ended, or the connection was reset.
pub(crate) fn is_closed(runtime: &'static Runtime, object: &'static Object) -> bool {
    super::poll(runtime, object, sys::clock::now());
    let Some(room) = room(object) else { return false };
    let inner = room.inner.lock();
    let Way::Joined(joined) = &inner.way else { return false };
    let has_shut = object.shut.load(Ordering::Relaxed) & 2 != 0;
    inner.told_reset
        || inner.has_drawn_reset()
        || !inner.part.receives && (joined.ended() == Some(End::Reset) || has_shut && joined.peer_has_ended())
}

/// The last descriptor of a connection is closed: as TCP's, it is reset if something is unread, or if that is asked for
/// (SO_LINGER of no time).
pub(crate) fn close(object: &'static Object, fd: c_int) {
    let Some(room) = room(object) else { return };
    let mut inner = room.inner.lock();
    let way = core::mem::take(&mut inner.way);
    let is_counted = !matches!(way, Way::Apart);
    if matches!(way, Way::Meeting(_) | Way::Joined(_)) {
        inner.role.inspect(|role| role.was_worth(inner.served));
    }
    inner.role = None;
    match way {
        Way::Meeting(meeting) => {
            // If the peer has begun, what it sent is unread.
            if let Some(mut joined) = meeting.give_up(fd) {
                joined.take_in();
                end(&mut joined, false);
            }
        }
        Way::Joined(mut joined) => {
            joined.hear(fd);
            joined.take_in();
            if joined.has_left() {
                inner.repaid += repay(&joined, fd, inner.repaid, true);
            }
            let lingers_not = object.control.lock().linger == Some(0);
            end(&mut joined, lingers_not);
        }
        Way::Apart | Way::Offered(_) => {}
    }
    if is_counted {
        one_less();
    }
    holders::leave(object);
}

fn end(joined: &mut Joined, resets: bool) {
    if resets || joined.unread() > 0 {
        joined.abort();
    } else {
        joined.shut();
    }
}
