//! Who on this host hears a group: the kernel's tables of UDP sockets and of multicast memberships.

use crate::fd_table;
use crate::object::Kind;
use core::net::Ipv4Addr;
use core::sync::atomic::Ordering;
use libc::c_int;
use std::net::SocketAddrV4;

/// Tables of the kernel larger than this are not read: the group stays with the kernel.
const TABLE_MAX: usize = 4 << 20;

/// Whether a socket outside this process is bound so that it hears `at`. Every UDP socket of ours has its shadow in
/// the kernel's table.
pub(super) fn others_hear(at: SocketAddrV4) -> bool {
    let Ok(table) = sys::file::read_whole(c"/proc/net/udp", TABLE_MAX) else { return true };
    let hears = |local: SocketAddrV4| {
        local.port() == at.port() && (local.ip().is_unspecified() || local.ip() == at.ip())
    };
    let all = bound_sockets(&String::from_utf8_lossy(&table)).filter(|local| hears(*local)).count();
    let is_ours = |fd: &c_int| {
        fd_table::socket(*fd).is_some_and(|object| {
            object.fd.load(Ordering::Relaxed) == *fd
                && object.kind() == Kind::Udp
                && object.control.lock().local.is_some_and(hears)
        })
    };
    all > (0..fd_table::end()).filter(is_ours).count()
}

/// The local endpoints in /proc/net/udp.
fn bound_sockets(table: &str) -> impl Iterator<Item = SocketAddrV4> + '_ {
    table.lines().skip(1).filter_map(|line| {
        let (address, port) = line.split_whitespace().nth(1)?.split_once(':')?;
        Some(SocketAddrV4::new(native(address)?, u16::from_str_radix(port, 16).ok()?))
    })
}

/// Whether anybody on this host has joined a group on an interface.
pub(super) fn is_joined(link: u32, group: Ipv4Addr) -> bool {
    let Ok(table) = sys::file::read_whole(c"/proc/net/igmp", TABLE_MAX) else { return true };
    joined(&String::from_utf8_lossy(&table), link, group)
}

/// In /proc/net/igmp a line of its own names each interface, and lines that begin with blanks follow, one a group.
fn joined(table: &str, link: u32, group: Ipv4Addr) -> bool {
    let mut here = false;
    table.lines().skip(1).any(|line| {
        let first = line.split_whitespace().next().unwrap_or_default();
        if !line.starts_with(char::is_whitespace) {
            here = first.parse() == Ok(link);
            return false;
        }
        here && native(first) == Some(group)
    })
}

/// An address as the kernel prints it: its word in memory as one number.
fn native(hex: &str) -> Option<Ipv4Addr> {
    u32::from_str_radix(hex, 16).ok().map(|word| Ipv4Addr::from(word.to_ne_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_on_their_interface_only() {
        let table = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n\
            1\tlo        :     1      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n\
            7\tnet0      :     2      V3\n\t\t\t\t0A0101EF     1 0:00000000\t\t0\n";
        let group = Ipv4Addr::new(239, 1, 1, 10);
        assert!(joined(table, 7, group) && !joined(table, 1, group));
        assert!(!joined(table, 7, Ipv4Addr::new(224, 0, 0, 1)));
    }

    #[test]
    fn local_endpoints_are_read_from_the_table_of_sockets() {
        let table = "  sl  local_address rem_address   st\n 12: 0A0101EF:1B58 00000000:0000 07 0 0\n";
        let all: Vec<_> = bound_sockets(table).collect();
        assert_eq!(all, [SocketAddrV4::new(Ipv4Addr::new(239, 1, 1, 10), 7000)]);
    }
}
