//! Where UDP sockets stand: legs in the engines of the lanes take what the steering maps send their way; groups; and
//! the way back to the kernel. The calls that bind, connect, send and receive are in the room `udp`.

mod groups;
mod members;
pub(crate) mod multicast;

pub(crate) use groups::heard;

use crate::answer::{Answer, Why};
use crate::background::BACKGROUND;
use crate::errno::fail;
use crate::lane::Lane;
use crate::object::ancillary::SHARES;
use crate::object::{Object, Pin};
use crate::offload;
use crate::runtime::Runtime;
use crate::wait::moves;
use config::Role;
use core::sync::atomic::Ordering;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Fails with the error that waits, if one does.
pub(crate) fn take_error(object: &Object) -> Answer<()> {
    match pending_error(object) {
        Some(error) => fail(error.errno()),
        None => Ok(()),
    }
}

/// Takes it. The rings are looked at first.
pub(crate) fn pending_error(object: &Object) -> Option<stack::SocketError> {
    object.legs().find_map(|(lane, id)| {
        let mut inner = lane.lock();
        inner.take_in(sys::clock::now());
        inner.stack.take_error(id)
    })
}

/// A socket that left its lanes has some again.
pub(crate) fn stand_again(runtime: &'static Runtime, pin: &Pin, error: Option<stack::SocketError>) {
    let object = pin.object();
    let (local, remote) = {
        let control = object.control.lock();
        (control.local, control.remote)
    };
    let _ = match (local, remote) {
        (Some(local), Some(remote)) => stand_connected(runtime, pin, local, remote, error),
        (Some(local), None) if local.ip().is_multicast() => {
            multicast::refresh(runtime, pin);
            Ok(())
        }
        (Some(local), None) => stand(runtime, pin, local, "UDP socket"),
        (None, _) => Ok(()),
    };
}

/// Gives a connected socket its leg.
pub(crate) fn stand_connected(
    runtime: &'static Runtime,
    pin: &Pin,
    local: SocketAddrV4,
    remote: SocketAddrV4,
    error: Option<stack::SocketError>,
) -> Answer<()> {
    let object = pin.object();
    let decided = offload::allowed(runtime, Role::UdpConnect, Some(local), Some(remote))
        .and_then(|()| way_to(runtime, object, *remote.ip()));
    let stood = decided.and_then(|(first, _)| {
        let lane = lane_of_caller(runtime, object, first, local);
        leg(runtime, pin, lane, local, Some(remote))
    });
    match stood {
        Ok(()) => {
            if let (Some(error), Some((lane, id))) = (error, object.leg()) {
                lane.lock().stack.udp_inherit_error(id, error);
            }
            moves::changed(&runtime.os, object);
            Ok(())
        }
        Err(why) => {
            detach(object);
            offload::fall_back(runtime, object, why, "UDP connect")
        }
    }
}

/// A socket that the kernel carries gets its legs; the interfaces are open. False: it is left to the kernel.
pub(crate) fn stand_late(
    runtime: &'static Runtime,
    pin: &Pin,
    local: SocketAddrV4,
    remote: Option<SocketAddrV4>,
) -> bool {
    let object = pin.object();
    waits_in_kernel(object);
    match remote {
        Some(remote) => stand_connected(runtime, pin, local, remote, None).is_ok(),
        None if local.ip().is_multicast() => {
            object.price.store(u32::MAX, Ordering::Relaxed);
            multicast::refresh(runtime, pin);
            true
        }
        None => {
            object.price.store(u32::MAX, Ordering::Relaxed);
            stand(runtime, pin, local, "UDP socket").is_ok()
        }
    }
}

/// What the kernel has is older than all that an engine will have.
pub(crate) fn waits_in_kernel(object: &Object) {
    object.shadow_first.store(sys::clock::now() + SHADOW_FIRST_NS, Ordering::Release);
}

/// How long datagrams may be on their way into the kernel's socket when the steering of their flow begins, nanoseconds.
const SHADOW_FIRST_NS: u64 = 1_000_000;

