//! Two stacks and a wire that loses, repeats and reorders: UDP through the public face alone.

use proptest::prelude::*;
use stack::testing::{Host, exchange};
use stack::udp::{MtuDiscover, Options};
use stack::{Endpoint, Instant, Ready, SocketId};
use std::net::Ipv4Addr;

const NOW: Instant = Instant(1_000_000);

fn options() -> Options {
    Options {
        receive_buffer: 1 << 24,
        tos: 0,
        ttl: 64,
        multicast_ttl: 1,
        multicast_all: true,
        mtu_discover: MtuDiscover::Want,
        bound_to_interface: false,
    }
}

fn open(host: &mut Host, port: u16) -> SocketId {
    host.stack.udp_open(Endpoint::new(Ipv4Addr::UNSPECIFIED, port), &options(), u64::from(port)).unwrap()
}

fn recv(host: &mut Host, id: SocketId) -> Option<(Endpoint, Vec<u8>)> {
    let datagram = host.stack.udp_recv(id).ok()?;
    let mut bytes = Vec::new();
    let head = stack::Frame::bytes(&datagram.head);
    bytes.extend_from_slice(&head[usize::from(datagram.range.0)..][..usize::from(datagram.range.1)]);
    for frame in &datagram.tail {
        bytes.extend_from_slice(stack::Frame::bytes(frame));
    }
    assert_eq!(bytes.len(), datagram.len);
    Some((datagram.from, bytes))
}

/// The datagram of this number: its bytes tell which it is and whether they are whole.
fn numbered(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + number * 7) as u8).collect()
}

#[test]
fn echo_between_many_sockets_reaches_each_its_own() {
    let (mut a, mut b) = (Host::new(1), Host::new(2));
    let server = open(&mut b, 53);
    let clients: Vec<SocketId> = (0..200).map(|n| open(&mut a, 10_000 + n)).collect();
    for (n, id) in clients.iter().enumerate() {
        let to = Endpoint::new(b.address, 53);
        a.stack.udp_connect(*id, Endpoint::new(a.address, 10_000 + n as u16), Some(to));
        a.stack.udp_send(NOW, *id, None, to, &mut &numbered(n, 100)[..], &mut a.out).unwrap();
        // What waits for the neighbour is bounded: let it be known before the flood.
        exchange(NOW, &mut a, &mut b);
    }
    let mut answered = 0;
    while let Some((from, bytes)) = recv(&mut b, server) {
        b.stack.udp_send(NOW, server, None, from, &mut &bytes[..], &mut b.out).unwrap();
        b.answer(NOW);
        answered += 1;
    }
    assert_eq!(answered, 200);
    exchange(NOW, &mut a, &mut b);
    let mut events = 0;
    while let Some(event) = a.stack.take_event() {
        assert!(event.edges.has(Ready::IN));
        events += 1;
    }
    assert_eq!(events, 200);
    for (n, id) in clients.iter().enumerate() {
        assert_eq!(recv(&mut a, *id).unwrap().1, numbered(n, 100));
        assert!(recv(&mut a, *id).is_none());
    }
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    Lost,
    Repeated,
    Late,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// On a bad wire a datagram may be missing, repeated or out of order, but never altered; what was not touched
    /// arrives.
    #[test]
    fn datagrams_arrive_whole_or_not_at_all(
        lens in proptest::collection::vec(prop_oneof![0usize..64, 1400usize..1600, 3000usize..9000], 1..12),
        fates in proptest::collection::vec(
            prop_oneof![4 => Just(Fate::Arrives), 1 => Just(Fate::Lost), 1 => Just(Fate::Repeated), 1 => Just(Fate::Late)],
            100,
        ),
    ) {
        let (mut a, mut b) = (Host::new(1), Host::new(2));
        let (from, to) = (open(&mut a, 1), open(&mut b, 2));
        let peer = Endpoint::new(b.address, 2);
        for (number, len) in lens.iter().enumerate() {
            let mut bytes = vec![number as u8];
            bytes.extend(numbered(number, *len));
            a.stack.udp_send(NOW, from, None, peer, &mut &bytes[..], &mut a.out).unwrap();
            a.answer(NOW);
        }
        let mut late = Vec::new();
        let mut untouched = true;
        for (n, frame) in std::mem::take(&mut a.out.frames).into_iter().enumerate() {
            match fates[n % fates.len()] {
                Fate::Arrives => b.receive(NOW, frame),
                Fate::Lost => untouched = false,
                Fate::Repeated => {
                    b.receive(NOW, frame.clone());
                    b.receive(NOW, frame);
                }
                Fate::Late => late.push(frame),
            }
        }
        late.into_iter().for_each(|frame| b.receive(NOW, frame));
        let mut seen = vec![false; lens.len()];
        while let Some((sender, bytes)) = recv(&mut b, to) {
            let number = usize::from(bytes[0]);
            prop_assert_eq!(sender, Endpoint::new(a.address, 1));
            prop_assert!(bytes[1..] == numbered(number, lens[number])[..]);
            seen[number] = true;
        }
        prop_assert!(!untouched || seen.iter().all(|seen| *seen));
    }
}
