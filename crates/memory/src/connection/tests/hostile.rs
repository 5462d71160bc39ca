//! A peer that writes into the segment what it wants.

use super::tests::{all_of, bytes, pair};
use super::*;
use core::sync::atomic::AtomicBool;

/// Writes a message as the guest, with this header; nothing about it need be right.
fn forge(on: &Connection, number: u64, mid: u8, flags: u8, len: u32, credit: (u32, u16), body: u32) {
    let at = on.segment().slot_at(Side::Guest, number);
    let mut header = [0; 24];
    (header[0], header[1]) = (mid, flags);
    header[2..4].copy_from_slice(&credit.1.to_be_bytes());
    header[4..8].copy_from_slice(&len.to_be_bytes());
    header[8..12].copy_from_slice(&(number as u32).to_be_bytes());
    header[12..16].copy_from_slice(&credit.0.to_be_bytes());
    header[16..20].copy_from_slice(&body.to_be_bytes());
    on.segment().scribble(at, &header);
}

const DATA: u8 = 0xff;
const NO_CREDIT: (u32, u16) = (0, 0);

/// A pair, and a third view of its segment.
fn three() -> (Connection, Connection, Segment) {
    let (made, file) = Segment::make().unwrap();
    let view = || Segment::join(&file).unwrap();
    (Connection::new(made, Side::Maker), Connection::new(view(), Side::Guest), view())
}

fn is_contained(a: &mut Connection, why: &str) {
    let _ = a.take_in();
    assert!(matches!(a.broken(), Some(Broken::Peer(_))), "{why}: {:?}", a.broken());
    // And nothing that comes later changes that.
    let _ = (a.take_in(), all_of(a));
    assert_eq!((a.send(b"x").0, a.is_readable(), a.is_writable()), (0, true, true), "{why}");
    let _ = (a.shut(), a.leave(), a.abort());
}

#[test]
fn a_header_that_cannot_be_ends_the_connection() {
    for (what, mid, flags, len, body) in [
        ("an unknown kind", 0x42, 0, 16, 0),
        ("a kind that nobody agreed on", 0xfe, 0, 24, 0),
        ("a flag", DATA, 1, 17, 0),
        ("a body behind the last, of one that grows", DATA, 0x80, 17, SLOTS),
        ("shorter than its header", DATA, 0, 15, 0),
        ("no payload", DATA, 0, 16, 0),
        ("longer than a body", DATA, 0, 16 + 8193, 0),
        ("as long as can be said", DATA, 0, u32::MAX, 0),
        ("a body behind the last", DATA, 0, 16 + 233, SLOTS),
        ("a body far away", DATA, 0, 16 + 8192, u32::MAX),
        ("an end with payload", 0x02, 0, 17, 0),
        ("leaving without a number", 0x0d, 0, 16, 0),
        ("an answer that nobody asked for", 0x0e, 0, 16, 0),
        ("parting with payload", 0x7f, 0, 17, 0),
    ] {
        let (mut a, _b) = pair();
        forge(&a, 1, mid, flags, len, NO_CREDIT, body);
        is_contained(&mut a, what);
    }
}

#[test]
fn a_message_with_the_number_of_another_ends_the_connection() {
    for number in [2u32, 257, u32::MAX, 0x8000_0000] {
        let (mut a, _b) = pair();
        let at = a.segment().slot_at(Side::Guest, 1);
        a.segment().scribble(at + 8, &number.to_be_bytes());
        is_contained(&mut a, "a wrong number");
    }
}

