//! The judge: which carrier suits a connection, by what its calls moved.
//!
//! Small messages gain on the wire: what they cost is calls, wake-ups and packets. Bulk does not where the device
//! copies: the kernel takes and gives 64 KiB at a time, where a frame is a page. So the bytes of a call are what is
//! looked at, in both directions together. Between the two limits a connection stays where it is, and each move back to
//! the kernel doubles the calls that it takes to come to the wire again: one that is of both kinds settles.

use super::demanded;
use super::straight;
use super::to_wire::{self, Refusal};
use crate::describe;
use crate::family::FAMILY;
use crate::memory;
use crate::object::holders;
use crate::object::in_flight::{calls_are_over, wait_while_moving};
use crate::object::traffic::{CALLS, is_bulk, is_small};
use crate::object::{Kind, Object, Pin};
use crate::offload::is_demanded;
use crate::opening::OPENING;
use crate::runtime::Runtime;
use crate::threads::THREADS;
use crate::{address, counts};
use config::{Carrier, Role};
use core::sync::atomic::Ordering;
use libc::c_int;
use stats::Verdict;

/// Bytes after which the judge looks at a connection on the wire: less is over before a move has paid for itself.
const LOOK_BYTES: u64 = 512 << 10;

/// A call on a connection of an engine's moved `bytes`, and is over.
#[inline]
pub(crate) fn on_wire(runtime: &'static Runtime, object: &'static Object, fd: c_int, bytes: usize) {
    if object.traffic.add(bytes) >= LOOK_BYTES {
        look(runtime, object, fd);
    }
    THREADS.called(bytes);
    if THREADS.is_kernels() && !object.is_demanded.load(Ordering::Relaxed) || THREADS.is_due() {
        tried(runtime, object, fd);
    }
    if runtime.allocation.has_several() {
        follow_thread(runtime, object, fd);
    }
}

/// A connection whose calls come from threads of another lane of its interface goes to the kernel, and from there to
/// the lane of whoever uses it then.
fn follow_thread(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    let Some((lane, _)) = object.leg() else { return };
    if object.kind() != Kind::Stream
        || !runtime.allocation.is_elsewhere(lane.number, &object.strangers)
        || object.extra().is_some()
        || object.price.load(Ordering::Relaxed) == u32::MAX
        || runtime.lane_beside(lane).is_none()
    {
        return;
    }
    let seen = object.traffic.seen();
    let price = object.price.load(Ordering::Relaxed).max(CALLS).saturating_mul(2);
    if to_kernel(runtime, object, fd) {
        // What is on the wire by demand has nothing to show, and comes back after so many calls.
        let is_demanded =
            runtime.parameters.is_on_wire_at_once() || object.is_demanded.load(Ordering::Relaxed);
        object.is_demanded.store(is_demanded, Ordering::Relaxed);
        object.traffic.clear();
        object.price.fetch_max(price, Ordering::SeqCst);
        judged(object, Verdict::OtherThread, seen);
        logger::debug!("fd {fd}: its calls come from another lane's thread");
    }
}

/// The process's connections are the kernel's, by the trial, or it is time to try that.
#[cold]
fn tried(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    if !may_be_tried(runtime, object) {
        return;
    }
    THREADS.look(runtime);
    if !THREADS.is_kernels() {
        return;
    }
    let seen = object.traffic.seen();
    if to_kernel(runtime, object, fd) {
        // It has shown already that it is due, should the wire win.
        object.traffic.begin(object.price.load(Ordering::Relaxed).max(CALLS));
        judged(object, THREADS.verdict(), seen);
    } else if object.kind() == Kind::Stream {
        object.price.store(u32::MAX, Ordering::SeqCst);
    }
}

/// Whether a connection on the wire goes to the kernel if a trial says so.
fn may_be_tried(runtime: &'static Runtime, object: &'static Object) -> bool {
    object.kind() == Kind::Stream
        && runtime.parameters.move_every == 0
        && !runtime.parameters.is_on_wire_at_once()
        && object.extra().is_none()
        && object.price.load(Ordering::Relaxed) != u32::MAX
        && !is_demanded_by_rule(runtime, object)
}

/// True: a rule demands the wire for it, which is looked up once.
fn is_demanded_by_rule(runtime: &Runtime, object: &Object) -> bool {
    let (role, local, remote) = {
        let control = object.control.lock();
        let role = if control.accepted { Role::TcpServer } else { Role::TcpClient };
        (role, control.local, control.remote)
    };
    let is_demanded = object.is_demanded.load(Ordering::Relaxed) || is_demanded(runtime, role, local, remote);
    object.is_demanded.store(is_demanded, Ordering::Relaxed);
    is_demanded
}

