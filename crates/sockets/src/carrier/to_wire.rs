//! Kernel to wire: the engine goes on with a connection that the kernel's socket has, which becomes its shadow.
//!
//! The order keeps every byte in one place. The steering entry brings what comes from then on to our ring, where it
//! waits, as the lane is ours; a filter makes the kernel's socket deaf to what was on its way there. Then the
//! connection is read out, the kernel's socket forgets it, which in repair mode says nothing to the peer, and the
//! engine begins. A segment that was inside the kernel's TCP all the while would show in the receive number that the
//! socket keeps: so that is looked at last.

use super::read_out;
use crate::address;
use crate::answer::Why;
use crate::counts;
use crate::family::FAMILY;
use crate::keeper;
use crate::lane::{Inner, Lane, Tx};
use crate::object::{Kind, Object, Pin};
use crate::offload;
use crate::runtime::Runtime;
use crate::tcp;
use crate::wait::{epoll, moves};
use config::Role;
use core::sync::atomic::Ordering;
use libc::{IPPROTO_TCP, SOL_SOCKET, c_int};
use netlink::RouteQuery;
use stack::tcp::{Handover, Options};
use stack::{Instant, SocketId};
use stats::Verdict;
use std::net::SocketAddrV4;
use sys::linux::TCP_REPAIR_OFF_NO_WP;
use sys::socket::{connect, option, set_option};

/// Why a connection stays in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// For now.
    Later(Verdict),
    /// For good.
    Never(Verdict),
    /// For good: the reason that any socket could have.
    Kernel(Why),
    /// Until this interface is open.
    NotOpen(u32),
}

impl From<i32> for Refusal {
    fn from(errno: i32) -> Refusal {
        match errno {
            libc::EPERM => Refusal::Kernel(Why::NoPrivilege),
            _ => Refusal::Later(Verdict::NotTold),
        }
    }
}

/// Moves the connection behind `fd`, which the caller pinned and made [`Kind::Moving`]: no call is under way on it. In
/// case of a refusal it is as it was, and the caller's to make [`Kind::Carried`] again. `opens`: the interface, too, if
/// it must be.
pub(crate) fn to_wire(runtime: &'static Runtime, pin: &Pin, fd: c_int, opens: bool) -> Result<(), Refusal> {
    let object = pin.object();
    let plain = Refusal::Never(Verdict::NotIpv4);
    let local = address::of_shadow(&runtime.os, fd).map_err(|_| plain)?;
    let remote = address::peer_of_shadow(&runtime.os, fd).ok_or(plain)?;
    let role = if object.control.lock().accepted { Role::TcpServer } else { Role::TcpClient };
    offload::allowed(runtime, role, Some(local), Some(remote)).map_err(Refusal::Kernel)?;
    if !runtime.is_in_namespace(fd) {
        return Err(Refusal::Kernel(Why::Namespace));
    }
    if let Some(why) = runtime.unseen() {
        return Err(Refusal::Kernel(why));
    }
    let tos = option(fd, libc::IPPROTO_IP, libc::IP_TOS, 0 as c_int)?;
    let lane = lane(runtime, object, (local, remote), tos as u8, opens)?;
    object.shadow_changed.store(true, Ordering::Relaxed);

    let mut guard = lane.lock();
    let inner = &mut *guard;
    if !inner.addresses.contains(local.ip()) {
        return Err(Refusal::Kernel(Why::InterfaceNotChosen));
    }
    let now = sys::clock::now();
    inner.turn(now);
    let flow = xdp::Flow { protocol: IPPROTO_TCP as u8, local, remote: Some(remote) };
    inner.device.steer(flow).map_err(|_| Refusal::Later(Verdict::SteeringFull))?;
    let result = begin(runtime, object, fd, inner, (local, remote));
    let mut left = None;
    match &result {
        Ok(Begun { id, options, is_whole }) => {
            let mut control = object.control.lock();
            control.local = Some(local);
            control.remote = Some(remote);
            control.tcp = Some(Box::new(options.clone()));
            control.flows = vec![(0, flow)];
            object.add_leg(pin, lane, *id);
            drop(control);
            counts::named(object.counts(), local, Some(remote));
            object.receive_low_water.store(options.receive_low_water, Ordering::Relaxed);
            object.set_kind(Kind::Stream);
            if !is_whole {
                // Neither end may go on as if it were.
                inner.stack.tcp_reset(Instant(now), *id, &mut Tx(&mut inner.device));
            }
            inner.flush(Instant(now));
            inner.deliver_events(now);
        }
        Err(_) => {
            // The kernel goes on after all, also with what came to our ring.
            left = Some(tcp::Moved::not(lane, inner, local, remote));
            inner.look_at_all(now);
            inner.device.unsteer(flow);
            inner.look_at_all(now);
        }
    }
    lane.note(inner, now);
    drop(guard);
    moves::changed(&runtime.os, object);
    if let Some(left) = left {
        FAMILY.remember(left);
    }
    result.map(|_| ())
}

/// A connection that an engine has.
struct Begun {
    id: SocketId,
    options: Options,
    /// False: something came to the kernel meanwhile that nobody has.
    is_whole: bool,
}