/// Gives a bound socket its legs.
pub(crate) fn stand(runtime: &'static Runtime, pin: &Pin, local: SocketAddrV4, what: &str) -> Answer<()> {
    let object = pin.object();
    let lanes = offload::allowed(runtime, Role::UdpReceiver, Some(local), None)
        .and_then(|()| offload::lanes_of(runtime, object, *local.ip()));
    let stood = lanes.and_then(|lanes| {
        lanes.into_iter().try_for_each(|first| {
            let lane = lane_of_caller(runtime, object, first, local);
            leg(runtime, pin, lane, local, None)
        })
    });
    match stood {
        Ok(()) => {
            moves::changed(&runtime.os, object);
            multicast::refresh(runtime, pin);
            Ok(())
        }
        Err(why) => {
            detach(object);
            offload::fall_back(runtime, object, why, what)
        }
    }
}

/// The lane of an interface on which a socket stands that the calling thread uses. Those that share a port have one
/// place, where all are told; who is alone at its port also hears its groups alone.
fn lane_of_caller(
    runtime: &'static Runtime,
    object: &Object,
    first: &'static Lane,
    local: SocketAddrV4,
) -> &'static Lane {
    match has_company(object) {
        true => first,
        false => runtime.lane_of_caller(object.asked_lane(), first, *local.ip()),
    }
}

/// Whether other sockets may be bound to its port.
pub(crate) fn has_company(object: &Object) -> bool {
    object.ancillary.load(Ordering::Relaxed) & SHARES != 0
}

/// Others may be bound to its port from now on.
pub(crate) fn gets_company(runtime: &'static Runtime, pin: &Pin) {
    let object = pin.object();
    if object.legs().any(|(lane, _)| lane.number != 0) {
        change_lanes(runtime, pin);
    }
}

/// The socket gets legs anew, on the lanes of the calling thread, by way of the kernel: nothing is lost.
pub(crate) fn change_lanes(runtime: &'static Runtime, pin: &Pin) {
    let object = pin.object();
    let error = pending_error(object);
    detach(object);
    waits_in_kernel(object);
    stand_again(runtime, pin, error);
}

/// One leg: engine socket first, then the steering entry, so that nothing arrives for nobody.
fn leg(
    runtime: &'static Runtime,
    pin: &Pin,
    lane: &'static Lane,
    local: SocketAddrV4,
    remote: Option<SocketAddrV4>,
) -> Result<(), Why> {
    let object = pin.object();
    let (Some(index), id) = open_leg(runtime, pin, lane, local)? else { return Ok(()) };
    if remote.is_some() {
        lane.lock().stack.udp_connect(id, local, remote);
    }
    offload::steer(object, lane, index, libc::IPPROTO_UDP as u8, local, remote)
}

/// A leg that hears nothing yet: its index, `None` if the object has too many.
fn open_leg(
    runtime: &'static Runtime,
    pin: &Pin,
    lane: &'static Lane,
    local: SocketAddrV4,
) -> Result<(Option<u8>, stack::SocketId), Why> {
    let object = pin.object();
    let options = options(runtime, object);
    let id = lane.lock().stack.udp_open(local, &options, object.token()).ok_or(Why::EngineFull)?;
    let index = {
        let _control = object.control.lock();
        object.add_leg(pin, lane, id)
    };
    match index {
        Some(_) => crate::filter::begin_on(object, lane, id),
        None => lane.lock().stack.udp_close(id),
    }
    Ok((index, id))
}

/// The lane to a destination, a group or not, and the source address.
pub(crate) fn way_to(
    runtime: &'static Runtime,
    object: &Object,
    to: Ipv4Addr,
) -> Result<(&'static Lane, Ipv4Addr), Why> {
    let found = if to.is_multicast() {
        multicast::way_out(runtime, object, to)
    } else {
        let tos = object.control.lock().udp.as_ref().map_or(0, |options| options.tos);
        let asked = offload::route_query(object, tos);
        match runtime.parameters.begins_in_kernel() {
            // Its legs are on interfaces that are open; by any other the kernel sends.
            true => offload::lane_if_open(runtime, to, asked).unwrap_or(Err(Why::OtherInterface)),
            false => offload::lane_to(runtime, to, asked),
        }
    }?;
    offload::on_device(object, found.0)?;
    Ok(found)
}

