//! What an attacker or a broken peer can put on the wire: each is dropped for its own reason, nothing is answered.
use super::*;
use crate::testing::{Host, VecFrame, ip_frame, udp_datagram, udp_frame};
use crate::udp::{MtuDiscover, Options};
use crate::{Endpoint, SocketId};
use proptest::prelude::*;

const NOW: Instant = Instant(1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn endpoint(address: Ipv4Addr, port: u16) -> Endpoint {
    Endpoint::new(address, port)
}

fn listening() -> (Host, SocketId) {
    let mut host = Host::new(2);
    let options = Options {
        receive_buffer: 212_992,
        tos: 0,
        ttl: 64,
        multicast_ttl: 1,
        multicast_all: true,
        mtu_discover: MtuDiscover::Want,
        bound_to_interface: false,
    };
    let id = host.stack.udp_open(endpoint(Ipv4Addr::UNSPECIFIED, 5), &options, 0).unwrap();
    (host, id)
}

fn good() -> Vec<u8> {
    udp_frame(endpoint(PEER, 9), endpoint(HOST, 5), b"payload")
}

/// The good frame, altered in its IP header, with the header's checksum made right again.
fn altered(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = good();
    change(&mut frame);
    seal(&mut frame);
    frame
}

fn seal(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let len = (usize::from(frame[14] & 15) * 4).min(frame.len() - 14);
    let sum = Sum::ZERO.bytes(&frame[14..14 + len]).finish();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// Why a fresh host drops this frame; `None`: it is delivered.
fn verdict(frame: Vec<u8>) -> Option<Drop> {
    let (mut host, id) = listening();
    let verdict = host.stack.take_in(NOW, VecFrame::new(frame), &mut Vec::new(), &mut host.out).err();
    assert_eq!(host.stack.udp_recv(id).is_ok(), verdict.is_none());
    assert!(host.out.frames.is_empty());
    verdict
}

#[test]
fn good_frame_is_delivered() {
    assert_eq!(verdict(good()), None);
    assert_eq!(verdict(altered(|_| {})), None);
}

#[test]
fn runts_are_dropped() {
    for len in 0..14 {
        assert_eq!(verdict(good()[..len].to_vec()), Some(Drop::Ethernet));
    }
    for len in 14..good().len() {
        assert_eq!(verdict(good()[..len].to_vec()), Some(Drop::IpHeader));
    }
}

#[test]
fn ihl_below_five_or_past_the_packet_is_dropped() {
    for ihl in (0..5).chain([12, 15]) {
        assert_eq!(verdict(altered(|frame| frame[14] = 0x40 | ihl)), Some(Drop::IpHeader), "{ihl}");
    }
}

#[test]
fn options_of_ip_are_stepped_over() {
    let frame = altered(|frame| {
        frame[14] = 0x47;
        frame.splice(34..34, [1, 1, 1, 1, 1, 1, 1, 0]);
        frame[16..18].copy_from_slice(&(28u16 + 15).to_be_bytes());
    });
    assert_eq!(verdict(frame), None);
}

#[test]
fn source_routes_are_dropped() {
    let frame = altered(|frame| {
        frame[14] = 0x47;
        frame.splice(34..34, [131, 7, 4, 10, 0, 0, 9, 0]);
        frame[16..18].copy_from_slice(&(28u16 + 15).to_be_bytes());
    });
    assert_eq!(verdict(frame), Some(Drop::IpHeader));
}

#[test]
fn version_mismatch_is_dropped() {
    assert_eq!(verdict(altered(|frame| frame[14] = 0x65)), Some(Drop::IpHeader));
}

#[test]
fn total_length_below_the_header_or_past_the_frame_is_dropped() {
    for total in [0u16, 19, 36, 65_535] {
        let frame = altered(|frame| frame[16..18].copy_from_slice(&total.to_be_bytes()));
        assert_eq!(verdict(frame), Some(Drop::IpHeader), "{total}");
    }
}

#[test]
fn padding_of_short_frames_is_trimmed() {
    let (mut host, id) = listening();
    let mut frame = good();
    frame.resize(60, 0xee);
    host.receive(NOW, frame);
    let datagram = host.stack.udp_recv(id).unwrap();
    assert_eq!((datagram.len, datagram.range), (7, (42, 7)));
}

#[test]
fn vlan_tags_other_than_priority_are_dropped() {
    let tagged = |tags: &[u8]| {
        let mut frame = good();
        frame.splice(12..12, tags.iter().copied());
        frame
    };
    assert_eq!(verdict(tagged(&[0x81, 0, 0xe0, 0])), None);
    assert_eq!(verdict(tagged(&[0x81, 0, 0, 7])), Some(Drop::Ethernet));
    assert_eq!(verdict(tagged(&[0x81, 0, 0, 0, 0x81, 0, 0, 0])), Some(Drop::Ethernet));
    assert_eq!(verdict(tagged(&[0x88, 0xa8, 0, 0])), Some(Drop::Ethernet));
}

#[test]
fn length_frames_of_802_3_and_other_types_are_dropped() {
    for ethertype in [0x0020u16, 0x0806, 0x86dd] {
        let mut frame = good();
        frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        assert_eq!(verdict(frame), Some(Drop::Ethernet));
    }
}

#[test]
fn frames_for_other_stations_or_from_a_group_are_dropped() {
    let mut frame = good();
    frame[5] = 99;
    assert_eq!(verdict(frame), Some(Drop::Ethernet));
    let mut frame = good();
    frame[6] |= 1;
    assert_eq!(verdict(frame), Some(Drop::Ethernet));
}

#[test]
fn martian_sources_are_dropped() {
    for src in [[0, 0, 0, 0], [0, 1, 2, 3], [127, 0, 0, 1], [224, 0, 0, 1], [240, 0, 0, 1], [255; 4]] {
        assert_eq!(
            verdict(altered(|frame| frame[26..30].copy_from_slice(&src))),
            Some(Drop::Martian),
            "{src:?}"
        );
    }
}

#[test]
fn land_packets_with_our_own_source_are_dropped() {
    assert_eq!(verdict(altered(|frame| frame[26..30].copy_from_slice(&HOST.octets()))), Some(Drop::Martian));
}

#[test]
fn packets_for_other_addresses_are_dropped() {
    for dst in [[10, 0, 0, 3], [127, 0, 0, 1], [0, 0, 0, 0], [239, 1, 1, 1], [255; 4]] {
        assert_eq!(
            verdict(altered(|frame| frame[30..34].copy_from_slice(&dst))),
            Some(Drop::NotOurs),
            "{dst:?}"
        );
    }
}

#[test]
fn broadcast_frames_carry_no_loopback_reserved_or_unicast_destination() {
    for dst in [[127, 255, 255, 255], [0, 0, 0, 255], [240, 0, 0, 255], [10, 0, 0, 9]] {
        let frame = altered(|frame| {
            frame[..6].fill(0xff);
            frame[30..34].copy_from_slice(&dst);
        });
        assert_eq!(verdict(frame), Some(Drop::NotOurs));
    }
}

#[test]
fn tcp_to_a_group_or_to_all_stations_is_dropped() {
    let segment = wire::tcp::Fields { src: 1, dst: 2, flags: wire::tcp::Flags::SYN, ..Default::default() };
    for dst in [Ipv4Addr::new(239, 1, 1, 1), Ipv4Addr::new(10, 0, 0, 255), Ipv4Addr::BROADCAST] {
        assert_eq!(verdict(ip_frame(PEER, dst, ipv4::TCP, &segment.emit())), Some(Drop::NotOurs));
    }
    let mut frame = ip_frame(PEER, HOST, ipv4::TCP, &segment.emit());
    frame[..6].fill(0xff);
    assert_eq!(verdict(frame), Some(Drop::NotOurs));
}

#[test]
fn ip_checksum_that_is_wrong_is_dropped() {
    let mut frame = good();
    frame[22] -= 1;
    assert_eq!(verdict(frame), Some(Drop::Checksum));
}

#[test]
fn udp_length_below_eight_zero_or_past_the_packet_is_dropped() {
    for len in [0u16, 7, 16, 65_535] {
        let mut frame = good();
        frame[38..40].copy_from_slice(&len.to_be_bytes());
        assert_eq!(verdict(frame), Some(Drop::Transport), "{len}");
    }
    for len in 0..8 {
        let frame = ip_frame(PEER, HOST, ipv4::UDP, &[0; 8][..len]);
        assert_eq!(verdict(frame), Some(Drop::Transport));
    }
}

#[test]
fn udp_length_short_of_the_packet_leaves_the_rest_unread() {
    let (mut host, id) = listening();
    let mut frame = good();
    frame[38..40].copy_from_slice(&10u16.to_be_bytes());
    host.receive(NOW, frame);
    let datagram = host.stack.udp_recv(id).unwrap();
    assert_eq!((datagram.len, datagram.range), (2, (42, 2)));
}

fn summed(sum: impl FnOnce(Sum, &[u8]) -> u16) -> Vec<u8> {
    let mut datagram = udp_datagram(endpoint(PEER, 9), endpoint(HOST, 5), b"payload");
    let field = sum(Sum::pseudo(PEER, HOST, ipv4::UDP, datagram.len()), &datagram);
    datagram[6..8].copy_from_slice(&field.to_be_bytes());
    ip_frame(PEER, HOST, ipv4::UDP, &datagram)
}

#[test]
fn udp_checksum_is_verified_unless_it_is_zero() {
    assert_eq!(verdict(summed(|pseudo, bytes| pseudo.bytes(bytes).finish())), None);
    let mut frame = summed(|pseudo, bytes| pseudo.bytes(bytes).finish());
    *frame.last_mut().unwrap() ^= 1;
    assert_eq!(verdict(frame), Some(Drop::Checksum));
}

#[test]
fn partial_checksum_is_accepted_only_where_configured() {
    let frame = summed(|pseudo, _| pseudo.partial());
    assert_eq!(verdict(frame.clone()), Some(Drop::Checksum));
    let (mut host, id) = listening();
    host.stack.accept_partial_checksum = true;
    host.receive(NOW, frame);
    assert!(host.stack.udp_recv(id).is_ok());
    host.receive(NOW, summed(|pseudo, _| pseudo.partial().wrapping_add(1)));
    assert_eq!(host.stack.dropped().checksum, 1);
}

/// The good packet's payload in three frames, of which `cut` says the sizes.
fn in_frames(payload: &[u8], cuts: [usize; 2]) -> (Host, SocketId, VecFrame, Vec<VecFrame>) {
    let (host, id) = listening();
    let mut datagram = udp_datagram(endpoint(PEER, 9), endpoint(HOST, 5), payload);
    let sum = Sum::pseudo(PEER, HOST, ipv4::UDP, datagram.len()).bytes(&datagram).finish();
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    let frame = ip_frame(PEER, HOST, ipv4::UDP, &datagram);
    let (head, rest) = frame.split_at(42 + cuts[0]);
    let (second, third) = rest.split_at(cuts[1]);
    (host, id, VecFrame::new(head), vec![VecFrame::new(second), VecFrame::new(third)])
}

#[test]
fn packet_over_several_frames_is_one_datagram() {
    // An odd cut: the checksum's words straddle the frames.
    let (mut host, id, head, mut tail) = in_frames(b"0123456789abcdef", [3, 6]);
    host.stack.on_frame(NOW, head, &mut tail, &mut host.out);
    assert!(tail.is_empty());
    let datagram = host.stack.udp_recv(id).unwrap();
    let bytes: Vec<u8> = datagram.tail.iter().flat_map(|frame| frame.bytes().to_vec()).collect();
    assert_eq!((datagram.len, datagram.range, &bytes[..]), (16, (42, 3), &b"3456789abcdef"[..]));
}

#[test]
fn packet_over_several_frames_whose_length_disagrees_is_dropped() {
    for change in [-1i32, 1] {
        let (mut host, _, head, mut tail) = in_frames(b"0123456789abcdef", [3, 6]);
        let mut last = tail.pop().unwrap().bytes().to_vec();
        last.resize((last.len() as i32 + change) as usize, 0);
        tail.push(VecFrame::new(last));
        host.stack.on_frame(NOW, head, &mut tail, &mut host.out);
        assert_eq!(host.stack.dropped().ip_header, 1);
        assert!(tail.is_empty());
    }
}

proptest! {
    #[test]
    fn any_frame_is_taken_without_panic_or_answer(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (mut host, _) = listening();
        host.receive(NOW, bytes);
        prop_assert!(host.out.frames.is_empty());
    }

    /// Nearly right frames reach deeper than noise does.
    #[test]
    fn altered_frames_are_taken_without_panic(
        at in 14usize..49, value: u8, at2 in 14usize..49, value2: u8, protocol in prop::sample::select(vec![1u8, 6, 17]),
    ) {
        let frame = altered(|frame| {
            frame[23] = protocol;
            frame[at] = value;
            frame[at2] = value2;
        });
        let (mut host, _) = listening();
        host.receive(NOW, frame);
    }
}
