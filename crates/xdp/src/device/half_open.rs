//! Connections of which one end died without a word (half-open, RFC 9293, 3.5.1), and how to speak for it.

use core::net::Ipv4Addr;
use std::sync::Arc;

use sys::Result;

use super::shared::Shared;
use crate::Flow;

/// Connections of a process that was killed, whose peers do not know. They are the kernel's, which has none of them.
pub struct HalfOpen {
    connections: Vec<Flow>,
    shared: Arc<Shared>,
}

impl HalfOpen {
    pub(super) fn new(connections: Vec<Flow>, shared: &Arc<Shared>) -> Option<HalfOpen> {
        (!connections.is_empty()).then(|| HalfOpen { connections, shared: shared.clone() })
    }

    /// Each once, with both sides.
    pub fn connections(&self) -> &[Flow] {
        &self.connections
    }

    /// Sends an IP packet by way of the kernel's routes. EPERM: nobody of the family had the privilege.
    pub fn send(&self, packet: &[u8], to: Ipv4Addr) -> Result<()> {
        let raw = self.shared.raw.get().and_then(Option::as_ref).ok_or(libc::EPERM)?;
        let address = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: 0,
            sin_addr: libc::in_addr { s_addr: to.to_bits().to_be() },
            sin_zero: [0; 8],
        };
        sys::socket::send_to(raw.raw(), packet, libc::MSG_DONTWAIT, &address).map(drop)
    }
}