#[test]
fn an_extent_that_cannot_be_ends_the_connection() {
    for extent in [0u32, 99, PAYLOAD_MAX as u32 + 1, u32::MAX, 1 << 31] {
        let (mut a, _b) = pair();
        forge(&a, 1, DATA, 0x80, 16 + 100, NO_CREDIT, 0);
        let at = a.segment().extent_at(Side::Guest, 1);
        a.segment().scribble(at, &extent.to_ne_bytes());
        is_contained(&mut a, "an extent");

        // And when it was believed before.
        let (mut a, _b) = pair();
        forge(&a, 1, DATA, 0x80, 16 + 100, NO_CREDIT, 0);
        a.segment().scribble(at, &100u32.to_ne_bytes());
        let _ = a.take_in();
        assert_eq!((a.unread(), a.broken()), (100, None));
        a.segment().scribble(at, &extent.to_ne_bytes());
        let mut all = [0; 200];
        let _ = a.receive(&mut all);
        is_contained(&mut a, "an extent, at the end of what is known");
    }
}

#[test]
fn who_closes_a_message_early_gets_another_one() {
    let (mut a, mut b) = pair();
    while a.granted - a.sent > SCARCE {
        let _ = a.send(b"x");
    }
    assert_eq!((a.send(b"grows").0, a.grows), (5, true));
    for extent in [1u32 << 31 | 5, 4, u32::MAX] {
        let number = a.sent;
        a.segment().scribble(a.segment().extent_at(Side::Maker, number), &extent.to_ne_bytes());
        assert_eq!((a.send(b"more5").0, a.sent, a.broken()), (5, number + 1, None));
    }
    let _ = b.take_in();
}

#[test]
fn more_messages_than_were_granted_end_the_connection() {
    let (mut a, _b) = pair();
    for number in 1..=u64::from(SLOTS) {
        forge(&a, number, DATA, 0, 17, NO_CREDIT, 0);
    }
    let _ = a.take_in();
    assert_eq!((a.broken(), a.unread()), (None, SLOTS as usize));
    forge(&a, u64::from(SLOTS) + 1, DATA, 0, 17, NO_CREDIT, 0);
    let _ = a.take_in();
    assert!(matches!(a.broken(), Some(Broken::Peer(_))), "{:?}", a.broken());
    assert_eq!(a.unread(), SLOTS as usize);
}

#[test]
fn grants_that_cannot_be_end_the_connection_and_old_ones_say_nothing() {
    let (mut a, _b) = pair();
    forge(&a, 1, DATA, 0, 17, (0, SLOTS as u16 + 1), 0);
    is_contained(&mut a, "more buffers than there are");
    let (mut a, _b) = pair();
    forge(&a, 1, DATA, 0, 17, (1, SLOTS as u16), 0);
    is_contained(&mut a, "acknowledges what was not sent");
    for credit in [(0u32, 0u16), (0, 256), (u32::MAX, 0), (0x9000_0000, 9)] {
        let (mut a, _b) = pair();
        forge(&a, 1, DATA, 0, 17, credit, 0);
        let _ = a.take_in();
        assert_eq!((a.broken(), a.granted), (None, u64::from(SLOTS)), "{credit:?}");
    }
    // The same in the cell, which is looked at when grants run out.
    let (mut a, _b) = pair();
    let at = a.segment().credit_at(Side::Guest);
    a.segment().scribble(at, &Credit { acknowledged: 5000, buffers: 3 }.to_word().to_ne_bytes());
    while a.broken().is_none() && a.send(b"x").0 > 0 {}
    assert!(matches!(a.broken(), Some(Broken::Peer(_))));
}

#[test]
fn nothing_comes_behind_an_end() {
    const PARTS: u8 = 0x7f;
    let ends = [(0x02, DATA), (0x02, 0x02), (0x02, PARTS), (PARTS, DATA), (PARTS, 0x02), (PARTS, PARTS)];
    for (first, then) in ends {
        let (mut a, _b) = pair();
        forge(&a, 1, first, 0, 16, NO_CREDIT, 0);
        forge(&a, 2, then, 0, 16 + u32::from(then == DATA), NO_CREDIT, 0);
        is_contained(&mut a, "behind an end");
    }
}

