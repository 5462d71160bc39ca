//! Back to the kernel's socket, where all that this process cannot follow happens; and the end of a connection.
//!
//! Who leaves says so in the segment, and waits for nobody. What it did not read comes again by the socket; what it
//! sends waits until the other side has answered, which takes it one call, or one ring of the bell.

use super::meet;
use crate::answer::{Answer, Stop, Why};
use crate::errno::fail;
use crate::fd_table;
use crate::object::room::{Way, one_less};
use crate::object::{Kind, Object};
use crate::object::{holders, in_flight};
use crate::runtime::Runtime;
use crate::wait::in_memory::{
    Bell, News, after, finish, is_in, is_repaid, leave_behind, pass_on_shut, poll, repay, reset_at_close,
    room, rung,
};
use crate::wait::moves;
use ::memory::{End, Joined};
use core::sync::atomic::Ordering;
use libc::c_int;
use stack::Ready;
use stack::tcp::State;
use stats::Verdict;

/// How long a process that is about to fork or to give a connection away waits for the other sides' answers.
const PATIENCE_NS: u64 = 100_000_000;
const LOOK_NS: u64 = 20_000;

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
    let (news, apart) = {
        let mut inner = room.inner.lock();
        if object.kind() != Kind::Memory {
            return;
        }
        inner.stays_out |= for_good;
        let mut is_apart = false;
        match core::mem::take(&mut inner.way) {
            Way::Meeting(meeting) => match meeting.give_up(fd) {
                Some(mut joined) => {
                    joined.take_in();
                    inner.keep(&joined, fd);
                    joined.leave();
                    inner.way = Way::Joined(joined);
                }
                None => is_apart = true,
            },
            Way::Joined(mut joined) => {
                joined.hear(fd);
                joined.take_in();
                inner.keep(&joined, fd);
                if !joined.has_peer_hung_up() {
                    joined.leave();
                }
                // Else what the dead have sent is nowhere but here.
                is_apart = joined.has_peer_hung_up() && (joined.unread() == 0 || inner.rest.kept.is_some());
                inner.way = Way::Joined(joined);
            }
            way => inner.way = way,
        }
        logger::debug!("fd {fd}: leaves the memory: {why}");
        let news = if is_apart { News::default() } else { inner.go_on(fd, sys::clock::now(), Bell::Rung) };
        (news, is_apart.then(|| inner.over(Verdict::PartedFromPeer)))
    };
    if let Some(apart) = apart {
        finish(object, apart);
        moves::changed(&runtime.os, object);
    }
    after(runtime, object, &news);
}

fn wait_until(runtime: &'static Runtime, is_done: impl Fn() -> bool, objects: &[&'static Object]) {
    let until = sys::clock::now() + PATIENCE_NS;
    while !is_done() && sys::clock::now() < until {
        sys::thread::sleep(LOOK_NS);
        objects.iter().for_each(|object| rung(runtime, object));
    }
}

/// Before a fork: what both processes may use afterwards is the kernel's, and nobody comes to a place that two have.
/// Who has a connection alone again looks for the peer again.
pub(crate) fn before_fork(runtime: &'static Runtime) -> meet::NoMeetings {
    let none_meet = meet::NoMeetings::begin();
    let sockets = || (0..fd_table::end()).filter_map(fd_table::socket);
    let mut leaving = Vec::new();
    for object in sockets() {
        let Some(room) = room(object) else { continue };
        in_flight::wait_while_moving(object);
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
    none_meet
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

/// In the child of a fork: what is in memory is the parent's. True: bytes are kept that the child may need, too.
pub(crate) fn after_fork(object: &'static Object, child: &sys::InChild) -> bool {
    let Some(room) = room(object) else { return false };
    room.inner.take_over(child);
    let mut inner = room.inner.lock();
    inner.way = Way::Apart;
    if object.kind() == Kind::Memory {
        inner.role = None;
        room.looks.store(false, Ordering::Release);
        room.keeps.store(inner.rest.kept.is_some(), Ordering::Release);
    }
    inner.rest.kept.is_some()
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
    poll(runtime, object, sys::clock::now());
    {
        let mut inner = room.inner.lock();
        if !is_in(object) {
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
        let is_shut = object.shut.load(Ordering::Relaxed) == 3;
        let owed = inner.shut_owed | bits;
        let repaid = inner.repaid;
        let inner = &mut *inner;
        if let Way::Joined(joined) = &mut inner.way {
            if bits & 2 != 0 {
                joined.shut();
            }
            inner.takes_until = is_shut.then(|| joined.came());
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
    if super::keeps(object) {
        // Whose stream then ends has ended by a reset.
        let fd = object.fd.load(Ordering::Relaxed);
        let error = sys::socket::option(fd, libc::SOL_SOCKET, libc::SO_ERROR, 0).ok()?;
        if error != 0 {
            super::was_reset(object);
        }
        return Some(error);
    }
    if !is_in(object) {
        return None;
    }
    poll(runtime, object, sys::clock::now());
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

/// TCP's state (net/tcp_states.h) that the segment's ends amount to; `None`: the kernel's socket has it.
pub(crate) fn tcp_state(runtime: &'static Runtime, object: &'static Object) -> Option<u8> {
    if is_closed(runtime, object) {
        return Some(State::Closed.number());
    }
    let inner = room(object)?.inner.lock();
    let Way::Joined(joined) = &inner.way else { return None };
    let has_ended = !inner.part.receives && joined.peer_has_ended();
    match (object.shut.load(Ordering::Relaxed) & 2 != 0, has_ended) {
        (true, _) => Some(State::FinWait2.number()),
        (false, true) => Some(State::CloseWait.number()),
        (false, false) => None,
    }
}

/// Whether TCP's state would be CLOSED: the two ends have both ended, or the connection was reset.
pub(crate) fn is_closed(runtime: &'static Runtime, object: &'static Object) -> bool {
    poll(runtime, object, sys::clock::now());
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
            let owes = !lingers_not && joined.unread() == 0 && !is_repaid(&joined, inner.repaid);
            let rest = if owes { leave_behind(joined, object, fd, inner.repaid) } else { Some(joined) };
            if let Some(mut joined) = rest {
                if owes && holders::is_alone(object) {
                    reset_at_close(fd);
                }
                end(&mut joined, lingers_not || owes);
            }
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
