//! An attacker who sees nothing of the conversations but their addresses and ports, and guesses; and one who is given
//! a little more than he could know. None of it may change what the applications see (RFC 5961, 9293, 5927).

use crate::chance::Chance;
use crate::merge;
use crate::packet::{ACK, FIN, RST, SYN};

/// A victim: a segment from `source` to `destination` is forged.
#[derive(Clone, Debug)]
pub struct Victim {
    pub source: (u32, u16),
    pub destination: (u32, u16),
    /// The next number that the destination can expect, or more.
    pub expected: u32,
    /// Where what reached the destination ends, holes and all: at the last of them a reset is taken, as by Linux.
    pub ends: Vec<u32>,
    /// What the destination sent up to, and what of it was acknowledged.
    pub sent: u32,
    pub acked: u32,
    /// Both acknowledged the other's SYN. Before, a SYN that nobody can tell from the peer's makes a simultaneous open.
    pub stands: bool,
    /// The newest timestamp that reached the destination, if they use them.
    pub stamp: Option<u32>,
}

/// A frame that must not matter.
pub fn forge(c: &mut Chance, v: &Victim) -> Vec<u8> {
    let far = |c: &mut Chance| c.within(1 << 24, 1 << 29) as u32;
    let garbage = c.below(64) as usize;
    if let Some(stamp) = v.stamp
        && c.one_in(8)
    {
        // A duplicate of long ago whose numbers have come round again: only its timestamp tells (RFC 7323, 5).
        let mut frame = segment(v, v.expected, ACK, v.acked, garbage + 1, c);
        let at = 54;
        frame.truncate(at);
        frame[46] = 8 << 4;
        frame.extend_from_slice(&[1, 1, 8, 10]);
        frame.extend_from_slice(&stamp.wrapping_sub(c.within(1, 1 << 30) as u32).to_be_bytes());
        frame.extend_from_slice(&[0; 4]);
        frame.extend((0..=garbage).map(|_| c.next() as u8));
        merge::seal(&mut frame, false);
        return frame;
    }
    match c.below(10) {
        0 => segment(v, c_next(c), RST, c_next(c), 0, c),
        1 => {
            let near = v.expected.wrapping_add(c.within(1, 1000) as u32);
            let seq = (near..=u32::MAX).chain(0..).find(|seq| !v.ends.contains(seq)).unwrap_or(near);
            segment(v, seq, RST, 0, 0, c)
        }
        2 if v.stands => segment(v, v.expected.wrapping_add(c.within(1, 1000) as u32), SYN, 0, 0, c),
        3 => {
            let ack = v.sent.wrapping_add(far(c));
            segment(v, v.expected, ACK, ack, garbage, c)
        }
        4 => {
            let ack = v.acked.wrapping_sub(far(c));
            segment(v, v.expected, ACK, ack, garbage, c)
        }
        5 => {
            let seq = v.expected.wrapping_add(far(c));
            segment(v, seq, ACK | (FIN * (garbage as u8 & 1)), v.acked, garbage, c)
        }
        6 => {
            let seq = v.expected.wrapping_sub(far(c));
            segment(v, seq, ACK, v.acked, garbage, c)
        }
        7 => {
            let seq = v.expected.wrapping_add(far(c));
            let flags = c.next() as u8;
            // A bare SYN to a listener would begin a connection that nobody ends.
            let flags = if flags & (SYN | ACK | RST) == SYN { flags | ACK } else { flags };
            segment(v, seq, flags, c_next(c), garbage, c)
        }
        8 => broken(c, v),
        _ => junk(c, v), // and where a SYN is not fair
    }
}

fn c_next(c: &mut Chance) -> u32 {
    c.next() as u32
}