/// The lane that a datagram to this destination leaves by, if rules and routes say one.
pub(crate) fn lane_of(
    runtime: &'static Runtime,
    object: &'static Object,
    to: Ipv4Addr,
) -> Option<&'static Lane> {
    let local = object.control.lock().local;
    offload::allowed(runtime, Role::UdpSender, local, Some(SocketAddrV4::new(to, 1))).ok()?;
    way_to(runtime, object, to).ok().map(|(lane, _)| object.lane_beside(lane))
}

/// Changes options of the socket, where it stands and where it will.
pub(crate) fn configure(
    runtime: &'static Runtime,
    object: &Object,
    change: impl Fn(&mut stack::udp::Options),
) {
    {
        let mut control = object.control.lock();
        change(control.udp.get_or_insert_with(|| Box::new(default_options(runtime))));
    }
    for (lane, id) in object.legs() {
        lane.lock().stack.udp_configure(id, &change);
    }
}

fn options(runtime: &Runtime, object: &Object) -> stack::udp::Options {
    let set = object.control.lock().udp.clone();
    let options = set.map_or_else(|| default_options(runtime), |options| *options);
    stack::udp::Options { bound_to_interface: object.device.load(Ordering::Relaxed) != 0, ..options }
}

/// What a fresh socket starts with.
pub(crate) fn default_options(runtime: &Runtime) -> stack::udp::Options {
    stack::udp::Options {
        receive_buffer: runtime.udp_settings().receive_buffer,
        tos: 0,
        ttl: runtime.tcp_settings().options.ttl,
        multicast_ttl: 1,
        multicast_all: true,
        mtu_discover: stack::udp::MtuDiscover::Want,
        bound_to_interface: false,
    }
}

/// The socket is the kernel's from now on, which gets what waits in the engines, and what is still on its way to them:
/// nothing is lost. Before what comes to it by itself, as far as that can be.
pub(crate) fn detach(object: &'static Object) {
    detach_queue(object);
    if object.peek.behind().is_some() {
        let fd = object.fd.load(Ordering::Relaxed);
        let _ = sys::socket::set_option(fd, libc::SOL_SOCKET, libc::SO_PEEK_OFF, &object.peek.get());
    }
    for (lane, id) in object.legs() {
        lane.lock().close_later(id);
    }
    drop_legs(object);
}

/// As [`detach`], and the engines go on with what they send.
pub(crate) fn detach_queue(object: &'static Object) {
    let heard = groups::heard(object);
    for (lane, id) in object.legs() {
        lane.lock().begin_leaving(id, heard);
    }
    let company = groups::part(object);
    offload::unsteer(object);
    rounds(object.legs());
    company.leave();
    if object.leg().is_some() {
        // Somebody looks once more, soon.
        BACKGROUND.hurry();
    }
}

/// Steering entries have gone: the rings of these legs' lanes are looked at for what came by them.
fn rounds(legs: impl Iterator<Item = (&'static Lane, stack::SocketId)>) {
    let until = sys::clock::now() + ROUND_NS;
    for (lane, _) in legs {
        while lane.lock().pass_on() < until {
            sys::thread::sleep(LOOKS_NS);
        }
    }
}

/// How long the kernel usually takes for a round of an interface's packets, at whose end the ring has those that were
/// redirected; and between two looks at it. Nanoseconds.
const ROUND_NS: u64 = 200_000;
const LOOKS_NS: u64 = 20_000;

/// close(2): takes a socket off its legs, and throws away what waits.
pub(crate) fn close(object: &'static Object) {
    offload::unsteer(object);
    for (lane, id) in object.legs() {
        let mut inner = lane.lock();
        inner.stack.set_token(id, 0);
        inner.stack.udp_close(id);
    }
    drop_legs(object);
}

fn drop_legs(object: &'static Object) {
    let mut control = object.control.lock();
    if control.multicast.has_groups() {
        control.multicast.unplugged();
    }
    object.drop_legs();
}

/// Whether a UDP socket is the kernel's until it has shown that it gains.
#[inline]
pub(crate) fn waits(object: &Object) -> bool {
    object.leg().is_none() && object.price.load(Ordering::Relaxed) != u32::MAX
}
