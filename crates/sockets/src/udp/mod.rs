//! UDP sockets.
//!
//! The kernel's shadow is bound and connected as the application asked; legs in the engines of the lanes take what
//! the steering maps send their way, the shadow receives the rest (fragments, broadcast, this host's own traffic), and
//! a receive looks at both.

pub(crate) mod ancillary;
mod members;
pub(crate) mod multicast;
mod recv;
mod send;

pub(crate) use recv::recv;
pub(crate) use send::send;

use crate::address::{self, Given, Named};
use crate::answer::{Answer, Stop, Why};
use crate::lane::Lane;
use crate::object::Object;
use crate::offload;
use crate::runtime::Runtime;
use crate::wait::epoll;
use config::Role;
use core::sync::atomic::Ordering;
use libc::c_int;
use std::net::{Ipv4Addr, SocketAddrV4};

/// bind(2).
pub(crate) fn bind(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    given: &Given,
) -> Answer<c_int> {
    runtime.os.bind_given(fd, given).map_err(Stop::Errno)?;
    let local = address::of_shadow(&runtime.os, fd)?;
    object.control.lock().local = Some(local);
    if local.ip().is_multicast() {
        // Stands where it joins.
        multicast::refresh(runtime, object);
        return Ok(0);
    }
    done(stand(runtime, object, local, "UDP bind"))
}

/// connect(2), AF_UNSPEC included.
pub(crate) fn connect(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    given: &Given,
) -> Answer<c_int> {
    let named = given.named;
    runtime.os.connect_given(fd, given).map_err(Stop::Errno)?;
    let local = address::of_shadow(&runtime.os, fd)?;
    detach(object);
    match named {
        Named::Inet(remote) => {
            {
                let mut control = object.control.lock();
                control.local = Some(local);
                control.remote = Some(remote);
            }
            let decided = offload::allowed(runtime, Role::UdpConnect, Some(local), Some(remote))
                .and_then(|()| way_to(runtime, object, *remote.ip()));
            match decided.and_then(|(lane, _)| leg(runtime, object, lane, local, Some(remote))) {
                Ok(()) => {
                    epoll::follow(&runtime.os, object, None);
                    Ok(0)
                }
                Err(why) => done(offload::leave(runtime, object, why, "UDP connect")),
            }
        }
        _ => {
            object.control.lock().remote = None;
            // The kernel keeps the port of a socket that was bound before it was connected.
            if local.port() == 0 {
                object.control.lock().local = None;
                epoll::follow(&runtime.os, object, None);
                return Ok(0);
            }
            done(stand(runtime, object, local, "UDP disconnect"))
        }
    }
}

/// The shadow's call is done: "the kernel, because" means success here.
fn done(answer: Answer<()>) -> Answer<c_int> {
    match answer {
        Ok(()) | Err(Stop::Kernel(_)) => Ok(0),
        Err(stop) => Err(stop),
    }
}

/// Gives a bound socket its legs.
fn stand(runtime: &'static Runtime, object: &'static Object, local: SocketAddrV4, what: &str) -> Answer<()> {
    detach(object);
    let lanes = offload::allowed(runtime, Role::UdpReceiver, Some(local), None)
        .and_then(|()| offload::lanes_of(runtime, object, *local.ip()));
    let stood = lanes
        .and_then(|lanes| lanes.into_iter().try_for_each(|lane| leg(runtime, object, lane, local, None)));
    match stood {
        Ok(()) => {
            epoll::follow(&runtime.os, object, None);
            multicast::refresh(runtime, object);
            Ok(())
        }
        Err(why) => {
            detach(object);
            offload::leave(runtime, object, why, what)
        }
    }
}

/// One leg: engine socket first, then the steering entry, so that nothing arrives for nobody.
fn leg(
    runtime: &'static Runtime,
    object: &'static Object,
    lane: &'static Lane,
    local: SocketAddrV4,
    remote: Option<SocketAddrV4>,
) -> Result<(), Why> {
    let (Some(index), id) = open_leg(runtime, object, lane, local)? else { return Ok(()) };
    if remote.is_some() {
        lane.lock().stack.udp_connect(id, local, remote);
    }
    offload::steer(object, lane, index, libc::IPPROTO_UDP as u8, local, remote)
}

/// A leg that hears nothing yet: its index, `None` if the object has too many.
fn open_leg(
    runtime: &'static Runtime,
    object: &'static Object,
    lane: &'static Lane,
    local: SocketAddrV4,
) -> Result<(Option<u8>, stack::SocketId), Why> {
    let options = options(runtime, object);
    let id = lane.lock().stack.udp_open(local, &options, object.token()).ok_or(Why::EngineFull)?;
    let index = {
        let _control = object.control.lock();
        object.add_leg(lane, id)
    };
    if index.is_none() {
        lane.lock().stack.udp_close(id);
    }
    Ok((index, id))
}

/// The lane to a destination, a group or not, and the source address.
fn way_to(
    runtime: &'static Runtime,
    object: &Object,
    to: Ipv4Addr,
) -> Result<(&'static Lane, Ipv4Addr), Why> {
    let found = if to.is_multicast() {
        multicast::way_out(runtime, object, to)
    } else {
        offload::lane_to(runtime, to)
    }?;
    offload::on_device(object, found.0)?;
    Ok(found)
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
    set.map_or_else(|| default_options(runtime), |options| *options)
}

/// What a fresh socket starts with.
pub(crate) fn default_options(runtime: &Runtime) -> stack::udp::Options {
    stack::udp::Options {
        receive_buffer: runtime.udp_settings.receive_buffer,
        tos: 0,
        ttl: runtime.tcp_settings.options.ttl,
        multicast_ttl: 1,
        multicast_all: true,
        mtu_discover: stack::udp::MtuDiscover::Want,
    }
}

/// An unbound socket sends for the first time: the kernel gives it a port, and it stands on every lane for answers.
fn autobind(runtime: &'static Runtime, object: &'static Object, fd: c_int) -> Answer<()> {
    // Bound meanwhile by another thread, or no port left: the kernel's own send tells.
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    runtime.os.bind_to(fd, any).map_err(|_| Stop::Kernel(Why::NotOurs))?;
    let local = address::of_shadow(&runtime.os, fd)?;
    object.control.lock().local = Some(local);
    stand(runtime, object, local, "UDP send")
}

/// Takes a socket off its legs.
pub(crate) fn detach(object: &'static Object) {
    offload::unsteer(object);
    for (lane, id) in object.legs() {
        let mut inner = lane.lock();
        inner.stack.set_token(id, 0);
        inner.stack.udp_close(id);
    }
    let mut control = object.control.lock();
    if control.multicast.has_groups() {
        control.multicast.unplugged();
    }
    object.drop_legs();
}

/// shutdown(2): the kernel judges whether the socket is connected; receives and sends end here too.
pub(crate) fn shutdown(object: &'static Object, how: c_int) -> Answer<c_int> {
    let bits = match how {
        libc::SHUT_RD => 1,
        libc::SHUT_WR => 2,
        libc::SHUT_RDWR => 3,
        _ => return Err(Stop::Kernel(Why::NotOurs)),
    };
    if object.control.lock().remote.is_some() {
        object.shut.fetch_or(bits, Ordering::Relaxed);
        object.watch.wake_all(object);
    }
    Err(Stop::Kernel(Why::NotOurs))
}
