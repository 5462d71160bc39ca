//! What the engine asks of the world, answered from the kernel's tables; and what the kernel tells, passed to the
//! engine. Runs under the lane's lock.

use crate::background::BACKGROUND;
use crate::keeper;
use crate::lane::{Inner, Tx};
use crate::runtime::Runtime;
use core::net::{Ipv4Addr, SocketAddrV4};
use core::sync::atomic::Ordering;
use netlink::{NeighbourState, Route, RouteKind, RouteQuery, Update};
use stack::{Instant, MacAddr, Path, Query, Request, SocketError};

/// How often the kernel is reminded of neighbours whose traffic it does not see, so that it notices a change of
/// hardware address: half of its own base reachable time (30 s).
const REMIND_NS: u64 = 15_000_000_000;

/// The flag of a first segment (RFC 9293).
const SYN: u8 = 2;

impl Inner {
    /// Answers one request of the engine.
    pub(crate) fn answer(&mut self, request: Request, now: u64) {
        match request {
            Request::Path(query) => {
                let path = self.path(query);
                self.stack.set_path(Instant(now), query, path, &mut Tx(&mut self.device));
                if path.is_ok_and(|path| path.elsewhere) {
                    self.runtime.astray.store(true, Ordering::Release);
                    BACKGROUND.look();
                }
            }
            Request::Neighbour(next_hop) => self.find_neighbour(next_hop, now),
        }
        self.flush(Instant(now));
    }

    /// How packets go, and whether they would by this interface: what came by it may have to be answered by another.
    fn path(&mut self, query: Query) -> Result<Path, SocketError> {
        let to = query.to;
        let asked = RouteQuery {
            source: Some(query.from).filter(|from| !from.is_unspecified()),
            ..RouteQuery::default()
        };
        let by_this_link = RouteQuery { link: Some(self.link), ..asked };
        // For a group the socket chose the interface.
        let is_free = !query.bound && !to.is_multicast() && !to.is_broadcast();
        let first = self.route(to, if is_free { asked } else { by_this_link })?;
        let elsewhere = first.link != self.link;
        // While it is not the kernel's yet it goes on as well as it can.
        let route = if elsewhere { self.route(to, by_this_link).unwrap_or(first) } else { first };
        let mtu = route.mtu.filter(|mtu| *mtu > 0).unwrap_or(self.device.mtu());
        let next_hop = route.gateway.filter(|_| !to.is_multicast()).unwrap_or(to);
        Ok(Path { next_hop, mtu, elsewhere })
    }

    fn route(&self, to: Ipv4Addr, asked: RouteQuery) -> Result<Route, SocketError> {
        use RouteKind::{Broadcast, Local, Multicast, Unicast};
        match self.runtime.netlink(|netlink| netlink.route(to, asked)) {
            Ok(route) if matches!(route.kind, Unicast | Multicast | Broadcast) => Ok(route),
            // One of our own by now: the kernel delivers it.
            Ok(route) if route.kind == Local => Ok(route),
            Ok(_) | Err(libc::EHOSTUNREACH) => Err(SocketError::HostUnreachable),
            Err(_) => Err(SocketError::NetUnreachable),
        }
    }

    /// What the kernel is to have: packets whose way is another interface's, to this host or from it, and those that
    /// came for a connection that it carries by now.
    #[cold]
    pub(super) fn leave_to_kernel(&mut self, first: &[u8]) {
        let by_kernel = self.device.by_kernel();
        self.leave_one_to_kernel(&by_kernel, first);
        while let Some(packet) = self.stack.take_for_kernel() {
            self.leave_one_to_kernel(&by_kernel, &packet);
        }
    }

    fn leave_one_to_kernel(&self, by_kernel: &Result<xdp::ByKernel, i32>, packet: &[u8]) {
        let address = |at| packet.get(at..at + 4).and_then(|four| <[u8; 4]>::try_from(four).ok());
        let (Some(from), Some(to)) = (address(12), address(16)) else { return };
        let (from, to) = (Ipv4Addr::from(from), Ipv4Addr::from(to));
        // The kernel, which has it no longer, would reset it. Its peer sends again what was late.
        if connection(packet).is_some_and(|connection| self.device.is_of_another(&connection)) {
            return;
        }
        self.counts.left_to_kernel.one();
        let sent = by_kernel.as_ref().map_err(|errno| *errno).and_then(|way| match to.is_multicast() {
            true => way.send_to_members(packet, from, to, self.link),
            false => way.send(packet, to),
        });
        let Err(errno) = sent else { return };
        // A process that gave up its privileges: the next try of a peer that connects goes to the kernel's listener.
        if packet[9] == libc::IPPROTO_TCP as u8
            && packet.get(33).is_some_and(|flags| flags & SYN != 0)
            && let Some(&[high, low]) = packet.get(22..24)
        {
            let local = SocketAddrV4::new(to, u16::from_be_bytes([high, low]));
            logger::debug!(
                "{local}: clients whose route is another interface's: the kernel's ({why})",
                why = sys::Errno(errno)
            );
            let protocol = libc::IPPROTO_TCP as u8;
            self.device.leave_new_to_kernel(&xdp::Flow { protocol, local, remote: None });
        }
    }

