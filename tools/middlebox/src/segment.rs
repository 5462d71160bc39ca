//! Undoes what a sending kernel left to hardware: cuts super-frames (TSO, UDP GSO) into the packets that a wire
//! would carry, and completes checksums that hold only the pseudo-header's sum.
//!
//! Because of this the ends may keep their offloads: what crosses the box is what a real network would carry, and a
//! fault hits one packet, not forty.

/// `struct virtio_net_hdr`: what the kernel says about a frame before it (packet(7), PACKET_VNET_HDR).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offload {
    pub(crate) flags: u8,
    pub(crate) gso_type: u8,
    pub(crate) gso_size: u16,
    pub(crate) csum_start: u16,
    pub(crate) csum_offset: u16,
}

impl Offload {
    /// Size of the header before each frame.
    pub(crate) const SIZE: usize = 10;

    /// Reads the header; `None` if it is short. Its fields are in the machine's order.
    pub(crate) fn read(bytes: &[u8]) -> Option<Offload> {
        let h: &[u8; Offload::SIZE] = bytes.get(..Offload::SIZE)?.try_into().ok()?;
        let word = |at: usize| u16::from_ne_bytes([h[at], h[at + 1]]);
        Some(Offload {
            flags: h[0],
            gso_type: h[1] & !GSO_ECN,
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        })
    }
}

/// Hands `each` the packets that `frame` means. False if it cannot be understood; then nothing was handed over.
pub(crate) fn to_wire(
    offload: Offload,
    frame: &mut [u8],
    scratch: &mut Vec<u8>,
    mut each: impl FnMut(&[u8]),
) -> bool {
    let start = usize::from(offload.csum_start);
    match offload.gso_type {
        GSO_NONE => {
            if offload.flags & NEEDS_CSUM != 0 && !complete(frame, start, usize::from(offload.csum_offset)) {
                return false;
            }
            each(frame);
            true
        }
        GSO_TCPV4 | GSO_TCPV6 => cut(frame, start, usize::from(offload.gso_size), TCP, scratch, each),
        GSO_UDP_L4 => cut(frame, start, usize::from(offload.gso_size), UDP, scratch, each),
        _ => false,
    }
}

