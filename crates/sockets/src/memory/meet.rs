//! When a connection looks for its other side.
//!
//! A connection that carries one request is over before a segment has paid for itself. So the side that connected
//! offers a meeting place when it has made some calls, and the side that accepted looks for it a little later, each
//! time after twice as many calls, until it has made many and some time has gone by. Neither ever waits.
//!
//! Where a listener takes in nobody but those who speak SDP, the place is offered before the connection is made
//! (`crates/sockets/src/sdp/refusal.rs`), and who accepts looks at once.

use super::{kept, place};
use crate::answer::Why;
use crate::background::BACKGROUND;
use crate::counts;
use crate::describe;
use crate::fd_table;
use crate::object::price::{self, Role};
use crate::object::room::{COUNT, Inner, Room, Way, one_less};
use crate::object::{Kind, Object, Pin};
use crate::object::{holders, in_flight};
use crate::runtime::Runtime;
use crate::wait::LOOK_NS;
use crate::wait::in_memory::{Bell, HURRIES, after, is_asked_for, is_in, room, rung, tell_kernels, verdict};
use crate::wait::moves;
use ::memory::{Meeting, Progress};
use core::sync::atomic::{AtomicU32, Ordering};
use libc::{c_int, pollfd};
use stats::Verdict;

/// Calls, and time, after which nobody is expected any more. Calls alone tell nothing: who polls makes them in no time.
const CALLS_MAX: u32 = 4096;
const PATIENCE_NS: u64 = 1_000_000_000;
/// The same of a connection that was in memory before: for a child that writes a large file.
const PATIENCE_AGAIN_NS: u64 = 600_000_000_000;
/// A connection looks again when so much of the time since it offered a place, or left, has gone by: seldom where that
/// is long.
const PART_OF_TIME: u64 = 16;

/// The part of RLIMIT_NOFILE that they may take.
const PART_OF_LIMIT: u64 = 4;
/// As many as there are at most where no rule asks for them: each takes memory, a hundred KiB and more.
const MOST_BY_ITSELF: u64 = 1024;

/// Forks that are under way: a connection that met its peer then would be the child's in the kernel, and the parent's
/// in memory.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// As long as it lives no connection goes to memory.
pub(crate) struct NoMeetings(());

impl NoMeetings {
    pub(super) fn begin() -> NoMeetings {
        FORKS.fetch_add(1, Ordering::SeqCst);
        NoMeetings(())
    }
}

impl Drop for NoMeetings {
    fn drop(&mut self) {
        FORKS.fetch_sub(1, Ordering::SeqCst);
    }
}

fn one_more() -> bool {
    let limit = sys::process::limit(libc::RLIMIT_NOFILE as i32).map_or(0, |limit| limit.soft / PART_OF_LIMIT);
    let limit = if is_asked_for() { limit } else { limit.min(MOST_BY_ITSELF) };
    if u64::from(COUNT.fetch_add(1, Ordering::Relaxed)) < limit {
        return true;
    }
    one_less();
    false
}

/// In the child of a fork: what was counted is the parent's.
pub(super) fn forget_parent() {
    COUNT.store(0, Ordering::Relaxed);
    FORKS.store(0, Ordering::SeqCst);
}

