//! Header views over arbitrary bytes: they accept or refuse, and what they accept can be read to the end. Two readers
//! that share no line must agree on what is a whole TCP or UDP packet.

use wire::{ethernet, icmpv4, ipv4, tcp, udp};

pub(crate) fn run(bytes: &[u8]) {
    if let Some(ether) = ethernet::Header::parse(bytes) {
        assert!(ether.len <= bytes.len(), "a header longer than its frame");
        packet(&bytes[ether.len..]);
    }
    packet(bytes);
    let _ = udp::Header::parse(bytes, bytes.len());
    message(bytes);
    segment(bytes);
    agreement(bytes);
}

fn packet(bytes: &[u8]) {
    let Some(ip) = ipv4::Header::parse(bytes) else { return };
    assert!((20..=60).contains(&ip.len()) && ip.len() <= ip.total_len(), "lengths contradict each other");
    let _ = (ip.checksum_is_valid(), ip.options_are_harmless(), ip.fragment_offset(), ip.is_fragment());
    assert_eq!(ip.options().len(), ip.len() - 20);
    let Some(payload) = bytes.get(ip.len()..ip.total_len()) else { return };
    match ip.protocol() {
        ipv4::TCP => segment(payload),
        ipv4::UDP => {
            if let Some(header) = udp::Header::parse(payload, payload.len()) {
                assert!(
                    header.len >= udp::HEADER_LEN && header.len <= payload.len(),
                    "a length of {}",
                    header.len
                );
            }
        }
        ipv4::ICMP => message(payload),
        _ => {}
    }
}

fn message(bytes: &[u8]) {
    let Some(message) = icmpv4::Message::parse(bytes) else { return };
    let _ = (message.kind(), message.code(), message.next_hop_mtu(), message.body());
    if let Some((quoted, transport)) = message.quoted() {
        assert!(transport.len() >= 8, "eight bytes of transport are promised");
        let _ = (quoted.src(), quoted.dst(), quoted.total_len());
    }
}

fn segment(bytes: &[u8]) {
    let Some(header) = tcp::Header::parse(bytes) else { return };
    assert!((20..=60).contains(&header.len()) && header.len() <= bytes.len());
    let (mut count, mut timestamps) = (0, None);
    for option in header.options() {
        count += 1;
        assert!(count <= 40, "more options than bytes");
        match option {
            tcp::Opt::Sack(blocks) => assert!(blocks.iter().count() <= 4),
            tcp::Opt::Timestamps(value, echo) if timestamps.is_none() => timestamps = Some((value, echo)),
            _ => {}
        }
    }
    if let Some(fast) = header.aligned_timestamps() {
        assert_eq!(timestamps, Some(fast), "the short way reads something else");
    }
    let _ = (header.flags(), header.reserved(), header.urgent(), header.checksum());
}

/// What the simulator's reader takes for a whole TCP or UDP packet, ours takes too, with the same values.
fn agreement(frame: &[u8]) {
    use sim::packet::Body;
    let Ok(Some(packet)) = sim::packet::parse(frame) else { return };
    let ip = ipv4::Header::parse(&frame[14..]).expect("a packet for one and none for the other");
    assert!(ip.checksum_is_valid());
    let payload = &frame[14 + ip.len()..14 + ip.total_len()];
    match packet.body {
        Body::Tcp(theirs) => {
            let ours = tcp::Header::parse(payload).expect("a segment for one and none for the other");
            assert_eq!((ours.src(), ours.dst()), (theirs.source, theirs.destination));
            assert_eq!((ours.seq(), ours.ack(), ours.window()), (theirs.seq, theirs.ack, theirs.window));
            assert_eq!(payload[ours.len()..], *theirs.payload);
        }
        Body::Udp { source, destination, payload: theirs } => {
            let ours = udp::Header::parse(payload, payload.len())
                .expect("a datagram for one and none for the other");
            assert_eq!((ours.src, ours.dst, ours.len), (source, destination, theirs.len() + 8));
        }
        _ => {}
    }
}
