//! Speaks to the peers of connections whose process was killed, while others of its family live. Nobody else would: what
//! the killed one knew of them died with it, and a peer that only waits would wait for ever.
//!
//! A survivor does not know the sequence numbers, and needs not. A first segment that comes in the middle of a connection,
//! as from a host that is back after a crash (RFC 9293, 3.5.1), is answered with the number that the peer expects
//! (RFC 5961, 4). That answer finds nobody, and is reset by exactly that number: by the kernel, or by a lane that listens.

use core::net::SocketAddrV4;
use wire::checksum::Sum;
use wire::ipv4::{self, Fragment};
use wire::tcp::{self, Flags};

/// The answer to a first segment, not one: the peer may be opening a new connection from the same port just now, and would
/// take the other for a simultaneous one. This it only refuses.
const OPENING: Flags = Flags::SYN.with(Flags::ACK);

/// Connections whose peers are told at a time: to their firewalls a flood of such segments is an attack.
pub(crate) const AT_ONCE: usize = 500;

const PACKET_LEN: usize = ipv4::HEADER_LEN + tcp::HEADER_LEN;

/// Makes the peers find out.
pub(crate) fn tell(half_open: &xdp::HalfOpen) {
    let connections = half_open.connections();
    let mut failure = None;
    for (local, remote) in connections.iter().filter_map(|flow| Some((flow.local, flow.remote?))) {
        failure = half_open.send(&opening(local, remote), *remote.ip()).err().or(failure);
    }
    let count = connections.len();
    match failure {
        None => logger::debug!("a process was killed: the peers of {count} connections are told"),
        Some(errno) => logger::warning!(
            "a process was killed: peers of its {count} connections may learn it only when they send (errno {errno})"
        ),
    }
}

/// An IP packet that opens a connection there is already. Its numbers are none that anybody expects.
fn opening(local: SocketAddrV4, remote: SocketAddrV4) -> [u8; PACKET_LEN] {
    let (src, dst) = (*local.ip(), *remote.ip());
    let protocol = libc::IPPROTO_TCP as u8;
    let fragment = Fragment::DONT;
    let payload_len = tcp::HEADER_LEN;
    let header = ipv4::Fields { src, dst, protocol, tos: 0, ttl: 64, ident: 0, fragment, payload_len };
    let fields =
        tcp::Fields { src: local.port(), dst: remote.port(), flags: OPENING, ..tcp::Fields::default() };
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
}
