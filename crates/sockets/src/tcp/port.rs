//! The local port of a connection. Linux's connect(2) gives a port to several connections, if their peers differ, and
//! passes over those whose pair of endpoints is in use or in TIME-WAIT; so do we.
//!
//! The kernel knows nothing of connections that the engine has, only of their shadows, which are bound: it gives each a
//! port of its own, may give one whose connection rests here, and has none left when all are held by shadows. So a port
//! is looked for that is free towards the peer, which other shadows of ours may have: they are bound with SO_REUSEADDR,
//! which the application does not see. Of connections that the kernel has it alone can say whether their ports serve;
//! where nothing else is left the connection is the kernel's.

use crate::answer::Why;
use crate::fd_table;
use crate::lane::{Inner, Lane};
use crate::object::{Kind, Object};
use crate::runtime::Runtime;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering};
use libc::{SO_REUSEADDR, SOL_SOCKET, c_int};
use stack::Instant;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};

const RANGE: &CStr = c"/proc/sys/net/ipv4/ip_local_port_range";
const RESERVED: &CStr = c"/proc/sys/net/ipv4/ip_local_reserved_ports";
/// How many ports are tried.
const TRIES: u32 = 64;

/// What became of the search.
pub(super) enum Port {
    /// The shadow is bound to one.
    Bound,
    /// It is bound already, by means that we did not see.
    Already,
    /// Only the kernel may have one left.
    Kernel(Why),
    /// The kernel refuses the address.
    Refused(c_int),
}

/// SO_REUSEADDR as the application set it, where its socket's shadow has it without having been asked.
pub(crate) fn reuse_asked(object: &Object) -> Option<c_int> {
    let control = object.control.lock();
    let mut set = control.inherited.as_deref().into_iter().flatten();
    let asked = set.find(|(level, name, _)| (*level, *name) == (SOL_SOCKET, SO_REUSEADDR));
    let word = asked.and_then(|(_, _, bytes)| bytes.first_chunk().copied()).map_or(0, c_int::from_ne_bytes);
    control.port_shared.then_some(c_int::from(word != 0))
}

/// Lets other shadows of ours have the port that this one gets.
fn share(object: &Object, fd: c_int) {
    let has = sys::socket::option(fd, SOL_SOCKET, SO_REUSEADDR, 0 as c_int);
    if has == Ok(0) && sys::socket::set_option(fd, SOL_SOCKET, SO_REUSEADDR, &1).is_ok() {
        object.control.lock().port_shared = true;
    }
}

/// The shadow has SO_REUSEADDR as the application set it.
pub(super) fn unshare(object: &Object, fd: c_int) {
    if let Some(asked) = reuse_asked(object) {
        let _ = sys::socket::set_option(fd, SOL_SOCKET, SO_REUSEADDR, &asked);
        object.control.lock().port_shared = false;
    }
}

/// Binds the shadow `fd` to `address` and a port by which `remote` can be reached.
pub(super) fn take(
    runtime: &Runtime,
    object: &Object,
    fd: c_int,
    lane: &Lane,
    address: Ipv4Addr,
    remote: SocketAddrV4,
) -> Port {
    share(object, fd);
    let bind = |port| runtime.os.bind_to(fd, SocketAddrV4::new(address, port));
    let rest = |lane: &Lane| {
        let inner = lane.lock();
        inner.stack.tcp_has_time_wait() || !inner.orphans.is_empty()
    };
    let may_rest = runtime.lanes_of_link(lane.link).any(rest);
    let look = || look(runtime, lane, address, remote, |port| bind(port).is_ok());
    if may_rest && look() {
        return Port::Bound;
    }
    match bind(0) {
        Ok(_) => Port::Bound,
        Err(libc::EINVAL) => Port::Already,
        Err(libc::EADDRINUSE) if look() => Port::Bound,
        Err(libc::EADDRINUSE) => {
            unshare(object, fd);
            Port::Kernel(Why::NoPort)
        }
        Err(errno) => Port::Refused(errno),
    }
}

