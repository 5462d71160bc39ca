//! What a rule names (`use vma`), or the program asks for (extra/), is on the wire at once: a socket that has begun in
//! the kernel, as all do, becomes one that an engine connects, or listens on.

use super::read_out;
use crate::address::{self, Named};
use crate::counts;
use crate::object::{Kind, Object, Pin};
use crate::offload::is_demanded;
use crate::runtime::Runtime;
use crate::wait::moves;
use config::Role;
use core::sync::atomic::Ordering;
use libc::c_int;
use std::net::SocketAddrV4;

/// connect(2) of a socket that the kernel carries. True: an engine is to do it.
pub(crate) fn connects_on_wire(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    named: Named,
) -> bool {
    match named {
        Named::Inet(remote) => begins(runtime, object, fd, Role::TcpClient, Some(remote)),
        _ => false,
    }
}

/// listen(2), likewise.
pub(crate) fn listens_on_wire(runtime: &'static Runtime, object: &'static Object, fd: c_int) -> bool {
    begins(runtime, object, fd, Role::TcpServer, None)
}

fn begins(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    role: Role,
    remote: Option<SocketAddrV4>,
) -> bool {
    if has_to_stay(object) || !runtime.rules.lock().may_demand(role) {
        return false;
    }
    let Ok(local) = address::of_shadow(&runtime.os, fd) else { return false };
    is_demanded(runtime, role, Some(local), remote) && becomes_engines(runtime, object, fd, local)
}

/// The program wants a socket on the wire. True: an engine is to do what comes first, connect(2) or listen(2).
pub(crate) fn begins_on_wire(runtime: &'static Runtime, object: &'static Object, fd: c_int) -> bool {
    if has_to_stay(object) {
        return false;
    }
    let Ok(local) = address::of_shadow(&runtime.os, fd) else { return false };
    becomes_engines(runtime, object, fd, local)
}

fn has_to_stay(object: &Object) -> bool {
    object.price.load(Ordering::Relaxed) == u32::MAX || object.is_mapped.load(Ordering::Relaxed)
}

fn becomes_engines(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    local: SocketAddrV4,
) -> bool {
    if !sys::socket::is_closed(fd) || !runtime.is_in_namespace(fd) {
        return false;
    }
    let Ok(options) = read_out::options(fd, &runtime.tcp_settings().options) else { return false };
    let Some(pin) = Pin::by(object, fd) else { return false };
    if !object.begin_move(&pin) {
        return false;
    }
    object.claim_counts(fd);
    counts::begins_on_wire(object.counts());
    let is_bound = local.port() != 0 || !local.ip().is_unspecified();
    {
        let mut control = object.control.lock();
        control.tcp = Some(Box::new(options));
        control.local = is_bound.then_some(local);
    }
    object.set_kind(Kind::TcpIdle);
    moves::changed(&runtime.os, object);
    true
}
