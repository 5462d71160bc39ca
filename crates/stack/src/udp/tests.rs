//! UDP sockets over two stacks, and against frames made by hand.
use super::*;
use crate::testing::{Host, VecFrame, exchange, udp_frame as frame};
use crate::{MacAddr, Path, Request, SendError};
use wire::{ethernet, ipv4};

const NOW: Instant = Instant(1_000_000_000);

/// From the host that sends in these tests.
fn way(to: Ipv4Addr) -> Query {
    Query::new(Ipv4Addr::new(10, 0, 0, 1), to)
}

fn options() -> Options {
    Options {
        receive_buffer: 212_992,
        tos: 0,
        ttl: 64,
        multicast_ttl: 1,
        multicast_all: true,
        mtu_discover: MtuDiscover::Want,
        bound_to_interface: false,
    }
}

fn endpoint(n: u8, port: u16) -> Endpoint {
    Endpoint::new(Ipv4Addr::new(10, 0, 0, n), port)
}

fn any(port: u16) -> Endpoint {
    Endpoint::new(Ipv4Addr::UNSPECIFIED, port)
}

fn open(host: &mut Host, local: Endpoint) -> SocketId {
    host.stack.udp_open(local, &options(), 0).unwrap()
}

fn send(host: &mut Host, id: SocketId, to: Endpoint, bytes: &[u8]) -> Result<usize, SendError> {
    host.stack.udp_send(NOW, id, None, to, &mut &bytes[..], &mut host.out)
}

fn payload(datagram: &Datagram<VecFrame>) -> Vec<u8> {
    let (offset, len) = (usize::from(datagram.range.0), usize::from(datagram.range.1));
    let mut bytes = datagram.head.bytes()[offset..offset + len].to_vec();
    datagram.tail.iter().for_each(|frame| bytes.extend_from_slice(frame.bytes()));
    assert_eq!(bytes.len(), datagram.len);
    bytes
}

fn recv(host: &mut Host, id: SocketId) -> Result<Vec<u8>, RecvError> {
    host.stack.udp_recv(id).map(|datagram| payload(&datagram))
}

/// Two hosts that know each other's addresses already.
fn two_hosts() -> (Host, Host) {
    let (mut a, mut b) = (Host::new(1), Host::new(2));
    let (from, to) = (open(&mut a, any(9)), open(&mut b, any(9)));
    send(&mut a, from, endpoint(2, 9), b"").unwrap();
    send(&mut b, to, endpoint(1, 9), b"").unwrap();
    exchange(NOW, &mut a, &mut b);
    a.stack.udp_close(from);
    b.stack.udp_close(to);
    (a, b)
}

#[test]
fn datagram_arrives_with_its_addresses_and_an_in_edge() {
    let (mut a, mut b) = two_hosts();
    let from = open(&mut a, any(1000));
    let to = b.stack.udp_open(endpoint(2, 2000), &options(), 77).unwrap();
    assert_eq!(send(&mut a, from, endpoint(2, 2000), b"hello"), Ok(5));
    exchange(NOW, &mut a, &mut b);
    let event = b.stack.take_event().unwrap();
    assert_eq!((event.id, event.token, event.edges), (to, 77, Ready::IN));
    assert!(b.stack.ready(to).has(Ready::IN | Ready::OUT));
    assert_eq!(b.stack.udp_peek(to).unwrap().len, 5);
    let datagram = b.stack.udp_recv(to).unwrap();
    assert_eq!((datagram.from, datagram.to, datagram.ttl), (endpoint(1, 1000), endpoint(2, 2000), 64));
    assert_eq!(payload(&datagram), b"hello");
    assert_eq!(recv(&mut b, to), Err(RecvError::WouldBlock));
    assert!(!b.stack.ready(to).has(Ready::IN));
}

