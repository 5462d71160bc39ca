//! Answers of the program to SYNs that are too many: what they look like, and that their cookies are the engine's.

use super::*;
use siphasher::sip::SipHasher13;

const ISN: u32 = 0xfeed_f00d;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Every SYN is too many, and is answered.
fn answering() -> Option<Loaded> {
    loaded_with_ring(0, 1460)
}

/// From PEER:9 to OURS:7, with valid checksums.
fn segment(flags: u8, seq: u32, ack: u32, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut tcp = ports(9, 7);
    tcp[4..8].copy_from_slice(&seq.to_be_bytes());
    tcp[8..12].copy_from_slice(&ack.to_be_bytes());
    tcp[12] = ((20 + options.len()) << 2) as u8;
    tcp[13] = flags;
    tcp[14..16].copy_from_slice(&1000u16.to_be_bytes());
    tcp.extend(options);
    tcp.extend(payload);
    let sum = !sum_of(&[&pseudo(PEER, OURS, tcp.len()), &tcp]);
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    let mut packet = ip(6, PEER, OURS, &tcp);
    let sum = !sum_of(&[&packet[..20]]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    ethernet(0x0800, &packet)
}

fn pseudo(source: Ipv4Addr, destination: Ipv4Addr, length: usize) -> Vec<u8> {
    [&source.octets()[..], &destination.octets(), &[0, 6], &(length as u16).to_be_bytes()].concat()
}

/// The sum of 16-bit words in ones' complement (RFC 1071); 0xffff where a checksum within is right.
fn sum_of(parts: &[&[u8]]) -> u16 {
    let mut bytes = parts.concat();
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    let mut sum: u32 = bytes.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

impl Loaded {
    /// What becomes of a packet that is answered; `None`: it is not.
    fn reply(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let mut packet = packet.to_vec();
        let (verdict, _) = bpf::program_run(&self.program, &mut packet, 1).unwrap();
        assert!(verdict == TX || verdict == DROP, "{verdict}");
        (verdict == TX).then_some(packet)
    }
}

/// The cookie for a SYN from PEER:9 to OURS:7, as `crates/stack/src/tcp/cookie.rs` describes it.
fn cookie(key: [u8; 16], minute: u64, row: u64) -> u32 {
    let ends = [OURS.octets(), PEER.octets(), [0, 7, 0, 9], ISN.to_be_bytes()].concat();
    let hash =
        SipHasher13::new_with_key(&key).hash(&[&ends[..], &(minute << 3 | row).to_le_bytes()].concat());
    ((minute & 31) << 27 | row << 24) as u32 | hash as u32 & 0x00ff_ffff
}

/// The same numbers are in `crates/stack/src/tcp/cookie.rs`.
#[test]
fn the_cookies_expected_here_are_the_engines() {
    assert_eq!(cookie(core::array::from_fn(|i| i as u8), 1234, 6), 0x96c9_f311);
}

#[test]
fn a_syn_too_many_becomes_its_own_valid_answer() {
    let Some(loaded) = answering() else { return };
    let linux = [2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7];
    for (options, payload) in [(&linux[..], &b""[..]), (&[], b""), (&linux[..4], b"early data")] {
        let reply = loaded.reply(&segment(SYN, ISN, 0, options, payload)).expect("an answer");
        assert_eq!(reply.len(), 58, "exactly");
        assert_eq!(reply[..14], [&PEER_MAC[..], &OUR_MAC, &[8, 0]].concat());
        assert_eq!(reply[14..24], [0x45, 0, 0, 44, 0, 0, 0x40, 0, 64, 6]);
        assert_eq!(reply[26..34], [OURS.octets(), PEER.octets()].concat());
        assert_eq!(sum_of(&[&reply[14..34]]), 0xffff);
        assert_eq!(reply[34..38], [0, 7, 0, 9]);
        assert_eq!(reply[42..46], (ISN + 1).to_be_bytes());
        assert_eq!(reply[46..50], [0x60, SYN | ACK, 0xff, 0xff]);
        assert_eq!(reply[52..58], [0, 0, 2, 4, 5, 180]);
        assert_eq!(sum_of(&[&pseudo(OURS, PEER, 24), &reply[34..]]), 0xffff);
    }
    assert_eq!((loaded.steering.flood.answered(), loaded.steering.flood.refused()), (3, 0));
}

#[test]
fn the_programs_cookies_are_the_engines_by_its_key_and_clock() {
    let Some(loaded) = answering() else { return };
    let key = loaded.steering.flood.key();
    let rows = [88, 536, 1220, 1300, 1400, 1440, 1460, 8960];
    for (options, mss) in [
        (&[2, 4, 5, 180][..], 1460),
        (&[2, 4, 35, 0], 8960),
        (&[2, 4, 5, 160], 1440),
        (&[2, 4, 5, 159], 1400),
        (&[2, 4, 4, 196], 1220),
        (&[2, 4, 0, 100], 88),
        (&[1, 1, 2, 4, 5, 90], 1300),
        (&[4, 2, 2, 4, 2, 24], 536),
        (&[], 536),
        // Nothing of these says an MSS.
        (&[0, 0, 2, 4, 5, 180, 0, 0], 536),
        (&[3, 0, 2, 4, 5, 180, 0, 0], 536),
        (&[3, 255, 2, 4, 5, 180, 0, 0], 536),
        (&[1, 1, 2, 4], 536),
    ] {
        let options = [options, &[0; 3]].concat();
        let options = &options[..options.len() / 4 * 4];
        let row = rows.iter().position(|&row| row == mss).unwrap() as u64;
        // A minute may end meanwhile.
        let before = sys::clock::monotonic() / 60_000_000_000;
        let reply = loaded.reply(&segment(SYN, ISN, 0, options, b"")).expect("an answer");
        let after = sys::clock::monotonic() / 60_000_000_000;
        let number = u32::from_be_bytes(reply[38..42].try_into().unwrap());
        let expected = [before, after].map(|minute| cookie(key, minute, row));
        assert!(expected.contains(&number), "{number:#x} of {expected:x?} for {options:?}");
    }
}

#[test]
fn what_the_engine_would_not_answer_is_dropped() {
    let Some(loaded) = answering() else { return };
    let syn = segment(SYN, ISN, 0, &[2, 4, 5, 180], b"");
    assert!(loaded.reply(&syn).is_some());
    let with = |at: usize, bytes: &[u8]| {
        let mut packet = syn.clone();
        packet[at..at + bytes.len()].copy_from_slice(bytes);
        loaded.reply(&packet)
    };
    for flags in [SYN | FIN, SYN | RST, SYN | RST | FIN] {
        assert_eq!(with(47, &[flags]), None, "flags {flags:#x}");
    }
    assert!(with(47, &[SYN | 0xc0]).is_some(), "an offer of ECN is not taken up");
    for source in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255, 255, 255, 255], OURS.octets()] {
        assert_eq!(with(26, &source), None, "from {source:?}");
    }
    assert_eq!(with(34, &[0, 0]), None, "port 0");
    assert_eq!(with(46, &[0x40]), None, "a header of 16 bytes");
    assert_eq!(with(0, &[0xff; 6]), None, "a broadcast frame");
    assert_eq!(with(0, &[2, 0, 0, 0, 0, 9]), None, "a frame for somebody else");
    assert_eq!(with(6, &[3]), None, "a frame from a group");
    assert_eq!(with(20, &[0x20]), None, "a first fragment");
    let options = [&syn[..14], &[0x46], &syn[15..34], &[1; 4], &syn[34..]].concat();
    assert_eq!(loaded.reply(&options), None, "IP options");
    let refused = loaded.steering.flood.refused();
    assert_eq!(refused, 15);
    for length in 48..54 {
        assert_eq!(loaded.reply(&syn[..length]), None, "cut after {length}");
    }
    assert_eq!(loaded.steering.flood.refused(), refused + 6);
}