#[cold]
fn look(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    let (calls, bytes) = object.traffic.seen();
    object.traffic.clear();
    if may_be_tried(runtime, object) {
        THREADS.look(runtime);
    }
    if object.kind() != Kind::Stream
        || !is_bulk(calls, bytes)
        || runtime.parameters.is_on_wire_at_once()
        || object.extra().is_some()
        || object.price.load(Ordering::Relaxed) == u32::MAX
        || object.leg().is_none_or(|(lane, _)| !lane.copies)
    {
        return;
    }
    let price = object.price.load(Ordering::Relaxed).max(CALLS).saturating_mul(2);
    if to_kernel(runtime, object, fd) {
        // From now on it has to show that it gains, as any other.
        object.is_demanded.store(false, Ordering::Relaxed);
        object.price.fetch_max(price, Ordering::SeqCst);
        judged(object, Verdict::Bulk, (calls, bytes));
        logger::debug!("fd {fd}: that was bulk, {} bytes a call", bytes / u64::from(calls.max(1)));
    } else if object.kind() == Kind::Stream {
        // It is not asked again: what was tried costs more than a call.
        object.price.store(u32::MAX, Ordering::SeqCst);
        judged(object, Verdict::BulkStays, (calls, bytes));
        logger::debug!("fd {fd}: bulk, but cannot move to the kernel");
    }
}

/// True: the kernel carries the connection now.
fn to_kernel(runtime: &'static Runtime, object: &'static Object, fd: c_int) -> bool {
    let begun = sys::clock::now();
    let moved = FAMILY.to_carried(runtime, object, fd);
    if moved {
        logger::debug!(
            "fd {fd}: moved from the wire to the kernel in {} us",
            (sys::clock::now() - begun) / 1000
        );
    }
    moved
}

/// Whether what a connection has shown by now is more than moves to the wire.
pub(super) fn is_more_than_small(object: &Object) -> bool {
    let (calls, bytes) = object.traffic.seen();
    calls >= CALLS && !is_small(calls, bytes)
}

/// A call on a connection that the kernel carries moved `bytes`.
#[inline]
pub(super) fn in_kernel(object: &Object, bytes: usize) {
    THREADS.called(bytes);
    if object.traffic.add(bytes) >= LOOK_BYTES {
        let (calls, bytes) = object.traffic.seen();
        if !is_small(calls, bytes) {
            object.traffic.clear();
        }
    }
}

/// A call on a connection that the kernel carries begins: it moves now, if it is time. Returns when nobody moves it.
#[inline]
pub(super) fn before_call(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    if runtime.sdp.is_some() || memory::looks(object) {
        // libsdp.so has no wire, and within the host there is none.
        return wait_while_moving(object);
    }
    counts::in_use();
    let (calls, bytes) = object.traffic.seen();
    let price = object.price.load(Ordering::Relaxed);
    let is_demanded = object.is_demanded.load(Ordering::Relaxed);
    let is_due = match runtime.parameters.move_every {
        0 if is_demanded => calls >= price,
        0 => calls >= price.max(CALLS) && is_small(calls, bytes),
        // Whatever an earlier try came to.
        every => calls >= every && price != u32::MAX,
    };
    let is_kept = is_due
        && (runtime.parameters.carrier == Carrier::Kernel
            || threads_keep(runtime, is_demanded)
            || !holders::is_alone(object));
    if is_due && !is_kept {
        let opens =
            is_demanded || runtime.parameters.is_on_wire_at_once() || runtime.parameters.move_every != 0;
        let verdict = if is_demanded { Verdict::Demanded } else { Verdict::SmallCalls };
        to_wire(runtime, object, fd, verdict, opens);
    }
    wait_while_moving(object);
    straight::settle(runtime, object, is_kept);
}

/// What is due stays in the kernel all the same, which the trial says, or is to be tried first.
pub(super) fn threads_keep(runtime: &'static Runtime, is_demanded: bool) -> bool {
    if is_demanded || runtime.parameters.move_every != 0 || runtime.parameters.is_on_wire_at_once() {
        return false;
    }
    THREADS.look(runtime);
    THREADS.is_kernels()
}

