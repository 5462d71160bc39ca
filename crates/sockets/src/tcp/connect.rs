//! connect(2) on TCP.

use super::close::abort_in;
use super::options;
use super::port::{self, Port};
use crate::address::{self, Given, Named};
use crate::answer::{Answer, Stop, Why};
use crate::errno::fail;
use crate::lane::{Lane, Tx};
use crate::object::{Kind, Object, Pin};
use crate::offload;
use crate::runtime::Runtime;
use crate::wait::block::{self, Stopped, Wait};
use crate::wait::moves;
use config::Role;
use core::sync::atomic::Ordering;
use libc::c_int;
use stack::Instant;
use stack::tcp::{ConnectError, State};
use std::net::{Ipv4Addr, SocketAddrV4};

/// connect(2).
pub(crate) fn connect(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    given: &Given,
) -> Answer<c_int> {
    let named = given.named;
    if object.kind() == Kind::Stream {
        match again(object, named) {
            Some(answer) => return answer,
            None => super::detach(object),
        }
    }
    let Named::Inet(remote) = named else {
        return offload::fall_back(runtime, object, Why::NotOurs, "TCP connect");
    };
    let bound = object.control.lock().local;
    let decided = offload::allowed(runtime, Role::TcpClient, bound, Some(remote)).and_then(|()| {
        if remote.port() == 0 {
            return Err(Why::NoRoute);
        }
        let tos = options(runtime, object).tos;
        let (first, source) = offload::lane_to(runtime, *remote.ip(), offload::route_query(object, tos))?;
        offload::on_device(object, first)?;
        let from = bound.map(|local| *local.ip()).filter(|local| !local.is_unspecified());
        Ok((runtime.lane_of_caller(object.asked_lane(), first, from.unwrap_or(source)), source))
    });
    let (lane, source) = match decided {
        Ok(found) => found,
        Err(why) => return offload::fall_back(runtime, object, why, "TCP connect"),
    };
    let local = own_port(runtime, object, fd, bound, source, (lane, remote))?;
    // Before the steering has an entry of this one: it would be in the place of the other's, and go with the failure.
    if !port::is_free(runtime, lane, local, remote) {
        return fail(libc::EADDRNOTAVAIL);
    }
    {
        let Some(pin) = Pin::by(object, fd) else { return Err(Stop::Kernel(Why::NotOurs)) };
        begin(runtime, &pin, lane, local, remote)?;
    }
    if object.nonblocking.load(Ordering::Relaxed) {
        object.control.lock().connecting = true;
        return fail(libc::EINPROGRESS);
    }
    finish(runtime, object)
}

/// A connection that is being made while nobody waits for it begins anew in the kernel, where it is made, or fails, for
/// all who have the socket. False: there is none.
pub(crate) fn connect_in_kernel(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    why: Why,
) -> bool {
    let (connecting, remote) = {
        let control = object.control.lock();
        (control.connecting, control.remote)
    };
    let (true, Some(remote), Some((lane, id))) = (connecting, remote, object.leg()) else { return false };
    {
        let now = Instant(sys::clock::now());
        let mut inner = lane.lock();
        if !matches!(inner.stack.tcp_state(id), None | Some(State::SynSent | State::Closed)) {
            return false;
        }
        // In SYN-SENT nothing is sent for it; an answer that comes is refused by the kernel until it connects itself.
        abort_in(&mut inner, id, now);
    }
    offload::unsteer(object);
    {
        let _control = object.control.lock();
        object.drop_legs();
    }
    port::unshare(object, fd);
    runtime.count(why, format_args!("TCP connect (fd {fd})"));
    if let Err(errno) = address::connect(fd, remote) {
        logger::fine!("fd {fd}: connects to {remote} in the kernel: {why}", why = sys::Errno(errno));
    }
    offload::forget(runtime, object, why);
    true
}

/// connect(2) on a socket that has a connection, or had one. `None`: that one failed and was told; begin anew.
fn again(object: &'static Object, named: Named) -> Option<Answer<c_int>> {
    if named == Named::Unspecified {
        // Dissolves the association: the connection ends, the socket can be used again.
        super::detach(object);
        object.set_kind(Kind::TcpIdle);
        let mut control = object.control.lock();
        if core::mem::take(&mut control.accepted) {
            // The port was its listener's.
            control.local = None;
        }
        return Some(Err(Stop::Kernel(Why::NotOurs)));
    }
    let Some((_, mut inner, id)) = object.engine() else {
        // It has moved since it was looked at; its kind changes first.
        return (object.kind() != Kind::Stream).then_some(Err(Stop::Kernel(Why::NotOurs)));
    };
    match inner.stack.tcp_state(id) {
        Some(State::SynSent | State::SynReceived) => Some(fail(libc::EALREADY)),
        None | Some(State::Closed) => {
            let error = inner.stack.take_error(id);
            drop(inner);
            let was_connecting = core::mem::take(&mut object.control.lock().connecting);
            match error {
                Some(error) if was_connecting => Some(fail(error.errno())),
                _ => None,
            }
        }
        Some(_) => {
            drop(inner);
            let first = core::mem::take(&mut object.control.lock().connecting);
            Some(if first { Ok(0) } else { fail(libc::EISCONN) })
        }
    }
}