/// Whether no connection between these ends stands or rests on a lane of the interface, of this process or another one:
/// the steering has one entry for all. Another process' that has ended may be in its way. The program chose the port.
pub(super) fn is_free(runtime: &Runtime, lane: &Lane, local: SocketAddrV4, remote: SocketAddrV4) -> bool {
    is_free_where(runtime, lane, local, remote, |inner| inner.stack.tcp_can_connect(local, remote))
}

/// As [`is_free`], of a port that nobody has chosen yet.
fn may_be_chosen(runtime: &Runtime, lane: &Lane, local: SocketAddrV4, remote: SocketAddrV4) -> bool {
    let now = Instant(sys::clock::now());
    is_free_where(runtime, lane, local, remote, |inner| inner.stack.tcp_can_choose(now, local, remote))
}

fn is_free_where(
    runtime: &Runtime,
    lane: &Lane,
    local: SocketAddrV4,
    remote: SocketAddrV4,
    is_free: impl Fn(&Inner) -> bool,
) -> bool {
    let flow = xdp::Flow { protocol: libc::IPPROTO_TCP as u8, local, remote: Some(remote) };
    runtime.lanes_of_link(lane.link).all(|lane| {
        let inner = lane.lock();
        is_free(&inner) && !inner.device.is_of_another_process(&flow)
    })
}

/// Finds a port whose pair with `remote` is free in the engines of the lane's interface and which `bind` accepts.
fn look(
    runtime: &Runtime,
    lane: &Lane,
    address: Ipv4Addr,
    remote: SocketAddrV4,
    mut bind: impl FnMut(u16) -> bool,
) -> bool {
    let mut random = [0; 4];
    let Some((low, high)) = range() else { return false };
    if sys::process::random(&mut random).is_err() {
        return false;
    }
    let count = u32::from(high - low) + 1;
    let start = u32::from_ne_bytes(random) % count;
    let mut ports = (0..TRIES.min(count)).map(|offset| low + ((start + offset) % count) as u16);
    ports.any(|port| {
        let local = SocketAddrV4::new(address, port);
        may_be_chosen(runtime, lane, local, remote) && bind(port)
    })
}

/// The ephemeral ports of this host; `None` if some of them are reserved for others, which the kernel respects.
fn range() -> Option<(u16, u16)> {
    const UNKNOWN: u32 = 0;
    const KERNEL: u32 = 1;
    static KNOWN: AtomicU32 = AtomicU32::new(UNKNOWN);
    let mut known = KNOWN.load(Ordering::Relaxed);
    if known == UNKNOWN {
        let found = read_range().map_or(KERNEL, |(low, high)| u32::from(low) << 16 | u32::from(high));
        KNOWN.store(found, Ordering::Relaxed);
        known = found;
    }
    (known != KERNEL).then_some(((known >> 16) as u16, known as u16))
}

fn read_range() -> Option<(u16, u16)> {
    let reserved = sys::file::read_whole(RESERVED, 4096).ok()?;
    if !reserved.trim_ascii().is_empty() {
        return None;
    }
    let bytes = sys::file::read_whole(RANGE, 64).ok()?;
    let mut words = core::str::from_utf8(&bytes).ok()?.split_whitespace();
    let (low, high) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (0 < low && low < high).then_some((low, high))
}

/// A descriptor that listens there, on this address or on all.
pub(super) fn listener_at(to: SocketAddrV4) -> Option<c_int> {
    let listens = |fd: &c_int| {
        sys::socket::own_end(*fd).is_ok_and(|(address, port)| {
            let address = Ipv6Addr::from(address).to_ipv4_mapped();
            port == to.port() && address.is_some_and(|it| it.is_unspecified() || it == *to.ip())
        }) && sys::socket::option(*fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, 0 as c_int) == Ok(1)
    };
    let may_listen = |fd: &c_int| {
        let object = fd_table::socket(*fd);
        object.is_some_and(|object| matches!(object.kind(), Kind::Listener | Kind::Carried))
    };
    (0..fd_table::end()).filter(may_listen).find(listens)
}