#[test]
fn first_datagram_waits_for_path_and_neighbour_and_is_not_lost() {
    let (mut a, mut b) = (Host::new(1), Host::new(2));
    let (from, to) = (open(&mut a, any(1)), open(&mut b, any(2)));
    assert_eq!(send(&mut a, from, endpoint(2, 2), b"one"), Ok(3));
    assert_eq!(send(&mut a, from, endpoint(2, 2), b"two"), Ok(3));
    assert!(a.out.frames.is_empty());
    let hop = Ipv4Addr::new(10, 0, 0, 2);
    assert_eq!(a.stack.take_request(), Some(Request::Path(way(hop))));
    a.stack.set_path(NOW, way(hop), Ok(Path { next_hop: hop, mtu: 1500, elsewhere: false }), &mut a.out);
    assert_eq!(a.stack.take_request(), Some(Request::Neighbour(hop)));
    assert_eq!(a.stack.take_request(), None);
    a.stack.set_neighbour(NOW, hop, Some(b.mac), &mut a.out);
    exchange(NOW, &mut a, &mut b);
    assert_eq!(recv(&mut b, to).unwrap(), b"one");
    assert_eq!(recv(&mut b, to).unwrap(), b"two");
}

#[test]
fn zero_length_datagram_is_delivered() {
    let (mut a, mut b) = two_hosts();
    let (from, to) = (open(&mut a, any(1)), open(&mut b, any(2)));
    assert_eq!(send(&mut a, from, endpoint(2, 2), b""), Ok(0));
    exchange(NOW, &mut a, &mut b);
    assert_eq!(recv(&mut b, to).unwrap(), b"");
}

#[test]
fn largest_datagram_is_fragmented_and_reassembled() {
    let (mut a, mut b) = two_hosts();
    let (from, to) = (open(&mut a, any(1)), open(&mut b, any(2)));
    let bytes: Vec<u8> = (0..65_507u32).map(|n| ((n * 7) >> 3) as u8).collect();
    assert_eq!(send(&mut a, from, endpoint(2, 2), &bytes), Ok(65_507));
    assert!(a.out.frames.iter().all(|frame| frame.len() <= 1514));
    exchange(NOW, &mut a, &mut b);
    assert!(recv(&mut b, to).unwrap() == bytes);
    let too_big = Err(SendError::Failed(SocketError::MessageTooBig));
    assert_eq!(send(&mut a, from, endpoint(2, 2), &vec![0; 65_508]), too_big);
}

#[test]
fn fragments_that_find_the_outlet_full_follow_with_flush() {
    let (mut a, mut b) = two_hosts();
    let (from, to) = (open(&mut a, any(1)), open(&mut b, any(2)));
    a.out.room = 2;
    let bytes = vec![9; 6000];
    assert_eq!(send(&mut a, from, endpoint(2, 2), &bytes), Ok(6000));
    assert_eq!(a.out.frames.len(), 2);
    assert!(a.stack.wants_flush());
    exchange(NOW, &mut a, &mut b);
    assert!(recv(&mut b, to).unwrap() == bytes);
    assert!(!a.stack.wants_flush());
}

#[test]
fn first_datagram_larger_than_the_mtu_waits_in_fragments() {
    let (mut a, mut b) = (Host::new(1), Host::new(2));
    let (from, to) = (open(&mut a, any(1)), open(&mut b, any(2)));
    assert_eq!(send(&mut a, from, endpoint(2, 2), &[5; 4000]), Ok(4000));
    exchange(NOW, &mut a, &mut b);
    assert_eq!(recv(&mut b, to).unwrap(), [5; 4000]);
}

#[test]
fn fragmentation_forbidden_makes_message_too_big() {
    let (mut a, _b) = two_hosts();
    let id = open(&mut a, any(1));
    for discover in [MtuDiscover::Do, MtuDiscover::Probe] {
        a.stack.udp_configure(id, |options| options.mtu_discover = discover);
        assert_eq!(send(&mut a, id, endpoint(2, 2), &[0; 1472]), Ok(1472));
        let too_big = Err(SendError::Failed(SocketError::MessageTooBig));
        assert_eq!(send(&mut a, id, endpoint(2, 2), &[0; 1473]), too_big);
    }
}

#[test]
fn full_outlet_makes_would_block_and_an_out_edge_when_there_is_room() {
    let (mut a, _b) = two_hosts();
    let id = open(&mut a, any(1));
    a.out.room = 0;
    assert_eq!(send(&mut a, id, endpoint(2, 2), b"x"), Err(SendError::WouldBlock));
    assert_eq!(send(&mut a, id, endpoint(2, 2), &[0; 3000]), Err(SendError::WouldBlock));
    assert!(!a.stack.ready(id).has(Ready::OUT));
    a.stack.flush(NOW, &mut a.out);
    assert!(a.stack.take_event().is_none() && a.stack.wants_flush());
    a.out.room = 9;
    a.stack.flush(NOW, &mut a.out);
    assert_eq!(a.stack.take_event().unwrap().edges, Ready::OUT);
    assert!(a.stack.ready(id).has(Ready::OUT) && !a.stack.wants_flush());
    assert_eq!(send(&mut a, id, endpoint(2, 2), b"x"), Ok(1));
}

