//! The end of the process: what only it knows is told to peers while it can. An exit may come from a signal handler, in the
//! middle of a call of ours on the same thread, so nothing here waits for a lock without a bound.

use crate::counts;
use crate::fd_table;
use crate::lane::{Frame, Tx};
use crate::object::{Kind, Object};
use crate::runtime::{self, Runtime};
use crate::tcp;
use core::sync::atomic::Ordering;
use stack::tcp::Close;
use stack::{Instant, SocketId, Stack};

/// How long each stage waits, in all, for locks that others hold. Threads leave a lane within microseconds unless they
/// lose the processor; only a handler that interrupted the holder waits in vain.
pub(super) const LOCKS_WAIT_NS: u64 = 100_000_000;

/// At exit of the process: nobody comes any more, pending data gets its bounded time to leave, and interfaces are left.
pub fn exiting() {
    let Some(runtime) = runtime::get() else { return };
    let patience = sys::clock::now() + LOCKS_WAIT_NS;
    for object in sockets(Kind::Listener) {
        end_listener(runtime, object, patience);
    }
    for object in sockets(Kind::Udp) {
        give_back(object, patience);
    }
    settle(runtime);
    let patience = sys::clock::now() + LOCKS_WAIT_NS;
    for lane in runtime.lanes().filter(|lane| !lane.is_fenced()) {
        if let Some(inner) = lane.lock_until(patience) {
            inner.device.leave();
        }
    }
}

fn sockets(kind: Kind) -> impl Iterator<Item = &'static Object> {
    (0..fd_table::end()).filter_map(fd_table::socket).filter(move |object| object.kind() == kind)
}

/// What comes for a socket without a connection is the kernel's from now on. True: or other processes' that have it too.
fn give_back(object: &Object, patience: u64) -> bool {
    let flows = object.control.lock_until(patience).map(|mut control| core::mem::take(&mut control.flows));
    let legs: Vec<_> = object.legs().collect();
    let mut others = false;
    for (leg, flow) in flows.unwrap_or_default() {
        if let Some(inner) = legs.get(usize::from(leg)).and_then(|(lane, _)| lane.lock_until(patience)) {
            others |= inner.device.unsteer(flow);
        }
    }
    others
}

/// Who waits in its queue goes to other processes that listen, or hears of the end.
fn end_listener(runtime: &'static Runtime, object: &'static Object, patience: u64) {
    let others = give_back(object, patience) || object.shared.load(Ordering::Relaxed);
    // Without our descriptors the kernel tells whether others have them.
    fd_table::each_of(object, |fd| {
        if fd_table::take_out(fd, object) {
            runtime.os.close_descriptor(fd);
        }
    });
    if others && runtime.relays.hand_over(runtime, object, patience) {
        return;
    }
    for (lane, id) in object.legs() {
        if let Some(mut inner) = lane.lock_until(patience) {
            let now = sys::clock::now();
            inner.turn(now);
            tcp::abort_in(&mut inner, id, Instant(now));
        }
    }
}

/// Closes all connections, and gives pending data its bounded time to leave (SIDESTEP_EXIT_LINGER_MSEC).
pub(super) fn settle(runtime: &'static Runtime) {
    counts::exiting(runtime);
    runtime.relays.leave_to_children(runtime);
    let begin = sys::clock::now();
    let deadline = begin + u64::from(runtime.parameters.exit_linger_msec) * 1_000_000;
    let patience = begin + LOCKS_WAIT_NS;
    let mut waiting = Vec::new();
    for object in sockets(Kind::Stream) {
        let Some((lane, id)) = object.leg() else { continue };
        // The peer of one that is skipped never hears of the end: it stays steered, so the kernel does not answer either.
        let Some(mut guard) = lane.lock_until(patience) else { continue };
        let inner = &mut *guard;
        let now = Instant(sys::clock::now());
        inner.stack.set_token(id, 0);
        inner.stack.tcp_close(now, id, Close::Orderly, &mut Tx(&mut inner.device));
        inner.hand_over(now);
        waiting.push((lane, id));
    }
    for lane in runtime.lanes() {
        if let Some(inner) = lane.lock_until(patience) {
            waiting.extend(inner.orphans.iter().map(|orphan| (lane, orphan.id)));
        }
    }
    loop {
        let holds = hand_over_all(runtime);
        waiting.retain(|(lane, id)| lane.try_lock().is_none_or(|inner| has_unsent(&inner.stack, *id)));
        if !holds && waiting.is_empty() || sys::clock::now() >= deadline {
            break;
        }
        sys::thread::sleep(20_000);
    }
    runtime.relays.finish();
}

/// A turn of every lane; whether packets are still here that were sent already (for want of room, or of the
/// neighbour's address).
fn hand_over_all(runtime: &Runtime) -> bool {
    let mut holds = false;
    for lane in runtime.lanes() {
        let Some(mut inner) = lane.try_lock() else { continue };
        inner.turn(sys::clock::now());
        holds |= inner.device.unkicked() > 0 || inner.stack.wants_flush() || inner.stack.holds_packets();
    }
    holds
}

/// Data or a FIN of ours is not yet acknowledged; waiting for the peer's own FIN is not our business any more.
fn has_unsent(stack: &Stack<Frame>, id: SocketId) -> bool {
    use stack::tcp::State::*;
    matches!(stack.tcp_state(id), Some(Established | CloseWait | FinWait1 | Closing | LastAck | SynReceived))
}