/// Finishes a checksum whose field holds the pseudo-header's sum.
fn complete(frame: &mut [u8], start: usize, offset: usize) -> bool {
    if start + offset + 2 > frame.len() {
        return false;
    }
    let is_udp = offset == 6;
    let mut sum = !fold(add(0, &frame[start..]));
    if sum == 0 && is_udp {
        sum = 0xffff;
    }
    frame[start + offset..start + offset + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

fn cut(
    frame: &[u8],
    start: usize,
    size: usize,
    protocol: u8,
    scratch: &mut Vec<u8>,
    mut each: impl FnMut(&[u8]),
) -> bool {
    let header = match protocol {
        TCP => frame.get(start + 12).map_or(0, |b| usize::from(b >> 4) * 4),
        _ => 8,
    };
    let is_v4 = frame.get(12..14) == Some(&[0x08, 0x00]);
    let least = ETHERNET + if is_v4 { 20 } else { 40 };
    let headers = start + header;
    if size == 0 || start < least || header < 8 || (protocol == TCP && header < 20) || headers > frame.len() {
        return false;
    }
    let payload = &frame[headers..];
    let count = payload.len().div_ceil(size).max(1);
    for (i, piece) in payload.chunks(size).enumerate() {
        scratch.clear();
        scratch.extend_from_slice(&frame[..headers]);
        scratch.extend_from_slice(piece);
        let (first, last) = (i == 0, i + 1 == count);
        if protocol == TCP {
            fix_tcp(&mut scratch[start..], (i * size) as u32, first, last);
        } else {
            let len = (8 + piece.len()) as u16;
            scratch[start + 4..start + 6].copy_from_slice(&len.to_be_bytes());
        }
        fix_ip(scratch, start, is_v4, i as u16);
        fix_transport_checksum(scratch, start, is_v4, protocol);
        each(scratch);
    }
    true
}

fn fix_tcp(tcp: &mut [u8], advance: u32, first: bool, last: bool) {
    let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add(advance);
    tcp[4..8].copy_from_slice(&seq.to_be_bytes());
    if !last {
        tcp[13] &= !(FIN | PSH);
    }
    if !first {
        tcp[13] &= !CWR;
    }
}

fn fix_ip(frame: &mut [u8], start: usize, is_v4: bool, index: u16) {
    if is_v4 {
        let len = (frame.len() - ETHERNET) as u16;
        frame[16..18].copy_from_slice(&len.to_be_bytes());
        let id = u16::from_be_bytes([frame[18], frame[19]]).wrapping_add(index);
        frame[18..20].copy_from_slice(&id.to_be_bytes());
        frame[24..26].fill(0);
        let sum = !fold(add(0, &frame[ETHERNET..start]));
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    } else {
        let len = (frame.len() - ETHERNET - 40) as u16;
        frame[18..20].copy_from_slice(&len.to_be_bytes());
    }
}

fn fix_transport_checksum(frame: &mut [u8], start: usize, is_v4: bool, protocol: u8) {
    let offset = if protocol == TCP { 16 } else { 6 };
    let addresses = if is_v4 { 26..34 } else { 22..54 };
    let len = (frame.len() - start) as u64;
    let mut pseudo = add(0, &frame[addresses]);
    pseudo += len + u64::from(protocol);
    frame[start + offset..start + offset + 2].copy_from_slice(&fold(pseudo).to_be_bytes());
    complete(frame, start, offset);
}

/// Adds 16-bit words without folding: 2^48 words fit.
fn add(mut sum: u64, bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        sum += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    }
    let mut rest = [0u8; 4];
    rest[..words.remainder().len()].copy_from_slice(words.remainder());
    sum + u64::from(u32::from_be_bytes(rest))
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

const ETHERNET: usize = 14;
const TCP: u8 = 6;
const UDP: u8 = 17;
const FIN: u8 = 1;
const PSH: u8 = 8;
const CWR: u8 = 0x80;
const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    fn super_frame(payload: usize) -> Vec<u8> {
        let mut f = vec![0u8; 14 + 20 + 20];
        f[12] = 8;
        f[14] = 0x45;
        f[18..20].copy_from_slice(&0xffffu16.to_be_bytes());
        f[23] = TCP;
        f[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        f[38..42].copy_from_slice(&u32::MAX.to_be_bytes());
        f[46] = 5 << 4;
        f[47] = FIN | PSH | CWR | 0x10;
        f.extend((0..payload).map(|i| i as u8));
        f
    }

    fn holds(frame: &[u8]) -> bool {
        let len = (frame.len() - 34) as u64;
        let sum = add(add(0, &frame[26..34]) + len + u64::from(TCP), &frame[34..]);
        fold(sum) == 0xffff && fold(add(0, &frame[14..34])) == 0xffff
    }

    #[test]
    fn a_super_frame_becomes_wire_packets_with_true_checksums() {
        let offload =
            Offload { flags: 1, gso_type: GSO_TCPV4, gso_size: 1000, csum_start: 34, csum_offset: 16 };
        let mut out = Vec::new();
        assert!(to_wire(offload, &mut super_frame(2500), &mut Vec::new(), |p| out.push(p.to_vec())));
        assert_eq!(out.iter().map(|p| p.len() - 54).collect::<Vec<_>>(), [1000, 1000, 500]);
        assert!(out.iter().all(|p| holds(p)));
        assert_eq!(out.iter().map(|p| p[47]).collect::<Vec<_>>(), [0x10 | CWR, 0x10, 0x10 | FIN | PSH]);
        assert_eq!(out[1][38..42], 999u32.to_be_bytes());
        assert_eq!(out[1][18..20], 0u16.to_be_bytes());
        let joined: Vec<u8> = out.iter().flat_map(|p| p[54..].to_vec()).collect();
        assert_eq!(joined, super_frame(2500)[54..]);
    }

    #[test]
    fn nonsense_from_the_kernel_is_refused() {
        for start in [0, 13, 33, 60_000] {
            let offload =
                Offload { gso_type: GSO_TCPV4, gso_size: 1000, csum_start: start, ..Offload::default() };
            assert!(!to_wire(offload, &mut super_frame(2500), &mut Vec::new(), |_| ()));
            let offload = Offload { flags: 1, csum_start: 60_000, csum_offset: 16, ..Offload::default() };
            assert!(!to_wire(offload, &mut super_frame(10), &mut Vec::new(), |_| ()));
        }
        let none = Offload { gso_type: GSO_TCPV4, gso_size: 0, csum_start: 34, ..Offload::default() };
        assert!(!to_wire(none, &mut super_frame(10), &mut Vec::new(), |_| ()));
    }
}
