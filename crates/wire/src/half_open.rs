//! The segment that has the peer of a connection find out that the other end died (half-open, RFC 9293, 3.5.1).
//!
//! Whoever sends it does not know the sequence numbers, and needs not. A first segment that comes in the middle of a
//! connection, as from a host that is back after a crash, is answered with the number that the peer expects (RFC 5961,
//! 4). That answer finds nobody, and is reset by exactly that number: by the kernel, by a lane that listens, or by the
//! keeper, as a firewall may keep it from the kernel.

use crate::checksum::Sum;
use crate::ipv4::{self, Fragment};
use crate::tcp::{self, Flags};
use core::net::SocketAddrV4;

/// The answer to a first segment, not one: the peer may be opening a new connection from the same port just now, and
/// would take the other for a simultaneous one. This it only refuses.
const OPENING: Flags = Flags::SYN.with(Flags::ACK);

/// IPPROTO_TCP.
const TCP: u8 = 6;

/// Bytes of the packet.
pub const PACKET_LEN: usize = ipv4::HEADER_LEN + tcp::HEADER_LEN;

/// An IP packet that opens a connection there is already. Its numbers are none that anybody expects.
pub fn opening(local: SocketAddrV4, remote: SocketAddrV4) -> [u8; PACKET_LEN] {
    packet(local, remote, OPENING, 0)
}

/// What an IP packet answers to an opening, or says where nobody hears it: from whom, to whom, and the packet that
/// resets the connection, with exactly the number that its sender expects.
pub fn reset(heard: &[u8]) -> Option<(SocketAddrV4, SocketAddrV4, [u8; PACKET_LEN])> {
    let ip = ipv4::Header::parse(heard).filter(|ip| ip.protocol() == TCP)?;
    let segment = tcp::Header::parse(heard.get(ip.len()..)?)?;
    let is_answer = segment.flags().has(Flags::ACK) && !segment.flags().any(Flags::SYN | Flags::RST);
    let (remote, local) =
        (SocketAddrV4::new(ip.src(), segment.src()), SocketAddrV4::new(ip.dst(), segment.dst()));
    is_answer.then(|| (local, remote, packet(local, remote, Flags::RST, segment.ack())))
}

fn packet(local: SocketAddrV4, remote: SocketAddrV4, flags: Flags, seq: u32) -> [u8; PACKET_LEN] {
    let (src, dst) = (*local.ip(), *remote.ip());
    let protocol = TCP;
    let fragment = Fragment::DONT;
    let payload_len = tcp::HEADER_LEN;
    let header = ipv4::Fields { src, dst, protocol, tos: 0, ttl: 64, ident: 0, fragment, payload_len };
    let fields = tcp::Fields { src: local.port(), dst: remote.port(), flags, seq, ..tcp::Fields::default() };
    let mut segment = fields.emit();
    let sum = Sum::pseudo(src, dst, protocol, segment.len()).bytes(&segment).finish();
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    let mut packet = [0; PACKET_LEN];
    packet[..ipv4::HEADER_LEN].copy_from_slice(&header.emit());
    packet[ipv4::HEADER_LEN..].copy_from_slice(&segment);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_read_as_it_was_meant() {
        let (local, remote) = ("10.0.0.1:80".parse().unwrap(), "10.0.0.2:4242".parse().unwrap());
        let packet = opening(local, remote);
        let ip = ipv4::Header::parse(&packet).unwrap();
        assert!(ip.checksum_is_valid() && ip.total_len() == PACKET_LEN);
        assert_eq!((ip.src(), ip.dst()), (*local.ip(), *remote.ip()));
        let segment = &packet[ip.len()..];
        let tcp = tcp::Header::parse(segment).unwrap();
        assert_eq!((tcp.src(), tcp.dst(), tcp.flags()), (80, 4242, OPENING));
        assert!(Sum::pseudo(ip.src(), ip.dst(), ip.protocol(), segment.len()).bytes(segment).is_valid());
    }

    #[test]
    fn an_answer_is_reset_by_the_number_that_it_acknowledges_and_nothing_else_is() {
        let (here, peer) = ("10.0.0.1:80".parse().unwrap(), "10.0.0.2:4242".parse().unwrap());
        let answer = |flags| {
            let mut answer = packet(peer, here, flags, 7);
            answer[ipv4::HEADER_LEN + 8..][..4].copy_from_slice(&0xfeed_beefu32.to_be_bytes());
            answer
        };
        let (local, remote, reset) = super::reset(&answer(Flags::ACK)).unwrap();
        assert_eq!((local, remote), (here, peer));
        assert_eq!(reset, packet(here, peer, Flags::RST, 0xfeed_beef));
        assert_eq!(super::reset(&answer(OPENING)), None);
        assert_eq!(super::reset(&answer(Flags::RST | Flags::ACK)), None);
        assert!((0..PACKET_LEN).all(|length| super::reset(&answer(Flags::ACK)[..length]).is_none()));
    }
}
