//! Receiving on a connection.

use crate::counts;
use crate::errno::fail;
use crate::lane::Tx;
use crate::message::Buffers;
use crate::object::Object;
use crate::part::{Outcome, Progress};
use crate::runtime::Runtime;
use crate::wait::block::{self, Stopped, Wait};
use crate::wait::ready;
use libc::{c_int, ssize_t};
use stack::tcp::Take;
use stack::{Instant, Ready, RecvError, Sink};

/// Receives into `into`: what is there, `progress.least` bytes if the call may wait. 0: end of stream. With MSG_TRUNC
/// nothing is written there, and moved past all the same.
#[inline]
pub(crate) fn recv(
    runtime: &'static Runtime,
    object: &'static Object,
    into: &mut Buffers<'_>,
    flags: c_int,
    progress: &mut Progress,
) -> Outcome {
    if flags & (libc::MSG_ERRQUEUE | libc::MSG_OOB | libc::MSG_PEEK | libc::MSG_TRUNC) == 0 {
        return receive(runtime, object, into, flags, progress, Take::Consume);
    }
    unusual(runtime, object, into, flags, progress)
}

#[cold]
fn unusual(
    runtime: &'static Runtime,
    object: &'static Object,
    into: &mut Buffers<'_>,
    flags: c_int,
    progress: &mut Progress,
) -> Outcome {
    if flags & libc::MSG_ERRQUEUE != 0 {
        return Outcome::Done(fail(libc::EAGAIN));
    }
    let (urgent, peeks) = (flags & libc::MSG_OOB != 0, flags & libc::MSG_PEEK != 0);
    let take = match (urgent, peeks) {
        (true, true) => Take::PeekUrgent,
        (true, false) => Take::Urgent,
        (false, true) => Take::Peek(object.peek.behind().unwrap_or(0)),
        (false, false) => Take::Consume,
    };
    let part = if flags & libc::MSG_TRUNC != 0 {
        let mut uncopied = Uncopied(into.room());
        let part = receive(runtime, object, &mut uncopied, flags, progress, take);
        into.pass(into.room() - uncopied.0);
        part
    } else {
        receive(runtime, object, into, flags, progress, take)
    };
    if let (Take::Peek(_), Outcome::Done(Ok(shown))) = (take, &part) {
        object.peek.showed(*shown as usize);
    }
    part
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
    progress: &mut Progress,
    take: Take,
) -> Outcome {
    let least = progress.least;
    let mut taken = 0usize;
    let is_urgent = matches!(take, Take::Urgent | Take::PeekUrgent);
    let first = if take == Take::Consume && !progress.begins { Take::More } else { take };
    match attempt(object, into, first, sys::clock::now(), false) {
        Ok(n) if n == 0 || n >= least || is_urgent => return Outcome::Done(Ok(n as ssize_t)),
        Ok(n) => taken = n,
        Err(RecvError::WouldBlock) => {}
        Err(error) => return failed(error),
    }
    if !object.may_wait(flags) || is_urgent {
        return Outcome::Done(if taken > 0 { Ok(taken as ssize_t) } else { fail(libc::EAGAIN) });
    }
    let one = [object];
    progress.begins &= taken == 0;
    let wait = Wait::to_receive(runtime, &one, &[]).within(progress.limits(object.receive_timeout()));
    let outcome = block::until(runtime, &wait, |now| {
        progress.begins &= taken == 0;
        let take = if take == Take::Consume && !progress.begins { Take::More } else { take };
        let got = attempt(object, into, take, now, true);
        wait.restartable.set(wait.restartable.get() && got.is_err());
        match got {
            Ok(0) => Some(Ok(())),
            Ok(n) if matches!(take, Take::Peek(_)) => {
                // The same bytes once more; nothing follows those before the end.
                let over = n <= taken && ready(object).any(Ready::RDHUP | Ready::HUP | Ready::ERR);
                taken = n;
                (over || taken >= least).then_some(Ok(()))
            }
            Ok(n) => {
                taken += n;
                (taken >= least).then_some(Ok(()))
            }
            Err(RecvError::WouldBlock) => None,
            Err(error) => Some(Err(error)),
        }
    });
    match outcome {
        Err(Stopped::Moved) => Outcome::Moved,
        Ok(Err(RecvError::NoSocket)) => failed(RecvError::NoSocket),
        Ok(Ok(())) => Outcome::Done(Ok(taken as ssize_t)),
        _ if taken > 0 => Outcome::Done(Ok(taken as ssize_t)),
        Ok(Err(error)) => failed(error),
        Err(stopped) => Outcome::Done(stopped.answer()),
    }
}

fn failed(error: RecvError) -> Outcome {
    Outcome::Done(match error {
        RecvError::NoSocket => super::over(),
        error => fail(error.errno()),
    })
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
        crate::filter::vet(object);
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
                inner.turn_within_round(now);
            }
            result = inner.stack.tcp_recv(at, id, into, take, &mut Tx(&mut inner.device));
        }
        if let Ok(taken @ 1..) = result
            && !matches!(take, Take::Peek(_))
        {
            counts::received(object.counts(), taken);
            if matches!(take, Take::Consume | Take::More) {
                object.peek.read(taken);
            }
        }
        inner.flush_unless_gathering(at);
        lane.note(inner, now);
        result
    })
}
