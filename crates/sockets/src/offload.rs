//! May this socket be ours? And the way back: a socket that is left to the kernel.

use crate::answer::{Answer, Stop, Why};
use crate::describe;
use crate::lane::Lane;
use crate::object::ancillary;
use crate::object::{Kind, Object};
use crate::runtime::{Decision, Runtime};
use crate::wait::{epoll, moves};
use crate::{counts, errno, fd_table};
use config::{Carrier, Role};
use core::sync::atomic::Ordering;
use netlink::RouteQuery;
use std::net::{Ipv4Addr, SocketAddrV4};

/// What the way of a socket's packets depends on beside their destination.
pub(crate) fn route_query(object: &Object, tos: u8) -> RouteQuery {
    let bound = object.control.lock().local.map(|local| *local.ip());
    RouteQuery {
        source: bound.filter(|source| !source.is_unspecified() && !source.is_multicast()),
        link: Some(object.device.load(Ordering::Relaxed)).filter(|link| *link != 0),
        mark: 0,
        tos,
    }
}

/// The lane for packets to `to`, and the source address that the kernel would choose.
pub(crate) fn lane_to(
    runtime: &'static Runtime,
    to: Ipv4Addr,
    asked: RouteQuery,
) -> Result<(&'static Lane, Ipv4Addr), Why> {
    decided(runtime, runtime.decide(to, asked))
}

/// As [`lane_to`], and opens nothing. `Err`: this interface is not open (yet).
pub(crate) fn lane_if_open(
    runtime: &'static Runtime,
    to: Ipv4Addr,
    asked: RouteQuery,
) -> Result<Result<(&'static Lane, Ipv4Addr), Why>, u32> {
    runtime.decide_if_open(to, asked).map(|decision| decided(runtime, decision))
}

fn decided(runtime: &'static Runtime, decision: Decision) -> Result<(&'static Lane, Ipv4Addr), Why> {
    match decision {
        Decision::Lane { slot, source } => match runtime.lane(usize::from(slot)) {
            Some(lane) if !lane.is_fenced() => Ok((lane, source)),
            _ => Err(Why::Fenced),
        },
        Decision::Kernel(why) => Err(why),
    }
}

