//! Calls on UDP sockets.
//!
//! The kernel's shadow is bound and connected as the application asked; legs in the engines of the lanes (`udp_legs/`)
//! take what the steering maps send their way, the shadow receives the rest (fragments, broadcast, this host's own
//! traffic), and a receive looks at both.

pub(crate) mod ancillary;
mod recv;
mod send;

pub(crate) use recv::{is_shadow_due, recv};
pub(crate) use send::send;

use crate::address::{self, Given, Named};
use crate::answer::{Answer, Stop, Why};
use crate::carrier as late;
use crate::errno::fail;
use crate::object::in_flight::InFlight;
use crate::object::{Object, Pin};
use crate::runtime::Runtime;
use crate::udp_legs::{
    detach, multicast, pending_error, stand, stand_again, stand_connected, waits_in_kernel,
};
use crate::wait::moves;
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
    let Some(pin) = Pin::by(object, fd) else { return Err(Stop::Kernel(Why::NotOurs)) };
    let _alone = InFlight::changes(object);
    runtime.os.bind_given(fd, given).map_err(Stop::Errno)?;
    let local = address::of_shadow(&runtime.os, fd)?;
    object.control.lock().local = Some(local);
    if late::begins_late(runtime, object, Role::UdpReceiver, Some(local), None) {
        multicast::hears_by_kernel(runtime, local);
        return Ok(0);
    }
    if local.ip().is_multicast() {
        // Stands where it joins.
        multicast::refresh(runtime, &pin);
        multicast::hears_by_kernel(runtime, local);
        return Ok(0);
    }
    done(stand(runtime, &pin, local, "UDP bind"))
}

/// connect(2), AF_UNSPEC included.
pub(crate) fn connect(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    given: &Given,
) -> Answer<c_int> {
    let named = given.named;
    let Some(pin) = Pin::by(object, fd) else { return Err(Stop::Kernel(Why::NotOurs)) };
    let _alone = InFlight::changes(object);
    // As in the kernel, an error that nobody has taken stays, and so does what waits, from whomever it came.
    let error = pending_error(object);
    let stood = object.leg().is_some();
    if stood {
        detach(object);
        waits_in_kernel(object);
    }
    if let Err(errno) = runtime.os.connect_given(fd, given) {
        if stood {
            stand_again(runtime, &pin, error);
        }
        return fail(errno);
    }
    let local = address::of_shadow(&runtime.os, fd)?;
    match named {
        Named::Inet(remote) => {
            {
                let mut control = object.control.lock();
                control.local = Some(local);
                control.remote = Some(remote);
            }
            if late::begins_late(runtime, object, Role::UdpConnect, Some(local), Some(remote)) {
                if stood {
                    moves::changed(&runtime.os, object);
                }
                return Ok(0);
            }
            done(stand_connected(runtime, &pin, local, remote, error))
        }
        _ => {
            object.control.lock().remote = None;
            // The kernel keeps the port of a socket that was bound before it was connected.
            if local.port() == 0 {
                object.control.lock().local = None;
                moves::changed(&runtime.os, object);
                return Ok(0);
            }
            if late::begins_late(runtime, object, Role::UdpReceiver, Some(local), None) {
                moves::changed(&runtime.os, object);
                return Ok(0);
            }
            done(stand(runtime, &pin, local, "UDP disconnect"))
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

/// An unbound socket sends for the first time: the kernel gives it a port, and it stands on every lane for answers.
fn autobind(runtime: &'static Runtime, pin: &Pin, fd: c_int) -> Answer<()> {
    // A send that the kernel refused has bound it already, or another thread meanwhile: that port is the socket's.
    let _ = runtime.os.bind_to(fd, SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
    let local = address::of_shadow(&runtime.os, fd)?;
    if local.port() == 0 {
        // No port left: the kernel's own send tells.
        return Err(Stop::Kernel(Why::NotOurs));
    }
    pin.object().control.lock().local = Some(local);
    stand(runtime, pin, local, "UDP send")
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
        object.watch.wake_all();
    }
    Err(Stop::Kernel(Why::NotOurs))
}
