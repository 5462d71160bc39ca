//! Packets that are cut on their way out.

use super::rig::tcp_headers;
use super::*;

/// What a device in B receives of 30 000 bytes that one in A sends as one packet, behind a frame with one byte: the TCP
/// payload of each packet. `way` is how B's is opened.
fn received(way: Way) -> Option<Vec<Vec<u8>>> {
    let rig = Rig::new(1)?;
    let mut from = rig.in_a(|| Device::open("veth", &small()).unwrap());
    let open = || {
        let veth = Interface::named("veth").unwrap();
        Device::open_by(&veth, &small(), way, &owner(&veth)).unwrap()
    };
    let mut to = rig.in_b(open);
    let local = SocketAddrV4::new(B, PORT);
    to.steer(Flow { protocol: 6, local, remote: None }).unwrap();
    let payload: Vec<u8> = (0..30_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
    let (from_mac, to_mac) = (from.mac(), to.mac());
    let headers =
        |sequence, payload| tcp_headers([&from_mac, &to_mac], (A, 5000), (B, PORT), sequence, payload);
    let first = [headers(1, 1), vec![9]].concat();
    from.reserve(first.len()).unwrap().copy_from_slice(&first);
    from.commit(first.len());
    let (one, other) = payload.split_at(11_111);
    let mut send = || from.send_large(&headers(2, payload.len()), 34, &[one, other], 1448);
    assert!(rig.in_a(&mut send));
    assert_eq!((from.sent().large, from.unkicked()), (1, 0));
    let mut packets = Vec::new();
    let mut bytes = 0;
    let all = receive_until(&mut to, |head, tail| {
        let rest = tail.iter().flat_map(|chunk| chunk.bytes().iter().copied());
        let packet: Vec<u8> = head[54..].iter().copied().chain(rest).collect();
        bytes += packet.len();
        packets.push(packet);
        bytes > payload.len()
    });
    assert!(all, "{bytes} bytes arrived");
    assert_eq!(packets[0], [9], "what was committed before leaves before");
    assert_eq!(packets[1..].concat(), payload);
    Some(packets)
}

#[test]
fn large_packet_reaches_a_peer_on_this_host_whole() {
    let Some(packets) = received(Way { native: false, zero_copy: false, multi_buffer: true }) else { return };
    assert_eq!(packets.len(), 2);
}

#[test]
fn large_packet_is_cut_for_a_peer_that_takes_frames() {
    let Some(packets) = received(Way { native: true, zero_copy: false, multi_buffer: true }) else { return };
    let lengths: Vec<usize> = packets[1..].iter().map(Vec::len).collect();
    assert_eq!(lengths.len(), 30_000usize.div_ceil(1448));
    assert!(lengths[..lengths.len() - 1].iter().all(|length| *length == 1448), "{lengths:?}");
}

#[test]
fn without_the_option_there_are_only_frames() {
    let Some(rig) = Rig::new(1) else { return };
    let device = rig.in_a(|| Device::open("veth", &Options { large: false, ..small() }).unwrap());
    assert_eq!(device.large_max(), 0);
}

#[test]
fn what_sends_large_packets_is_not_opened_in_a_foreign_namespace() {
    let Some(rig) = Rig::new(1) else { return };
    let mut device = rig.in_a(|| Device::open("veth", &small()).unwrap());
    assert_ne!(device.large_max(), 0);
    assert!(!rig.in_b(|| device.send_large(&[0; 54], 34, &[&[7; 3000]], 1448)));
    assert_eq!((device.large_max(), device.sent().large), (0, 0));
}
