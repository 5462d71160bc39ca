//! Sending on a connection.

use crate::answer::{Answer, Stop, Why};
use crate::carrier::{self, Carried};
use crate::counts;
use crate::errno::fail;
use crate::lane::{Inner, Lane, Tx};
use crate::memory;
use crate::message;
use crate::object::{Kind, Object};
use crate::runtime::Runtime;
use crate::wait::block::{self, Stopped, Wait};
use core::sync::atomic::Ordering;
use libc::{c_int, ssize_t};
use stack::tcp::Push;
use stack::{Instant, SendError, SocketId, Source};

/// How much of a file is read at once.
const FILE_PIECE: usize = 1 << 17;

/// Sends all of `data`, or what fits now if the caller may not block.
#[inline]
pub(crate) fn send(
    runtime: &'static Runtime,
    object: &'static Object,
    data: &mut impl Source,
    flags: c_int,
) -> Answer<ssize_t> {
    let wanted = data.remaining();
    let first = attempt(object, data, flags, sys::clock::now(), true);
    match first {
        Ok(_) if data.remaining() == 0 => return Ok(wanted as ssize_t),
        Ok(_) | Err(SendError::WouldBlock) => {}
        Err(error) => return failed(error, flags),
    }
    let sent = wanted - data.remaining();
    if flags & libc::MSG_DONTWAIT != 0 || object.nonblocking.load(Ordering::Relaxed) {
        return if sent > 0 { Ok(sent as ssize_t) } else { fail(libc::EAGAIN) };
    }
    rest(runtime, object, data, flags, wanted)
}

/// Blocks until the rest is taken too.
#[cold]
fn rest(
    runtime: &'static Runtime,
    object: &'static Object,
    data: &mut impl Source,
    flags: c_int,
    wanted: usize,
) -> Answer<ssize_t> {
    let Some((lane, _)) = object.leg() else { return super::over() };
    let one = [object];
    let wait = Wait::to_send(runtime, &one);
    let mut begins = wanted == data.remaining();
    let outcome = block::until(runtime, &wait, |now| {
        lane.turn(now);
        let result = attempt(object, data, flags, now, begins);
        begins &= result.is_err();
        match result {
            Ok(_) if data.remaining() == 0 => Some(Ok(())),
            Ok(_) | Err(SendError::WouldBlock) => None,
            Err(error) => Some(Err(error)),
        }
    });
    let sent = (wanted - data.remaining()) as ssize_t;
    match outcome {
        Ok(Ok(())) => Ok(sent),
        // What was taken counts; the error comes with the next call.
        _ if sent > 0 => Ok(sent),
        Ok(Err(error)) => failed(error, flags),
        Err(Stopped::Moved) => rest(runtime, object, data, flags, wanted),
        Err(stopped) => stopped.answer(),
    }
}

/// Gives the engine what it takes now. `begins`: nothing of this call was taken before.
#[inline]
fn attempt(
    object: &Object,
    data: &mut impl Source,
    flags: c_int,
    now: u64,
    begins: bool,
) -> Result<usize, SendError> {
    let Some((lane, id)) = object.leg() else { return Err(SendError::NoSocket) };
    lane.briefly(|inner| give(object, lane, inner, id, data, flags, now, begins))
}

/// See [`attempt`].
#[inline]
#[allow(clippy::too_many_arguments)]
fn give(
    object: &Object,
    lane: &Lane,
    inner: &mut Inner,
    id: SocketId,
    data: &mut impl Source,
    flags: c_int,
    now: u64,
    begins: bool,
) -> Result<usize, SendError> {
    let push = match flags & (libc::MSG_OOB | libc::MSG_EOR | libc::MSG_MORE) {
        0 => inner.push(now),
        libc::MSG_MORE => Push::More,
        flags if flags & libc::MSG_OOB == 0 => Push::Record,
        _ => Push::Urgent,
    };
    inner.take_in(now);
    let result = inner.stack.tcp_send(Instant(now), id, data, push, &mut Tx(&mut inner.device));
    if let Ok(sent) = result {
        counts::sent(object, sent, begins);
    }
    inner.sent(now);
    lane.note(inner, now);
    result
}

