//! Connections that look for their other side by themselves, under libvma.so: no rule has to name them.
//!
//! Whether a peer is on this host costs two system calls. So it is asked when a connection has made as many calls as
//! it makes before it offers a meeting place, or looks for one: one that carries a request is over by then.

use super::meet;
use crate::fd_table;
use crate::object::price::Role;
use crate::object::{Kind, Object};
use crate::offload;
use crate::runtime::Runtime;
use crate::wait::in_memory::room;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};
use core::sync::atomic::Ordering;
use libc::c_int;
use sys::socket::End;

/// It is known where the peer is, or nobody wants to know.
const PLACED: u32 = u32::MAX;

/// A call that moves data is about to be made on a connection that the kernel carries.
#[inline]
pub(super) fn before_call(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    let calls = object.unplaced.load(Ordering::Relaxed);
    if calls != PLACED {
        // Of two threads at once one may not be counted.
        object.unplaced.store(calls + 1, Ordering::Relaxed);
        if meet::may_be_due(runtime, calls + 1) {
            ask(runtime, object, fd, calls + 1);
        }
    }
}

/// For tests (SIDESTEP_MOVE_EVERY): a connection was accepted, and its peer may be offering a place already.
pub(crate) fn before_first_call(runtime: &'static Runtime, fd: c_int) {
    if meet::is_eager(runtime)
        && is_by_itself(runtime)
        && let Some(object) = fd_table::socket(fd).filter(|object| object.kind() == Kind::Carried)
    {
        meet::before_call(runtime, object, fd);
    }
}

/// Whether the peer of a connection may be on this host, for all that was asked yet.
pub(crate) fn may_be_here(runtime: &Runtime, object: &Object) -> bool {
    super::looks(object)
        || is_by_itself(runtime)
            && object.price.load(Ordering::Relaxed) != u32::MAX
            && object.unplaced.load(Ordering::Relaxed) != PLACED
}

/// Whether a connection may meet its other side, now or later.
pub(crate) fn may_ever_meet(runtime: &Runtime, object: &Object) -> bool {
    room(object).is_some() || may_be_here(runtime, object)
}

/// Whether connections look for their other side without a rule that wants it.
fn is_by_itself(runtime: &Runtime) -> bool {
    runtime.sdp.is_none() && runtime.carries_in_memory()
}

#[cold]
fn ask(runtime: &'static Runtime, object: &'static Object, fd: c_int, calls: u32) {
    if !is_by_itself(runtime) {
        return object.unplaced.store(PLACED, Ordering::Relaxed);
    }
    let role = if object.control.lock().accepted { Role::Accepted } else { Role::Connected };
    if !meet::is_due(runtime, role, calls) {
        return;
    }
    // It is not connected yet, or not any more.
    let Ok(ends) = sys::socket::ends(fd) else { return };
    let is_first = object.unplaced.swap(PLACED, Ordering::Relaxed) != PLACED;
    if is_first && are_of_one_host(ends) && may_meet(runtime, object, role, ends) {
        meet::begins(object, role, calls - 1);
    }
}

/// Whether nothing keeps the connection in the kernel, or demands the wire: an option, a rule, the extra API, what the
/// program gave up, or readiness that it hears of unseen.
fn may_meet(runtime: &Runtime, object: &Object, role: Role, (own, other): (End, End)) -> bool {
    let role = match role {
        Role::Connected => config::Role::TcpClient,
        Role::Accepted => config::Role::TcpServer,
    };
    object.price.load(Ordering::SeqCst) != u32::MAX
        && object.extra().is_none()
        && [&runtime.fenced, &runtime.confined].iter().all(|not| !not.load(Ordering::Relaxed))
        && runtime.unseen().is_none()
        && offload::allowed(runtime, role, Some(for_rules(own)), Some(for_rules(other))).is_ok()
}

/// Rules are about IPv4: of another end they can name the port.
fn for_rules((address, port): End) -> SocketAddrV4 {
    let address = Ipv6Addr::from(address).to_ipv4_mapped();
    SocketAddrV4::new(address.unwrap_or(Ipv4Addr::UNSPECIFIED), port)
}

/// A connection within the host has one address of the host at both ends, or loopback's.
pub(super) fn are_of_one_host(((own, _), (other, _)): (End, End)) -> bool {
    let is_loopback = |address: [u8; 16]| Ipv6Addr::from(address).to_canonical().is_loopback();
    own == other || is_loopback(own) && is_loopback(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_has_one_address_or_loopbacks() {
        let end = |text: &str| (text.parse::<Ipv6Addr>().unwrap().octets(), 80);
        let are = |own, other| are_of_one_host((end(own), end(other)));
        assert!(
            are("::1", "::1") && are("::ffff:127.0.0.1", "::ffff:127.0.0.2") && are("fd00::7", "fd00::7")
        );
        assert!(!are("::ffff:10.0.0.1", "::ffff:10.0.0.2") && !are("::ffff:127.0.0.1", "::ffff:10.0.0.2"));
        assert_eq!(for_rules(end("::ffff:10.0.0.1")), "10.0.0.1:80".parse().unwrap());
        assert_eq!(for_rules(end("::1")), "0.0.0.0:80".parse().unwrap());
    }
}