/// The flow is steered to the lane: reads the connection out and has the engine go on with it. What was inside the
/// kernel when the entry came, on its way to the socket, has the time that it takes to look at the options.
fn begin(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    inner: &mut Inner,
    (local, remote): (SocketAddrV4, SocketAddrV4),
) -> Result<Begun, Refusal> {
    refuse_what_only_the_kernel_can(fd)?;
    let options = read_out::options(fd, &runtime.tcp_settings().options)?;
    epoll::take_from_kernel(&runtime.os, object);
    moves::moved(object);
    let accepted = object.control.lock().accepted;
    let (mut connection, is_whole) =
        Deaf::make(fd).and_then(|_deaf| take_out(fd, local, remote, accepted))?;
    let is_of = |end: u32| (end.wrapping_sub(connection.send_seq) as i32) > 0;
    {
        let control = object.control.lock();
        connection.sent_at = control.on_way.filter(|(end, _)| is_of(*end)).map(|(_, at)| at);
        if let Some((pace, least)) = connection.pace.as_mut().zip(control.least_round_trip) {
            pace.least = pace.least.min(least);
        }
    }
    // Not the time before it was read out: the clock of timestamps would go back.
    let now = Instant(sys::clock::now());
    let begun =
        inner.stack.tcp_take_over(now, &connection, &options, object.token(), &mut Tx(&mut inner.device));
    match begun {
        Ok(id) => Ok(Begun { id, options, is_whole }),
        Err(_) => {
            // Nothing was said to the peer yet.
            tcp::put_back(runtime, inner, object, fd, &connection);
            if !is_whole {
                // To the kernel, that is a reset for both ends.
                let _ = connect(fd, &NOWHERE);
            }
            Err(Refusal::Later(Verdict::EngineFull))
        }
    }
}

/// The lane that the connection would be on. `opens`: its interface, too, if it must be.
fn lane(
    runtime: &'static Runtime,
    object: &Object,
    (local, remote): (SocketAddrV4, SocketAddrV4),
    tos: u8,
    opens: bool,
) -> Result<&'static Lane, Refusal> {
    let asked = RouteQuery { source: Some(*local.ip()), ..offload::route_query(object, tos) };
    let way = match opens {
        true => offload::lane_to(runtime, *remote.ip(), asked),
        false => offload::lane_if_open(runtime, *remote.ip(), asked).map_err(Refusal::NotOpen)?,
    };
    let (first, _) = way.map_err(Refusal::Kernel)?;
    offload::on_device(object, first).map_err(Refusal::Kernel)?;
    Ok(runtime.lane_of_caller(object.asked_lane(), first, *local.ip()))
}

/// Options that hold only in the kernel, and came with the socket (from a listener, from before we knew it).
fn refuse_what_only_the_kernel_can(fd: c_int) -> Result<(), Refusal> {
    for (level, name) in [
        (SOL_SOCKET, libc::SO_MARK),
        (SOL_SOCKET, libc::SO_ZEROCOPY),
        (SOL_SOCKET, libc::SO_TIMESTAMPING),
        (SOL_SOCKET, libc::SO_TIMESTAMP),
        (SOL_SOCKET, libc::SO_TIMESTAMPNS),
        (libc::IPPROTO_IP, libc::IP_MINTTL),
        (libc::IPPROTO_IP, libc::IP_RECVERR),
        (libc::IPPROTO_IP, libc::IP_TRANSPARENT),
    ] {
        if option(fd, level, name, 0 as c_int).is_ok_and(|value| value != 0) {
            return Err(Refusal::Never(Verdict::OptionOfTheKernel));
        }
    }
    if option(fd, SOL_SOCKET, libc::SO_PEEK_OFF, -1 as c_int)? >= 0 {
        return Err(Refusal::Never(Verdict::PeekOffset));
    }
    Ok(())
}

/// A filter that lets nothing into a kernel's socket, until it is dropped.
struct Deaf(c_int);

impl Deaf {
    fn make(fd: c_int) -> Result<Deaf, Refusal> {
        // Asked for the length only.
        let mut none = [0u8; 0];
        if sys::socket::option_bytes(fd, SOL_SOCKET, libc::SO_ATTACH_FILTER, &mut none) != Ok(0) {
            return Err(Refusal::Never(Verdict::Filtered));
        }
        keeper::deafen(fd)?;
        Ok(Deaf(fd))
    }
}

impl Drop for Deaf {
    fn drop(&mut self) {
        let _ = set_option(self.0, SOL_SOCKET, libc::SO_DETACH_FILTER, &(0 as c_int));
    }
}

/// AF_UNSPEC.
const NOWHERE: libc::sockaddr = libc::sockaddr { sa_family: libc::AF_UNSPEC as u16, sa_data: [0; 14] };

/// Reads the connection out and has the kernel's socket forget it: it is unconnected then, and keeps its port if it was
/// not a listener's. In case of an error it is as it was. False: something came meanwhile, and is lost.
fn take_out(
    fd: c_int,
    local: SocketAddrV4,
    remote: SocketAddrV4,
    accepted: bool,
) -> Result<(Handover, bool), Refusal> {
    let reuse = option(fd, SOL_SOCKET, libc::SO_REUSEADDR, 0 as c_int)?;
    keeper::set_repair(fd, 1)?;
    let found = read_out::read_out(fd, local, remote).and_then(|connection| {
        connect(fd, &NOWHERE)?;
        let is_whole = read_out::received(fd) == Ok(connection.receive_next());
        if !is_whole {
            logger::error!("fd {fd}: data came while the connection moved, and is lost: it is reset");
        }
        if !accepted {
            // In repair mode a port is given that others of this host's connections share.
            let _ = address::bind(fd, local);
        }
        Ok((connection, is_whole))
    });
    let _ = keeper::set_repair(fd, TCP_REPAIR_OFF_NO_WP);
    let _ = set_option(fd, SOL_SOCKET, libc::SO_REUSEADDR, &reuse);
    if found.is_ok() {
        // What the disconnection left.
        let _ = option(fd, SOL_SOCKET, libc::SO_ERROR, 0 as c_int);
    }
    found
}
