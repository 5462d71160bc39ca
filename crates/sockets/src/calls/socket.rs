//! Making sockets, naming them, connecting them, and their options.

use super::{hearing, kernel, ours};
use crate::address::{self, Given, Wanted};
use crate::answer::{Answer, Why};
use crate::errno::fail;
use crate::object::{Kind, Object};
use crate::{counts, fd_table, message, options, runtime, tcp, udp};
use core::sync::atomic::Ordering;
use libc::{c_int, c_void, sockaddr, socklen_t};

/// Kinds of socket(2) carry flags in their upper bits.
const KIND_MASK: c_int = 0xf;

/// socket(2); makes the kernel's socket itself and returns its number.
pub unsafe fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Answer<c_int> {
    let Some(runtime) = runtime::get() else { return kernel() };
    let ours = match (domain, kind & KIND_MASK, protocol) {
        (libc::AF_INET, libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => Kind::TcpIdle,
        (libc::AF_INET, libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => Kind::Udp,
        (libc::AF_INET6, libc::SOCK_STREAM | libc::SOCK_DGRAM, _) => {
            runtime.count(Why::OtherFamily, format_args!("socket"));
            return kernel();
        }
        _ => return kernel(),
    };
    // SAFETY: no pointers.
    let fd = unsafe { (runtime.os.socket)(domain, kind, protocol) };
    if fd < 0 {
        return fail(runtime.os.errno());
    }
    super::recycled(fd);
    let why = if !runtime.parameters.offloaded_sockets {
        Some(Why::Disabled)
    } else if runtime.fenced.load(Ordering::Relaxed) {
        Some(Why::Fenced)
    } else {
        let rules = runtime.rules.lock();
        let all = if ours == Kind::Udp { rules.leaves_all_udp() } else { rules.leaves_all_tcp() };
        all.then_some(Why::Rule)
    };
    if let Some(why) = why {
        runtime.count(why, format_args!("socket (fd {fd})"));
        counts::left(counts::claim(ours, fd, kind & libc::SOCK_NONBLOCK != 0), fd, why);
        return Ok(fd);
    }
    if ours == Kind::Udp && !runtime.parameters.tx_mc_loopback {
        let off = 0u8;
        // SAFETY: a local of the stated size. The kernel's socket sends multicast.
        unsafe {
            (runtime.os.setsockopt)(
                fd,
                libc::IPPROTO_IP,
                libc::IP_MULTICAST_LOOP,
                (&raw const off).cast(),
                size_of_val(&off) as socklen_t,
            )
        };
    }
    let object = Object::new(ours, fd, kind & libc::SOCK_NONBLOCK != 0);
    if ours == Kind::Udp {
        counts::loops(object.counts(), runtime.parameters.tx_mc_loopback);
        if !runtime.parameters.tx_mc_loopback {
            object.control.lock().multicast.silent = true;
        }
    }
    if !fd_table::enter_socket(fd, object) {
        object.release();
    }
    Ok(fd)
}

/// bind(2).
pub unsafe fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> Answer<c_int> {
    let (runtime, object) = ours(fd)?;
    // SAFETY: the application's pointers.
    let given = unsafe { Given::new(address, len) }?;
    match object.kind() {
        Kind::Udp => udp::bind(runtime, object, fd, &given),
        Kind::TcpIdle => tcp::bind(runtime, object, fd, &given),
        // As the kernel says of a socket that has an address.
        Kind::Stream => fail(libc::EINVAL),
        Kind::Listener | Kind::Free | Kind::Inherited | Kind::Lent | Kind::Relayed => kernel(),
    }
}

/// connect(2).
pub unsafe fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> Answer<c_int> {
    let (runtime, object) = ours(fd)?;
    // SAFETY: the application's pointers.
    let given = unsafe { Given::new(address, len) }?;
    match object.kind() {
        Kind::Udp => udp::connect(runtime, object, fd, &given),
        Kind::TcpIdle | Kind::Stream => tcp::connect(runtime, object, fd, &given),
        Kind::Listener | Kind::Free | Kind::Inherited | Kind::Lent | Kind::Relayed => kernel(),
    }
}

/// listen(2).
pub unsafe fn listen(fd: c_int, backlog: c_int) -> Answer<c_int> {
    let (runtime, object) = ours(fd)?;
    match object.kind() {
        Kind::TcpIdle | Kind::Listener => tcp::listen(runtime, object, fd, backlog),
        Kind::Stream => fail(libc::EINVAL),
        Kind::Udp | Kind::Free | Kind::Inherited | Kind::Lent | Kind::Relayed => kernel(),
    }
}

/// accept4(2).
pub unsafe fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> Answer<c_int> {
    let (runtime, object) = hearing(fd)?;
    match object.kind() {
        Kind::Listener => {
            // SAFETY: the application's pointers.
            let name = unsafe { Wanted::new(address, len) };
            tcp::accept4(runtime, object, fd, name, flags)
        }
        Kind::Stream => fail(libc::EINVAL),
        _ => kernel(),
    }
}

/// shutdown(2).
pub unsafe fn shutdown(fd: c_int, how: c_int) -> Answer<c_int> {
    let (_, object) = ours(fd)?;
    match object.kind() {
        Kind::Udp => udp::shutdown(object, how),
        _ => tcp::shutdown(object, how),
    }
}

/// getsockname(2).
pub unsafe fn getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> Answer<c_int> {
    let Some(object) = fd_table::socket(fd) else { return kernel() };
    if matches!(object.kind(), Kind::Lent | Kind::Relayed) {
        let known = object.control.lock().local;
        // SAFETY: the application's pointers.
        return unsafe { name(known, address, len) };
    }
    let Some((lane, id)) = object.leg().filter(|_| object.kind() == Kind::Stream) else { return kernel() };
    let local = lane.lock().stack.local(id).or(object.control.lock().local);
    // SAFETY: the application's pointers.
    unsafe { name(local, address, len) }
}

/// getpeername(2).
pub unsafe fn getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> Answer<c_int> {
    let Some(object) = fd_table::socket(fd) else { return kernel() };
    if matches!(object.kind(), Kind::Lent | Kind::Relayed) {
        let known = object.control.lock().remote;
        // SAFETY: the application's pointers.
        return unsafe { name(known, address, len) };
    }
    let Some((lane, id)) = object.leg().filter(|_| object.kind() == Kind::Stream) else { return kernel() };
    {
        use stack::tcp::State::*;
        let inner = lane.lock();
        if matches!(inner.stack.tcp_state(id), None | Some(SynSent | SynReceived | Closed)) {
            return fail(libc::ENOTCONN);
        }
    }
    let remote = object.control.lock().remote;
    // SAFETY: the application's pointers.
    unsafe { name(remote, address, len) }
}

unsafe fn name(
    endpoint: Option<std::net::SocketAddrV4>,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> Answer<c_int> {
    let Some(endpoint) = endpoint else { return kernel() };
    message::check(address, 1)?;
    // SAFETY: valid by the caller's contract.
    unsafe { address::write(endpoint, address, len) }.map(|()| 0)
}

/// setsockopt(2).
pub unsafe fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Answer<c_int> {
    let (runtime, object) = ours(fd)?;
    // SAFETY: the application's pointers.
    unsafe { options::set(runtime, object, fd, level, name, value, len) }
}

/// getsockopt(2).
pub unsafe fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> Answer<c_int> {
    let (runtime, object) = ours(fd)?;
    // SAFETY: the application's pointers.
    unsafe { options::get(runtime, object, level, name, value, len) }
}
