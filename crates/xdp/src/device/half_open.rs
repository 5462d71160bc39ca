//! Connections of which one end died without a word (half-open, RFC 9293, 3.5.1), and how to speak for it.

use core::net::Ipv4Addr;
use std::collections::VecDeque;
use std::sync::Arc;

use sys::{Fd, Result};

use super::shared::Shared;
use crate::Flow;

/// After how long each is told again, and again: a segment may be lost, and Linux answers what is out of place on one
/// connection once in 500 ms (tcp_invalid_ratelimit), before 5.19 on all of a host a thousand times a second. Whoever
/// was told knows no such connection any more, and says so to the kernel, which has none either.
const AGAIN_NS: [u64; 2] = [600_000_000, 2_400_000_000];

/// Connections whose peers are to be told.
#[derive(Default)]
pub(super) struct Untold {
    first: Vec<Flow>,
    /// When the next time comes, how often they were told, and which.
    again: VecDeque<(u64, usize, Vec<Flow>)>,
}

impl Untold {
    pub(super) fn extend(&mut self, killed: impl IntoIterator<Item = Flow>) {
        self.first.extend(killed);
    }

    /// So many, at the most, of those whose time has come.
    pub(super) fn take(&mut self, most: usize, now: u64, shared: &Arc<Shared>) -> Option<HalfOpen> {
        // What is steered again is another connection between the same ports.
        let (times, connections) = self.due(most, now, |flow| shared.steering.counters(flow).is_none())?;
        Some(HalfOpen { connections, is_first: times == 0, by_kernel: ByKernel::open(shared) })
    }

    /// How often they were told, and which.
    fn due(
        &mut self,
        most: usize,
        now: u64,
        is_nobodys: impl Fn(&Flow) -> bool,
    ) -> Option<(usize, Vec<Flow>)> {
        let (times, mut flows) = if self.first.is_empty() {
            let at = self.again.iter().position(|(due, ..)| *due <= now)?;
            let (_, times, flows) = self.again.remove(at)?;
            (times, flows)
        } else {
            let rest = self.first.len().saturating_sub(most);
            (0, self.first.split_off(rest))
        };
        if times > 0 {
            flows.retain(is_nobodys);
        }
        if let Some(wait) = AGAIN_NS.get(times) {
            self.again.push_back((now + wait, times + 1, flows.clone()));
        }
        Some((times, flows))
    }
}

/// Connections of a process that was killed, whose peers do not know. They are the kernel's, which has none of them.
pub struct HalfOpen {
    connections: Vec<Flow>,
    is_first: bool,
    by_kernel: Result<ByKernel>,
}

impl HalfOpen {
    /// Nobody told them before.
    pub fn is_first(&self) -> bool {
        self.is_first
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
        sys::socket::send_to(self.0.raw(), packet, libc::MSG_DONTWAIT, &name(to)).map(drop)
    }

    /// Sends one that `from` sent to a group, to its members on this host alone, if its TTL is 0: those that have
    /// joined it on this interface.
    pub fn send_to_members(
        &self,
        packet: &[u8],
        from: Ipv4Addr,
        group: Ipv4Addr,
        interface: u32,
    ) -> Result<()> {
        let (group, from) = (name(group), address(from));
        sys::socket::send_to_group(self.0.raw(), packet, libc::MSG_DONTWAIT, &group, interface, from)
            .map(drop)
    }
}

fn name(of: Ipv4Addr) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: 0,
        sin_addr: address(of),
        sin_zero: [0; 8],
    }
}

fn address(of: Ipv4Addr) -> libc::in_addr {
    libc::in_addr { s_addr: of.to_bits().to_be() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_three_times_as_long_as_nobody_has_it_again() {
        let flow = |port: u16| Flow {
            protocol: 6,
            local: "10.0.0.1:80".parse().unwrap(),
            remote: Some(core::net::SocketAddrV4::new([10, 0, 0, 2].into(), port)),
        };
        let mut untold = Untold::default();
        untold.extend((0..5).map(flow));
        let mut told = |now, gone: u16| {
            let mut all = Vec::new();
            while let Some((times, flows)) = untold.due(2, now, |other| *other != flow(gone)) {
                assert!(flows.len() <= 2);
                all.extend(flows.into_iter().map(|flow| (flow.remote.unwrap().port(), times)));
            }
            all.sort_unstable();
            all
        };
        let of = |ports: &[u16], times| ports.iter().map(|port| (*port, times)).collect::<Vec<_>>();
        assert_eq!(told(7, 9), of(&[0, 1, 2, 3, 4], 0));
        assert_eq!(told(7 + AGAIN_NS[0] - 1, 9), []);
        assert_eq!(told(7 + AGAIN_NS[0], 3), of(&[0, 1, 2, 4], 1));
        assert_eq!(told(u64::MAX / 2, 9), of(&[0, 1, 2, 4], 2));
        assert_eq!(told(u64::MAX, 9), [], "three times are enough");
    }
}
