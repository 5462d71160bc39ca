//! UDP sockets begin in the kernel, too: a socket without legs is as if it were not ours. What has shown that it gains
//! gets them, on interfaces that are opened beside the program. What waits in the kernel by then is read first
//! (udp/recv.rs). A rule or parameter that demands the wire has a socket stand there as soon as it is bound.

use super::judge;
use super::same_port;
use super::to_wire::Refusal;
use crate::address;
use crate::answer::Why;
use crate::counts;
use crate::fd_table;
use crate::object::holders;
use crate::object::in_flight::{InFlight, SLEEPS, has_sleepers, is_moved};
use crate::object::traffic::{CALLS, is_small};
use crate::object::{Object, Pin};
use crate::offload;
use crate::offload::is_demanded;
use crate::opening::OPENING;
use crate::runtime::Runtime;
use crate::threads::THREADS;
use crate::udp_legs::{self, waits};
use crate::wait::moves;
use config::{Carrier, Role};
use core::sync::atomic::{Ordering, fence};
use libc::c_int;
use netlink::RouteKind;
use stack::udp::Heard;
use stats::Verdict;
use std::net::{Ipv4Addr, SocketAddrV4};

/// A UDP socket was made.
pub(crate) fn begin_datagrams(runtime: &Runtime, object: &Object) {
    if !runtime.parameters.begins_in_kernel() {
        object.price.store(u32::MAX, Ordering::Relaxed);
    }
}

/// A UDP socket got these ends, or others. True: it has no legs, and is the kernel's until it has shown that it gains.
pub(crate) fn begins_late(
    runtime: &Runtime,
    object: &'static Object,
    role: Role,
    local: Option<SocketAddrV4>,
    remote: Option<SocketAddrV4>,
) -> bool {
    let is_due = || {
        let listens_on_wire = |local| !same_port::listening_on_wire(object, local).is_empty();
        is_demanded(runtime, role, local, remote) || remote.is_some() && local.is_some_and(listens_on_wire)
    };
    let is_late = runtime.parameters.begins_in_kernel() && !(is_due() && leaves_at_once(object));
    object.price.store(if is_late { 0 } else { u32::MAX }, Ordering::Relaxed);
    object.traffic.clear();
    if is_late {
        counts::begins_in_kernel(object.counts());
    }
    is_late
}

/// The first datagram of a socket without a port goes to `to`. True: a rule demands that from the wire, where it is
/// bound then.
pub(crate) fn is_due_at_once(runtime: &Runtime, object: &Object, to: SocketAddrV4) -> bool {
    let is_first = object.traffic.seen().0 == 0 && object.control.lock().local.is_none();
    is_first && is_demanded(runtime, Role::UdpSender, None, Some(to)) && leaves_at_once(object)
}

