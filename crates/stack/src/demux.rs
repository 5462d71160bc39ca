//! Which socket a packet belongs to.
//!
//! Peers choose their addresses and ports, so the table of flows hashes with a key of this stack. The tables of local
//! endpoints hold only what this host opened.

use crate::udp::Sources;
use crate::{Endpoint, SocketId};
use ahash::RandomState;
use core::net::Ipv4Addr;
use std::collections::HashMap;

/// The tables of one stack.
pub(crate) struct Demux {
    pub(crate) tcp: Table,
    pub(crate) udp: Table,
    groups: HashMap<Ipv4Addr, Vec<Member>, RandomState>,
}

/// A socket in a multicast group.
pub(crate) struct Member {
    pub(crate) id: SocketId,
    pub(crate) sources: Sources,
}

impl Demux {
    pub(crate) fn new(hasher: RandomState) -> Self {
        Demux {
            tcp: Table::new(hasher.clone()),
            udp: Table::new(hasher.clone()),
            groups: HashMap::with_hasher(hasher),
        }
    }

    /// Entries of all tables.
    pub(crate) fn len(&self) -> usize {
        let table = |table: &Table| table.flows.len() + table.bound.len();
        table(&self.tcp) + table(&self.udp) + self.groups.len()
    }

    /// A member has other sources from now on.
    pub(crate) fn join(&mut self, id: SocketId, group: Ipv4Addr, sources: Sources) {
        let members = self.groups.entry(group).or_default();
        match members.iter_mut().find(|member| member.id == id) {
            Some(member) => member.sources = sources,
            None => members.push(Member { id, sources }),
        }
    }

    pub(crate) fn leave(&mut self, id: SocketId, group: Ipv4Addr) {
        if let Some(members) = self.groups.get_mut(&group) {
            members.retain(|member| member.id != id);
            if members.is_empty() {
                self.groups.remove(&group);
            }
        }
    }

    /// The members of a group.
    pub(crate) fn members(&self, group: Ipv4Addr) -> &[Member] {
        self.groups.get(&group).map_or(&[], Vec::as_slice)
    }
}

/// Flows and local endpoints of one protocol.
pub(crate) struct Table {
    flows: HashMap<FlowKey, SocketId, RandomState>,
    /// Flows that an older socket lost to a newer one.
    pub(crate) displaced: usize,
    bound: HashMap<Endpoint, Vec<SocketId>, RandomState>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct FlowKey {
    addresses: u64,
    ports: u32,
}

impl FlowKey {
    #[inline]
    fn new(local: Endpoint, remote: Endpoint) -> FlowKey {
        FlowKey {
            addresses: u64::from(local.ip().to_bits()) << 32 | u64::from(remote.ip().to_bits()),
            ports: u32::from(local.port()) << 16 | u32::from(remote.port()),
        }
    }
}

impl Table {
    fn new(hasher: RandomState) -> Self {
        Table {
            flows: HashMap::with_hasher(hasher.clone()),
            displaced: 0,
            bound: HashMap::with_hasher(hasher),
        }
    }

    /// The socket of a flow.
    #[inline]
    pub(crate) fn flow(&self, local: Endpoint, remote: Endpoint) -> Option<SocketId> {
        self.flows.get(&FlowKey::new(local, remote)).copied()
    }

    /// Gives a flow to a socket; returns the socket that had it, which no longer has.
    pub(crate) fn insert_flow(
        &mut self,
        local: Endpoint,
        remote: Endpoint,
        id: SocketId,
    ) -> Option<SocketId> {
        let former = self.flows.insert(FlowKey::new(local, remote), id);
        self.displaced += usize::from(former.is_some());
        former
    }

    /// Takes a flow from a socket; `false`: another has it, nothing happened.
    pub(crate) fn remove_flow(&mut self, local: Endpoint, remote: Endpoint, id: SocketId) -> bool {
        let key = FlowKey::new(local, remote);
        let has = self.flows.get(&key) == Some(&id);
        if has {
            self.flows.remove(&key);
        }
        has
    }

    /// Adds a socket to a local endpoint, whose address may be unspecified.
    pub(crate) fn bind(&mut self, local: Endpoint, id: SocketId) {
        self.bound.entry(local).or_default().push(id);
    }

    /// Removes a socket from a local endpoint.
    pub(crate) fn unbind(&mut self, local: Endpoint, id: SocketId) {
        if let Some(ids) = self.bound.get_mut(&local) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.bound.remove(&local);
            }
        }
    }

    /// The sockets at exactly this local endpoint, oldest first.
    #[inline]
    pub(crate) fn at(&self, local: Endpoint) -> &[SocketId] {
        self.bound.get(&local).map_or(&[], Vec::as_slice)
    }

    /// The sockets at the most specific endpoint that packets to `local` match: its address, else every address.
    #[inline]
    pub(crate) fn best(&self, local: Endpoint) -> &[SocketId] {
        match self.at(local) {
            [] => self.at(Endpoint::new(Ipv4Addr::UNSPECIFIED, local.port())),
            ids => ids,
        }
    }
}
