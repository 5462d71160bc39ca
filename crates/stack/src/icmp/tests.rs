//! ICMP errors, genuine and forged.
use super::*;
use crate::testing::{Host, exchange, ip_frame};
use crate::udp::{MtuDiscover, Options};
use crate::{Ready, RecvError, SendError, SocketId};
use core::net::Ipv4Addr;
use core::time::Duration;

const NOW: Instant = Instant(1_000);
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);

fn open(host: &mut Host, connected: bool) -> SocketId {
    let options = Options {
        receive_buffer: 212_992,
        tos: 0,
        ttl: 64,
        multicast_ttl: 1,
        multicast_all: true,
        mtu_discover: MtuDiscover::Want,
        bound_to_interface: false,
    };
    let id = host.stack.udp_open(Endpoint::new(HOST, 5), &options, 0).unwrap();
    if connected {
        host.stack.udp_connect(id, Endpoint::new(HOST, 5), Some(Endpoint::new(PEER, 6)));
    }
    host.stack.udp_send(NOW, id, None, Endpoint::new(PEER, 6), &mut &b"x"[..], &mut host.out).unwrap();
    exchange(NOW, host, &mut Host::new(2));
    id
}

/// An error that quotes a datagram of `len` bytes of IP packet from 5 to `port` of the peer.
fn error(kind: u8, code: u8, mtu: u16, len: usize, port: u16) -> Vec<u8> {
    let quoted = ipv4::Fields {
        src: HOST,
        dst: PEER,
        protocol: ipv4::UDP,
        tos: 0,
        ttl: 1,
        ident: 0,
        fragment: ipv4::Fragment::DONT,
        payload_len: len - 20,
    };
    let udp = wire::udp::Header { src: 5, dst: port, len: len - 20, checksum: 0 };
    let [m0, m1] = mtu.to_be_bytes();
    let mut bytes = [&[kind, code, 0, 0, 0, 0, m0, m1][..], &quoted.emit(), &udp.emit()].concat();
    let sum = Sum::ZERO.bytes(&bytes).finish();
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn receive(host: &mut Host, bytes: &[u8]) {
    host.receive(NOW, ip_frame(ROUTER, HOST, ipv4::ICMP, bytes));
}

#[test]
fn port_unreachable_refuses_a_connected_socket_once() {
    let mut host = Host::new(1);
    let id = open(&mut host, true);
    receive(&mut host, &error(3, 3, 0, 29, 6));
    assert!(host.stack.take_event().unwrap().edges.has(Ready::ERR));
    assert!(host.stack.ready(id).has(Ready::ERR));
    assert_eq!(host.stack.udp_recv(id).err(), Some(RecvError::Failed(SocketError::Refused)));
    assert_eq!(host.stack.udp_recv(id).err(), Some(RecvError::WouldBlock));
}

#[test]
fn port_unreachable_is_no_matter_to_an_unconnected_socket() {
    let mut host = Host::new(1);
    let id = open(&mut host, false);
    receive(&mut host, &error(3, 3, 0, 29, 6));
    assert_eq!(host.stack.take_error(id), None);
}

#[test]
fn soft_errors_and_errors_about_other_flows_are_not_told() {
    let mut host = Host::new(1);
    let id = open(&mut host, true);
    receive(&mut host, &error(3, 1, 0, 29, 6));
    receive(&mut host, &error(11, 0, 0, 29, 6));
    receive(&mut host, &error(3, 5, 0, 29, 6));
    receive(&mut host, &error(3, 16, 0, 29, 6));
    receive(&mut host, &error(4, 0, 0, 29, 6));
    receive(&mut host, &error(3, 3, 0, 29, 7));
    assert_eq!(host.stack.take_error(id), None);
}

#[test]
fn hard_errors_are_told_by_linuxs_table() {
    let cases = [
        (2, SocketError::ProtocolUnreachable),
        (3, SocketError::Refused),
        (6, SocketError::NetUnreachable),
        (7, SocketError::HostDown),
        (8, SocketError::HostIsolated),
        (10, SocketError::HostUnreachable),
        (13, SocketError::HostUnreachable),
    ];
    let mut host = Host::new(1);
    let id = open(&mut host, true);
    for (code, why) in cases {
        receive(&mut host, &error(3, code, 0, 29, 6));
        assert_eq!(host.stack.take_error(id), Some(why), "code {code}");
    }
}

#[test]
fn forged_or_short_inner_headers_are_dropped() {
    let mut host = Host::new(1);
    let id = open(&mut host, true);
    let good = error(3, 3, 0, 29, 6);
    for len in 0..good.len() {
        let mut cut = good[..len].to_vec();
        if len >= 4 {
            cut[2..4].fill(0);
            let sum = Sum::ZERO.bytes(&cut).finish();
            cut[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        receive(&mut host, &cut);
    }
    // A source that is not ours, a later fragment, another version, an inner header that claims to be longer.
    for (at, value) in [(8 + 15, 9), (8 + 7, 1), (8, 0x65), (8, 0x4f), (8 + 9, 47)] {
        let mut forged = good.clone();
        forged[at] = value;
        forged[2..4].fill(0);
        let sum = Sum::ZERO.bytes(&forged).finish();
        forged[2..4].copy_from_slice(&sum.to_be_bytes());
        receive(&mut host, &forged);
    }
    let mut broken = good.clone();
    broken[2] ^= 1;
    receive(&mut host, &broken);
    assert_eq!(host.stack.take_error(id), None);
    receive(&mut host, &good);
    assert_eq!(host.stack.take_error(id), Some(SocketError::Refused));
}

fn send(host: &mut Host, now: Instant, id: SocketId, len: usize) -> Result<usize, SendError> {
    host.out.frames.clear();
    host.stack.udp_send(now, id, None, Endpoint::new(PEER, 6), &mut &vec![0; len][..], &mut host.out)
}

#[test]
fn path_mtu_is_lowered_for_ten_minutes() {
    let mut host = Host::new(1);
    let id = open(&mut host, false);
    receive(&mut host, &error(3, 4, 1400, 1500, 6));
    send(&mut host, NOW, id, 1472).unwrap();
    assert_eq!(host.out.frames.len(), 2);
    assert!(host.out.frames[0].len() <= 1414);
    send(&mut host, NOW, id, 1372).unwrap();
    assert_eq!(host.out.frames.len(), 1);
    send(&mut host, NOW + Duration::from_secs(601), id, 1472).unwrap();
    assert_eq!(host.out.frames.len(), 1);
}

#[test]
fn path_mtu_is_never_raised_nor_believed_below_552() {
    let mut host = Host::new(1);
    let id = open(&mut host, false);
    receive(&mut host, &error(3, 4, 68, 1500, 6));
    receive(&mut host, &error(3, 4, 1400, 1500, 6));
    send(&mut host, NOW, id, 552 - 28).unwrap();
    assert_eq!(host.out.frames.len(), 1);
    send(&mut host, NOW, id, 552 - 27).unwrap();
    assert_eq!(host.out.frames.len(), 2);
}

#[test]
fn what_a_path_of_less_than_552_bytes_is_sent_may_be_cut_on_its_way() {
    let mut host = Host::new(1);
    let id = open(&mut host, false);
    let flags_of = |host: &mut Host, len: usize, discover: MtuDiscover| {
        host.stack.udp_configure(id, |options| options.mtu_discover = discover);
        send(host, NOW, id, len).unwrap();
        let ip = ipv4::Header::parse(&host.out.frames[0][14..]).unwrap();
        (ip.dont_fragment(), ip.ident())
    };
    assert!(flags_of(&mut host, 400, MtuDiscover::Want).0);
    for mtu in [552, 300] {
        receive(&mut host, &error(3, 4, mtu, 1500, 6));
    }
    let (first, second) =
        (flags_of(&mut host, 400, MtuDiscover::Want), flags_of(&mut host, 400, MtuDiscover::Want));
    assert_eq!((first.0, second.0), (false, false));
    assert_ne!(first.1, second.1, "identifications are told apart (RFC 6864, 4.1)");
    // Who says that nothing may be cut is told by an error, or by silence.
    assert!(flags_of(&mut host, 400, MtuDiscover::Do).0);
    assert!(flags_of(&mut host, 400, MtuDiscover::Probe).0);
}

#[test]
fn too_big_about_a_packet_that_would_have_fit_is_ignored() {
    let mut host = Host::new(1);
    let id = open(&mut host, false);
    receive(&mut host, &error(3, 4, 1000, 1000, 6));
    send(&mut host, NOW, id, 1472).unwrap();
    assert_eq!(host.out.frames.len(), 1);
}

#[test]
fn router_that_does_not_tell_its_mtu_makes_the_next_plateau() {
    let mut host = Host::new(1);
    let id = open(&mut host, false);
    receive(&mut host, &error(3, 4, 0, 1500, 6));
    send(&mut host, NOW, id, 1492 - 28).unwrap();
    assert_eq!(host.out.frames.len(), 1);
    send(&mut host, NOW, id, 1492 - 27).unwrap();
    assert_eq!(host.out.frames.len(), 2);
}

#[test]
fn too_big_is_told_to_a_connected_socket_that_discovers() {
    let mut host = Host::new(1);
    let id = open(&mut host, true);
    host.stack.udp_configure(id, |options| options.mtu_discover = MtuDiscover::Do);
    receive(&mut host, &error(3, 4, 1400, 1500, 6));
    assert_eq!(host.stack.take_error(id), Some(SocketError::MessageTooBig));
    assert_eq!(send(&mut host, NOW, id, 1472), Err(SendError::Failed(SocketError::MessageTooBig)));
    assert_eq!(send(&mut host, NOW, id, 1372), Ok(1372));
}