#[test]
fn connected_socket_hears_its_peer_alone_and_others_go_to_the_unconnected() {
    let mut host = Host::new(2);
    let wild = open(&mut host, any(5));
    let connected = open(&mut host, any(5));
    host.stack.udp_connect(connected, endpoint(2, 5), Some(endpoint(1, 50)));
    host.receive(NOW, frame(endpoint(1, 50), endpoint(2, 5), b"peer"));
    host.receive(NOW, frame(endpoint(1, 51), endpoint(2, 5), b"other"));
    assert_eq!(recv(&mut host, connected).unwrap(), b"peer");
    assert_eq!(recv(&mut host, connected), Err(RecvError::WouldBlock));
    assert_eq!(recv(&mut host, wild).unwrap(), b"other");
    host.stack.udp_connect(connected, endpoint(2, 5), None);
    host.receive(NOW, frame(endpoint(1, 51), endpoint(2, 5), b"other"));
    assert_eq!(recv(&mut host, connected).unwrap(), b"other");
}

#[test]
fn unicast_goes_to_the_most_specific_then_the_newest() {
    let mut host = Host::new(2);
    let exact = open(&mut host, endpoint(2, 5));
    let _wild = open(&mut host, any(5));
    host.receive(NOW, frame(endpoint(1, 1), endpoint(2, 5), b"a"));
    assert_eq!(recv(&mut host, exact).unwrap(), b"a");
    let newer = open(&mut host, endpoint(2, 5));
    host.receive(NOW, frame(endpoint(1, 1), endpoint(2, 5), b"b"));
    assert_eq!(recv(&mut host, newer).unwrap(), b"b");
    host.stack.udp_close(newer);
    host.receive(NOW, frame(endpoint(1, 1), endpoint(2, 5), b"c"));
    assert_eq!(recv(&mut host, exact).unwrap(), b"c");
}

#[test]
fn flow_taken_over_by_a_newer_socket_goes_back_when_that_closes() {
    let mut host = Host::new(2);
    let (older, newer) = (open(&mut host, any(5)), open(&mut host, any(5)));
    for id in [older, newer] {
        host.stack.udp_connect(id, endpoint(2, 5), Some(endpoint(1, 1)));
    }
    host.receive(NOW, frame(endpoint(1, 1), endpoint(2, 5), b"a"));
    assert_eq!(recv(&mut host, newer).unwrap(), b"a");
    host.stack.udp_close(newer);
    host.receive(NOW, frame(endpoint(1, 1), endpoint(2, 5), b"b"));
    assert_eq!(recv(&mut host, older).unwrap(), b"b");
    host.stack.udp_close(older);
    assert_eq!(host.stack.demux.udp.displaced, 0);
}

#[test]
fn multicast_reaches_every_member_by_source_filter() {
    let mut host = Host::new(2);
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let to = Endpoint::new(group, 5);
    let ids: Vec<SocketId> = (0..4).map(|_| open(&mut host, any(5))).collect();
    let stranger = open(&mut host, any(6));
    let bound_to_group = open(&mut host, to);
    host.receive(NOW, frame(endpoint(1, 1), to, b"nobody joined"));
    assert_eq!(host.stack.dropped().no_socket, 1);
    let [sender, other] = [1, 9].map(|last| vec![Ipv4Addr::new(10, 0, 0, last)]);
    host.stack.udp_join(ids[0], group, Sources::ANY);
    host.stack.udp_join(ids[1], group, Sources::Only(sender.clone()));
    host.stack.udp_join(ids[2], group, Sources::Only(other.clone()));
    host.receive(NOW, frame(endpoint(1, 1), to, b"all"));
    for id in [ids[0], ids[1], ids[3], bound_to_group] {
        assert_eq!(recv(&mut host, id).unwrap(), b"all");
        assert_eq!(recv(&mut host, id), Err(RecvError::WouldBlock));
    }
    for id in [ids[2], stranger] {
        assert_eq!(recv(&mut host, id), Err(RecvError::WouldBlock));
    }
    host.stack.udp_join(ids[1], group, Sources::AllBut(sender));
    host.stack.udp_join(ids[2], group, Sources::AllBut(other));
    host.receive(NOW, frame(endpoint(1, 1), to, b"others' sources"));
    assert_eq!(recv(&mut host, ids[1]), Err(RecvError::WouldBlock));
    for id in [ids[0], ids[2], ids[3], bound_to_group] {
        assert_eq!(recv(&mut host, id).unwrap(), b"others' sources");
    }
    host.stack.udp_leave(ids[0], group);
    ids[1..].iter().for_each(|id| host.stack.udp_close(*id));
    host.receive(NOW, frame(endpoint(1, 1), to, b"nobody is left"));
    assert_eq!(recv(&mut host, ids[0]), Err(RecvError::WouldBlock));
}