/// A socket leaves the kernel before it has shown anything. False: a receive may be asleep there, and is the one that
/// moves it, with what ends it.
fn leaves_at_once(object: &Object) -> bool {
    let before = object.price.swap(u32::MAX, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    let leaves = !has_sleepers(object);
    if !leaves {
        object.price.store(before, Ordering::SeqCst);
    }
    leaves
}

/// A receive goes to sleep in the kernel with a socket that begins there: one system call, as without us. `None`: it
/// has legs by now, or is about to.
pub(crate) fn sleep_in_kernel<T>(
    runtime: &Runtime,
    object: &'static Object,
    call: impl FnOnce() -> T,
) -> Option<T> {
    if runtime.parameters.move_every != 0 || counts::part(None).is_some() {
        return None;
    }
    let _in_flight = InFlight::begin(object, SLEEPS);
    fence(Ordering::SeqCst);
    (!is_moved(object) && waits(object)).then(call)
}

/// A datagram of `bytes` went to `peer`, or came from it, through the kernel: the socket moves now, if it is time.
#[inline]
pub(crate) fn datagram(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    bytes: usize,
    peer: impl FnOnce() -> Option<SocketAddrV4>,
) {
    THREADS.called(bytes);
    object.traffic.add(bytes);
    if is_due(runtime, object, 0) {
        let peer = peer();
        if peer.is_some_and(|peer| peer.ip().is_loopback()) {
            // As if there had been none.
            return object.traffic.clear();
        }
        if !judge::threads_keep(runtime, false) {
            to_wire(runtime, object, fd, peer, runtime.parameters.move_every != 0);
        }
    }
}

/// Whether the next datagram may move the socket.
pub(crate) fn is_due_with_next(runtime: &Runtime, object: &Object) -> bool {
    is_due(runtime, object, 1)
}

/// Whether what went through the kernel, and so many more, has shown that the socket gains.
#[inline]
fn is_due(runtime: &Runtime, object: &Object, more: u32) -> bool {
    let (calls, bytes) = object.traffic.seen();
    let price = object.price.load(Ordering::Relaxed);
    match runtime.parameters.move_every {
        0 => calls + more >= price.max(CALLS) && is_small(calls + more, bytes),
        every => calls + more >= every && price != u32::MAX,
    }
}

/// A place for looks (SO_PEEK_OFF) is one in the queue of whoever has it.
fn has_place(object: &Object) -> bool {
    object.peek.behind().is_some()
}

/// A datagram of an engine's socket comes or goes.
#[inline]
pub(crate) fn datagram_on_wire(bytes: usize) {
    THREADS.called(bytes);
}

/// For tests (SIDESTEP_MOVE_EVERY): back to the kernel.
pub(super) fn shaken(runtime: &'static Runtime, object: &'static Object) {
    if to_kernel(runtime, object) {
        object.traffic.clear();
    }
}

/// The trial says that the kernel carries what this process has.
#[cold]
pub(super) fn tried(runtime: &'static Runtime, object: &'static Object) {
    let (local, remote, has_groups) = {
        let control = object.control.lock();
        (control.local, control.remote, control.multicast.has_groups())
    };
    let is_demanded = runtime.parameters.is_on_wire_at_once()
        || object.extra().is_some()
        || [Role::UdpReceiver, Role::UdpSender]
            .into_iter()
            .any(|role| is_demanded(runtime, role, local, remote));
    if is_demanded || has_groups {
        // It is not asked again.
        object.is_demanded.store(true, Ordering::Relaxed);
    } else if to_kernel(runtime, object) {
        // It has shown already that it is due, should the wire win.
        object.traffic.begin(CALLS);
        counts::judged(object.counts(), THREADS.verdict(), (0, 0));
    }
}

/// True: the kernel goes on with the socket.
fn to_kernel(runtime: &'static Runtime, object: &'static Object) -> bool {
    let Some(_pin) = Pin::known(object) else { return false };
    // What waits of groups that others hear, too, would be lost on the way.
    let has_groups = object.control.lock().multicast.has_groups();
    if has_place(object) || has_groups && udp_legs::heard(object) == Heard::ByOthers {
        return false;
    }
    // One thread moves it.
    let Some(_alone) = InFlight::alone(object) else { return false };
    let stands = object.leg().is_some();
    if stands {
        let (local, remote) = {
            let control = object.control.lock();
            (control.local, control.remote)
        };
        if let Some(local) = local.filter(|_| remote.is_some()) {
            for other in same_port::listening_on_wire(object, local) {
                to_kernel(runtime, other);
            }
        }
        udp_legs::detach(object);
        object.traffic.clear();
        object.price.store(0, Ordering::Relaxed);
        object.is_carried_again();
        counts::segment().process().moves_to_kernel.add(1);
        moves::changed(&runtime.os, object);
    }
    stands
}

/// A call on an engine's socket begins. One whose calls come from threads of another lane of its interface goes there.
pub(super) fn follow_thread(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    let Some((lane, _)) = object.leg() else { return };
    if !runtime.allocation.is_elsewhere(lane.number, &object.strangers)
        || object.extra().is_some()
        || udp_legs::has_company(object)
        || has_place(object)
        // What waits of a group would come without its TTL.
        || object.control.lock().multicast.has_groups()
        || runtime.lane_beside(lane).is_none()
    {
        return;
    }
    let Some(pin) = Pin::by(object, fd) else { return };
    // One thread moves it.
    let alone = InFlight::alone(object);
    if alone.is_some() && object.leg().is_some() {
        udp_legs::change_lanes(runtime, &pin);
        logger::debug!("fd {fd}: its datagrams go by the lane of the thread that uses it");
    }
}

/// The program asks for what only the wire has (extra/), or a rule for the wire at once.
#[cold]
pub(crate) fn demand_datagrams(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    if waits(object) {
        to_wire(runtime, object, fd, None, true);
    }
}

/// `opens`: interfaces, too, in this call.
#[cold]
fn to_wire(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    peer: Option<SocketAddrV4>,
    opens: bool,
) {
    if !opens && judge::goes_on(runtime, object) {
        return;
    }
    if runtime.parameters.carrier == Carrier::Kernel || !holders::is_alone(object) || has_place(object) {
        return;
    }
    let Some(pin) = Pin::by(object, fd) else { return };
    // One thread moves it.
    let alone = InFlight::alone(object);
    // Another thread may have left it to the kernel before, or shared it by a fork.
    if alone.is_some() && waits(object) && holders::is_alone(object) {
        let begun = sys::clock::now();
        let seen = object.traffic.seen();
        let calls = seen.0;
        match stand(runtime, &pin, fd, peer, opens) {
            Ok(()) => {
                object.price.store(u32::MAX, Ordering::Relaxed);
                object.traffic.clear();
                counts::judged(object.counts(), Verdict::SmallCalls, seen);
                holders::leave(object);
                counts::segment().process().moves_to_wire.add(1);
                let took = (sys::clock::now() - begun) / 1000;
                logger::debug!("fd {fd}: datagrams moved from the kernel to the wire in {took} us");
            }
            Err(Refusal::NotOpen(_)) => {
                object.price.fetch_max(calls.saturating_add(CALLS), Ordering::Relaxed);
                counts::judged(object.counts(), Verdict::Opening, seen);
            }
            Err(Refusal::Later(what)) => {
                counts::judged(object.counts(), what, seen);
                object.price.fetch_max(calls.saturating_mul(2), Ordering::Relaxed);
                logger::debug!("fd {fd}: datagrams are not moved to the wire yet: {}", what.text());
            }
            Err(Refusal::Never(what)) => {
                counts::judged(object.counts(), what, seen);
                logger::debug!("fd {fd}: datagrams are the kernel's: {}", what.text());
                leave(runtime, object, fd, Why::Unsupported);
            }
            Err(Refusal::Kernel(why)) => {
                logger::debug!("fd {fd}: datagrams are the kernel's: {}", why.text());
                leave(runtime, object, fd, why);
            }
        }
    }
}

/// A socket that will never move is the kernel's alone, unless it is already. It is there since it was made, so nobody
/// is told. In strict mode its calls fail.
fn leave(runtime: &'static Runtime, object: &'static Object, fd: c_int, why: Why) {
    if runtime.parameters.strict {
        object.price.store(u32::MAX, Ordering::Relaxed);
    } else if fd_table::names(fd, object) {
        counts::segment().left_to_kernel(why);
        holders::leave(object);
        offload::forget(runtime, object, why);
    }
}

fn stand(
    runtime: &'static Runtime,
    pin: &Pin,
    fd: c_int,
    peer: Option<SocketAddrV4>,
    opens: bool,
) -> Result<(), Refusal> {
    let object = pin.object();
    let local = address::of_shadow(&runtime.os, fd).map_err(|_| Refusal::Never(Verdict::NotIpv4))?;
    if local.port() == 0 {
        return Err(Refusal::Later(Verdict::NoPort));
    }
    let remote = object.control.lock().remote;
    if remote.is_none() && same_port::is_one_of_several(object, fd, local) {
        return Err(Refusal::Never(Verdict::OptionOfTheKernel));
    }
    let links = links(runtime, object, local, remote, peer)?;
    for link in links.iter().filter(|link| runtime.known_lane(**link).is_none()) {
        if !opens {
            OPENING.note(runtime, CALLS, &links);
            return Err(Refusal::NotOpen(*link));
        }
        // What cannot be opened is found out, and told, where the socket would stand.
        let _ = runtime.lane_for_link(*link);
    }
    if remote.is_none() {
        for other in same_port::connected_in_kernel(object, local) {
            let number = other.fd.load(Ordering::Relaxed);
            to_wire(runtime, other, number, None, opens);
            if fd_table::names(number, other) && waits(other) {
                return Err(Refusal::Later(Verdict::InCall));
            }
        }
    }
    object.control.lock().local = Some(local);
    counts::named(object.counts(), local, remote);
    match udp_legs::stand_late(runtime, pin, local, remote) {
        true => Ok(()),
        // It was told, and is the kernel's alone.
        false => Err(Refusal::Never(Verdict::NotTold)),
    }
}

/// The interfaces that the socket would stand on.
fn links(
    runtime: &'static Runtime,
    object: &Object,
    local: SocketAddrV4,
    remote: Option<SocketAddrV4>,
    peer: Option<SocketAddrV4>,
) -> Result<Vec<u32>, Refusal> {
    let way = |to: Ipv4Addr| {
        let asked = offload::route_query(object, 0);
        runtime.netlink(|netlink| netlink.route(to, asked)).map_err(|_| Refusal::Later(Verdict::NotTold))
    };
    if let Some(peer) = remote.or(peer).filter(|peer| !peer.ip().is_multicast()) {
        let route = way(*peer.ip())?;
        if route.kind != RouteKind::Unicast {
            return Err(Refusal::Later(Verdict::PeerOnHost));
        }
        if remote.is_some() {
            return Ok(vec![route.link]);
        }
    }
    if let Some(group) = remote.filter(|remote| remote.ip().is_multicast()) {
        return Ok(vec![way(*group.ip())?.link]);
    }
    let mut links = udp_legs::multicast::links(object);
    if local.ip().is_unspecified() {
        links.extend(runtime.links_for_any());
    } else if !local.ip().is_multicast() {
        links.push(runtime.link_of_address(*local.ip()).map_err(|why| match why {
            Why::LocalAddress => Refusal::Later(Verdict::PeerOnHost),
            why => Refusal::Kernel(why),
        })?);
    }
    Ok(links)
}
