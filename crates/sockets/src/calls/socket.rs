//! Making sockets, naming them, connecting them, and their options.

use super::{hearing, kernel, ours};
use crate::address::{self, Given, Wanted};
use crate::answer::{Answer, Why};
use crate::describe;
use crate::errno::fail;
use crate::object::{Kind, Object};
use crate::wait::in_memory;
use crate::{
    carrier, counts, extra, family, fd_table, keeper, memory, message, options, runtime, sdp, tcp, udp,
};
use core::sync::atomic::Ordering;
use libc::{c_int, c_void, sockaddr, socklen_t};
use stats::Verdict;

/// Kinds of socket(2) carry flags in their upper bits.
const KIND_MASK: c_int = 0xf;

/// socket(2); makes the kernel's socket itself and returns its number.
pub unsafe fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Answer<c_int> {
    let Some(runtime) = runtime::get() else { return kernel() };
    let ours = match (domain, kind & KIND_MASK, protocol) {
        (libc::AF_INET, libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP)
            if runtime.parameters.begins_in_kernel() =>
        {
            Kind::Carried
        }
        (libc::AF_INET, libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => Kind::TcpIdle,
        (libc::AF_INET, libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => Kind::Udp,
        (libc::AF_INET6, libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) if has_carriers(runtime) => {
            return dual(runtime, domain, kind, protocol);
        }
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
    let why = if !extra::thread_offloads(runtime.parameters.offloaded_sockets) {
        Some(Why::Disabled)
    } else if runtime.has_few_descriptors {
        Some(Why::FewDescriptors)
    } else if runtime.fenced.load(Ordering::Relaxed) {
        Some(Why::Fenced)
    } else if runtime.confined.load(Ordering::Relaxed) {
        Some(Why::Confined)
    } else if runtime.has_unseen_rings.load(Ordering::Relaxed) {
        Some(Why::IoUring)
    } else if runtime.has_unseen_sets.load(Ordering::Relaxed) {
        Some(Why::UnseenSet)
    } else if (ours != Kind::Carried || !runtime.knows_namespace()) && !runtime.is_in_namespace(fd) {
        // What the kernel carries is asked for when it moves.
        Some(Why::Namespace)
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
    let object = Object::new(ours, fd, kind & libc::SOCK_NONBLOCK != 0);
    if ours == Kind::Udp {
        carrier::begin_datagrams(runtime, object);
        counts::loops(object.counts(), runtime.parameters.tx_mc_loopback);
        if !runtime.parameters.tx_mc_loopback {
            object.control.lock().multicast.silent = true;
        }
    }
    crate::options::begin(runtime, object, fd);
    if !fd_table::enter_socket(fd, object) {
        object.release();
    }
    Ok(fd)
}

/// Whether a connection over IPv4 that the kernel made may move to the wire.
fn has_carriers(runtime: &runtime::Runtime) -> bool {
    extra::thread_offloads(runtime.parameters.offloaded_sockets)
        && !runtime.has_few_descriptors
        && !runtime.fenced.load(Ordering::Relaxed)
        && !runtime.rules.lock().leaves_all_tcp()
}

/// A socket that may get connections over IPv4 under mapped addresses: the kernel makes them.
fn dual(runtime: &'static runtime::Runtime, domain: c_int, kind: c_int, protocol: c_int) -> Answer<c_int> {
    // SAFETY: no pointers.
    let fd = unsafe { (runtime.os.socket)(domain, kind, protocol) };
    if fd < 0 {
        return fail(runtime.os.errno());
    }
    super::recycled(fd);
    carrier::enter(fd, carrier::begin(fd, kind & libc::SOCK_NONBLOCK != 0, true));
    Ok(fd)
}

/// Before the kernel accepts, as a call with these arguments asks: what `took_client` must know.
pub unsafe fn accepts(listener: c_int, address: *mut sockaddr, len: *mut socklen_t) -> Option<socklen_t> {
    // SAFETY: the application's pointers.
    family::room_for_name(fd_table::socket(listener)?, unsafe { Wanted::new(address, len) })
}

/// The kernel accepted `fd` by `listener`, where it may stand for a client that came before a fork: that one is behind
/// the number afterwards. `room`: what `accepts` said before.
pub unsafe fn took_client(
    (listener, fd): (c_int, c_int),
    flags: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
    room: socklen_t,
) {
    if let (Some(listener), Some(runtime)) = (fd_table::socket(listener), runtime::get()) {
        // SAFETY: the application's pointers.
        let name = unsafe { Wanted::new(address, len) };
        family::accepted(runtime, listener, fd, flags, name, room);
    }
}

/// The kernel accepted `fd` by `listener`, and nobody knows of it yet. False: it is to be reset, and the next one
/// accepted.
pub fn accepted(listener: c_int, fd: c_int, flags: c_int) -> bool {
    let Some(listener) = fd_table::socket(listener) else { return true };
    carrier::accepted(listener, fd, flags & libc::SOCK_NONBLOCK != 0);
    let Some(runtime) = runtime::get() else { return true };
    memory::before_first_call(runtime, fd);
    sdp::accepted(runtime, listener, fd)
}

/// Whether an accept that has reset its client goes on to the next one. A program that polls its listener does not
/// expect to wait there: anybody could hold it up.
pub fn accepts_next(listener: c_int) -> bool {
    let Some(object) = fd_table::socket(listener) else { return true };
    let mut one = [libc::pollfd { fd: listener, events: libc::POLLIN, revents: 0 }];
    !object.is_polled.load(Ordering::Relaxed) || sys::poll::poll(&mut one, Some(0), None) == Ok(1)
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
        _ => kernel(),
    }
}

/// connect(2).
pub unsafe fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> Answer<c_int> {
    let (runtime, object) = hearing(fd)?;
    // SAFETY: the application's pointers.
    let given = unsafe { Given::new(address, len) }?;
    match object.kind() {
        Kind::Udp => udp::connect(runtime, object, fd, &given),
        Kind::TcpIdle | Kind::Stream => tcp::connect(runtime, object, fd, &given),
        Kind::Carried if carrier::connects_on_wire(runtime, object, fd, given.named) => {
            tcp::connect(runtime, object, fd, &given)
        }
        _ => kernel(),
    }
}

/// listen(2).
pub unsafe fn listen(fd: c_int, backlog: c_int) -> Answer<c_int> {
    let (runtime, object) = ours(fd)?;
    // Servers listen before they give up what they began with.
    keeper::prepare();
    match object.kind() {
        Kind::TcpIdle if !family::is_shared_out(runtime, object, fd) => {
            tcp::listen(runtime, object, fd, backlog)
        }
        Kind::Listener => tcp::listen(runtime, object, fd, backlog),
        Kind::Stream => fail(libc::EINVAL),
        Kind::Carried
            if !family::is_shared_out(runtime, object, fd)
                && carrier::listens_on_wire(runtime, object, fd) =>
        {
            tcp::listen(runtime, object, fd, backlog)
        }
        Kind::TcpIdle | Kind::Carried => {
            // For forks: children get it.
            object.control.lock().queue.is_kernels();
            counts::show();
            describe::describe(object);
            kernel()
        }
        _ => kernel(),
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
    let (runtime, object) = ours(fd)?;
    match object.kind() {
        Kind::Memory => memory::shutdown(runtime, object, how),
        Kind::Carried | Kind::Moving => {
            if matches!(how, libc::SHUT_RD | libc::SHUT_WR | libc::SHUT_RDWR) {
                carrier::stays(object, Verdict::CallOfTheKernel);
            }
            match object.kind() {
                Kind::Stream => tcp::shutdown(object, how),
                Kind::Memory => memory::shutdown(runtime, object, how),
                _ => kernel(),
            }
        }
        Kind::Udp => udp::shutdown(object, how),
        _ => tcp::shutdown(object, how),
    }
}

/// getsockname(2).
pub unsafe fn getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> Answer<c_int> {
    let Some(object) = fd_table::socket(fd) else { return kernel() };
    if object.kind() == Kind::Lent {
        let known = object.control.lock().local;
        // SAFETY: the application's pointers.
        return unsafe { name(object, known, address, len) };
    }
    let Some((_, inner, id)) = object.engine().filter(|_| object.kind() == Kind::Stream) else {
        return kernel();
    };
    let local = inner.stack.local(id).or(object.control.lock().local);
    drop(inner);
    // SAFETY: the application's pointers.
    unsafe { name(object, local, address, len) }
}

/// getpeername(2).
pub unsafe fn getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> Answer<c_int> {
    let Some(object) = fd_table::socket(fd) else { return kernel() };
    if object.kind() == Kind::Lent {
        let known = object.control.lock().remote;
        // SAFETY: the application's pointers.
        return unsafe { name(object, known, address, len) };
    }
    if in_memory::is_in(object) && runtime::get().is_some_and(|runtime| memory::is_closed(runtime, object)) {
        return fail(libc::ENOTCONN);
    }
    let Some((_, inner, id)) = object.engine().filter(|_| object.kind() == Kind::Stream) else {
        return kernel();
    };
    {
        use stack::tcp::State::*;
        if matches!(inner.stack.tcp_state(id), None | Some(SynSent | SynReceived | Closed)) {
            return fail(libc::ENOTCONN);
        }
    }
    drop(inner);
    let remote = object.control.lock().remote;
    // SAFETY: the application's pointers.
    unsafe { name(object, remote, address, len) }
}

unsafe fn name(
    object: &Object,
    endpoint: Option<std::net::SocketAddrV4>,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> Answer<c_int> {
    let Some(endpoint) = endpoint else { return kernel() };
    message::check(address, 1)?;
    // SAFETY: valid by the caller's contract.
    unsafe {
        match object.is_mapped.load(Ordering::Relaxed) {
            true => address::write_mapped(endpoint, address, len),
            false => address::write(endpoint, address, len),
        }
    }
    .map(|()| 0)
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