/// The kernel makes or made this connection, which may travel through memory, and has made so many calls.
pub(super) fn begins(object: &'static Object, role: Role, calls: u32) -> &'static Room {
    let room = object.room_or_new();
    room.clear();
    room.calls.store(calls, Ordering::Relaxed);
    {
        let mut inner = room.inner.lock();
        inner.role = Some(role);
        inner.begun = sys::clock::now();
    }
    room.looks.store(true, Ordering::Release);
    counts::judged(object.counts(), Verdict::LooksForPeer, (0, 0));
    room
}

/// connect(2) is over, or goes on. `offered`: the place is there already. Where connections meet at once, it is offered
/// before the peer can look for it.
pub(crate) fn connected(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    offered: Option<Meeting>,
) {
    let room = begins(object, Role::Connected, 0);
    if let Some(meeting) = offered.filter(|_| one_more()) {
        room.inner.lock().way = Way::Offered(meeting);
    } else if is_eager(runtime) {
        before_call(runtime, object, fd);
    }
}

/// The kernel accepted `fd` by a listener whose connections may. Whether its peer is on this host is asked when it is
/// looked for: most connections end sooner.
pub(crate) fn accepted(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    begins(object, Role::Accepted, 0);
    if is_eager(runtime) {
        before_call(runtime, object, fd);
    }
}

/// As [`accepted`], of a listener that takes in nobody but those who speak SDP. Why the peer is none of them.
pub(crate) fn accepted_sdp(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
) -> Result<(), Verdict> {
    if !is_local(fd) {
        return Err(Verdict::NobodyCame);
    }
    let room = begins(object, Role::Accepted, 0);
    look(runtime, object, fd, room, Role::Accepted.price());
    if is_in(object) {
        return Ok(());
    }
    let why = room.inner.lock().never;
    match why {
        // What both ends of one process say to each other the kernel carries.
        Some(Verdict::PeerIsSelf) => Ok(()),
        Some(why) => Err(why),
        None if is_kept_by_options(object, fd) => Err(Verdict::OptionOfTheKernel),
        None => Err(Verdict::NobodyCame),
    }
}

fn is_local(fd: c_int) -> bool {
    sys::socket::ends(fd).is_ok_and(place::are_of_one_host)
}

/// A call that moves data is about to be made on a connection that the kernel carries.
#[inline]
pub(crate) fn before_call(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    place::before_call(runtime, object, fd);
    if let Some(room) = room(object).filter(|room| room.looks.load(Ordering::Acquire)) {
        let calls = room.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if calls >= price::least() || is_eager(runtime) {
            look(runtime, object, fd, room, calls);
            if is_eager(runtime) {
                hurry(runtime, object, fd, room, calls);
            }
        }
    }
}

/// Whether a connection looks for its other side, or is about to: nobody else moves it.
#[inline]
pub(crate) fn looks(object: &Object) -> bool {
    room(object).is_some_and(Room::looks)
}

/// Whether a connection that has made so many calls may look for its other side now, whichever of the two it is.
#[inline]
pub(super) fn may_be_due(runtime: &Runtime, calls: u32) -> bool {
    calls >= price::least() && calls.is_power_of_two() || is_eager(runtime)
}

/// Whether it does.
pub(super) fn is_due(runtime: &Runtime, role: Role, calls: u32) -> bool {
    calls >= role.price() && calls.is_power_of_two() || is_eager(runtime)
}

/// For tests (SIDESTEP_MOVE_EVERY): connections meet as soon as they can.
pub(super) fn is_eager(runtime: &Runtime) -> bool {
    runtime.parameters.move_every != 0
}

#[cold]
fn look(runtime: &'static Runtime, object: &'static Object, fd: c_int, room: &'static Room, calls: u32) {
    let now = sys::clock::now();
    let (is_due, is_late) = {
        let mut inner = room.inner.lock();
        let (age, silence) = (now.saturating_sub(inner.begun), now.saturating_sub(inner.heard));
        let patience = if inner.looks_again { PATIENCE_AGAIN_NS } else { PATIENCE_NS };
        let pause = LOOK_NS.max(age / PART_OF_TIME);
        let is_due = match (inner.role, &inner.way) {
            (Some(_), Way::Apart) if inner.looks_again => silence >= pause,
            (Some(role), Way::Apart) => calls >= role.price() && calls.is_power_of_two(),
            (Some(Role::Connected), Way::Offered(_)) => silence >= pause,
            _ => false,
        };
        if is_due {
            inner.heard = now;
        }
        let is_eager =
            is_eager(runtime) && inner.role.is_some() && matches!(inner.way, Way::Apart | Way::Offered(_));
        (is_due || is_eager, calls > CALLS_MAX && age > patience)
    };
    if is_late {
        return alone(object, fd, room);
    }
    let stays = || {
        is_kept_by_options(object, fd)
            || object.price.load(Ordering::SeqCst) == u32::MAX
            || kept::keeps(object) && kept::still_keeps(object, fd)
    };
    if !is_due || stays() || !holders::is_alone(object) {
        return;
    }
    let Some(pin) = Pin::by(object, fd).filter(|pin| object.begin_move(pin)) else { return };
    let mut became = Kind::Carried;
    if object.in_flight.load(Ordering::SeqCst) == 0 && FORKS.load(Ordering::SeqCst) == 0 {
        let mut inner = room.inner.lock();
        match step(&mut inner, fd) {
            Step::Talks => {
                became = Kind::Memory;
                inner.meets();
                inner.part = inner.part_of_kernel();
                inner.heard = 0;
            }
            Step::Waits => {}
            Step::Never(why) => never(object, fd, room, &mut inner, why),
        }
    }
    object.set_kind(became);
    drop(pin);
    if became == Kind::Memory {
        describe::in_memory(object);
        logger::debug!("fd {fd}: meets its peer, to go on through memory");
        moves::changed(&runtime.os, object);
        if !BACKGROUND.is_running() {
            // It answers a peer that leaves while no thread calls.
            (runtime.os.opened)();
        }
        rest_of_meeting(runtime, object, fd, room);
    }
}

/// What was set before the socket was ours is read when it matters first: before a call waits, and before the two ends
/// meet. Most connections end sooner.
#[inline]
pub(crate) fn know_options(object: &Object, fd: c_int) {
    if let Some(room) = room(object)
        && !room.knows_options.load(Ordering::Acquire)
    {
        options_of(object, fd);
        room.knows_options.store(true, Ordering::Release);
    }
}

#[cold]
fn options_of(object: &Object, fd: c_int) {
    object.receive_timeout.store(sys::socket::timeout(fd, libc::SO_RCVTIMEO), Ordering::Relaxed);
    object.send_timeout.store(sys::socket::timeout(fd, libc::SO_SNDTIMEO), Ordering::Relaxed);
    let low: i32 = sys::socket::option(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 1).unwrap_or(1);
    object.receive_low_water.store(low.max(1) as u32, Ordering::Relaxed);
    let [on, seconds]: [i32; 2] =
        sys::socket::option(fd, libc::SOL_SOCKET, libc::SO_LINGER, [0; 2]).unwrap_or([0; 2]);
    object.control.lock().linger = (on != 0).then_some(seconds.max(0) as u32);
    if sys::socket::option(fd, libc::SOL_SOCKET, libc::SO_PEEK_OFF, -1i32).is_ok_and(|offset| offset >= 0) {
        in_flight::stays(object, Verdict::PeekOffset);
    }
    // The reset that follows the FIN at once.
    if sys::socket::option(fd, libc::IPPROTO_TCP, libc::TCP_LINGER2, 0i32).is_ok_and(|linger| linger < 0) {
        in_flight::stays(object, Verdict::OptionOfTheKernel);
    }
}

/// Whether an option that was set keeps it in the kernel.
fn is_kept_by_options(object: &Object, fd: c_int) -> bool {
    know_options(object, fd);
    // While a socket is shown to the peer its close would not wait for anybody.
    let lingers = object.control.lock().linger.is_some();
    lingers || is_paced(fd) || is_told_by_signals(fd)
}

/// Whether the kernel holds its sends to a rate (SO_MAX_PACING_RATE).
fn is_paced(fd: c_int) -> bool {
    sys::socket::option(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, u32::MAX) != Ok(u32::MAX)
}

/// Whether the kernel tells its owner by a signal what comes (O_ASYNC).
fn is_told_by_signals(fd: c_int) -> bool {
    sys::fd::fcntl(fd, libc::F_GETFL, 0).is_ok_and(|flags| flags as c_int & libc::O_ASYNC != 0)
}

/// What came of looking.
enum Step {
    /// The two sides talk to each other from now on.
    Talks,
    /// Nobody has come yet.
    Waits,
    /// They do not meet.
    Never(Verdict),
}

fn step(inner: &mut Inner, fd: c_int) -> Step {
    match (core::mem::take(&mut inner.way), inner.role) {
        (Way::Offered(meeting), _) => match meeting.go_on(fd) {
            Progress::Waiting(meeting) if meeting.is_under_way() => {
                inner.way = Way::Meeting(meeting);
                Step::Talks
            }
            Progress::Waiting(meeting) => {
                inner.way = Way::Offered(meeting);
                Step::Waits
            }
            // (Whom a call was answered to has yet to show its socket.)
            Progress::Joined(_) => {
                one_less();
                Step::Never(Verdict::PeerMistaken)
            }
            Progress::Apart(why) => {
                one_less();
                Step::Never(verdict(why))
            }
        },
        (_, Some(Role::Connected)) => match Some(()).filter(|()| one_more()).map(|()| Meeting::offer(fd)) {
            Some(Ok(meeting)) => {
                inner.way = Way::Offered(meeting);
                if !inner.looks_again {
                    inner.begun = sys::clock::now();
                }
                Step::Waits
            }
            // It is not connected yet.
            Some(Err(libc::ENOTCONN)) => {
                one_less();
                Step::Waits
            }
            Some(Err(_)) => {
                one_less();
                Step::Never(Verdict::NoSegment)
            }
            None => Step::Never(Verdict::NoSegment),
        },
        (_, Some(Role::Accepted)) if !is_local(fd) => Step::Never(Verdict::PeerElsewhere),
        (_, Some(Role::Accepted)) => match Meeting::call(fd) {
            Ok(meeting) if meeting.is_with_itself() => Step::Never(Verdict::PeerIsSelf),
            Ok(meeting) if one_more() => {
                inner.way = Way::Meeting(meeting);
                Step::Talks
            }
            Ok(_) => Step::Never(Verdict::NoSegment),
            Err(libc::EPERM) => Step::Never(Verdict::PeerOfOtherUser),
            Err(_) => Step::Waits,
        },
        _ => Step::Waits,
    }
}

/// For tests: waits a little until the meeting is over, so that as many bytes as can be go by the segment.
#[cold]
fn hurry(runtime: &'static Runtime, object: &'static Object, fd: c_int, room: &'static Room, calls: u32) {
    const PATIENCE_NS: u64 = 20_000_000;
    const SLEEP_NS: u64 = 1_000_000;
    let until = sys::clock::now() + PATIENCE_NS;
    while calls <= HURRIES && sys::clock::now() < until {
        let descriptor = {
            let inner = room.inner.lock();
            match &inner.way {
                Way::Offered(meeting) | Way::Meeting(meeting) => meeting.descriptor(),
                // Its peer may be about to offer the place.
                Way::Apart if inner.role == Some(Role::Accepted) => -1,
                Way::Joined(_) | Way::Apart => return,
            }
        };
        let mut one = [pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 }];
        let _ = sys::poll::poll(&mut one, Some(SLEEP_NS), None);
        match is_in(object) {
            true => rung(runtime, object),
            false => look(runtime, object, fd, room, calls),
        }
    }
}