    fn find_neighbour(&mut self, next_hop: Ipv4Addr, now: u64) {
        let link = self.link;
        let known = self.runtime.netlink(|netlink| netlink.neighbour(link, next_hop)).ok().flatten();
        if let Some((mac, NeighbourState::Usable | NeighbourState::Stale)) = known {
            self.stack.set_neighbour(Instant(now), next_hop, Some(MacAddr(mac)), &mut Tx(&mut self.device));
        } else {
            keeper::resolve(self.runtime, link, next_hop);
            BACKGROUND.hurry();
        }
    }

    /// Looks up anew the neighbours in use: what the kernel told about them may have been missed. The caller hands
    /// over and tells afterwards.
    pub(crate) fn find_neighbours_again(&mut self, now: u64) {
        for next_hop in self.stack.doubt_neighbours(Instant(now)) {
            self.find_neighbour(next_hop, now);
        }
    }

    /// Neighbours in use that the kernel's machinery is to be kept awake for, once in a while: [`remind`], without the
    /// lane's lock.
    pub(crate) fn neighbours_to_remind(&mut self, now: u64) -> Vec<Ipv4Addr> {
        if now.saturating_sub(self.reminded_at) < REMIND_NS {
            return Vec::new();
        }
        self.reminded_at = now;
        self.stack.take_used_neighbours()
    }

    /// Applies a change that the kernel told. The caller hands over and tells afterwards.
    pub(crate) fn apply(&mut self, update: &Update, now: u64) {
        let at = Instant(now);
        match update {
            Update::Neighbour { link, address, mac, state } if *link == self.link => {
                let mac = match state {
                    NeighbourState::Usable | NeighbourState::Stale => mac.map(MacAddr),
                    NeighbourState::Incomplete => return,
                    NeighbourState::Failed => None,
                };
                // Neighbours that nobody here asked for are of no interest: the kernel's table may be large.
                if self.stack.has_neighbour(*address) {
                    if mac.is_none() {
                        self.counts.neighbour_failed.one();
                    }
                    self.stack.set_neighbour(at, *address, mac, &mut Tx(&mut self.device));
                }
            }
            Update::Link(link) if link.index == self.link => {
                self.stack.set_mtu(self.runtime.mtu(link.mtu));
                self.stack.set_mac(MacAddr(link.mac));
                self.device.set_mac(link.mac);
            }
            Update::Address(address) => {
                self.forget_address(address);
                self.add_address(address);
                self.tell_addresses();
            }
            Update::AddressGone(address) => {
                self.forget_address(address);
                self.tell_addresses();
            }
            Update::Routes => self.stack.forget_paths(),
            Update::Conf => self.learn_reverse_path(),
            Update::Overrun => {
                self.stack.forget_paths();
                self.find_neighbours_again(now);
                self.learn_reverse_path();
                if let Ok(addresses) = self.runtime.netlink(|netlink| netlink.addresses()) {
                    self.learn_addresses(&addresses);
                }
            }
            _ => {}
        }
    }
}

/// Has the kernel look whether neighbours still are who they were.
pub(crate) fn remind(runtime: &Runtime, link: u32, neighbours: &[Ipv4Addr]) {
    neighbours.iter().for_each(|next_hop| keeper::resolve(runtime, link, *next_hop));
}

/// The connection that a TCP packet is of. (Where the IP header has options, none: that is rare, and the kernel's to
/// judge.)
fn connection(packet: &[u8]) -> Option<xdp::Flow> {
    let protocol = libc::IPPROTO_TCP as u8;
    if packet.first() != Some(&0x45) || packet.get(9) != Some(&protocol) {
        return None;
    }
    let address = |at| Some(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
    let port = |at| Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?));
    let local = SocketAddrV4::new(address(16)?, port(22)?);
    let remote = SocketAddrV4::new(address(12)?, port(20)?);
    Some(xdp::Flow { protocol, local, remote: Some(remote) })
}
