//! A connection that has gone back to the kernel's socket with bytes that nobody had read here: its peer sends them
//! again, and where the kernel's stream ends short of them they are given from the copy that was kept.

use crate::answer::Stop;
use crate::errno::fail;
use crate::message::Buffers;
use crate::object::Object;
use crate::object::room::Rest;
use crate::part::Outcome;
use crate::wait::in_memory::room;
use ::memory::Kept;
use core::sync::atomic::Ordering;
use libc::{c_int, ssize_t};
use stack::Sink;

/// Bytes that are copied at a time: the buffers may not be there.
const PIECE: usize = 2048;

/// Whether bytes are kept for it that the socket may not bring: calls come here with the end of its stream.
#[inline]
pub(crate) fn keeps(object: &Object) -> bool {
    room(object).is_some_and(|room| room.keeps.load(Ordering::Acquire))
}

/// Whether that is still so; what has come by the socket is given up.
#[cold]
pub(crate) fn still_keeps(object: &Object, fd: c_int) -> bool {
    let Some(room) = room(object) else { return false };
    let mut inner = room.inner.lock();
    let has_come = inner.rest.kept.as_ref().is_none_or(|kept| kept.has_come(fd));
    if has_come && inner.rest.untold == 0 {
        inner.rest = Rest::default();
        room.keeps.store(false, Ordering::Release);
    }
    room.keeps.load(Ordering::Acquire)
}

/// Part of a receive by the kernel's socket, and what it came to if that was the end of the stream: the bytes that are
/// missing come before it.
#[inline]
pub(crate) fn or_kept(
    object: &Object,
    fd: c_int,
    part: Outcome,
    into: &Buffers<'_>,
    flags: c_int,
) -> Outcome {
    if keeps(object) && into.left() > 0 { from_kept(object, fd, part, into, flags) } else { part }
}

/// The kernel told somebody else than a receive of the error by which the stream ended: SO_ERROR, or a send.
#[cold]
pub(crate) fn was_reset(object: &Object) {
    if let Some(room) = room(object) {
        room.inner.lock().rest.was_reset = true;
    }
}

#[cold]
fn from_kept(object: &Object, fd: c_int, part: Outcome, into: &Buffers<'_>, flags: c_int) -> Outcome {
    let error = match part {
        Outcome::Done(Ok(0)) => 0,
        Outcome::Done(Err(Stop::Errno(errno @ (libc::ECONNRESET | libc::EPIPE | libc::ETIMEDOUT)))) => errno,
        part => return part,
    };
    let Some(room) = room(object) else { return part };
    let mut inner = room.inner.lock();
    if error != 0 {
        // The kernel tells it once.
        inner.rest.untold = error;
        inner.rest.was_reset = true;
    }
    let by_reset = inner.rest.was_reset;
    let given = inner.rest.kept.as_ref().map_or(0, |kept| give(kept, fd, by_reset, into, flags));
    if given > 0 {
        return Outcome::Done(Ok(given as ssize_t));
    }
    match inner.rest.untold {
        0 => Outcome::Done(Ok(0)),
        errno => {
            if flags & libc::MSG_PEEK == 0 {
                inner.rest = Rest::default();
                room.keeps.store(false, Ordering::Release);
            }
            Outcome::Done(fail(errno))
        }
    }
}

/// Copies what is missing; how much.
fn give(kept: &Kept, fd: c_int, by_reset: bool, into: &Buffers<'_>, flags: c_int) -> usize {
    let (peeks, drops) = (flags & libc::MSG_PEEK != 0, flags & libc::MSG_TRUNC != 0);
    loop {
        let missing = kept.missing(fd, by_reset);
        let bytes = missing.bytes();
        let bytes = &bytes[..bytes.len().min(into.left())];
        let mut to = into.clone();
        let count = match drops {
            true => bytes.len(),
            false => bytes.chunks(PIECE).take_while(|piece| to.put(piece)).map(<[u8]>::len).sum(),
        };
        if peeks || count == 0 || missing.take(count) {
            return count;
        }
    }
}