/// The peer may have answered already.
fn rest_of_meeting(runtime: &'static Runtime, object: &'static Object, fd: c_int, room: &Room) {
    let news = room.inner.lock().go_on(fd, sys::clock::now(), Bell::Rung);
    after(runtime, object, &news);
}

/// The kernel carries it for good.
fn never(object: &'static Object, fd: c_int, room: &Room, inner: &mut Inner, why: Verdict) {
    if let Some(role) = inner.role.take() {
        role.was_worth(0);
    }
    inner.never = Some(why);
    room.looks.store(false, Ordering::Release);
    // Its calls go into the kernel whole.
    object.price.store(u32::MAX, Ordering::SeqCst);
    counts::judged(object.counts(), why, (0, 0));
    counts::segment().left_to_kernel(if is_asked_for() { Why::NoSdp } else { Why::LocalAddress });
    tell_kernels(fd, why);
}

/// Nobody has come.
fn alone(object: &'static Object, fd: c_int, room: &Room) {
    let mut inner = room.inner.lock();
    if inner.role.is_some() && matches!(inner.way, Way::Apart | Way::Offered(_)) {
        if let Way::Offered(_) = core::mem::take(&mut inner.way) {
            one_less();
        }
        if fd_table::names(fd, object) {
            never(object, fd, room, &mut inner, Verdict::NobodyCame);
        }
    }
}
