//! Who on this host hears a group: the kernel's tables of UDP sockets and of multicast memberships.

use crate::fd_table;
use crate::locks::Rank;
use crate::object::{Kind, Object};
use crate::runtime::Runtime;
use core::cell::OnceCell;
use core::net::Ipv4Addr;
use core::sync::atomic::Ordering;
use libc::c_int;
use std::net::SocketAddrV4;

/// Tables of the kernel larger than this are not read: the group stays with the kernel.
const TABLE_MAX: usize = 4 << 20;

/// Who is bound to what, by one look, when it is first asked: the kernel walks its whole table for each.
#[derive(Default)]
pub(super) struct Bound(OnceCell<Option<Endpoints>>);

/// All that are bound on this host, and those of this process that hear by an engine.
struct Endpoints {
    all: Vec<SocketAddrV4>,
    ours: Vec<SocketAddrV4>,
}

impl Bound {
    /// Whether a socket is bound so that it hears `at`, and hears by the kernel: another process', or one of this that
    /// has not moved or cannot. Every UDP socket of ours has its shadow in the kernel's table.
    pub(super) fn others_hear(&self, at: SocketAddrV4) -> bool {
        let hears = |local: &&SocketAddrV4| {
            local.port() == at.port() && (local.ip().is_unspecified() || local.ip() == at.ip())
        };
        self.0.get_or_init(Endpoints::look).as_ref().is_none_or(|bound| {
            bound.all.iter().filter(hears).count() > bound.ours.iter().filter(hears).count()
        })
    }

    /// Whether no more than one socket of a port can hear groups.
    pub(super) fn is_alone(&self, port: u16) -> bool {
        let hears = |local: &&SocketAddrV4| {
            local.port() == port && (local.ip().is_unspecified() || local.ip().is_multicast())
        };
        let bound = self.0.get_or_init(Endpoints::look).as_ref();
        bound.is_some_and(|bound| bound.all.iter().filter(hears).count() <= 1)
    }
}

impl Endpoints {
    /// `None`: the table cannot be read.
    fn look() -> Option<Endpoints> {
        let table = sys::file::read_whole(c"/proc/net/udp", TABLE_MAX).ok()?;
        let all = bound_sockets(&String::from_utf8_lossy(&table)).collect();
        let of_socket = |fd: c_int| {
            let object = fd_table::socket(fd)?;
            let is_first = object.fd.load(Ordering::Relaxed) == fd && object.kind() == Kind::Udp;
            if is_first && !super::waits(object) { hears_by_engine(object) } else { None }
        };
        Some(Endpoints { all, ours: (0..fd_table::end()).filter_map(of_socket).collect() })
    }
}

/// Where a socket is bound, if an engine has it there. Who is bound to a group stands where it has joined that, and
/// stays there when it leaves it.
fn hears_by_engine(object: &'static Object) -> Option<SocketAddrV4> {
    let control = object.control.lock();
    let local = control.local?;
    let will_stand = local.ip().is_multicast() && control.multicast.has_joined(*local.ip());
    (will_stand || object.leg().is_some()).then_some(local)
}

/// The local endpoints in /proc/net/udp.
fn bound_sockets(table: &str) -> impl Iterator<Item = SocketAddrV4> + '_ {
    table.lines().skip(1).filter_map(|line| {
        let (address, port) = line.split_whitespace().nth(1)?.split_once(':')?;
        Some(SocketAddrV4::new(native(address)?, u16::from_str_radix(port, 16).ok()?))
    })
}

/// Who is bound to what and has joined what on this host, as far as the kernel tells.
#[derive(Default, PartialEq, Eq)]
pub(super) struct Audience {
    bound: Vec<SocketAddrV4>,
    joined: Vec<(u32, Ipv4Addr)>,
}

impl Audience {
    pub(super) fn look() -> Audience {
        let table = |path| sys::file::read_whole(path, TABLE_MAX).unwrap_or_default();
        Audience {
            bound: bound_sockets(&String::from_utf8_lossy(&table(c"/proc/net/udp"))).collect(),
            joined: joined(&String::from_utf8_lossy(&table(c"/proc/net/igmp"))),
        }
    }

    pub(super) fn has_joined_otherwise(&self, before: &Audience) -> bool {
        self.joined != before.joined
    }
}

/// Groups that somebody on this host has joined, by interface, as of a generation of routes.
static JOINED: sys::Mutex<(u32, Vec<(u32, Ipv4Addr)>)> = Rank::Members.lock((0, Vec::new()));

/// Whether anybody on this host has joined a group on an interface; who sends to many groups asks for each.
pub(super) fn is_joined(runtime: &Runtime, link: u32, group: Ipv4Addr) -> bool {
    let look =
        || Some(joined(&String::from_utf8_lossy(&sys::file::read_whole(c"/proc/net/igmp", TABLE_MAX).ok()?)));
    let generation = runtime.route_generation.load(Ordering::Acquire);
    let Some(mut known) = JOINED.try_lock() else {
        return look().is_none_or(|joined| joined.contains(&(link, group)));
    };
    if known.0 != generation {
        let Some(joined) = look() else { return true };
        *known = (generation, joined);
    }
    known.1.contains(&(link, group))
}

/// In /proc/net/igmp a line of its own names each interface, and lines that begin with blanks follow, one a group.
fn joined(table: &str) -> Vec<(u32, Ipv4Addr)> {
    let mut link = None;
    let mut all = Vec::new();
    for line in table.lines().skip(1) {
        let first = line.split_whitespace().next().unwrap_or_default();
        if line.starts_with(char::is_whitespace) {
            all.extend(link.zip(native(first)));
        } else {
            link = first.parse().ok();
        }
    }
    all
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
        assert_eq!(joined(table), [(1, Ipv4Addr::new(224, 0, 0, 1)), (7, group)]);
    }

    #[test]
    fn local_endpoints_are_read_from_the_table_of_sockets() {
        let table = "  sl  local_address rem_address   st\n 12: 0A0101EF:1B58 00000000:0000 07 0 0\n";
        let all: Vec<_> = bound_sockets(table).collect();
        assert_eq!(all, [SocketAddrV4::new(Ipv4Addr::new(239, 1, 1, 10), 7000)]);
    }
}