/// `verdict`: why it moves. `opens`: the interface, too, in this call, if it must be.
#[cold]
fn to_wire(runtime: &'static Runtime, object: &'static Object, fd: c_int, verdict: Verdict, opens: bool) {
    if !opens && goes_on(runtime, object) {
        return;
    }
    let Some(pin) = Pin::by(object, fd).filter(|pin| object.begin_move(pin)) else { return };
    if !holders::is_alone(object) {
        // A fork shared it meanwhile.
        return object.set_kind(Kind::Carried);
    }
    object.claim_counts(fd);
    let seen = object.traffic.seen();
    let begun = sys::clock::now();
    let refused = match calls_are_over(object) {
        true => to_wire::to_wire(runtime, &pin, fd, opens).err(),
        false => Some(Refusal::Later(Verdict::InCall)),
    };
    let Some(refusal) = refused else {
        holders::leave(object);
        object.traffic.clear();
        counts::segment().process().moves_to_wire.add(1);
        let verdict = if runtime.parameters.move_every == 0 { verdict } else { Verdict::Shaken };
        judged(object, verdict, seen);
        logger::debug!(
            "fd {fd}: moved from the kernel to the wire in {} us",
            (sys::clock::now() - begun) / 1000
        );
        return;
    };
    // Never less than it is: somebody may have said meanwhile that it stays.
    let price = match refusal {
        Refusal::Later(_) => seen.0.saturating_mul(2).max(1),
        Refusal::NotOpen(_) => seen.0.saturating_add(CALLS),
        Refusal::Never(_) | Refusal::Kernel(_) => u32::MAX,
    };
    object.price.fetch_max(price, Ordering::SeqCst);
    object.set_kind(Kind::Carried);
    // Before the first lane there is no worker that would say who it is.
    if object.counts().remote.value() == 0 {
        describe::describe(object);
    }
    match refusal {
        Refusal::Later(what) => {
            judged(object, what, seen);
            logger::debug!("fd {fd}: not moved to the wire yet: {}", what.text());
        }
        Refusal::Never(what) => {
            judged(object, what, seen);
            logger::debug!("fd {fd}: stays in the kernel: {}", what.text());
        }
        Refusal::Kernel(why) => {
            counts::stays(object.counts(), why);
            runtime.count(why, format_args!("TCP connection (fd {fd})"));
        }
        Refusal::NotOpen(link) => {
            judged(object, Verdict::Opening, seen);
            OPENING.note(runtime, CALLS, &[link]);
        }
    }
}

/// A socket is due, and goes on in the kernel without a look: its interface, or another one, is yet to be opened.
pub(super) fn goes_on(runtime: &'static Runtime, object: &Object) -> bool {
    let has_looked = Verdict::from_number(object.counts().verdict.value()) == Some(Verdict::Opening);
    let goes_on = OPENING.goes_on(runtime, CALLS, has_looked);
    if goes_on {
        let calls = object.traffic.seen().0;
        object.price.fetch_max(calls.saturating_add(CALLS), Ordering::SeqCst);
    }
    goes_on
}

/// The program asks for what only the wire has (extra/): the connection moves now, if it may at all. Where there is
/// none yet it begins on the wire; one that is being made may move later.
#[cold]
pub(crate) fn demand(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    let may = object.price.load(Ordering::Relaxed) != u32::MAX && holders::is_alone(object);
    if !may || runtime.parameters.carrier == Carrier::Kernel {
        return;
    }
    if !demanded::begins_on_wire(runtime, object, fd) && address::peer_of_shadow(&runtime.os, fd).is_some() {
        to_wire(runtime, object, fd, Verdict::Demanded, true);
        wait_while_moving(object);
    }
}

fn judged(object: &Object, verdict: Verdict, seen: (u32, u64)) {
    counts::judged(object.counts(), verdict, seen);
}

/// A call that moves data begins, on whatever carries the socket.
#[inline]
pub(crate) fn before_any_call(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    if runtime.parameters.move_every != 0 {
        shake(runtime, object, fd);
    } else if object.kind() == Kind::Udp && object.leg().is_some() {
        if THREADS.is_kernels() && !object.is_demanded.load(Ordering::Relaxed) {
            super::datagrams::tried(runtime, object);
        } else if runtime.allocation.has_several() {
            super::datagrams::follow_thread(runtime, object, fd);
        }
    }
}

/// For tests (SIDESTEP_MOVE_EVERY): what is on the wire goes back to the kernel at every so-manieth call.
#[cold]
fn shake(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    let is_datagrams = object.kind() == Kind::Udp && object.leg().is_some();
    if is_datagrams {
        object.traffic.add(0);
    }
    let seen = object.traffic.seen();
    if seen.0 < runtime.parameters.move_every {
        return;
    }
    if is_datagrams {
        super::datagrams::shaken(runtime, object);
    } else if object.kind() == Kind::Stream {
        object.traffic.clear();
        if !to_kernel(runtime, object, fd) {
            return;
        }
    } else {
        return;
    }
    judged(object, Verdict::Shaken, seen);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_bulk_and_small_nothing_moves() {
        assert!(is_bulk(64, LOOK_BYTES) && !is_small(64, LOOK_BYTES));
        assert!(is_small(CALLS, 100 * u64::from(CALLS)) && !is_bulk(CALLS, 100 * u64::from(CALLS)));
        assert!(!is_bulk(10, 60_000) && !is_small(10, 60_000));
    }
}
