//! Reassembly against orderly, disorderly and hostile fragments.
use super::*;
use crate::testing::{Host, fragment_frame, udp_datagram};
use crate::udp::{MtuDiscover, Options};
use crate::{Endpoint, SocketId};
use proptest::prelude::*;
use wire::ipv4::Fragment;

const NOW: Instant = Instant(5);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn listening() -> (Host, SocketId) {
    let mut host = Host::new(2);
    let options = Options {
        receive_buffer: 4 << 20,
        tos: 0,
        ttl: 64,
        multicast_ttl: 1,
        multicast_all: true,
        mtu_discover: MtuDiscover::Want,
        bound_to_interface: false,
    };
    let id = host.stack.udp_open(Endpoint::new(HOST, 5), &options, 0).unwrap();
    (host, id)
}

fn fragment(ident: u16, offset: usize, more: bool, bytes: &[u8]) -> Vec<u8> {
    fragment_frame(PEER, HOST, ipv4::UDP, (ident, Fragment::part(offset, more)), bytes)
}

/// A datagram of `len` bytes of payload in IP payloads of `step` bytes.
fn fragments(ident: u16, len: usize, step: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    let payload: Vec<u8> = (0..len).map(|n| (n / 3) as u8).collect();
    let datagram = udp_datagram(Endpoint::new(PEER, 9), Endpoint::new(HOST, 5), &payload);
    let parts = datagram.chunks(step).enumerate();
    let frames =
        parts.map(|(n, part)| fragment(ident, n * step, n * step + part.len() < datagram.len(), part));
    (payload, frames.collect())
}

fn recv(host: &mut Host, id: SocketId) -> Option<Vec<u8>> {
    let datagram = host.stack.udp_recv(id).ok()?;
    let (at, len) = (usize::from(datagram.range.0), usize::from(datagram.range.1));
    let mut bytes = datagram.head.bytes()[at..at + len].to_vec();
    datagram.tail.iter().for_each(|frame| bytes.extend_from_slice(frame.bytes()));
    assert_eq!(bytes.len(), datagram.len);
    Some(bytes)
}

#[test]
fn fragments_in_any_order_make_the_datagram() {
    let (payload, frames) = fragments(1, 5000, 1480);
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
        let (mut host, id) = listening();
        order.iter().for_each(|n| host.receive(NOW, frames[*n].clone()));
        assert!(recv(&mut host, id).unwrap() == payload, "{order:?}");
        assert_eq!(host.stack.next_timer(), None);
    }
}

#[test]
fn datagrams_of_different_identification_do_not_mix() {
    let (mut host, id) = listening();
    let (one, two) = (fragments(1, 2000, 1480), fragments(2, 2500, 1480));
    for n in [1, 0] {
        host.receive(NOW, one.1[n].clone());
        host.receive(NOW, two.1[n].clone());
    }
    assert!(recv(&mut host, id).unwrap() == one.0);
    assert!(recv(&mut host, id).unwrap() == two.0);
}

#[test]
fn repeated_fragments_are_harmless() {
    let (mut host, id) = listening();
    let (payload, frames) = fragments(1, 3000, 1480);
    for n in [0, 0, 2, 2, 0, 1] {
        host.receive(NOW, frames[n].clone());
    }
    assert!(recv(&mut host, id).unwrap() == payload);
}

#[test]
fn overlap_refuses_the_whole_datagram() {
    let (mut host, id) = listening();
    let (_, frames) = fragments(1, 3000, 1480);
    host.receive(NOW, frames[0].clone());
    host.receive(NOW, fragment(1, 1472, true, &[0xee; 1488]));
    assert_eq!(host.stack.dropped().fragments, 1);
    host.receive(NOW, frames[1].clone());
    host.receive(NOW, frames[2].clone());
    assert_eq!(recv(&mut host, id), None);
}

#[test]
fn teardrop_is_refused() {
    let (mut host, id) = listening();
    host.receive(NOW, fragment(1, 0, true, &[0; 64]));
    host.receive(NOW, fragment(1, 24, false, &[0; 4]));
    host.receive(NOW, fragment(2, 0, true, &[0; 64]));
    host.receive(NOW, fragment(2, 56, false, &[0; 16]));
    assert_eq!(recv(&mut host, id), None);
}

#[test]
fn contradicting_ends_refuse_the_datagram() {
    for (offset, more) in [(64, false), (40, true), (8, false)] {
        let (mut host, _) = listening();
        host.receive(NOW, fragment(1, 24, true, &[0; 8]));
        host.receive(NOW, fragment(1, 32, false, &[0; 8]));
        host.receive(NOW, fragment(1, offset, more, &[0; 8]));
        assert_eq!(host.stack.dropped().fragments, 1, "{offset} {more}");
        assert_eq!(host.stack.next_timer(), None);
    }
}