#[test]
fn broadcast_reaches_every_socket_of_the_port() {
    let mut host = Host::new(2);
    let (one, two) = (open(&mut host, any(5)), open(&mut host, any(5)));
    host.receive(NOW, frame(endpoint(1, 1), endpoint(255, 5), b"all"));
    assert_eq!(recv(&mut host, one).unwrap(), b"all");
    assert_eq!(recv(&mut host, two).unwrap(), b"all");
}

#[test]
fn multicast_is_sent_to_the_groups_hardware_address_with_its_own_ttl() {
    let mut host = Host::new(1);
    let id = open(&mut host, any(5));
    let group = Ipv4Addr::new(239, 129, 2, 3);
    send(&mut host, id, Endpoint::new(group, 5), b"x").unwrap();
    host.stack.set_path(
        NOW,
        way(group),
        Ok(Path { next_hop: group, mtu: 1500, elsewhere: false }),
        &mut host.out,
    );
    let frame = host.out.frames.pop_front().unwrap();
    let ether = ethernet::Header::parse(&frame).unwrap();
    assert_eq!(ether.dst, MacAddr([1, 0, 0x5e, 1, 2, 3]));
    assert_eq!(ipv4::Header::parse(&frame[14..]).unwrap().ttl(), 1);
}

#[test]
fn full_receive_buffer_drops_and_counts() {
    let mut host = Host::new(2);
    let id = open(&mut host, any(5));
    host.stack.udp_configure(id, |options| options.receive_buffer = 2000);
    for _ in 0..10 {
        host.receive(NOW, frame(endpoint(1, 1), endpoint(2, 5), &[0; 64]));
    }
    // 768 each, as Linux charges 64 bytes: the third passes the limit, the fourth finds it passed.
    assert_eq!(host.stack.udp_dropped(id), 7);
    assert_eq!((0..10).filter(|_| recv(&mut host, id).is_ok()).count(), 3);
    host.receive(NOW, frame(endpoint(1, 1), endpoint(2, 5), &[0; 64]));
    assert!(recv(&mut host, id).is_ok());
}

#[test]
fn what_comes_for_a_socket_that_was_handed_over_follows_what_waited() {
    let mut host = Host::new(2);
    let id = open(&mut host, any(5));
    host.receive(NOW, frame(endpoint(1, 1), endpoint(2, 5), b"one"));
    host.receive(NOW, frame(endpoint(1, 1), endpoint(2, 5), b"two"));
    assert!(host.stack.udp_hand_over(id, 1, Heard::ByOthers), "more wait");
    assert!(!host.stack.udp_hand_over(id, 2, Heard::ByOthers));
    while host.stack.take_event().is_some() {}
    // The program on the interface had it before the flow was taken out of the steering.
    host.receive(NOW, frame(endpoint(1, 1), endpoint(2, 5), b"late"));
    let passed: Vec<_> = std::iter::from_fn(|| host.stack.take_for_kernel()).collect();
    let payloads: Vec<_> = passed.iter().map(|packet| &packet[ipv4::HEADER_LEN + 8..]).collect();
    assert_eq!(payloads, [&b"one"[..], b"two", b"late"]);
    assert!(host.stack.take_event().is_none() && recv(&mut host, id) == Err(RecvError::WouldBlock));
    host.stack.udp_close(id);
    host.receive(NOW, frame(endpoint(1, 1), endpoint(2, 5), b"nobody's"));
    assert!(host.stack.take_for_kernel().is_none(), "its time is over");
}