/// Sends what `fetch` puts into the buffer's beginning: it is given no more of it than the engine takes, under the
/// lane's lock, so nothing needs to go back. How much; 0: the engine takes nothing now, or `fetch` found nothing.
pub(crate) fn send_fetched(
    object: &Object,
    buffer: &mut [u8],
    flags: c_int,
    fetch: impl FnOnce(&mut [u8]) -> usize,
) -> usize {
    let Some((lane, id)) = object.leg() else { return 0 };
    lane.briefly(|inner| {
        let room = inner.stack.tcp_send_room(id).min(buffer.len());
        if room == 0 {
            return 0;
        }
        let fetched = fetch(&mut buffer[..room]);
        if fetched == 0 {
            return 0;
        }
        let sent = give(object, lane, inner, id, &mut &buffer[..fetched], flags, sys::clock::now(), true);
        debug_assert_eq!(sent, Ok(fetched));
        fetched
    })
}

/// The error of a send that took nothing. A write to a closed connection raises SIGPIPE, as the kernel does.
#[cold]
fn failed(error: SendError, flags: c_int) -> Answer<ssize_t> {
    if error == SendError::NoSocket {
        return super::over();
    }
    if error == SendError::Closed && flags & libc::MSG_NOSIGNAL == 0 {
        sys::process::signal_self(libc::SIGPIPE);
    }
    fail(error.errno())
}

/// Sends a piece of a file by whatever carries the connection.
fn send_piece(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    mut piece: &[u8],
) -> Answer<ssize_t> {
    let bytes = message::piece(piece.as_ptr().cast(), piece.len());
    let mut data = message::unfilled(&bytes);
    loop {
        let sent = match object.kind() {
            Kind::Memory => memory::send(runtime, object, fd, &mut data, 0),
            Kind::Carried | Kind::Moving => carrier::send(runtime, object, fd, &mut data, 0, false),
            _ => return send(runtime, object, &mut piece, 0),
        };
        if let Carried::Done(answer) = sent {
            return answer;
        }
    }
}

/// sendfile(2) from a file to a connection: from `at`, which moves, or from the file's own position.
pub(crate) fn send_file(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    input: c_int,
    at: &mut Option<i64>,
    count: usize,
) -> Answer<ssize_t> {
    // What may still meet its peer is copied, too: the kernel's own call would be in the way of that.
    if !matches!(object.kind(), Kind::Stream | Kind::Memory) && !memory::looks(object) {
        return Err(Stop::Kernel(Why::NotOurs));
    }
    if at.is_some_and(|at| at < 0) {
        return fail(libc::EINVAL);
    }
    let mut buffer = vec![0u8; count.min(FILE_PIECE)];
    let mut total = 0usize;
    while total < count {
        let want = (count - total).min(buffer.len());
        let os = &runtime.os;
        let position = at.map_or_else(|| os.position(input), Ok);
        let got = match position.and_then(|position| os.read_at(input, &mut buffer[..want], position)) {
            Ok(0) => break,
            Ok(got) => got,
            Err(_) if total > 0 => break,
            Err(libc::ESPIPE) => return fail(libc::EINVAL),
            Err(errno) => return fail(errno),
        };
        let sent = match send_piece(runtime, object, fd, &buffer[..got]) {
            Ok(sent) => sent,
            Err(_) if total > 0 => break,
            Err(stop) => return Err(stop),
        };
        total += sent as usize;
        match at {
            Some(at) => *at += sent as i64,
            None => drop(os.move_by(input, sent as i64)),
        }
        if (sent as usize) < got {
            break;
        }
    }
    Ok(total as ssize_t)
}
