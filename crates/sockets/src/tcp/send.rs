//! Sending on a connection.

use crate::counts;
use crate::errno::fail;
use crate::lane::{Inner, Lane, Tx};
use crate::object::Object;
use crate::part::{Outcome, Progress};
use crate::runtime::Runtime;
use crate::wait::block::{self, Stopped, Wait};
use libc::{c_int, ssize_t};
use stack::tcp::Push;
use stack::{Instant, Ready, SendError, SocketId, Source};

/// Sends all of `data`, or what fits now if the caller may not block.
#[inline]
pub(crate) fn send(
    runtime: &'static Runtime,
    object: &'static Object,
    data: &mut impl Source,
    flags: c_int,
    progress: &mut Progress,
) -> Outcome {
    let wanted = data.remaining();
    let first = attempt(object, data, flags, sys::clock::now(), progress);
    match first {
        Ok(_) if data.remaining() == 0 => return Outcome::Done(Ok(wanted as ssize_t)),
        Ok(_) | Err(SendError::WouldBlock) => {}
        Err(error) => return failed(error),
    }
    let sent = wanted - data.remaining();
    if !object.may_wait(flags) {
        return Outcome::Done(if sent > 0 { Ok(sent as ssize_t) } else { fail(libc::EAGAIN) });
    }
    progress.sent(sent);
    rest(runtime, object, data, flags, progress, sent)
}

/// Blocks until the rest is taken too, behind what was sent.
#[cold]
fn rest(
    runtime: &'static Runtime,
    object: &'static Object,
    data: &mut impl Source,
    flags: c_int,
    progress: &mut Progress,
    sent: usize,
) -> Outcome {
    let Some((lane, _)) = object.leg() else { return failed(SendError::NoSocket) };
    let one = [object];
    let wait = Wait::to_send(runtime, &one).within(progress.limits(object.send_timeout()));
    let wanted = sent + data.remaining();
    let outcome = block::until(runtime, &wait, |now| {
        lane.turn(now);
        let result = attempt(object, data, flags, now, progress);
        progress.sent(usize::from(result.is_ok()));
        wait.restartable.set(wait.restartable.get() && progress.begins);
        match result {
            Ok(_) if data.remaining() == 0 => Some(Ok(())),
            Ok(_) | Err(SendError::WouldBlock) => None,
            Err(error) => Some(Err(error)),
        }
    });
    match outcome {
        Ok(Ok(())) => Outcome::Done(Ok((wanted - data.remaining()) as ssize_t)),
        Ok(Err(error)) => failed(error),
        Err(Stopped::Moved) => Outcome::Moved,
        Err(stopped) => Outcome::Done(stopped.answer()),
    }
}

/// Gives the engine what it takes now.
#[inline]
fn attempt(
    object: &Object,
    data: &mut impl Source,
    flags: c_int,
    now: u64,
    progress: &Progress,
) -> Result<usize, SendError> {
    let Some((lane, id)) = object.leg() else { return Err(SendError::NoSocket) };
    lane.briefly(|inner| {
        if progress.has_sent && inner.stack.ready(id).has(Ready::ERR) {
            return Err(SendError::Closed);
        }
        give(object, lane, inner, id, data, flags, now, progress.begins)
    })
}

/// See [`attempt`]. `begins`: nothing of the call was taken before.
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
        counts::sent(object.counts(), sent, begins);
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

#[cold]
fn failed(error: SendError) -> Outcome {
    Outcome::Done(match error {
        SendError::NoSocket => super::over(),
        error => fail(error.errno()),
    })
}
