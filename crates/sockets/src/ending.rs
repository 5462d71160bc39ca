//! The end of the process: what only it knows is told to peers while it can. Afterwards their packets find nobody, and
//! one that only waits would wait for ever.
//!
//! The background thread does it. The thread that ends the process may be in a signal handler that interrupted
//! anything, malloc or a turn of a lane; so it asks, and waits as long as the other gets on.

use crate::background::BACKGROUND;
use crate::carrier;
use crate::counts;
use crate::describe;
use crate::family::FAMILY;
use crate::fd_table;
use crate::lane::{Frame, Tx};
use crate::object::{Kind, Object};
use crate::opening::OPENING;
use crate::runtime::{self, Runtime};
use crate::tcp;
use crate::wait::in_memory;
use core::sync::atomic::{AtomicU32, Ordering};
use stack::tcp::Close;
use stack::{Instant, SocketId, Stack};

/// How long each stage waits, in all, for locks that others hold. Threads leave a lane within microseconds unless they
/// lose the processor; only one that was interrupted by the process' end keeps it.
pub(crate) const LOCKS_WAIT_NS: u64 = 100_000_000;

/// The background thread does not get on if no step ends for so long.
const STUCK_NS: u64 = 1_000_000_000;

/// Between two looks, nanoseconds: a part of what has passed already, within bounds.
const LOOKS_NS: core::ops::RangeInclusive<u64> = 20_000..=1_000_000;

const NOT_ASKED: u32 = 0;
const ASKED: u32 = 1;
const DONE: u32 = 2;

/// What the thread that ends the process and the one that does it tell each other.
pub(crate) struct Ending {
    state: AtomicU32,
    steps: AtomicU32,
}

/// Of this process.
pub(crate) static ENDING: Ending = Ending::new();

impl Ending {
    const fn new() -> Ending {
        Ending { state: AtomicU32::new(NOT_ASKED), steps: AtomicU32::new(0) }
    }

    /// By the background thread: ends the process if it was asked to.
    #[inline]
    pub(crate) fn serve(&self, runtime: &'static Runtime) {
        if self.state.load(Ordering::Acquire) == ASKED {
            self.end_now(runtime);
        }
    }

    /// The background thread ends the process by itself.
    pub(crate) fn end_now(&self, runtime: &'static Runtime) {
        end(runtime);
        self.state.store(DONE, Ordering::Release);
    }

    /// The child of a fork has an end of its own.
    pub(crate) fn after_fork(&self) {
        self.state.store(NOT_ASKED, Ordering::Release);
    }

    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Until it is done, or does not get on.
    fn wait(&self) {
        let (mut steps, mut since) = (self.steps.load(Ordering::Relaxed), sys::clock::now());
        while self.state.load(Ordering::Acquire) == ASKED && sys::clock::now() - since < STUCK_NS {
            sys::thread::sleep(*LOOKS_NS.start());
            if self.steps.load(Ordering::Relaxed) != steps {
                (steps, since) = (self.steps.load(Ordering::Relaxed), sys::clock::now());
            }
        }
    }
}

/// At exit of the process: nobody comes any more, pending data gets its bounded time to leave, and interfaces are left.
pub fn exiting() {
    let Some(runtime) = runtime::get() else { return };
    OPENING.wait();
    if !BACKGROUND.is_running() {
        return end(runtime);
    }
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    let _ = ENDING.state.compare_exchange(NOT_ASKED, ASKED, success, failure);
    BACKGROUND.look();
    ENDING.wait();
}

fn end(runtime: &'static Runtime) {
    let patience = sys::clock::now() + LOCKS_WAIT_NS;
    for lane in runtime.lanes() {
        if let Some(inner) = lane.lock_until(patience) {
            inner.device.ending();
        }
    }
    pay_peers(runtime);
    sockets(Kind::Carried).chain(sockets(Kind::Udp)).for_each(carrier::leave);
    for object in sockets(Kind::Listener) {
        end_listener(runtime, object, patience);
    }
    // Those that children may claim go to the kernel with what waits for them.
    for object in sockets(Kind::Udp).filter(|object| object.holders.load(Ordering::Acquire) == 0) {
        give_back(object, patience);
    }
    drain_connections(runtime);
    let patience = sys::clock::now() + LOCKS_WAIT_NS;
    for lane in runtime.lanes().filter(|lane| !lane.is_fenced()) {
        if let Some(mut inner) = lane.lock_until(patience) {
            inner.device.leave();
        }
    }
}

