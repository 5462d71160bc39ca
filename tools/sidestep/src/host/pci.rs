//! What a card may ask of the bus at once, from its configuration space, which is root's beyond its first 64 bytes.

use super::facts::PcieRequests;

type Result<T> = core::result::Result<T, i32>;

pub(super) fn requests(interface: &str) -> Result<PcieRequests> {
    // For virtio the PCI function is one floor below.
    let places = ["device", "device/.."].map(|place| format!("/sys/class/net/{interface}/{place}/config"));
    let bytes = places.iter().find_map(|path| std::fs::read(path).ok()).ok_or(libc::ENOENT)?;
    parse(&bytes)
}

/// Follows the list of capabilities to that of PCI Express.
fn parse(bytes: &[u8]) -> Result<PcieRequests> {
    const FIRST: usize = 0x34;
    const EXPRESS: u8 = 0x10;
    /// What an ordinary user gets.
    const HEADER: usize = 64;
    if bytes.len() <= HEADER {
        return Err(libc::EACCES);
    }
    let byte = |at: usize| bytes.get(at).copied().ok_or(libc::EPROTO);
    let mut at = usize::from(byte(FIRST)? & !3);
    // Each entry is four bytes at least: a list that is longer goes round.
    for _ in 0..HEADER {
        if at == 0 {
            return Err(libc::ENOENT);
        }
        if byte(at)? == EXPRESS {
            let (can, is) = (byte(at + 4)?, u16::from_le_bytes([byte(at + 8)?, byte(at + 9)?]));
            let size = |code: u32| 128 << code;
            return Ok(PcieRequests {
                payload: size(u32::from(is >> 5 & 7)),
                payload_max: size(u32::from(can & 7)),
                read: size(u32::from(is >> 12 & 7)),
                relaxed: is & 1 << 4 != 0,
            });
        }
        at = usize::from(byte(at + 1)? & !3);
    }
    Err(libc::EPROTO)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A configuration space with two capabilities, the second of them that of PCI Express.
    fn space() -> Vec<u8> {
        let mut bytes = vec![0; 256];
        bytes[0x34] = 0x40;
        bytes[0x40..0x42].copy_from_slice(&[0x01, 0x70]);
        bytes[0x70..0x72].copy_from_slice(&[0x10, 0x00]);
        // 512 bytes at most; 256 set, reads of 512, relaxed ordering.
        bytes[0x74] = 0x02;
        bytes[0x78..0x7a].copy_from_slice(&0x2030_u16.to_le_bytes());
        bytes
    }

    #[test]
    fn the_capability_is_found_and_read() {
        let read = parse(&space()).unwrap();
        assert_eq!(read, PcieRequests { payload: 256, payload_max: 512, read: 512, relaxed: true });
    }

    #[test]
    fn what_is_not_there_or_wrong_is_no_answer() {
        assert_eq!(parse(&space()[..64]), Err(libc::EACCES));
        let mut bytes = space();
        bytes[0x41] = 0;
        assert_eq!(parse(&bytes), Err(libc::ENOENT));
        bytes[0x41] = 0x40;
        assert_eq!(parse(&bytes), Err(libc::EPROTO));
        bytes[0x41] = 0xfc;
        bytes[0xfc] = 0x10;
        assert_eq!(parse(&bytes), Err(libc::EPROTO));
    }
}
