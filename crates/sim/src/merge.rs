//! Packets that arrive as one: a card or a kernel that joins segments of a stream (GRO, TSO between local peers), and
//! may leave their checksum to hardware that does not exist.

use crate::packet::{self, ACK, Body, PSH, Tcp, sum};

/// Whether `frame` may be joined with a later one.
pub fn may_begin(frame: &[u8]) -> bool {
    segment(frame).is_some()
}

/// Appends the payload of `next` if it continues `whole`; whether it did.
pub fn append(whole: &mut Vec<u8>, next: &[u8]) -> bool {
    let (Some(a), Some(b)) = (segment(whole), segment(next)) else { return false };
    let continues = a.seq.wrapping_add(a.payload.len() as u32) == b.seq
        && (a.source, a.destination, a.ack, a.window) == (b.source, b.destination, b.ack, b.window)
        && a.options == b.options
        && a.options_len == b.options_len
        && whole[15] == next[15]
        && whole[26..34] == next[26..34]
        && whole.len() + b.payload.len() <= 65535;
    if continues {
        let (push, at) = (next[47] & PSH, next.len() - b.payload.len());
        whole.extend_from_slice(&next[at..]);
        whole[47] |= push;
        seal(whole, false);
    }
    continues
}

/// Writes the lengths and checksums of a packet again; `partial`: the transport's holds the pseudo-header only.
pub fn seal(frame: &mut [u8], partial: bool) {
    let len = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&len.to_be_bytes());
    frame[24..26].fill(0);
    let check = !sum(0, &frame[14..34]);
    frame[24..26].copy_from_slice(&check.to_be_bytes());
    let transport = frame.len() - 34;
    let pseudo = u64::from(sum(transport as u64 + 6, &frame[26..34]));
    frame[50..52].fill(0);
    let check = if partial { sum(pseudo, &[]) } else { !sum(pseudo, &frame[34..]) };
    frame[50..52].copy_from_slice(&check.to_be_bytes());
}

/// Whether a packet without IP options has the checksum of its pseudo-header alone, which hosts whose peers leave it to
/// hardware take for right. One in 65536 that were damaged does.
pub fn is_partial(frame: &[u8]) -> bool {
    let (protocol, at) = match frame.get(23) {
        Some(6) => (6, 50),
        Some(17) => (17, 40),
        _ => return false,
    };
    let pseudo = sum((frame.len() as u64).saturating_sub(34) + protocol, &frame[26..34]);
    frame.get(at..at + 2).is_some_and(|check| check == pseudo.to_be_bytes())
}

/// A plain data segment without IP options and with nothing but ACK and PSH, whose checksums hold.
fn segment(frame: &[u8]) -> Option<Tcp<'_>> {
    match packet::parse(frame) {
        Ok(Some(packet::Packet { body: Body::Tcp(t), len, .. })) => {
            let plain = frame[14] == 0x45
                && t.flags & !PSH == ACK
                && !t.payload.is_empty()
                && len + 14 == frame.len();
            plain.then_some(t)
        }
        _ => None,
    }
}
