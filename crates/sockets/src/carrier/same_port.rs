//! UDP sockets of one port, some of them connected: servers that give each client a socket of its own (TURN, DTLS) bind
//! it to the port that they listen on. The kernel hands a datagram to the one that is connected to its sender, and so
//! does the steering, where each has its entry. So a connected one may be on the wire while the one that listens is the
//! kernel's, but not the other way round: the entry of the port would bring all to who listens. Sockets among which the
//! kernel chooses by the sender stay there.

use crate::fd_table;
use crate::object::{Kind, Object};
use crate::udp_legs::{self, waits};
use core::sync::atomic::Ordering;
use libc::c_int;
use std::net::SocketAddrV4;

/// Those that listen on the wire where `object` is bound.
pub(super) fn listening_on_wire(object: &'static Object, at: SocketAddrV4) -> Vec<&'static Object> {
    others(object, at, |other, is_connected| !is_connected && other.leg().is_some())
}

/// Those that are connected where `object` is bound, and that the kernel carries.
pub(super) fn connected_in_kernel(object: &'static Object, at: SocketAddrV4) -> Vec<&'static Object> {
    others(object, at, |other, is_connected| is_connected && waits(other))
}

/// Whether the socket may share its port with others among which the kernel chooses by the sender (SO_REUSEPORT). Those
/// would move one by one, and a client's datagrams from one to another: they stay. A member of groups hears all that
/// comes for those, whoever else does.
pub(super) fn is_one_of_several(object: &Object, fd: c_int, local: SocketAddrV4) -> bool {
    let shares = || sys::socket::option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 0 as c_int);
    udp_legs::has_company(object)
        && !local.ip().is_multicast()
        && !object.control.lock().multicast.has_groups()
        && shares().is_ok_and(|shares| shares != 0)
}

/// The process' other UDP sockets of that port and address, as `wanted`. Those that share nothing pay for a load.
fn others(
    object: &'static Object,
    at: SocketAddrV4,
    wanted: impl Fn(&'static Object, bool) -> bool,
) -> Vec<&'static Object> {
    if !udp_legs::has_company(object) {
        return Vec::new();
    }
    let hears = |local: &SocketAddrV4| {
        let is_there = local.ip() == at.ip() || local.ip().is_unspecified() || at.ip().is_unspecified();
        local.port() == at.port() && is_there
    };
    let of_socket = |fd| {
        // One that has several numbers is met once.
        let other = fd_table::socket(fd).filter(|other| other.fd.load(Ordering::Relaxed) == fd)?;
        if other.kind() != Kind::Udp || core::ptr::eq(other, object) {
            return None;
        }
        let (local, is_connected) = {
            let control = other.control.lock();
            (control.local, control.remote.is_some())
        };
        local.filter(hears).filter(|_| wanted(other, is_connected)).map(|_| other)
    };
    (0..fd_table::end()).filter_map(of_socket).collect()
}