#[test]
fn what_a_group_sent_is_handed_over_where_nobody_else_hears_it() {
    let mut host = Host::new(2);
    let to = Endpoint::new(Ipv4Addr::new(239, 1, 2, 3), 5);
    let (one, two) = (open(&mut host, any(5)), open(&mut host, any(5)));
    host.stack.udp_configure(two, |options| options.multicast_all = false);
    host.stack.udp_join(one, *to.ip(), Sources::ANY);
    host.receive(NOW, frame(endpoint(1, 1), to, b"one"));
    assert!(!host.stack.udp_hand_over(one, 2, Heard::Alone));
    host.receive(NOW, frame(endpoint(1, 1), to, b"late"));
    host.stack.udp_join(two, *to.ip(), Sources::ANY);
    host.receive(NOW, frame(endpoint(1, 1), to, b"a new one's"));
    let passed: Vec<_> = std::iter::from_fn(|| host.stack.take_for_kernel()).collect();
    let payloads: Vec<_> = passed.iter().map(|packet| &packet[ipv4::HEADER_LEN + 8..]).collect();
    assert_eq!(payloads, [&b"one"[..], b"late"]);
    assert!(passed.iter().all(|packet| packet[8] == 0), "it is this host's alone");
    assert_eq!(recv(&mut host, two).unwrap(), b"a new one's");
    assert_eq!(recv(&mut host, two), Err(RecvError::WouldBlock));
}

#[test]
fn slow_reader_does_not_pin_the_devices_frames() {
    let mut host = Host::with(2, |config| config.attached_frames_max = 8);
    let (one, two) = (open(&mut host, any(5)), open(&mut host, any(6)));
    for port in [5, 6, 5, 6, 5, 6, 5, 6, 5, 6, 5, 6] {
        host.receive(NOW, frame(endpoint(1, 1), endpoint(2, port), b"x"));
    }
    let mut attached = |id| {
        let mut count = 0;
        while let Ok(datagram) = host.stack.udp_recv(id) {
            count += u32::from(datagram.head.is_attached());
        }
        count
    };
    assert_eq!((attached(one), attached(two)), (4, 4));
    host.receive(NOW, frame(endpoint(1, 1), endpoint(2, 5), b"x"));
    assert!(host.stack.udp_recv(one).unwrap().head.is_attached());
}

#[test]
fn closing_gives_the_share_of_frames_back() {
    let mut host = Host::with(2, |config| config.attached_frames_max = 1);
    for _ in 0..3 {
        let id = open(&mut host, any(5));
        host.receive(NOW, frame(endpoint(1, 1), endpoint(2, 5), b"x"));
        assert!(host.stack.udp_peek(id).unwrap().head.is_attached());
        host.stack.udp_close(id);
        assert_eq!(host.stack.udp_recv(id).err(), Some(RecvError::NoSocket));
    }
}

#[test]
fn path_failure_is_told_to_the_sender() {
    let (mut a, to) = (Host::new(1), endpoint(2, 2));
    let id = open(&mut a, any(1));
    a.stack.udp_connect(id, endpoint(1, 1), Some(to));
    assert_eq!(send(&mut a, id, any(0), b"x"), Ok(1));
    a.stack.set_path(NOW, way(*to.ip()), Err(SocketError::NetUnreachable), &mut a.out);
    assert!(a.stack.ready(id).has(Ready::ERR));
    assert_eq!(a.stack.take_error(id), Some(SocketError::NetUnreachable));
    let unreachable = Err(SendError::Failed(SocketError::NetUnreachable));
    assert_eq!(send(&mut a, id, any(0), b"x"), unreachable);
    let later = NOW + core::time::Duration::from_secs(2);
    assert_eq!(a.stack.udp_send(later, id, None, to, &mut &b"x"[..], &mut a.out), Ok(1));
}

