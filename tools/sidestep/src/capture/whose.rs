//! Whose packet is it: the socket of a program, by the addresses that its statistics tell.

use capture::Direction;
use stats::report::fd;
use stats::segment::address_of;
use stats::{Snapshot, Socket, flag};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};
use vma_stats::programs::Program;

/// The statistics are read again for packets of nobody's, this often at the most.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The ends of a packet, seen from the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    is_tcp: bool,
    local: SocketAddrV4,
    remote: SocketAddrV4,
}

impl Ends {
    /// `None`: not TCP or UDP over IPv4, or a later fragment.
    pub(super) fn of(bytes: &[u8], direction: Direction) -> Option<Ends> {
        let ip = bytes.get(14..).filter(|_| bytes[12..14] == [8, 0])?;
        let length = usize::from(ip.first()? & 15) * 4;
        let is_first = u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]) & 0x1fff == 0;
        let is_tcp = match ip.get(9)? {
            6 => true,
            17 => false,
            _ => return None,
        };
        let ports = ip.get(length..length + 4).filter(|_| is_first && length >= 20)?;
        let end = |address: usize, port: usize| {
            let address = Ipv4Addr::new(ip[address], ip[address + 1], ip[address + 2], ip[address + 3]);
            SocketAddrV4::new(address, u16::from_be_bytes([ports[port], ports[port + 1]]))
        };
        let (source, destination) = (end(12, 0), end(16, 2));
        Some(match direction {
            Direction::In => Ends { is_tcp, local: destination, remote: source },
            Direction::Out => Ends { is_tcp, local: source, remote: destination },
        })
    }
}

/// The sockets of one program, as they were a moment ago.
#[derive(Default)]
pub(super) struct Sockets {
    known: Option<Snapshot>,
    looked: Option<Instant>,
}

impl Sockets {
    /// The socket that a packet belongs to in words, as far as the program has told.
    pub(super) fn socket(&mut self, program: &Program, ends: Ends) -> Option<String> {
        let mut found = self.known.as_ref().and_then(|known| best(&known.sockets, ends));
        // A listener's or an unconnected socket's packet may be another's that is new.
        if !found.is_some_and(|(_, is_exact)| is_exact)
            && self.looked.is_none_or(|at| at.elapsed() >= LOOK_AGAIN)
        {
            self.known = program.look().ok();
            self.looked = Some(Instant::now());
            found = best(&self.known.as_ref()?.sockets, ends);
        }
        let (fd, is_exact) = found?;
        // A connection of which nothing is known but whom it came to.
        Some(if is_exact || !ends.is_tcp { format!("fd {fd}") } else { format!("listener fd {fd}") })
    }
}

/// The socket that is named most exactly, and whether it is by both ends.
fn best(sockets: &[Socket], ends: Ends) -> Option<(i64, bool)> {
    let rank = |socket: &Socket| {
        let is_tcp = socket.flags.value() & flag::TCP != 0;
        let (local, remote) = (address_of(socket.local.value()), address_of(socket.remote.value()));
        let is_local =
            local == ends.local || local.ip().is_unspecified() && local.port() == ends.local.port();
        if is_tcp != ends.is_tcp || !is_local || local.port() == 0 {
            return None;
        }
        let is_connected = socket.remote.value() != 0;
        match is_connected {
            true => (remote == ends.remote).then_some(2),
            false => Some(u8::from(local == ends.local)),
        }
    };
    let ranked = sockets.iter().filter_map(|socket| Some((rank(socket)?, socket)));
    let (rank, socket) = ranked.max_by_key(|(rank, _)| *rank)?;
    Some((fd(socket), rank == 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::segment::address;

    fn packet(protocol: u8, from: SocketAddrV4, to: SocketAddrV4) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        bytes.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
        bytes.extend(from.ip().octets());
        bytes.extend(to.ip().octets());
        bytes.extend(from.port().to_be_bytes());
        bytes.extend(to.port().to_be_bytes());
        bytes
    }

    fn socket(fd: u64, local: &str, remote: Option<&str>) -> Socket {
        let socket = Socket::new();
        socket.fd.set(fd + 1);
        socket.flags.set(flag::TCP);
        socket.local.set(address(local.parse().unwrap()));
        socket.remote.set(remote.map_or(0, |remote| address(remote.parse().unwrap())));
        socket
    }

    #[test]
    fn the_most_exact_socket_has_the_packet() {
        let here: SocketAddrV4 = "10.0.0.1:80".parse().unwrap();
        let there: SocketAddrV4 = "10.0.0.2:999".parse().unwrap();
        let ends = Ends::of(&packet(6, there, here), Direction::In).unwrap();
        assert_eq!(Ends::of(&packet(6, here, there), Direction::Out), Some(ends));
        let sockets = [
            socket(3, "0.0.0.0:80", None),
            socket(4, "10.0.0.1:80", None),
            socket(5, "10.0.0.1:80", Some("10.0.0.2:999")),
            socket(6, "10.0.0.1:80", Some("10.0.0.2:998")),
            socket(7, "10.0.0.1:81", None),
        ];
        assert_eq!(best(&sockets, ends), Some((5, true)));
        assert_eq!(best(&sockets[..2], ends), Some((4, false)));
        assert_eq!(best(&sockets[..1], ends), Some((3, false)));
        assert_eq!(best(&sockets[3..], ends), None);
        let datagram = Ends::of(&packet(17, there, here), Direction::In).unwrap();
        assert_eq!(best(&sockets, datagram), None);
    }

    #[test]
    fn what_has_no_ports_has_no_ends() {
        let here: SocketAddrV4 = "10.0.0.1:80".parse().unwrap();
        let whole = packet(6, here, here);
        for length in 0..whole.len() {
            assert_eq!(Ends::of(&whole[..length], Direction::In), None, "{length}");
        }
        let mut fragment = whole.clone();
        fragment[21] = 1;
        assert_eq!(Ends::of(&fragment, Direction::In), None);
        let mut arp = whole.clone();
        arp[13] = 6;
        assert_eq!(Ends::of(&arp, Direction::In), None);
        assert_eq!(Ends::of(&packet(1, here, here), Direction::In), None);
    }
}