/// The local endpoint: the port that the application bound, or one that the kernel reserves now.
fn own_port(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    bound: Option<SocketAddrV4>,
    source: Ipv4Addr,
    towards: (&'static Lane, SocketAddrV4),
) -> Answer<SocketAddrV4> {
    let at = |local: SocketAddrV4| {
        if local.ip().is_unspecified() { SocketAddrV4::new(source, local.port()) } else { local }
    };
    if let Some(local) = bound.filter(|local| local.port() != 0) {
        return Ok(at(local));
    }
    // Bound to an address only (IP_BIND_ADDRESS_NO_PORT): the port is due now.
    let (address, set_port_later) = match bound {
        Some(local) => (*at(local).ip(), Some(PortNow::begin(runtime, fd))),
        None => (source, None),
    };
    let local = match port::take(runtime, object, fd, towards.0, address, towards.1) {
        Port::Bound => address::of_shadow(&runtime.os, fd)?,
        Port::Already => return Ok(at(address::of_shadow(&runtime.os, fd)?)),
        Port::Kernel(why) => {
            drop(set_port_later);
            return offload::fall_back(runtime, object, why, "TCP connect");
        }
        // The program asked for no port: what keeps us from one (Landlock, a cgroup's program) need not keep it from a
        // peer.
        Port::Refused(libc::EACCES | libc::EPERM) => {
            drop(set_port_later);
            return offload::fall_back(runtime, object, Why::Confined, "TCP connect");
        }
        Port::Refused(errno) => return fail(errno),
    };
    drop(set_port_later);
    object.control.lock().local = Some(local);
    Ok(at(local))
}

/// While this lives, bind(2) of the shadow takes a port whatever IP_BIND_ADDRESS_NO_PORT says.
struct PortNow(&'static Runtime, c_int);

impl PortNow {
    fn begin(runtime: &'static Runtime, fd: c_int) -> PortNow {
        set_no_port(runtime, fd, 0);
        PortNow(runtime, fd)
    }
}

impl Drop for PortNow {
    fn drop(&mut self) {
        set_no_port(self.0, self.1, 1);
    }
}

fn set_no_port(runtime: &Runtime, fd: c_int, on: c_int) {
    let _ = runtime.os.set_option(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &on.to_ne_bytes());
}

/// Steers the flow first, so that the answer to the SYN is not lost, then sends the SYN.
fn begin(
    runtime: &'static Runtime,
    pin: &Pin,
    lane: &'static Lane,
    local: SocketAddrV4,
    remote: SocketAddrV4,
) -> Answer<()> {
    let object = pin.object();
    if let Err(why) = offload::steer(object, lane, 0, libc::IPPROTO_TCP as u8, local, Some(remote)) {
        return offload::fall_back(runtime, object, why, "TCP connect");
    }
    let options = options(runtime, object);
    let now = sys::clock::now();
    let begun = {
        let mut guard = lane.lock();
        let inner = &mut *guard;
        let begun = inner.stack.tcp_connect(
            Instant(now),
            local,
            remote,
            &options,
            object.token(),
            &mut Tx(&mut inner.device),
        );
        if let Err(error) = begun {
            let flows = core::mem::take(&mut object.control.lock().flows);
            // Where another thread was first the entry is its connection's.
            for (_, flow) in flows.into_iter().filter(|_| error != ConnectError::InUse) {
                inner.device.unsteer(flow);
            }
        }
        inner.counts.tcp_active_opens.add(u64::from(begun.is_ok()));
        begun
    };
    let id = begun.map_err(|error| Stop::Errno(error.errno()))?;
    {
        let mut control = object.control.lock();
        control.remote = Some(remote);
        object.add_leg(pin, lane, id);
    }
    object.set_kind(Kind::Stream);
    lane.turn(now);
    moves::changed(&runtime.os, object);
    Ok(())
}

/// Waits for the outcome.
fn finish(runtime: &'static Runtime, object: &'static Object) -> Answer<c_int> {
    let Some((lane, id)) = object.leg() else { return fail(libc::EBADF) };
    let one = [object];
    let wait = Wait::to_send(runtime, &one);
    let outcome = block::until(runtime, &wait, |now| {
        lane.turn(now);
        let mut inner = lane.lock();
        match inner.stack.tcp_state(id) {
            Some(State::SynSent | State::SynReceived) => None,
            Some(State::Closed) | None => Some(Err(inner.stack.take_error(id))),
            Some(_) => Some(Ok(())),
        }
    });
    match outcome {
        Ok(Ok(())) => Ok(0),
        Ok(Err(error)) => {
            super::detach(object);
            object.set_kind(Kind::TcpIdle);
            moves::changed(&runtime.os, object);
            fail(error.map_or(libc::ECONNABORTED, stack::SocketError::errno))
        }
        Err(Stopped::Moved) if object.leg().is_some() => finish(runtime, object),
        Err(Stopped::Moved) => Stopped::Moved.answer(),
        // As Linux: the handshake goes on, the caller may wait for it by poll.
        Err(Stopped::TimedOut) => {
            object.control.lock().connecting = true;
            fail(libc::EINPROGRESS)
        }
        Err(Stopped::Interrupted) => {
            object.control.lock().connecting = true;
            fail(libc::EINTR)
        }
    }
}
