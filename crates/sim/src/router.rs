//! What a router does with packets: fragments or an ICMP error if they are larger than the next wire, and marks (ECN).

use crate::packet::sum;

/// The router's own address.
pub const ADDRESS: u32 = 0x0a00_00fe;

/// Whether the packet in `frame` may not be cut.
pub fn forbids_fragments(frame: &[u8]) -> bool {
    frame[14 + 6] & 0x40 != 0
}

/// Cuts the packet in `frame` into fragments of at most `mtu` bytes. Options are not copied: our hosts send none.
pub fn fragment(frame: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let ip = &frame[14..];
    let len = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    let flags = u16::from_be_bytes([ip[6], ip[7]]);
    let payload = &ip[20..len];
    let step = (mtu - 20) / 8 * 8;
    let mut pieces = Vec::new();
    for (i, piece) in payload.chunks(step).enumerate() {
        let mut out = frame[..34].to_vec();
        out.extend_from_slice(piece);
        let last = (i + 1) * step >= payload.len();
        let more = if last { flags & 0x2000 } else { 0x2000 };
        let offset = (flags & 0x1fff) + (i * step / 8) as u16;
        out[16..18].copy_from_slice(&(20 + piece.len() as u16).to_be_bytes());
        out[20..22].copy_from_slice(&(more | offset).to_be_bytes());
        seal(&mut out);
        pieces.push(out);
    }
    pieces
}

/// Marks the packet in `frame` as having met congestion, if its ends speak ECN (RFC 3168, 5).
pub fn mark(frame: &mut [u8]) {
    if matches!(frame[15] & 3, 1 | 2) {
        frame[15] |= 3;
        seal(frame);
    }
}

/// The ICMP error "fragmentation needed" about `frame`, for its sender.
pub fn too_big(frame: &[u8], mtu: u32) -> Vec<u8> {
    let ip = &frame[14..];
    let quoted = &ip[..ip.len().min(28 + 20)];
    let mut out = Vec::with_capacity(14 + 28 + quoted.len());
    out.extend_from_slice(&frame[6..12]);
    out.extend_from_slice(&frame[0..6]);
    out.extend_from_slice(&[8, 0]);
    out.extend_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0]);
    out.extend_from_slice(&ADDRESS.to_be_bytes());
    out.extend_from_slice(&ip[12..16]);
    let len = (28 + quoted.len()) as u16;
    out[16..18].copy_from_slice(&len.to_be_bytes());
    seal(&mut out);
    let at = out.len();
    out.extend_from_slice(&[3, 4, 0, 0, 0, 0]);
    out.extend_from_slice(&(mtu as u16).to_be_bytes());
    out.extend_from_slice(quoted);
    let check = !sum(0, &out[at..]);
    out[at + 2..at + 4].copy_from_slice(&check.to_be_bytes());
    out
}

fn seal(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let check = !sum(0, &frame[14..34]);
    frame[24..26].copy_from_slice(&check.to_be_bytes());
}