/// Lanes for a socket bound to `local`.
pub(crate) fn lanes_at(runtime: &'static Runtime, local: Ipv4Addr) -> Result<Vec<&'static Lane>, Why> {
    if !local.is_unspecified() {
        let lane = runtime.lane_for_address(local)?;
        runtime.policies.check(Some(local), None)?;
        return Ok(vec![lane]);
    }
    let mut lanes = runtime.lanes_for_any()?;
    lanes.retain(|lane| {
        let addresses = lane.lock().addresses.clone();
        !addresses.into_iter().any(|address| runtime.policies.could_select(Some(address), None))
    });
    if lanes.is_empty() { Err(Why::Ipsec) } else { Ok(lanes) }
}

/// What the rules say.
pub(crate) fn allowed(
    runtime: &Runtime,
    role: Role,
    local: Option<SocketAddrV4>,
    remote: Option<SocketAddrV4>,
) -> Result<(), Why> {
    if runtime.refuses_all {
        return Err(Why::NoRules);
    }
    if runtime.rules.lock().accelerates(role, local, remote) { Ok(()) } else { Err(Why::Rule) }
}

/// Whether rules demand a socket of this role and these ends.
pub(crate) fn is_demanded(
    runtime: &Runtime,
    role: Role,
    local: Option<SocketAddrV4>,
    remote: Option<SocketAddrV4>,
) -> bool {
    runtime.parameters.carrier != Carrier::Kernel && runtime.rules.lock().demands(role, local, remote)
}

/// Enters flows into the steering map of a lane, for every address of the interface if `local` is unspecified, and
/// remembers them in the object. All or nothing.
pub(crate) fn steer(
    object: &Object,
    lane: &'static Lane,
    leg: u8,
    protocol: u8,
    local: SocketAddrV4,
    remote: Option<SocketAddrV4>,
) -> Result<(), Why> {
    let inner = lane.lock();
    let addresses = if local.ip().is_unspecified() { inner.addresses.clone() } else { vec![*local.ip()] };
    // Exactly as many: of the flows of a busy server each connection keeps one.
    let mut done = Vec::with_capacity(addresses.len());
    for address in addresses {
        let flow = xdp::Flow { protocol, local: SocketAddrV4::new(address, local.port()), remote };
        if inner.device.steer(flow).is_err() {
            for (_, flow) in done {
                inner.device.unsteer(flow);
            }
            return Err(Why::NoMemory);
        }
        done.push((leg, flow));
    }
    drop(inner);
    let flows = &mut object.control.lock().flows;
    if flows.is_empty() {
        *flows = done
    } else {
        flows.extend(done)
    }
    Ok(())
}

/// Takes an object's flows out of the steering maps, as far as no other socket of this process needs them.
pub(crate) fn unsteer(object: &Object) {
    let flows = core::mem::take(&mut object.control.lock().flows);
    unsteer_flows(object, flows);
}

/// As [`unsteer`], for flows that were taken out of the object already.
pub(crate) fn unsteer_flows(object: &Object, flows: Vec<(u8, xdp::Flow)>) {
    let legs: Vec<_> = object.legs().collect();
    for (leg, flow) in flows {
        if let Some((lane, _)) = legs.get(usize::from(leg))
            && !is_shared(object, lane, &flow)
        {
            lane.lock().device.unsteer(flow);
        }
    }
}

/// Whether another socket of this process needs a flow too: UDP sockets and listeners may share a port.
fn is_shared(object: &Object, lane: &'static Lane, flow: &xdp::Flow) -> bool {
    if object.ancillary.load(Ordering::Relaxed) & ancillary::SHARES == 0 || flow.remote.is_some() {
        return false;
    }
    (0..fd_table::end()).filter_map(fd_table::socket).any(|other| {
        !core::ptr::eq(other, object)
            && matches!(other.kind(), Kind::Udp | Kind::Listener)
            && other.leg_on(lane).is_some()
            && other.control.lock().flows.iter().any(|(_, known)| known == flow)
    })
}

/// Whether a socket may use a lane: one that is bound to a device uses that one.
pub(crate) fn on_device(object: &Object, lane: &Lane) -> Result<(), Why> {
    match object.device.load(Ordering::Relaxed) {
        0 => Ok(()),
        link if link == lane.link => Ok(()),
        _ => Err(Why::InterfaceNotChosen),
    }
}

/// The lanes of [`lanes_at`] that a socket may use.
pub(crate) fn lanes_of(
    runtime: &'static Runtime,
    object: &Object,
    local: Ipv4Addr,
) -> Result<Vec<&'static Lane>, Why> {
    let mut lanes = lanes_at(runtime, local)?;
    lanes.retain(|lane| on_device(object, lane).is_ok());
    if lanes.is_empty() { Err(Why::InterfaceNotChosen) } else { Ok(lanes) }
}

/// Leaves a socket to the kernel for good: every descriptor that names it becomes the kernel's alone. In strict mode
/// the call fails instead, unless the user's own rule or switch asked for the kernel.
pub(crate) fn fall_back<T>(
    runtime: &'static Runtime,
    object: &'static Object,
    why: Why,
    what: &str,
) -> Answer<T> {
    let told = core::mem::replace(&mut object.control.lock().told, true);
    if !told {
        runtime.count(why, format_args!("{what} (fd {})", object.fd.load(Ordering::Relaxed)));
    }
    if runtime.refuses(why) {
        return errno::fail(libc::EPROTONOSUPPORT);
    }
    forget(runtime, object, why);
    Err(Stop::Kernel(why))
}

/// As [`forget`], of a socket that left its lanes: counted and told.
pub(crate) fn leave(runtime: &'static Runtime, object: &'static Object, why: Why) {
    runtime.count(why, format_args!("socket (fd {})", object.fd.load(Ordering::Relaxed)));
    forget(runtime, object, why);
}

/// The shadow is all there is of a socket from now on, for every descriptor that names it.
pub(crate) fn forget(runtime: &'static Runtime, object: &'static Object, why: Why) {
    epoll::follow(&runtime.os, object, Some(()));
    describe::describe(object);
    counts::left(object.part_with_counts(), object.fd.load(Ordering::Relaxed), why);
    let mut is_last = false;
    fd_table::each_of(object, |fd| {
        // A thread that is closing one took that out itself; whoever took the last one lets go of the object.
        if fd_table::take_out(fd, object) {
            is_last = object.fds.fetch_sub(1, Ordering::AcqRel) == 1;
        }
    });
    if is_last {
        release(object);
    }
}

/// Calls that wait on the object look again, and find the kernel; the last of them lets go of it.
fn release(object: &'static Object) {
    // It does not end: the process has its descriptors, and is one of those that have it.
    object.set_kind(Kind::Free);
    object.ending.store(true, Ordering::SeqCst);
    moves::moved(object);
    if object.users.load(Ordering::SeqCst) == 0 && object.ending.swap(false, Ordering::SeqCst) {
        object.release();
    }
}
