//! UDP headers (RFC 768).

use crate::be16;

/// Bytes of a header.
pub const HEADER_LEN: usize = 8;
/// Largest payload over IPv4 without options, bytes.
pub const PAYLOAD_MAX: usize = crate::ipv4::LEN_MAX - crate::ipv4::HEADER_LEN - HEADER_LEN;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source port.
    pub src: u16,
    /// Destination port.
    pub dst: u16,
    /// Bytes of header and payload, at least 8.
    pub len: usize,
    /// The checksum; 0: the sender made none.
    pub checksum: u16,
}

impl Header {
    /// Reads a header; `ip_len` is what the IP header leaves for the datagram. `None`: too short, or a length below
    /// the header's own or beyond `ip_len`.
    #[inline]
    pub fn parse(bytes: &[u8], ip_len: usize) -> Option<Header> {
        let fixed = bytes.first_chunk::<HEADER_LEN>()?;
        let header = Header {
            src: be16(fixed, 0),
            dst: be16(fixed, 2),
            len: usize::from(be16(fixed, 4)),
            checksum: be16(fixed, 6),
        };
        (header.len >= HEADER_LEN && header.len <= ip_len).then_some(header)
    }

    /// The bytes of the header.
    #[inline]
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let [s0, s1] = self.src.to_be_bytes();
        let [d0, d1] = self.dst.to_be_bytes();
        let [l0, l1] = (self.len as u16).to_be_bytes();
        let [c0, c1] = self.checksum.to_be_bytes();
        [s0, s1, d0, d1, l0, l1, c0, c1]
    }
}

/// The value for the checksum field: a sum of zero is sent as all ones, since zero means "none".
#[inline]
pub fn checksum_field(sum: u16) -> u16 {
    if sum == 0 { 0xffff } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_read_as_written() {
        let header = Header { src: 1000, dst: 2000, len: 20, checksum: 0xabcd };
        assert_eq!(Header::parse(&header.emit(), 20), Some(header));
    }

    #[test]
    fn length_below_eight_or_past_the_packet_is_refused() {
        for len in [0, 7, 21] {
            let header = Header { src: 1, dst: 2, len, checksum: 0 };
            assert_eq!(Header::parse(&header.emit(), 20), None);
        }
        assert_eq!(Header::parse(&[0; 7], 20), None);
    }
}