/// Peers in memory that go back to the kernel's socket get what they have not read, as long as they go on reading it:
/// who has read nothing for SIDESTEP_EXIT_LINGER_MSEC hears of a reset.
pub(crate) fn pay_peers(runtime: &'static Runtime) {
    let patience = sys::clock::now() + LOCKS_WAIT_NS;
    let linger = linger_ns(runtime);
    let (mut paid, mut since) = (in_memory::paid(), sys::clock::now());
    while in_memory::pay_at_exit(patience) {
        ENDING.step();
        let (now, by_now) = (sys::clock::now(), in_memory::paid());
        if by_now != paid {
            (paid, since) = (by_now, now);
        } else if now - since >= linger {
            return in_memory::fail_debts(patience);
        }
        sys::thread::sleep(((now - since) / 8).clamp(*LOOKS_NS.start(), *LOOKS_NS.end()));
    }
}

fn linger_ns(runtime: &Runtime) -> u64 {
    u64::from(runtime.parameters.exit_linger_msec) * 1_000_000
}

fn sockets(kind: Kind) -> impl Iterator<Item = &'static Object> {
    let all = (0..fd_table::end()).filter_map(fd_table::socket);
    all.filter(move |object| object.kind() == kind).inspect(|_| ENDING.step())
}

/// What comes for a socket without a connection is the kernel's from now on.
fn give_back(object: &Object, patience: u64) {
    let flows = object.control.lock_until(patience).map(|mut control| core::mem::take(&mut control.flows));
    let legs: Vec<_> = object.legs().collect();
    for (leg, flow) in flows.unwrap_or_default() {
        if let Some(inner) = legs.get(usize::from(leg)).and_then(|(lane, _)| lane.lock_until(patience)) {
            inner.device.unsteer(flow);
        }
    }
}

/// Who waits in its queue hears of the end.
fn end_listener(runtime: &'static Runtime, object: &'static Object, patience: u64) {
    give_back(object, patience);
    // Nobody else has the socket: without our descriptors the kernel refuses who comes.
    fd_table::each_of(object, |fd| {
        if fd_table::take_out(fd, object) {
            runtime.os.close_descriptor(fd);
        }
    });
    for (lane, id) in object.legs() {
        if let Some(mut inner) = lane.lock_until(patience) {
            let now = sys::clock::now();
            inner.turn(now);
            tcp::abort_in(&mut inner, id, Instant(now));
        }
    }
}

/// Closes all connections, and gives pending data its bounded time to leave (SIDESTEP_EXIT_LINGER_MSEC).
pub(crate) fn drain_connections(runtime: &'static Runtime) {
    describe::end(runtime);
    counts::exiting(runtime);
    let begin = sys::clock::now();
    let patience = begin + LOCKS_WAIT_NS;
    FAMILY.leave_to_children(runtime, patience);
    let mut waiting = Vec::new();
    for object in sockets(Kind::Stream) {
        let Some((lane, id)) = object.leg() else { continue };
        let Some(mut guard) = lane.lock_until(patience) else { continue };
        let inner = &mut *guard;
        let now = Instant(sys::clock::now());
        inner.stack.set_token(id, 0);
        inner.stack.tcp_close(now, id, Close::Orderly, &mut Tx(&mut inner.device));
        inner.flush(now);
        waiting.push((lane, id));
    }
    for lane in runtime.lanes() {
        if let Some(inner) = lane.lock_until(patience) {
            waiting.extend(inner.orphans.iter().map(|orphan| (lane, orphan.id)));
        }
    }
    let linger = linger_ns(runtime);
    loop {
        ENDING.step();
        FAMILY.serve(runtime);
        let holds = hand_over_all(runtime);
        waiting.retain(|(lane, id)| lane.try_lock().is_none_or(|inner| has_unsent(&inner.stack, *id)));
        let age = sys::clock::now() - begin;
        let is_sending = (holds || !waiting.is_empty()) && age < linger;
        if !is_sending {
            break;
        }
        sys::thread::sleep((age / 8).clamp(*LOOKS_NS.start(), *LOOKS_NS.end()));
    }
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