#[test]
fn who_leaves_cannot_have_read_what_was_not_sent() {
    for read in [1u64, u64::MAX, 4] {
        let (mut a, _b) = pair();
        if read == 4 {
            assert_eq!(a.send(b"abc").0, 3);
        }
        let at = a.segment().slot_at(Side::Guest, 1);
        a.segment().scribble(at + 24, &read.to_be_bytes());
        forge(&a, 1, 0x0d, 0, 24, NO_CREDIT, 0);
        is_contained(&mut a, "read too much");
        let mut buffer = [0; 16];
        assert_eq!(a.owed(0, &mut buffer), 0);
    }
}

#[test]
fn who_leaves_twice_is_told_to_go() {
    let (mut a, _b) = pair();
    forge(&a, 1, 0x0d, 0, 24, NO_CREDIT, 0);
    forge(&a, 2, 0x0d, 0, 24, NO_CREDIT, 0);
    is_contained(&mut a, "leaves twice");
}

#[test]
fn a_payload_that_changes_while_it_is_read_is_a_payload_all_the_same() {
    let (mut a, mut b, segment) = three();
    let stop = AtomicBool::new(false);
    let at = a.segment().slot_at(Side::Guest, 1);
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            let mut byte = 0u8;
            while !stop.load(Ordering::Relaxed) {
                byte = byte.wrapping_add(1);
                // Lengths, bodies and payload of slots that are being read; not the numbers.
                for slot in 0..u64::from(SLOTS) {
                    let at = at + 256 * (slot as usize).min(254);
                    segment.scribble(at + 4, &[0, 0, byte & 1, byte]);
                    segment.scribble(at + 16, &[0, 0, byte & 1, byte]);
                    segment.scribble(at + 24 + usize::from(byte), &[byte]);
                }
            }
        });
        for round in 0..2000 {
            let _ = b.send(&bytes(round, 1 + round * 7 % 9000));
            let _ = all_of(&mut a);
            if a.broken().is_some() {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn noise_everywhere_neither_kills_nor_holds_the_reader() {
    let mut random = 1u64;
    let mut below = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    for _ in 0..300 {
        let (mut a, mut b) = pair();
        for _ in 0..60 {
            match below(6) {
                0 => _ = a.send(&bytes(0, below(20_000) as usize)),
                1 => _ = b.send(&bytes(0, below(20_000) as usize)),
                2 => _ = all_of(&mut a),
                3 if below(8) == 0 => _ = a.part(),
                3 => _ = a.is_writable(),
                4 => {
                    let (number, at) = (1 + below(300), below(24));
                    let at = a.segment().slot_at(Side::Guest, number) + at as usize;
                    a.segment().scribble(at, &[below(256) as u8]);
                }
                _ => {
                    let at = a.segment().credit_at(Side::Guest) + below(8) as usize;
                    a.segment().scribble(at, &[below(256) as u8]);
                }
            }
            assert!(a.granted <= a.sent + u64::from(SLOTS) && a.freed <= a.sent);
            assert!(a.arrived.len() <= SLOTS as usize);
        }
        let _ = (a.leave(), a.take_in());
        let mut buffer = [0; 100];
        let _ = a.owed(0, &mut buffer);
    }
}

#[test]
fn a_frozen_peer_stops_nothing_but_the_stream() {
    let (mut a, b) = pair();
    while a.send(&bytes(0, 8192)).0 > 0 {}
    assert!(!a.is_writable() && !a.is_readable());
    let _ = a.part();
    assert!(!a.has_left(), "it has not read all");
    let _ = (a.shut(), a.leave(), a.abort());
    assert_eq!(a.broken(), Some(Broken::Reset));
    drop(b);
}

#[test]
fn wishes_that_are_made_up_cost_a_ring_for_each_send_at_most() {
    let (mut a, b) = pair();
    b.want(Wants::BOTH);
    assert_eq!(a.send(b"x").1, Ring::Yes);
    assert_eq!(a.send(b"x").1, Ring::No);
    b.segment().wants(Side::Guest).store(u32::MAX, Ordering::SeqCst);
    assert_eq!(a.send(b"x").1, Ring::Yes);
    assert_eq!(a.send(b"x").1, Ring::No);
}
