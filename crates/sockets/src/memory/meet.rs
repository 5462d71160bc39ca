//! When a connection looks for its other side.
//!
//! A connection that carries one request is over before a segment has paid for itself. So the side that connected
//! offers a meeting place when it has made some calls, and the side that accepted looks for it a little later, a few
//! times, each time after twice as many calls. Neither ever waits.

use super::{Inner, Room, Way, after, room};
use crate::answer::Why;
use crate::carrier;
use crate::counts;
use crate::fd_table;
use crate::object::{Kind, Object};
use crate::runtime::Runtime;
use ::memory::{Meeting, Progress};
use core::net::Ipv6Addr;
use core::sync::atomic::{AtomicU32, Ordering};
use libc::c_int;

/// Which end of a connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Connected,
    Accepted,
}

/// Calls after which the side that connected offers a place.
const OFFERS: u32 = 4;
/// Calls after which nobody is expected any more.
const OFFERS_UNTIL: u32 = 1024;
/// Calls after which the side that accepted looks for it first, and last.
const LOOKS: core::ops::RangeInclusive<u32> = 8..=512;

/// Connections of this process in memory, or on their way: each holds one descriptor more than the program knows.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// The part of RLIMIT_NOFILE that they may take.
const PART_OF_LIMIT: u64 = 4;

/// One of them is over.
pub(super) fn one_less() {
    COUNT.fetch_sub(1, Ordering::Relaxed);
}

fn one_more() -> bool {
    let limit = sys::process::limit(libc::RLIMIT_NOFILE as i32).map_or(0, |limit| limit.soft / PART_OF_LIMIT);
    if u64::from(COUNT.fetch_add(1, Ordering::Relaxed)) < limit {
        return true;
    }
    one_less();
    false
}

/// In the child of a fork: what was counted is the parent's.
pub(super) fn forget_count() {
    COUNT.store(0, Ordering::Relaxed);
}

/// The kernel makes or made this connection, which may travel through memory.
fn begins(object: &'static Object, role: Role) {
    let room = object.room_or_new();
    room.clear();
    room.inner.lock().role = Some(role);
}

/// connect(2) is over. Where connections meet at once, the place is offered before the peer can look for it.
pub(crate) fn connected(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    begins(object, Role::Connected);
    if is_eager(runtime) {
        before_call(runtime, object, fd);
    }
}

/// The kernel accepted `fd` by a listener whose connections may: whether this one's peer is on this host.
pub(crate) fn accepted(object: &'static Object, fd: c_int) -> bool {
    let is_local = is_local(fd);
    if is_local {
        begins(object, Role::Accepted);
    }
    is_local
}

/// A connection within the host has one address of the host at both ends, or loopback's.
fn is_local(fd: c_int) -> bool {
    let is_loopback = |address: &[u8; 16]| match Ipv6Addr::from(*address).to_ipv4_mapped() {
        Some(address) => address.is_loopback(),
        None => Ipv6Addr::from(*address).is_loopback(),
    };
    sys::socket::ends(fd)
        .is_ok_and(|((own, _), (other, _))| own == other || is_loopback(&own) && is_loopback(&other))
}

/// A call that moves data is about to be made on a connection that the kernel carries.
#[inline]
pub(crate) fn before_call(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    if let Some(room) = room(object) {
        let calls = room.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if (OFFERS..=OFFERS_UNTIL).contains(&calls) || is_eager(runtime) {
            look(runtime, object, fd, room, calls);
        }
    }
}

/// For tests (SIDESTEP_MOVE_EVERY): connections meet as soon as they can.
fn is_eager(runtime: &Runtime) -> bool {
    runtime.parameters.move_every != 0
}

#[cold]
fn look(runtime: &'static Runtime, object: &'static Object, fd: c_int, room: &'static Room, calls: u32) {
    let is_due = {
        let inner = room.inner.lock();
        match (inner.role, &inner.way) {
            (Some(Role::Connected), Way::Apart) => calls == OFFERS || is_eager(runtime),
            (Some(Role::Connected), Way::Offered(_)) => true,
            (Some(Role::Accepted), Way::Apart) => {
                calls.is_power_of_two() && LOOKS.contains(&calls) || is_eager(runtime)
            }
            _ => false,
        }
    };
    // While a socket is shown to the peer its close would not wait for anybody.
    let stays = object.control.lock().linger.is_some() || object.price.load(Ordering::SeqCst) == u32::MAX;
    if !is_due || stays || !carrier::is_alone(object) || !object.begin_move() {
        return;
    }
    let mut became = Kind::Carried;
    if object.in_flight.load(Ordering::SeqCst) == 0 {
        let mut inner = room.inner.lock();
        if step(&mut inner, fd, calls) {
            became = Kind::Memory;
            inner.part = inner.part_of_kernel();
            inner.heard = 0;
        }
    }
    object.set_kind(became);
    if became == Kind::Memory {
        counts::in_memory(object, true);
        logger::debug!("fd {fd}: meets its peer, to go on through memory");
        super::carrier::changed(&runtime.os, object);
        rest_of_meeting(runtime, object, fd, room);
    } else if calls >= OFFERS_UNTIL {
        alone(object, fd, room);
    }
}

/// True: the two sides talk to each other from now on.
fn step(inner: &mut Inner, fd: c_int, calls: u32) -> bool {
    let meeting = match (core::mem::take(&mut inner.way), inner.role) {
        (Way::Offered(meeting), _) if calls < OFFERS_UNTIL => match meeting.go_on(fd) {
            Progress::Waiting(meeting) if meeting.is_under_way() => meeting,
            Progress::Waiting(meeting) => {
                inner.way = Way::Offered(meeting);
                return false;
            }
            _ => {
                one_less();
                return false;
            }
        },
        (Way::Offered(_), _) => {
            one_less();
            return false;
        }
        (_, Some(Role::Connected)) => {
            if is_local(fd) && one_more() {
                match Meeting::offer(fd) {
                    Ok(meeting) => inner.way = Way::Offered(meeting),
                    Err(_) => one_less(),
                }
            }
            return false;
        }
        (_, Some(Role::Accepted)) if one_more() => match Meeting::call(fd) {
            Ok(meeting) if !meeting.is_with_itself() => meeting,
            _ => {
                one_less();
                return false;
            }
        },
        _ => return false,
    };
    inner.way = Way::Meeting(meeting);
    true
}

/// The peer may have answered already.
fn rest_of_meeting(runtime: &'static Runtime, object: &'static Object, fd: c_int, room: &Room) {
    let news = room.inner.lock().go_on(fd, sys::clock::now(), true);
    after(runtime, object, &news);
}

/// Nobody has come.
fn alone(object: &'static Object, fd: c_int, room: &Room) {
    let mut inner = room.inner.lock();
    if inner.role.take().is_some() && fd_table::names(fd, object) {
        counts::segment().left_to_kernel(Why::NoSdp);
        logger::info!("fd {fd}: {}", Why::NoSdp.text());
    }
}