#[test]
fn ping_of_death_is_refused() {
    let (mut host, _) = listening();
    host.receive(NOW, fragment(1, 65_528, false, &[0; 8]));
    host.receive(NOW, fragment(2, 64_512, false, &[0; 1400]));
    assert_eq!(host.stack.dropped().fragments, 2);
    assert_eq!(host.stack.next_timer(), None);
}

#[test]
fn empty_and_unaligned_fragments_are_refused() {
    let (mut host, _) = listening();
    host.receive(NOW, fragment(1, 0, true, &[]));
    host.receive(NOW, fragment(1, 8, false, &[]));
    host.receive(NOW, fragment(1, 0, true, &[0; 9]));
    assert_eq!(host.stack.dropped().fragments, 3);
}

#[test]
fn tiny_first_fragment_hides_no_header() {
    let (mut host, id) = listening();
    let segment = wire::tcp::Fields { src: 1, dst: 2, ..Default::default() }.emit();
    let frame = |offset, more, bytes: &[u8]| {
        fragment_frame(PEER, HOST, ipv4::TCP, (7, Fragment::part(offset, more)), bytes)
    };
    host.receive(NOW, frame(0, true, &segment[..8]));
    host.receive(NOW, frame(8, false, &segment[8..]));
    assert_eq!(host.stack.dropped().transport, 1);
    assert_eq!(recv(&mut host, id), None);
}

#[test]
fn gaps_never_filled_are_forgotten_after_thirty_seconds() {
    let (mut host, id) = listening();
    let (_, frames) = fragments(1, 3000, 1480);
    host.receive(NOW, frames[0].clone());
    let deadline = host.stack.next_timer().unwrap();
    assert_eq!(deadline, NOW + Duration::from_secs(30));
    host.stack.on_time(deadline, &mut host.out);
    assert_eq!((host.stack.next_timer(), host.stack.dropped().fragments), (None, 1));
    host.receive(deadline, frames[1].clone());
    host.receive(deadline, frames[2].clone());
    assert_eq!(recv(&mut host, id), None);
}

#[test]
fn flood_of_first_fragments_is_bounded_and_the_newest_wins() {
    let (mut host, id) = listening();
    for ident in 0..10_000 {
        host.receive(NOW, fragment(ident, 0, true, &[0; 8]));
    }
    assert!(host.stack.reassembly.partial.len() <= DATAGRAMS_MAX);
    let (payload, frames) = fragments(20_000, 3000, 1480);
    frames.into_iter().for_each(|frame| host.receive(NOW, frame));
    assert!(recv(&mut host, id).unwrap() == payload);
}

#[test]
fn datagram_of_too_many_tiny_fragments_is_refused() {
    let (mut host, id) = listening();
    let (_, frames) = fragments(1, 8 * 200, 8);
    frames.into_iter().for_each(|frame| host.receive(NOW, frame));
    assert!(host.stack.dropped().fragments > 0);
    assert_eq!(recv(&mut host, id), None);
}

#[test]
fn waiting_fragments_hold_no_frame_of_the_device() {
    let (mut host, id) = listening();
    let (_, frames) = fragments(1, 3000, 1480);
    frames.into_iter().for_each(|frame| host.receive(NOW, frame));
    let datagram = host.stack.udp_recv(id).unwrap();
    assert!(!datagram.head.is_attached() && datagram.tail.iter().all(|frame| !frame.is_attached()));
}

proptest! {
    /// Against a model that keeps what came first at each place of 8 bytes, and forgets all on an overlap.
    #[test]
    fn delivered_datagrams_agree_with_a_naive_model(
        pieces in proptest::collection::vec((0usize..12, 1usize..6, 0u8..3), 1..30),
    ) {
        let (mut host, id) = listening();
        let datagram = udp_datagram(Endpoint::new(PEER, 9), Endpoint::new(HOST, 5), &[0; 88]);
        let mut model: Vec<(Range<usize>, Vec<u8>)> = Vec::new();
        for (block, blocks, value) in pieces {
            let (start, end) = (block * 8, (block * 8 + blocks * 8).min(96));
            let mut bytes = datagram[start..end].to_vec();
            bytes.iter_mut().skip(if start == 0 { 8 } else { 0 }).for_each(|byte| *byte = value);
            host.receive(NOW, fragment(3, start, end < 96, &bytes));
            if model.iter().any(|(have, _)| have.start <= start && end <= have.end) {
                // A repetition.
            } else if model.iter().any(|(have, _)| have.start < end && start < have.end) {
                model.clear();
            } else {
                model.push((start..end, bytes));
            }
            let whole = model.iter().map(|(range, _)| range.len()).sum::<usize>() == 96;
            let expected = whole.then(|| {
                model.sort_by_key(|(range, _)| range.start);
                model.drain(..).flat_map(|(_, bytes)| bytes).skip(8).collect::<Vec<u8>>()
            });
            prop_assert_eq!(recv(&mut host, id), expected);
        }
    }
}
