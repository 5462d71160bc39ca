//! Paths, neighbours and what waits for them.
use super::*;
use crate::testing::VecOutlet;
use crate::{Duration, Path};

const NOW: Instant = Instant(1_000);

fn address(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, n)
}

fn net() -> Net {
    let config = crate::testing::config(MacAddr([2, 0, 0, 0, 0, 1]));
    let mut net = Net::new(&config, &RandomState::with_seeds(1, 2, 3, 4));
    net.set_addresses(&[address(1), Ipv4Addr::new(192, 168, 0, 1)], &[Ipv4Addr::new(172, 16, 0, 1)]);
    net
}

fn way(n: u8) -> Query {
    Query::new(address(1), address(n))
}

fn id(index: u32) -> SocketId {
    SocketId { index, generation: 1 }
}

fn ip(dont_fragment: bool) -> Ip {
    Ip { src: address(1), protocol: ipv4::TCP, tos: 0, ttl: 64, dont_fragment }
}

fn send(
    net: &mut Net,
    now: Instant,
    socket: u32,
    route: &mut Route,
    len: usize,
    out: &mut VecOutlet,
) -> Sent {
    net.send(now, id(socket), route, &ip(true), len, out, |bytes| bytes.fill(7))
}

fn known(net: &mut Net, to: Ipv4Addr, hop: Ipv4Addr) {
    net.answer_path(NOW, Query::new(address(1), to), Ok(Path { next_hop: hop, mtu: 1500, elsewhere: false }));
    net.answer_neighbour(NOW, hop, Some(MacAddr([2, 0, 0, 0, 0, 9])));
}

#[test]
fn questions_are_asked_once_and_again_after_a_while() {
    let (mut net, mut out, mut route) = (net(), VecOutlet::default(), Route::new(way(5)));
    for _ in 0..3 {
        assert_eq!(send(&mut net, NOW, 0, &mut route, 20, &mut out), Sent::Waiting);
    }
    assert_eq!(net.requests.drain(..).collect::<Vec<_>>(), [Request::Path(way(5))]);
    net.answer_path(NOW, way(5), Ok(Path { next_hop: address(9), mtu: 1500, elsewhere: false }));
    for _ in 0..3 {
        assert_eq!(send(&mut net, NOW, 0, &mut route, 20, &mut out), Sent::Waiting);
    }
    assert_eq!(net.requests.drain(..).collect::<Vec<_>>(), [Request::Neighbour(address(9))]);
    let later = NOW + Duration::from_secs(5);
    assert_eq!(send(&mut net, later, 0, &mut route, 20, &mut out), Sent::Waiting);
    assert_eq!(net.requests.drain(..).collect::<Vec<_>>(), [Request::Neighbour(address(9))]);
    assert!(out.frames.is_empty());
}

#[test]
fn sockets_that_wait_are_released_once_when_the_neighbour_answers() {
    let (mut net, mut out) = (net(), VecOutlet::default());
    let mut routes = [Route::new(way(5)), Route::new(way(6))];
    for socket in [0, 1, 0, 1] {
        send(&mut net, NOW, socket, &mut routes[socket as usize], 20, &mut out);
    }
    for to in [way(5), way(6)] {
        net.answer_path(NOW, to, Ok(Path { next_hop: address(9), mtu: 1500, elsewhere: false }));
        assert!(net.release(NOW, to, &mut out).waiters.is_empty());
    }
    let waiting = net.answer_neighbour(NOW, address(9), Some(MacAddr([2; 6])));
    assert_eq!(waiting, [way(5), way(6)]);
    assert_eq!(net.release(NOW, way(5), &mut out).waiters, [id(0)]);
    assert_eq!(net.release(NOW, way(6), &mut out).waiters, [id(1)]);
    assert_eq!(net.release(NOW, way(5), &mut out).waiters, []);
    assert_eq!(send(&mut net, NOW, 0, &mut routes[0], 20, &mut out), Sent::Done);
}

#[test]
fn packet_is_written_with_its_headers() {
    let (mut net, mut out, mut route) = (net(), VecOutlet::default(), Route::new(way(5)));
    known(&mut net, address(5), address(9));
    assert_eq!(send(&mut net, NOW, 0, &mut route, 100, &mut out), Sent::Done);
    let frame = out.frames.pop_front().unwrap();
    let ether = ethernet::Header::parse(&frame).unwrap();
    assert_eq!((ether.dst, ether.src), (MacAddr([2, 0, 0, 0, 0, 9]), MacAddr([2, 0, 0, 0, 0, 1])));
    let ip = ipv4::Header::parse(&frame[14..]).unwrap();
    assert!(ip.checksum_is_valid() && ip.dont_fragment());
    assert_eq!((ip.src(), ip.dst(), ip.ident(), ip.total_len()), (address(1), address(5), 0, 120));
    assert_eq!(frame[34..], [7; 100]);
}

