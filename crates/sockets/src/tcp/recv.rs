//! Receiving on a connection.

use crate::answer::Answer;
use crate::counts;
use crate::errno::fail;
use crate::lane::Tx;
use crate::message::Buffers;
use crate::object::Object;
use crate::runtime::Runtime;
use crate::wait::block::{self, Stopped, Wait};
use crate::wait::ready;
use core::sync::atomic::Ordering;
use libc::{c_int, ssize_t};
use stack::tcp::Take;
use stack::{Instant, Ready, RecvError, Sink};

/// Receives into `into`: what is there, or with MSG_WAITALL until it is full. 0: end of stream. With MSG_TRUNC nothing
/// is written there.
#[inline]
pub(crate) fn recv(
    runtime: &'static Runtime,
    object: &'static Object,
    into: &mut Buffers<'_>,
    flags: c_int,
) -> Answer<ssize_t> {
    if flags & (libc::MSG_ERRQUEUE | libc::MSG_OOB | libc::MSG_PEEK | libc::MSG_TRUNC) == 0 {
        return receive(runtime, object, into, flags, Take::Consume);
    }
    unusual(runtime, object, into, flags)
}

#[cold]
fn unusual(
    runtime: &'static Runtime,
    object: &'static Object,
    into: &mut Buffers<'_>,
    flags: c_int,
) -> Answer<ssize_t> {
    if flags & libc::MSG_ERRQUEUE != 0 {
        return fail(libc::EAGAIN);
    }
    let (urgent, peeks) = (flags & libc::MSG_OOB != 0, flags & libc::MSG_PEEK != 0);
    let take = match (urgent, peeks) {
        (true, true) => Take::PeekUrgent,
        (true, false) => Take::Urgent,
        (false, true) => Take::Peek(object.peek.behind().unwrap_or(0)),
        (false, false) => Take::Consume,
    };
    let answer = if flags & libc::MSG_TRUNC != 0 {
        receive(runtime, object, &mut Uncopied(into.room()), flags, take)
    } else {
        receive(runtime, object, into, flags, take)
    };
    if let (Take::Peek(_), Ok(shown)) = (take, &answer) {
        object.peek.showed(*shown as usize);
    }
    answer
}

/// Counts bytes instead of keeping them.
#[derive(Clone)]
struct Uncopied(usize);

impl Sink for Uncopied {
    fn room(&self) -> usize {
        self.0
    }

    fn put(&mut self, bytes: &[u8]) -> bool {
        self.0 -= bytes.len();
        true
    }
}

#[inline]
fn receive<S: Sink + Clone>(
    runtime: &'static Runtime,
    object: &'static Object,
    into: &mut S,
    flags: c_int,
    take: Take,
) -> Answer<ssize_t> {
    let wanted = into.room();
    // As the kernel: MSG_WAITALL is for everything, SO_RCVLOWAT for at least so much.
    let enough = match flags & libc::MSG_WAITALL {
        0 => wanted.min(object.receive_low_water.load(Ordering::Relaxed) as usize),
        _ => wanted,
    };
    let mut taken = 0usize;
    match attempt(object, into, take, sys::clock::now(), false) {
        Ok(0) => return Ok(0),
        Ok(n) if n >= enough || matches!(take, Take::Urgent | Take::PeekUrgent) => return Ok(n as ssize_t),
        Ok(n) => taken = n,
        Err(RecvError::WouldBlock) => {}
        Err(RecvError::NoSocket) => return super::over(),
        Err(error) => return fail(error.errno()),
    }
    let urgent = matches!(take, Take::Urgent | Take::PeekUrgent);
    if flags & libc::MSG_DONTWAIT != 0 || object.nonblocking.load(Ordering::Relaxed) || urgent {
        return if taken > 0 { Ok(taken as ssize_t) } else { fail(libc::EAGAIN) };
    }
    let one = [object];
    let wait = Wait::to_receive(runtime, &one, &[]);
    let outcome = block::until(runtime, &wait, |now| match attempt(object, into, take, now, true) {
        Ok(0) => Some(Ok(())),
        Ok(n) if matches!(take, Take::Peek(_)) => {
            // The same bytes once more; nothing follows those before the end.
            let over = n <= taken && ready(object).any(Ready::RDHUP | Ready::HUP | Ready::ERR);
            taken = n;
            (over || taken >= enough).then_some(Ok(()))
        }
        Ok(n) => {
            taken += n;
            (taken >= enough).then_some(Ok(()))
        }
        Err(RecvError::WouldBlock) => None,
        Err(error) => Some(Err(error)),
    });
    match outcome {
        Ok(Ok(())) => Ok(taken as ssize_t),
        _ if taken > 0 => Ok(taken as ssize_t),
        Ok(Err(RecvError::NoSocket)) => super::over(),
        Ok(Err(error)) => fail(error.errno()),
        Err(Stopped::Moved) if object.leg().is_some() => receive(runtime, object, into, flags, take),
        Err(stopped) => stopped.answer(),
    }
}

/// Takes what the engine has; after a turn, if it has nothing. `waits`: the call blocks until there is something.
#[inline]
fn attempt<S: Sink + Clone>(
    object: &'static Object,
    into: &mut S,
    take: Take,
    now: u64,
    waits: bool,
) -> Result<usize, RecvError> {
    if object.is_filtered() {
        filter(object, now);
    }
    match take {
        // Each look begins anew.
        Take::Peek(_) => {
            // What is there already satisfies the engine, and more may wait in the rings.
            if let Some((lane, _)) = object.leg() {
                lane.turn(now);
            }
            attempt_into(object, &mut into.clone(), take, now, waits)
        }
        _ => attempt_into(object, into, take, now, waits),
    }
}

/// The program looks at what arrived before it can be read.
#[cold]
fn filter(object: &'static Object, now: u64) {
    if let Some((lane, _)) = object.leg() {
        lane.turn(now);
        crate::extra::vet(object);
    }
}

#[inline]
fn attempt_into(
    object: &Object,
    into: &mut impl Sink,
    take: Take,
    now: u64,
    waits: bool,
) -> Result<usize, RecvError> {
    let Some((lane, id)) = object.leg() else { return Err(RecvError::NoSocket) };
    let at = Instant(now);
    lane.briefly(|inner| {
        inner.drain(now);
        let mut result = inner.stack.tcp_recv(at, id, into, take, &mut Tx(&mut inner.device));
        if result == Err(RecvError::WouldBlock) {
            if waits {
                inner.turn(now);
            } else {
                inner.look(now);
            }
            result = inner.stack.tcp_recv(at, id, into, take, &mut Tx(&mut inner.device));
        }
        if let Ok(taken @ 1..) = result
            && !matches!(take, Take::Peek(_))
        {
            counts::received(object, taken);
            if take == Take::Consume {
                object.peek.read(taken);
            }
        }
        inner.hand_over_unless_gathering(at);
        lane.note(inner, now);
        result
    })
}
