//! A socket's part in multicast: what it has joined, and its way out to groups; `udp_legs/multicast.rs` acts by it.

use super::Empty;
use core::net::Ipv4Addr;
use stack::udp::Sources;

/// What a socket has joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    pub group: Ipv4Addr,
    pub link: u32,
    pub sources: Sources,
    /// The engine has it.
    pub steered: bool,
}

/// A socket's part in multicast; under its `control`.
#[derive(Default)]
pub(crate) struct Multicast {
    pub groups: Vec<Membership>,
    /// IP_MULTICAST_IF; 0: by the route.
    pub link: u32,
    /// The source address that IP_MULTICAST_IF chose.
    pub source: Option<Ipv4Addr>,
    /// IP_MULTICAST_LOOP is off.
    pub silent: bool,
}

impl Empty for Multicast {
    const EMPTY: &'static Self = &Multicast { groups: Vec::new(), link: 0, source: None, silent: false };
}

impl Multicast {
    pub(crate) fn has_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    pub(crate) fn has_joined(&self, group: Ipv4Addr) -> bool {
        self.groups.iter().any(|one| one.group == group)
    }

    /// The legs are gone, and with them what they had joined.
    pub(crate) fn unplugged(&mut self) {
        self.groups.iter_mut().for_each(|one| one.steered = false);
    }
}