#[test]
fn packet_larger_than_the_path_is_too_big() {
    let (mut net, mut out, mut route) = (net(), VecOutlet::default(), Route::new(way(5)));
    known(&mut net, address(5), address(5));
    assert_eq!(send(&mut net, NOW, 0, &mut route, 1480, &mut out), Sent::Done);
    assert_eq!(send(&mut net, NOW, 0, &mut route, 1481, &mut out), Sent::TooBig(1500));
    net.set_mtu(1300);
    assert_eq!(send(&mut net, NOW, 0, &mut route, 1400, &mut out), Sent::TooBig(1300));
    assert_eq!(net.path_mtu(NOW, &mut route), 1300);
}

#[test]
fn full_outlet_is_remembered_for_flush() {
    let (mut net, mut route) = (net(), Route::new(way(5)));
    let mut out = VecOutlet::default();
    out.room = 0;
    known(&mut net, address(5), address(5));
    for _ in 0..2 {
        assert_eq!(send(&mut net, NOW, 3, &mut route, 20, &mut out), Sent::Full);
    }
    assert!(net.waiting.waits_for_outlet(id(3)));
    assert_eq!(net.waiting.take_for_outlet(), Some(id(3)));
    assert_eq!(net.waiting.take_for_outlet(), None);
}

#[test]
fn failures_are_believed_for_a_second() {
    let (mut net, mut out, mut route) = (net(), VecOutlet::default(), Route::new(way(5)));
    net.answer_path(NOW, way(5), Err(SocketError::NetUnreachable));
    let failed = Sent::Unreachable(SocketError::NetUnreachable);
    assert_eq!(send(&mut net, NOW, 0, &mut route, 20, &mut out), failed);
    let later = NOW + Duration::from_secs(1);
    assert_eq!(send(&mut net, later, 0, &mut route, 20, &mut out), Sent::Waiting);
    net.answer_path(later, way(5), Ok(Path { next_hop: address(9), mtu: 1500, elsewhere: false }));
    net.answer_neighbour(later, address(9), None);
    let failed = Sent::Unreachable(SocketError::HostUnreachable);
    assert_eq!(send(&mut net, later, 0, &mut route, 20, &mut out), failed);
}

#[test]
fn neighbour_that_is_lost_is_asked_for_before_a_failure_is_told() {
    let (mut net, mut out, mut route) = (net(), VecOutlet::default(), Route::new(way(5)));
    known(&mut net, address(5), address(9));
    assert_eq!(send(&mut net, NOW, 0, &mut route, 20, &mut out), Sent::Done);
    net.answer_neighbour(NOW, address(9), None);
    assert_eq!(send(&mut net, NOW, 0, &mut route, 20, &mut out), Sent::Waiting);
    assert_eq!(net.requests.drain(..).collect::<Vec<_>>(), [Request::Neighbour(address(9))]);
    net.answer_neighbour(NOW, address(9), None);
    let failed = Sent::Unreachable(SocketError::HostUnreachable);
    assert_eq!(send(&mut net, NOW, 0, &mut route, 20, &mut out), failed);
}

#[test]
fn forgotten_paths_serve_until_the_answer() {
    let (mut net, mut out, mut route) = (net(), VecOutlet::default(), Route::new(way(5)));
    known(&mut net, address(5), address(9));
    net.forget_paths();
    for _ in 0..2 {
        assert_eq!(send(&mut net, NOW, 0, &mut route, 20, &mut out), Sent::Done);
    }
    assert_eq!(net.requests.drain(..).collect::<Vec<_>>(), [Request::Path(way(5))]);
    net.answer_path(NOW, way(5), Ok(Path { next_hop: address(8), mtu: 1500, elsewhere: false }));
    assert_eq!(send(&mut net, NOW, 0, &mut route, 20, &mut out), Sent::Waiting);
    assert_eq!(net.requests.drain(..).collect::<Vec<_>>(), [Request::Neighbour(address(8))]);
}

