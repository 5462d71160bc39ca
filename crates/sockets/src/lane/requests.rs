//! What the engine asks of the world, answered from the kernel's tables; and what the kernel tells, passed to the
//! engine. Runs under the lane's lock.

use super::{Inner, Tx};
use core::net::Ipv4Addr;
use netlink::{NeighbourState, RouteKind, RouteQuery, Update};
use stack::{Instant, MacAddr, Path, Request, SocketError};

/// How often the kernel is reminded of a neighbour whose traffic it does not see, so that it notices a change of
/// hardware address: half of its own base reachable time (30 s).
const REMIND_NS: u64 = 15_000_000_000;

/// Neighbours that are kept in mind; beyond, new ones are not refreshed until a slot is free.
const NEIGHBOURS_MAX: usize = 1024;

impl Inner {
    /// Answers one request of the engine.
    pub(crate) fn answer(&mut self, request: Request, now: u64) {
        match request {
            Request::Path(to) => {
                let path = self.path(to);
                self.stack.set_path(Instant(now), to, path, &mut Tx(&mut self.device));
            }
            Request::Neighbour(next_hop) => self.find_neighbour(next_hop, now),
        }
        self.hand_over(Instant(now));
    }

    /// How this interface reaches `to`. A route over another interface does not matter here: the packet that made the
    /// engine ask came in by this one, and the answer leaves by it.
    fn path(&mut self, to: Ipv4Addr) -> Result<Path, SocketError> {
        let query = RouteQuery { link: Some(self.link), ..RouteQuery::default() };
        let route = self.runtime.netlink(|netlink| netlink.route(to, query));
        match route {
            Ok(route)
                if matches!(route.kind, RouteKind::Unicast | RouteKind::Multicast | RouteKind::Broadcast) =>
            {
                let mtu = route.mtu.filter(|mtu| *mtu > 0).unwrap_or(self.device.mtu());
                let next_hop = route.gateway.filter(|_| !to.is_multicast()).unwrap_or(to);
                Ok(Path { next_hop, mtu })
            }
            Ok(_) => Err(SocketError::HostUnreachable),
            Err(libc::EHOSTUNREACH) => Err(SocketError::HostUnreachable),
            Err(_) => Err(SocketError::NetUnreachable),
        }
    }

    fn find_neighbour(&mut self, next_hop: Ipv4Addr, now: u64) {
        let link = self.link;
        let known = self.runtime.netlink(|netlink| netlink.neighbour(link, next_hop)).ok().flatten();
        if let Some((mac, NeighbourState::Usable | NeighbourState::Stale)) = known {
            self.stack.set_neighbour(Instant(now), next_hop, Some(MacAddr(mac)), &mut Tx(&mut self.device));
        } else {
            let _ = self.runtime.netlink(|netlink| netlink.resolve(link, next_hop));
            self.runtime.worker_hurry();
        }
        if self.neighbours.len() < NEIGHBOURS_MAX && !self.neighbours.iter().any(|(ip, _)| *ip == next_hop) {
            self.neighbours.push((next_hop, now));
        }
    }

    /// Looks up anew the neighbours that were asked for: what the kernel told about them may have been missed.
    /// The caller hands over and tells afterwards.
    pub(crate) fn find_neighbours_again(&mut self, now: u64) {
        for i in 0..self.neighbours.len() {
            let (next_hop, _) = self.neighbours[i];
            self.find_neighbour(next_hop, now);
        }
    }

    /// Keeps the kernel's neighbour machinery awake for those we talk to.
    pub(crate) fn remind_neighbours(&mut self, now: u64) {
        let link = self.link;
        for (next_hop, told) in &mut self.neighbours {
            if now.saturating_sub(*told) >= REMIND_NS {
                *told = now;
                let _ = self.runtime.netlink(|netlink| netlink.resolve(link, *next_hop));
            }
        }
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
                if self.neighbours.iter().any(|(ip, _)| ip == address) {
                    if mac.is_none() {
                        self.counts.neighbour_failed.one();
                    }
                    self.stack.set_neighbour(at, *address, mac, &mut Tx(&mut self.device));
                }
            }
            Update::Link(link) if link.index == self.link => self.stack.set_mtu(self.runtime.mtu(link.mtu)),
            Update::Address(address)
                if address.link == self.link && !self.addresses.contains(&address.address) =>
            {
                self.addresses.push(address.address);
                self.stack.set_addresses(&self.addresses);
            }
            Update::AddressGone(address) if address.link == self.link => {
                self.addresses.retain(|known| *known != address.address);
                self.stack.set_addresses(&self.addresses);
            }
            Update::Routes => self.stack.forget_paths(),
            Update::Overrun => {
                self.stack.forget_paths();
                self.find_neighbours_again(now);
            }
            _ => {}
        }
    }
}
