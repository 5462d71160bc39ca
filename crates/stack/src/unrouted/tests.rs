//! First segments and datagrams whose senders are reachable by this interface, by another one, or not at all.
use super::*;
use crate::testing::{Host, ip_frame, udp_frame};
use crate::{Endpoint, Path, Request, SocketError, udp};
use wire::tcp::{Fields, Flags};

const NOW: Instant = Instant(1_000_000_000);

fn endpoint(n: u8, port: u16) -> Endpoint {
    Endpoint::new([10, 0, 0, n].into(), port)
}

fn here() -> Path {
    Path { next_hop: [10, 0, 0, 1].into(), mtu: 1500, elsewhere: false }
}

fn elsewhere() -> Path {
    Path { elsewhere: true, ..here() }
}

/// A first segment from 10.0.0.1, whose checksum is left to hardware that is not there.
fn syn(port: u16) -> Vec<u8> {
    let fields = Fields { src: port, dst: 80, flags: Flags::SYN, ..Fields::default() };
    let mut segment = fields.emit();
    let sum = Sum::pseudo([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), ipv4::TCP, segment.len());
    segment[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum.partial().to_be_bytes());
    ip_frame([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), ipv4::TCP, &segment)
}

/// A listener at 10.0.0.2, a first segment for it, and the question that it raises.
fn asked(rule: ReversePath) -> (Host, Query) {
    let mut host = Host::with(2, |config| config.accept_partial_checksum = true);
    host.stack.set_reverse_path(rule);
    host.stack.tcp_listen(endpoint(2, 80), 4, &Default::default(), 0).unwrap();
    host.receive(NOW, syn(5000));
    assert!(host.out.frames.is_empty());
    let Some(Request::Path(query)) = host.stack.take_request() else { panic!("routing is asked") };
    assert_eq!((query.from, query.to), (*endpoint(2, 0).ip(), *endpoint(1, 0).ip()));
    (host, query)
}

#[test]
fn a_first_segment_is_answered_when_routing_has_answered() {
    let (mut host, query) = asked(ReversePath::Strict);
    host.stack.set_path(NOW, query, Ok(here()), &mut host.out);
    host.answer(NOW);
    assert_eq!(host.out.frames.len(), 1);
    assert!(host.stack.take_for_kernel().is_none());
}

#[test]
fn a_first_segment_whose_answer_leaves_elsewhere_goes_to_the_kernel_whole_and_with_a_valid_checksum() {
    for rule in [ReversePath::Off, ReversePath::Loose] {
        let (mut host, query) = asked(rule);
        for _ in 0..2 {
            host.stack.set_path(NOW, query, Ok(elsewhere()), &mut host.out);
            let packet = host.stack.take_for_kernel().unwrap();
            let header = ipv4::Header::parse(&packet).unwrap();
            assert_eq!(
                (header.src(), header.dst(), header.total_len()),
                (query.to, query.from, packet.len())
            );
            let segment = &packet[ipv4::HEADER_LEN..];
            let sum = Sum::pseudo(query.to, query.from, ipv4::TCP, segment.len());
            assert!(header.checksum_is_valid() && sum.bytes(segment).is_valid());
            assert!(host.out.frames.is_empty() && host.stack.take_request().is_none());
            // The next one is known to be the kernel's.
            host.receive(NOW, syn(5001));
        }
    }
}

#[test]
fn a_first_segment_from_elsewhere_is_a_martian_where_the_interface_is_strict() {
    let (mut host, query) = asked(ReversePath::Strict);
    host.stack.set_path(NOW, query, Ok(elsewhere()), &mut host.out);
    assert!(host.stack.take_for_kernel().is_none() && host.out.frames.is_empty());
    assert_eq!(host.stack.dropped().martian, 1);
}

fn udp_options() -> udp::Options {
    udp::Options {
        receive_buffer: 1 << 20,
        tos: 0,
        ttl: 64,
        multicast_ttl: 1,
        multicast_all: true,
        mtu_discover: udp::MtuDiscover::Want,
        bound_to_interface: false,
    }
}

#[test]
fn datagrams_wait_for_routing_and_are_heard_or_not_by_the_interfaces_rule() {
    use ReversePath::{Loose, Off, Strict};
    let nowhere = Err(SocketError::NetUnreachable);
    for (rule, path, is_heard) in [
        (Strict, Ok(here()), true),
        (Strict, Ok(elsewhere()), false),
        (Strict, nowhere, false),
        (Loose, Ok(elsewhere()), true),
        (Loose, nowhere, false),
        (Off, nowhere, true),
    ] {
        let mut host = Host::new(2);
        host.stack.set_reverse_path(rule);
        let options = udp_options();
        let id = host.stack.udp_open(endpoint(2, 5), &options, 0).unwrap();
        host.receive(NOW, udp_frame(endpoint(1, 1), endpoint(2, 5), b"first"));
        if rule != Off {
            assert!(host.stack.udp_recv(id).is_err());
            let Some(Request::Path(query)) = host.stack.take_request() else { panic!("routing is asked") };
            host.stack.set_path(NOW, query, path, &mut host.out);
        }
        assert_eq!(host.stack.udp_recv(id).is_ok(), is_heard, "{rule:?} {path:?}");
        assert_eq!(host.stack.dropped().martian, u64::from(!is_heard));
    }
}

#[test]
fn what_waits_is_bounded() {
    let mut host = Host::new(2);
    host.stack.set_reverse_path(ReversePath::Strict);
    for n in 0..2 * WAITING_MAX {
        let from = Endpoint::new([10, 1, (n >> 8) as u8, n as u8].into(), 1);
        host.receive(NOW, udp_frame(from, endpoint(2, 5), b"x"));
    }
    assert_eq!(host.stack.unrouted.waiting.len(), WAITING_MAX);
}