#[test]
fn changed_hardware_address_serves_at_once() {
    let (mut net, mut out, mut route) = (net(), VecOutlet::default(), Route::new(way(5)));
    known(&mut net, address(5), address(9));
    send(&mut net, NOW, 0, &mut route, 20, &mut out);
    net.answer_neighbour(NOW, address(9), Some(MacAddr([2, 0, 0, 0, 0, 77])));
    send(&mut net, NOW, 0, &mut route, 20, &mut out);
    assert_eq!((out.frames[0][5], out.frames[1][5]), (9, 77));
}

#[test]
fn identification_is_no_global_counter() {
    let (mut net, mut out) = (net(), VecOutlet::default());
    let mut idents = Vec::new();
    for n in 5..9 {
        known(&mut net, address(n), address(n));
        let mut route = Route::new(way(n));
        for _ in 0..2 {
            net.send(NOW, id(0), &mut route, &ip(false), 20, &mut out, |bytes| bytes.fill(0));
            let frame = out.frames.pop_front().unwrap();
            idents.push(ipv4::Header::parse(&frame[14..]).unwrap().ident());
        }
    }
    for pair in idents.chunks(2) {
        assert_eq!(pair[1], pair[0].wrapping_add(1));
    }
    assert!(idents.windows(2).skip(1).step_by(2).all(|pair| pair[1].wrapping_sub(pair[0]) > 8));
}

#[test]
fn held_packets_are_bounded_and_the_oldest_goes_first() {
    let (mut net, mut out, mut route) = (net(), VecOutlet::default(), Route::new(way(5)));
    send(&mut net, NOW, 0, &mut route, 20, &mut out);
    for n in 0..1000u32 {
        assert!(net.hold(&route, Held { id: id(1), packet: n.to_be_bytes().to_vec() }));
    }
    known(&mut net, address(5), address(9));
    net.release(NOW, way(5), &mut out);
    assert_eq!(out.frames.len(), 101);
    assert_eq!(out.frames[100][14..], 999u32.to_be_bytes());
    assert_eq!(net.held_bytes, 0);
}

#[test]
fn a_held_packet_that_the_interface_no_longer_takes_is_lost() {
    let (mut net, mut out, mut route) = (net(), VecOutlet::default(), Route::new(way(5)));
    send(&mut net, NOW, 0, &mut route, 20, &mut out);
    for len in [1400, 1000] {
        assert!(net.hold(&route, Held { id: id(1), packet: vec![0; len] }));
    }
    net.set_mtu(1280);
    known(&mut net, address(5), address(9));
    net.release(NOW, way(5), &mut out);
    assert!(out.frames.iter().any(|frame| frame.len() == 1014));
    assert!(out.frames.iter().all(|frame| frame.len() < 1280));
    assert_eq!(net.held_bytes, 0);
}

#[test]
fn source_shares_the_longest_prefix_with_the_destination() {
    let net = net();
    assert_eq!(net.source_for(address(77)), Some(address(1)));
    assert_eq!(net.source_for(Ipv4Addr::new(192, 168, 0, 99)), Some(Ipv4Addr::new(192, 168, 0, 1)));
}

#[test]
fn flood_of_destinations_keeps_the_cache_bounded() {
    let (mut net, mut out) = (net(), VecOutlet::default());
    for n in 0..PATHS_MAX as u32 + 1000 {
        let to = Ipv4Addr::from_bits(0x0b00_0000 + n);
        known(&mut net, to, address(9));
        assert_eq!(
            send(&mut net, NOW, 0, &mut Route::new(Query::new(address(1), to)), 20, &mut out),
            Sent::Done
        );
        out.frames.clear();
    }
}

#[test]
fn addresses_of_other_interfaces_are_this_hosts_but_never_chosen_as_a_source() {
    let net = net();
    let other = Ipv4Addr::new(172, 16, 0, 1);
    assert!(net.is_local(other) && net.is_local(address(1)) && !net.is_local(address(2)));
    assert_ne!(net.source_for(Ipv4Addr::new(172, 16, 0, 2)), Some(other));
}

#[test]
fn a_new_hardware_address_is_the_source_of_what_leaves_to_known_neighbours() {
    let (mut net, mut out, mut route) = (net(), VecOutlet::default(), Route::new(way(5)));
    known(&mut net, address(5), address(5));
    net.set_mac(MacAddr([2, 0, 0, 0, 7, 7]));
    assert_eq!(send(&mut net, NOW, 0, &mut route, 20, &mut out), Sent::Done);
    let sent = wire::ethernet::Header::parse(&out.frames[0]).unwrap();
    assert_eq!((sent.dst, sent.src), (MacAddr([2, 0, 0, 0, 0, 9]), MacAddr([2, 0, 0, 0, 7, 7])));
}

