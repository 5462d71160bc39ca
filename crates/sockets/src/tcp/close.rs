//! close(2) and shutdown(2) on TCP, and taking a socket off its legs.

use super::spares::SPARES;
use crate::answer::{Answer, Stop, Why};
use crate::errno::fail;
use crate::lane::{Inner, Lane, Tx};
use crate::object::{Kind, Object};
use crate::offload;
use crate::runtime::Runtime;
use crate::wait::block::{self, Wait};
use core::cell::Cell;
use core::sync::atomic::Ordering;
use libc::c_int;
use stack::tcp::{Close, State};
use stack::{Instant, SocketId};

/// The last descriptor of a TCP socket is about to be closed. With SO_LINGER waits for the peer's acknowledgment.
pub(crate) fn close(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    if object.kind() != Kind::Stream {
        detach(object);
        return;
    }
    let Some((lane, id)) = object.leg() else { return };
    let (linger, flow, accepted) = {
        let mut control = object.control.lock();
        let flow = core::mem::take(&mut control.flows).pop().map(|(_, flow)| flow);
        (control.linger, flow, control.accepted.then(|| control.inherited.take()))
    };
    let how = if linger == Some(0) { Close::Abort } else { Close::Orderly };
    let now = sys::clock::now();
    {
        let mut guard = lane.lock();
        let inner = &mut *guard;
        inner.stack.tcp_close(Instant(now), id, how, &mut Tx(&mut inner.device));
        inner.flush(Instant(now));
    }
    if let Some(seconds) = linger.filter(|seconds| *seconds > 0) {
        linger_on(runtime, object, lane, id, seconds);
    }
    let mut inner = lane.lock();
    inner.stack.set_token(id, 0);
    if inner.stack.tcp_closing(id) {
        // The descriptor goes; a duplicate of the shadow keeps the port reserved until the peer has everything.
        inner.keep_orphan(id, flow, accepted.is_none().then_some(fd));
    } else if let Some(flow) = flow {
        inner.device.unsteer(flow);
    }
    let finished = inner.take_some_finished();
    lane.note(&inner, now);
    drop(inner);
    drop(finished);
    if let Some(inherited) = accepted {
        SPARES.keep(object, fd, inherited);
    }
    let _control = object.control.lock();
    object.drop_legs();
}

/// SO_LINGER: waits until the peer has acknowledged everything, or for so long.
fn linger_on(
    runtime: &'static Runtime,
    object: &'static Object,
    lane: &'static Lane,
    id: SocketId,
    seconds: u32,
) {
    let one = [object];
    let deadline = Some(sys::clock::now() + u64::from(seconds) * 1_000_000_000);
    let wait = Wait { deadline, restartable: Cell::new(false), ..Wait::to_send(runtime, &one) };
    let _ = block::until(runtime, &wait, |now| {
        lane.turn(now);
        (!lane.lock().stack.tcp_delivers(id)).then_some(())
    });
}

/// Takes a socket off its legs: listeners stop, a connection that failed or is given up ends.
pub(crate) fn detach(object: &'static Object) {
    offload::unsteer(object);
    for (lane, id) in object.legs() {
        abort(lane, id);
    }
    let _control = object.control.lock();
    object.drop_legs();
}

/// Ends the connections that wait in a listener's queue; how many.
pub(crate) fn refuse_queued(listener: &'static Object) -> usize {
    let mut refused = 0;
    if listener.kind() == Kind::Listener {
        for (lane, id) in listener.legs() {
            lane.turn(sys::clock::now());
            while let Some(waiting) = { lane.lock().stack.tcp_accept(id) } {
                abort(lane, waiting);
                refused += 1;
            }
        }
    }
    refused
}

/// Ends an engine socket at once.
pub(crate) fn abort(lane: &'static Lane, id: SocketId) {
    let now = Instant(sys::clock::now());
    abort_in(&mut lane.lock(), id, now);
}

/// As [`abort`], for who has the lane.
pub(crate) fn abort_in(inner: &mut Inner, id: SocketId, now: Instant) {
    inner.stack.set_token(id, 0);
    inner.stack.tcp_close(now, id, Close::Abort, &mut Tx(&mut inner.device));
    inner.flush(now);
}

/// shutdown(2).
pub(crate) fn shutdown(object: &'static Object, how: c_int) -> Answer<c_int> {
    let (read, write) = match how {
        libc::SHUT_RD => (true, false),
        libc::SHUT_WR => (false, true),
        libc::SHUT_RDWR => (true, true),
        _ => return fail(libc::EINVAL),
    };
    match object.kind() {
        Kind::Listener if read => {
            detach(object);
            object.set_kind(Kind::TcpIdle);
            object.watch.wake_all();
            Err(Stop::Kernel(Why::NotOurs))
        }
        Kind::Stream => {
            let Some((lane, mut guard, id)) = object.engine() else { return Err(Stop::Kernel(Why::NotOurs)) };
            let now = Instant(sys::clock::now());
            let inner = &mut *guard;
            if matches!(inner.stack.tcp_state(id), None | Some(State::Closed)) {
                return fail(libc::ENOTCONN);
            }
            if read {
                inner.stack.tcp_shutdown_read(now, id).map_err(|error| Stop::Errno(error.errno()))?;
            }
            if write {
                let result = inner.stack.tcp_shutdown_write(now, id, &mut Tx(&mut inner.device));
                result.map_err(|error| Stop::Errno(error.errno()))?;
            }
            inner.flush(now);
            inner.deliver_events(now.0);
            lane.note(inner, now.0);
            object.shut.fetch_or(u8::from(read) | u8::from(write) << 1, Ordering::Relaxed);
            drop(guard);
            object.watch.wake_all();
            Ok(0)
        }
        _ => Err(Stop::Kernel(Why::NotOurs)),
    }
}
