//! The neighbour table: next hops, their hardware addresses, and which ways wait for them. It is the only list of them:
//! the owner asks it whose changes are of interest, and whom it should keep the kernel interested in.

use super::paths::{ASK_AGAIN, FAILURE_LASTS};
use super::{Net, Sent};
use crate::{Instant, MacAddr, Query, Request, SocketError};
use core::net::Ipv4Addr;
use wire::ethernet;

/// One next hop.
pub(super) struct Neighbour {
    pub(super) state: NeighbourState,
    /// Destinations behind it that wait.
    waiting: Vec<Query>,
}

pub(super) enum NeighbourState {
    Asked(Instant),
    Known([u8; ethernet::HEADER_LEN]),
    Failed(Instant),
}

impl Net {
    /// The Ethernet header to a next hop, for the path at `at`; else asks for it.
    pub(super) fn neighbour(
        &mut self,
        now: Instant,
        next_hop: Ipv4Addr,
        at: u32,
        query: Query,
    ) -> Result<[u8; ethernet::HEADER_LEN], Sent> {
        let found = match self.neighbours.find(next_hop, self.paths.at(at).hint) {
            Some(found) => found,
            None => {
                let state = match known_mac(next_hop) {
                    Some(mac) => NeighbourState::Known(ethernet::Header::ipv4(mac, self.mac)),
                    None => {
                        self.requests.push_back(Request::Neighbour(next_hop));
                        NeighbourState::Asked(now)
                    }
                };
                self.insert_neighbour(next_hop, state)
                    .ok_or(Sent::Unreachable(SocketError::HostUnreachable))?
            }
        };
        let neighbour = self.neighbours.at(found);
        match neighbour.state {
            NeighbourState::Known(ether) => return Ok(ether),
            NeighbourState::Failed(until) if now < until => {
                return Err(Sent::Unreachable(SocketError::HostUnreachable));
            }
            NeighbourState::Asked(since) if now < since + ASK_AGAIN => {}
            NeighbourState::Failed(_) | NeighbourState::Asked(_) => {
                neighbour.state = NeighbourState::Asked(now);
                self.requests.push_back(Request::Neighbour(next_hop));
            }
        }
        if !core::mem::replace(&mut self.paths.at(at).listed, true) {
            self.neighbours.at(found).waiting.push(query);
        }
        Err(Sent::Waiting)
    }

    /// Takes in the hardware address of a next hop; returns the ways that waited for it.
    pub(crate) fn answer_neighbour(
        &mut self,
        now: Instant,
        next_hop: Ipv4Addr,
        mac: Option<MacAddr>,
    ) -> Vec<Query> {
        let mut state = match mac {
            Some(mac) => NeighbourState::Known(ethernet::Header::ipv4(mac, self.mac)),
            None => NeighbourState::Failed(now + FAILURE_LASTS),
        };
        let Some(at) = self.neighbours.find(next_hop, u32::MAX) else {
            self.insert_neighbour(next_hop, state);
            return Vec::new();
        };
        let neighbour = self.neighbours.at(at);
        if mac.is_none() && matches!(neighbour.state, NeighbourState::Known(_)) {
            // Not an answer, but knowledge lost: the next packet asks anew before anybody is told of a failure.
            state = NeighbourState::Failed(now);
        }
        neighbour.state = state;
        let waiting = core::mem::take(&mut neighbour.waiting);
        for query in &waiting {
            if let Some(at) = self.paths.find(*query, u32::MAX) {
                self.paths.at(at).listed = false;
            }
        }
        waiting
    }

    /// Whether the table has this next hop: what changes of others is of no interest.
    pub(crate) fn has_neighbour(&self, next_hop: Ipv4Addr) -> bool {
        self.neighbours.has(next_hop)
    }

    /// Neighbours that packets left to since the last call.
    pub(crate) fn take_used_neighbours(&mut self) -> Vec<Ipv4Addr> {
        let entries = self.neighbours.iter_used();
        let used = entries.filter_map(|(next_hop, neighbour, used)| {
            let is_known = matches!(neighbour.state, NeighbourState::Known(_));
            (core::mem::take(used) && is_known && known_mac(next_hop).is_none()).then_some(next_hop)
        });
        used.collect()
    }

    /// Changes may have been missed: the neighbours to be looked up anew. Those that are not in use are asked for by
    /// the next packet to them.
    pub(crate) fn doubt_neighbours(&mut self, now: Instant) -> Vec<Ipv4Addr> {
        let mut doubtful = Vec::new();
        for (next_hop, neighbour, used) in self.neighbours.iter_used() {
            match neighbour.state {
                NeighbourState::Known(_) if known_mac(next_hop).is_some() => {}
                NeighbourState::Known(_) if !*used => neighbour.state = NeighbourState::Failed(now),
                NeighbourState::Known(_) | NeighbourState::Asked(_) => doubtful.push(next_hop),
                NeighbourState::Failed(_) => {}
            }
        }
        doubtful
    }

    /// The interface has another hardware address: packets to known neighbours leave with it from now on.
    pub(crate) fn set_mac(&mut self, mac: MacAddr) {
        self.mac = mac;
        for (_, neighbour) in self.neighbours.iter_mut() {
            if let NeighbourState::Known(ether) = &mut neighbour.state {
                *ether = ethernet::Header::ipv4(ethernet::destination(ether), mac);
            }
        }
    }

    fn insert_neighbour(&mut self, next_hop: Ipv4Addr, state: NeighbourState) -> Option<u32> {
        let entry = Neighbour { state, waiting: Vec::new() };
        self.neighbours.insert(next_hop, entry, |neighbour| !neighbour.waiting.is_empty())
    }
}

/// Groups have their hardware address by rule, not by ARP.
fn known_mac(next_hop: Ipv4Addr) -> Option<MacAddr> {
    if next_hop.is_multicast() {
        Some(MacAddr::of_multicast(next_hop))
    } else if next_hop.is_broadcast() {
        Some(MacAddr::BROADCAST)
    } else {
        None
    }
}