fn segment(v: &Victim, seq: u32, flags: u8, ack: u32, payload: usize, c: &mut Chance) -> Vec<u8> {
    let options = if c.one_in(2) { 12 } else { 0 };
    let mut frame = header(v, 6);
    frame.extend_from_slice(&v.source.1.to_be_bytes());
    frame.extend_from_slice(&v.destination.1.to_be_bytes());
    frame.extend_from_slice(&seq.to_be_bytes());
    frame.extend_from_slice(&ack.to_be_bytes());
    frame.extend_from_slice(&[(5 + options / 4) << 4, flags]);
    frame.extend_from_slice(&(c.next() as u16).to_be_bytes());
    frame.extend_from_slice(&[0, 0]);
    frame.extend_from_slice(&(c.next() as u16 * u16::from(c.one_in(4))).to_be_bytes());
    if options > 0 {
        frame.extend_from_slice(&[1, 1, 8, 10]);
        frame.extend_from_slice(&c.next().to_be_bytes());
    }
    frame.extend((0..payload).map(|_| c.next() as u8));
    merge::seal(&mut frame, false);
    frame
}

/// A segment with lengths and options that contradict each other.
fn broken(c: &mut Chance, v: &Victim) -> Vec<u8> {
    let far = v.expected.wrapping_add(1 << 28);
    let mut frame = segment(v, far, ACK, v.acked, 40, c);
    match c.below(4) {
        0 => frame[46] = c.next() as u8,
        1 => (54..90).for_each(|at| frame[at] = c.below(12) as u8),
        2 => frame.truncate(c.within(15, 60) as usize),
        _ => {
            frame[46] = 15 << 4;
            (54..90).for_each(|at| frame[at] = c.next() as u8);
        }
    }
    if frame.len() > 54 {
        merge::seal(&mut frame, false);
    }
    if c.one_in(4) && frame.len() > 20 {
        frame[14] = c.next() as u8;
    }
    frame
}

/// Fragments of nothing, ICMP errors about nothing, protocols that nobody speaks.
fn junk(c: &mut Chance, v: &Victim) -> Vec<u8> {
    let mut frame = header(v, c.one_of(&[1, 1, 2, 6, 17, 17, 41, 132]));
    match c.below(3) {
        0 => {
            let flags = (c.next() as u16 & 0x3fff) | 1;
            frame[20..22].copy_from_slice(&flags.to_be_bytes());
            frame[18..20].copy_from_slice(&(c.next() as u16).to_be_bytes());
            frame.extend((0..c.within(8, 64)).map(|_| c.next() as u8));
        }
        1 => {
            frame[23] = 1;
            frame.extend_from_slice(&[3, c.below(16) as u8, 0, 0, 0, 0]);
            frame.extend_from_slice(&(c.next() as u16).to_be_bytes());
            // Quotes a segment that the victim may have sent, with a number that it did not.
            let mut quoted = header(&Victim { source: v.destination, destination: v.source, ..v.clone() }, 6);
            quoted.extend_from_slice(&v.destination.1.to_be_bytes());
            quoted.extend_from_slice(&v.source.1.to_be_bytes());
            quoted.extend_from_slice(&v.sent.wrapping_add(1 << 27).to_be_bytes());
            quoted[16..18].copy_from_slice(&1500u16.to_be_bytes());
            frame.extend_from_slice(&quoted[14..]);
            let check = !crate::packet::sum(0, &frame[34..]);
            frame[36..38].copy_from_slice(&check.to_be_bytes());
        }
        _ => frame.extend((0..c.below(64)).map(|_| c.next() as u8)),
    }
    let len = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&len.to_be_bytes());
    frame[24..26].fill(0);
    let check = !crate::packet::sum(0, &frame[14..34]);
    frame[24..26].copy_from_slice(&check.to_be_bytes());
    frame
}

fn header(v: &Victim, protocol: u8) -> Vec<u8> {
    let host = |address: u32| crate::host::mac((address as usize & 0xff).wrapping_sub(1)).0;
    let mut frame = Vec::with_capacity(128);
    frame.extend_from_slice(&host(v.destination.0));
    frame.extend_from_slice(&host(v.source.0));
    frame.extend_from_slice(&[8, 0, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
    frame.extend_from_slice(&v.source.0.to_be_bytes());
    frame.extend_from_slice(&v.destination.0.to_be_bytes());
    frame
}
