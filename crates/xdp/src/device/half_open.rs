//! Connections of which one end died without a word (half-open, RFC 9293, 3.5.1), and how to speak for it.

use core::net::Ipv4Addr;
use std::sync::Arc;

use sys::{Fd, Result};

use super::shared::Shared;
use crate::Flow;

/// Connections of a process that was killed, whose peers do not know. They are the kernel's, which has none of them.
pub struct HalfOpen {
    connections: Vec<Flow>,
    by_kernel: Result<ByKernel>,
}

impl HalfOpen {
    pub(super) fn new(connections: Vec<Flow>, shared: &Arc<Shared>) -> Option<HalfOpen> {
        (!connections.is_empty()).then(|| HalfOpen { connections, by_kernel: ByKernel::open(shared) })
    }

    /// The killed process's connections, each listed once, by the four-tuple.
    pub fn connections(&self) -> &[Flow] {
        &self.connections
    }

    /// Sends an IP packet by way of the kernel's routes. EPERM: this process has not got the privilege (any more).
    pub fn send(&self, packet: &[u8], to: Ipv4Addr) -> Result<()> {
        self.by_kernel.as_ref().map_err(|errno| *errno)?.send(packet, to)
    }
}

/// What sends IP packets by way of the kernel's routes, from whatever address they name; those to one of this host's
/// own the kernel receives. Opened when it is needed and not kept: a child that gave up its privileges must not find
/// it.
pub struct ByKernel(Fd);

impl ByKernel {
    /// EXDEV: the calling thread is in another network namespace than the interface.
    pub(super) fn open(shared: &Shared) -> Result<ByKernel> {
        let raw = sys::socket::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW)?;
        let here = sys::socket::network_namespace(raw.raw())?;
        if here != shared.arena.network_namespace()? {
            return Err(libc::EXDEV);
        }
        Ok(ByKernel(raw))
    }

    /// Sends one, without waiting.
    pub fn send(&self, packet: &[u8], to: Ipv4Addr) -> Result<()> {
        let address = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: 0,
            sin_addr: libc::in_addr { s_addr: to.to_bits().to_be() },
            sin_zero: [0; 8],
        };
        sys::socket::send_to(self.0.raw(), packet, libc::MSG_DONTWAIT, &address).map(drop)
    }
}