#[test]
fn neighbour_failure_is_told_to_connected_sockets_only() {
    let (mut a, to) = (Host::new(1), endpoint(2, 2));
    let (connected, open) = (open(&mut a, any(1)), open(&mut a, any(2)));
    a.stack.udp_connect(connected, endpoint(1, 1), Some(to));
    for id in [connected, open] {
        assert_eq!(send(&mut a, id, to, b"x"), Ok(1));
    }
    a.stack.set_path(
        NOW,
        way(*to.ip()),
        Ok(Path { next_hop: *to.ip(), mtu: 1500, elsewhere: false }),
        &mut a.out,
    );
    a.stack.set_neighbour(NOW, *to.ip(), None, &mut a.out);
    assert_eq!(a.stack.take_error(connected), Some(SocketError::HostUnreachable));
    assert_eq!(a.stack.take_error(open), None);
    assert_eq!(send(&mut a, open, to, b"x"), Ok(1));
}

#[test]
fn destination_without_port_needs_a_peer() {
    let mut host = Host::new(1);
    let id = open(&mut host, any(1));
    assert_eq!(send(&mut host, id, any(0), b"x"), Err(SendError::NotConnected));
}

#[test]
fn abandoned_stack_fails_its_sockets_and_sends_nothing() {
    let (mut a, _b) = two_hosts();
    let id = open(&mut a, any(1));
    a.stack.abandon(SocketError::Aborted);
    assert!(a.stack.take_event().unwrap().edges.has(Ready::ERR));
    let aborted = Err(SendError::Failed(SocketError::Aborted));
    assert_eq!(send(&mut a, id, endpoint(2, 2), b"x"), aborted);
    assert_eq!(send(&mut a, id, endpoint(2, 2), b"x"), aborted);
    assert!(a.out.frames.is_empty());
}

#[test]
fn what_the_owner_has_not_seen_is_not_there_yet() {
    let (mut a, mut b) = two_hosts();
    let (from, to) = (open(&mut a, any(1)), open(&mut b, any(2)));
    let arrive = |a: &mut Host, b: &mut Host, text: &[u8]| {
        send(a, from, endpoint(2, 2), text).unwrap();
        exchange(NOW, a, b);
    };
    arrive(&mut a, &mut b, b"before");
    b.stack.udp_filter(to, true);
    arrive(&mut a, &mut b, b"second");
    assert!(!b.stack.ready(to).has(Ready::IN));
    assert_eq!(recv(&mut b, to), Err(RecvError::WouldBlock));
    assert!(b.stack.udp_peek(to).is_err() && b.stack.udp_peek_behind(to, &mut 0).is_err());
    let first = b.stack.udp_take_unseen(to).unwrap();
    assert_eq!(payload(&first), b"before");
    b.stack.udp_pass(to, first);
    assert!(b.stack.ready(to).has(Ready::IN));
    assert_eq!(b.stack.udp_readable(to), Queued { packets: 1, bytes: 6 });
    assert_eq!(payload(&b.stack.udp_take_unseen(to).unwrap()), b"second", "and dropped");
    assert!(b.stack.udp_take_unseen(to).is_none());
    arrive(&mut a, &mut b, b"third");
    assert_eq!(recv(&mut b, to).unwrap(), b"before");
    assert_eq!(recv(&mut b, to), Err(RecvError::WouldBlock));
    b.stack.udp_filter(to, false);
    assert_eq!(recv(&mut b, to).unwrap(), b"third");
    b.stack.udp_close(to);
    assert_eq!(b.stack.budget.attached(), 0);
}

#[test]
fn a_rehearsal_sends_nothing_and_waits_for_nobody() {
    let (mut a, mut b) = two_hosts();
    let (from, to) = (open(&mut a, any(1)), open(&mut b, any(2)));
    let mut dry = crate::testing::VecOutlet::default();
    let rehearse = |a: &mut Host, n, dry: &mut _| {
        a.stack.udp_rehearse(NOW, from, None, endpoint(n, 2), &mut &b"dummy"[..], dry)
    };
    assert_eq!(rehearse(&mut a, 2, &mut dry), Ok(5));
    assert_eq!(dry.frames.len(), 1);
    assert_eq!(rehearse(&mut a, 3, &mut dry), Err(SendError::WouldBlock), "nobody knows the way");
    assert!(!a.stack.holds_packets());
    send(&mut a, from, endpoint(2, 2), b"real").unwrap();
    exchange(NOW, &mut a, &mut b);
    assert_eq!(recv(&mut b, to).unwrap(), b"real");
    assert_eq!(recv(&mut b, to), Err(RecvError::WouldBlock));
}