#[test]
fn ways_of_different_sources_are_asked_for_apart() {
    let (mut net, mut out) = (net(), VecOutlet::default());
    known(&mut net, address(5), address(9));
    let mut route = Route::new(Query::new(Ipv4Addr::new(192, 168, 0, 1), address(5)));
    assert_eq!(send(&mut net, NOW, 0, &mut route, 20, &mut out), Sent::Waiting);
    assert_eq!(net.requests.pop_front(), Some(Request::Path(route.query)));
}

#[test]
fn held_packets_whose_way_is_another_interfaces_are_the_kernels() {
    let (mut net, mut out, mut route) = (net(), VecOutlet::default(), Route::new(way(5)));
    send(&mut net, NOW, 0, &mut route, 20, &mut out);
    assert!(net.hold(&route, Held { id: id(1), packet: vec![7; 40] }));
    net.answer_path(NOW, way(5), Ok(Path { next_hop: address(9), mtu: 1500, elsewhere: true }));
    net.answer_neighbour(NOW, address(9), Some(MacAddr([2; 6])));
    net.release(NOW, way(5), &mut out);
    assert_eq!((net.take_for_kernel(), net.held_bytes, out.frames.len()), (Some(vec![7; 40]), 0, 0));
    assert!(net.is_elsewhere(&route));
}

#[test]
fn only_neighbours_that_packets_leave_to_are_told_as_in_use() {
    let (mut net, mut out) = (net(), VecOutlet::default());
    let (mut used, mut group) =
        (Route::new(way(5)), Route::new(Query::new(address(1), [224, 0, 0, 9].into())));
    for n in [5, 6] {
        known(&mut net, address(n), address(n));
    }
    known(&mut net, group.to(), group.to());
    net.take_used_neighbours();
    assert!(net.take_used_neighbours().is_empty());
    for route in [&mut used, &mut group] {
        assert_eq!(send(&mut net, NOW, 0, route, 20, &mut out), Sent::Done);
    }
    assert_eq!(net.take_used_neighbours(), [address(5)], "a group's address is not asked for");
    assert!(net.take_used_neighbours().is_empty());
    send(&mut net, NOW, 0, &mut used, 20, &mut out);
    net.answer_neighbour(NOW, address(5), None);
    assert!(net.take_used_neighbours().is_empty(), "it does not answer");
}

#[test]
fn the_latest_of_any_number_of_neighbours_is_heard_of() {
    let (mut net, mut out) = (net(), VecOutlet::default());
    for n in 0..NEIGHBOURS_MAX as u32 + 1000 {
        let to = Ipv4Addr::from_bits(0x0b00_0000 + n);
        known(&mut net, to, to);
        let mut route = Route::new(Query::new(address(1), to));
        assert_eq!(send(&mut net, NOW, 0, &mut route, 20, &mut out), Sent::Done);
        out.frames.clear();
        assert!(net.has_neighbour(to));
    }
    assert!(!net.has_neighbour(Ipv4Addr::from_bits(0x0b00_0001)));
    assert!(net.take_used_neighbours().len() <= NEIGHBOURS_MAX);
}

#[test]
fn when_changes_were_missed_what_is_in_use_is_looked_up_and_the_rest_asked_for_by_its_next_packet() {
    let (mut net, mut out) = (net(), VecOutlet::default());
    let mut routes = [5, 6, 7].map(|n| Route::new(way(n)));
    known(&mut net, address(5), address(5));
    known(&mut net, address(6), address(6));
    net.take_used_neighbours();
    send(&mut net, NOW, 0, &mut routes[0], 20, &mut out);
    net.answer_path(NOW, way(7), Ok(Path { next_hop: address(7), mtu: 1500, elsewhere: false }));
    send(&mut net, NOW, 0, &mut routes[2], 20, &mut out);
    net.requests.clear();
    assert_eq!(net.doubt_neighbours(NOW), [address(5), address(7)]);
    assert_eq!(send(&mut net, NOW, 0, &mut routes[0], 20, &mut out), Sent::Done);
    assert_eq!(send(&mut net, NOW, 0, &mut routes[1], 20, &mut out), Sent::Waiting);
    assert_eq!(net.requests.drain(..).collect::<Vec<_>>(), [Request::Neighbour(address(6))]);
}
