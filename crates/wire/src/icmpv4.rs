//! ICMP messages (RFC 792), as far as a host's transport needs them: errors that quote our packets, and echo.

use crate::be16;
use crate::ipv4;

/// Bytes of a header.
pub const HEADER_LEN: usize = 8;
/// Type of Destination Unreachable.
pub const UNREACHABLE: u8 = 3;
/// Type of Time Exceeded.
pub const TIME_EXCEEDED: u8 = 11;
/// Type of Parameter Problem.
pub const PARAMETER_PROBLEM: u8 = 12;

/// A message whose header is in memory.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    fixed: &'a [u8; HEADER_LEN],
    body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads a message; `None`: too short. The checksum is not looked at.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Option<Message<'a>> {
        let (fixed, body) = bytes.split_first_chunk::<HEADER_LEN>()?;
        Some(Message { fixed, body })
    }
    /// Type.
    #[inline]
    pub fn kind(&self) -> u8 {
        self.fixed[0]
    }
    /// Code.
    #[inline]
    pub fn code(&self) -> u8 {
        self.fixed[1]
    }
    /// MTU of the next hop, in Fragmentation Needed (RFC 1191); 0: an old router does not tell.
    #[inline]
    pub fn next_hop_mtu(&self) -> u16 {
        be16(self.fixed, 6)
    }
    /// What follows the header.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        self.body
    }
    /// The packet that an error quotes: its IP header and at least 8 bytes behind it (RFC 792); `None`: too short,
    /// malformed, or a later fragment, whose first bytes are no transport header.
    #[inline]
    pub fn quoted(&self) -> Option<(ipv4::Header<'a>, &'a [u8])> {
        let header = ipv4::Header::parse(self.body)?;
        let rest = &self.body[header.len()..];
        (rest.len() >= 8 && header.fragment_offset() == 0).then_some((header, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    fn quoting(rest: &[u8], offset: usize) -> ([u8; 64], usize) {
        let ip = ipv4::Fields {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 0, 2),
            protocol: ipv4::UDP,
            tos: 0,
            ttl: 1,
            ident: 0,
            fragment: ipv4::Fragment::part(offset, false),
            payload_len: 500,
        };
        let mut bytes = [0; 64];
        bytes[0] = UNREACHABLE;
        bytes[1] = 4;
        bytes[6..8].copy_from_slice(&1400u16.to_be_bytes());
        bytes[8..28].copy_from_slice(&ip.emit());
        bytes[28..28 + rest.len()].copy_from_slice(rest);
        (bytes, 28 + rest.len())
    }

    #[test]
    fn error_quotes_header_and_ports() {
        let (bytes, len) = quoting(&[0, 1, 0, 2, 0, 0, 0, 0], 0);
        let message = Message::parse(&bytes[..len]).unwrap();
        assert_eq!((message.kind(), message.code(), message.next_hop_mtu()), (UNREACHABLE, 4, 1400));
        let (ip, rest) = message.quoted().unwrap();
        assert_eq!(ip.dst(), Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(rest, [0, 1, 0, 2, 0, 0, 0, 0]);
    }

    #[test]
    fn short_quotes_and_later_fragments_are_refused() {
        let (bytes, len) = quoting(&[0; 7], 0);
        assert!(Message::parse(&bytes[..len]).unwrap().quoted().is_none());
        let (bytes, len) = quoting(&[0; 8], 8);
        assert!(Message::parse(&bytes[..len]).unwrap().quoted().is_none());
        assert!(Message::parse(&bytes[..20]).unwrap().quoted().is_none());
        assert!(Message::parse(&bytes[..7]).is_none());
    }
}
