//! Forged packets with right checksums: what is wrong with them is meant.

use std::net::Ipv4Addr;
use wire::checksum::Sum;
use wire::ipv4;

/// A TCP segment; any value of any field is allowed.
#[derive(Clone, Default)]
pub(crate) struct Forged {
    pub(crate) src: u16,
    pub(crate) dst: u16,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    /// Cut at 40 bytes and padded.
    pub(crate) options: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

impl Forged {
    /// Sequence numbers that it occupies.
    pub(crate) fn span(&self) -> u32 {
        use sim::packet::{FIN, SYN};
        let flag = |flag: u8| u32::from(self.flags & flag != 0);
        self.payload.len() as u32 + flag(SYN) + flag(FIN)
    }

    pub(crate) fn frame(&self, from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
        let mut options = self.options.clone();
        options.truncate(40);
        options.resize(options.len().next_multiple_of(4), 0);
        let mut bytes = Vec::with_capacity(20 + options.len() + self.payload.len());
        bytes.extend(self.src.to_be_bytes());
        bytes.extend(self.dst.to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        bytes.extend([((20 + options.len()) / 4 << 4) as u8, self.flags]);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(self.urgent.to_be_bytes());
        bytes.extend(options);
        bytes.extend(&self.payload);
        let sum = Sum::pseudo(from, to, ipv4::TCP, bytes.len()).bytes(&bytes).finish();
        bytes[16..18].copy_from_slice(&sum.to_be_bytes());
        stack::testing::ip_frame(from, to, ipv4::TCP, &bytes)
    }
}

/// An ICMP message from `from` that quotes `quoted`, an IP packet or what passes for one.
pub(crate) fn icmp(from: Ipv4Addr, to: Ipv4Addr, head: [u8; 2], rest: [u8; 4], quoted: &[u8]) -> Vec<u8> {
    let mut bytes = vec![head[0], head[1], 0, 0];
    bytes.extend(rest);
    bytes.extend(quoted);
    let sum = Sum::ZERO.bytes(&bytes).finish();
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    stack::testing::ip_frame(from, to, ipv4::ICMP, &bytes)
}
