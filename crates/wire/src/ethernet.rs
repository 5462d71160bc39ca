//! Ethernet II headers, with at most one VLAN tag (IEEE 802.1Q).

use crate::addr::MacAddr;
use crate::be16;

/// Bytes of a header without tag.
pub const HEADER_LEN: usize = 14;
/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of a VLAN tag.
const VLAN: u16 = 0x8100;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Destination.
    pub dst: MacAddr,
    /// Source.
    pub src: MacAddr,
    /// Type of the payload. Below 0x0600 it is an 802.3 length; a second tag shows its tag type here.
    pub ethertype: u16,
    /// VLAN identifier of the tag, if there is one; 0 is a priority tag and belongs to no VLAN.
    pub vlan: Option<u16>,
    /// Where the payload begins.
    pub len: usize,
}

impl Header {
    /// Reads a header; `None`: the frame is too short for it.
    #[inline]
    pub fn parse(frame: &[u8]) -> Option<Header> {
        let fixed = frame.first_chunk::<HEADER_LEN>()?;
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, ..] = *fixed;
        let mut header = Header {
            dst: MacAddr([d0, d1, d2, d3, d4, d5]),
            src: MacAddr([s0, s1, s2, s3, s4, s5]),
            ethertype: be16(fixed, 12),
            vlan: None,
            len: HEADER_LEN,
        };
        if header.ethertype == VLAN {
            let tagged = frame.first_chunk::<{ HEADER_LEN + 4 }>()?;
            header.vlan = Some(be16(tagged, 14) & 0x0fff);
            header.ethertype = be16(tagged, 16);
            header.len = HEADER_LEN + 4;
        }
        Some(header)
    }

    /// The bytes of an IPv4 frame's header without tag.
    #[inline]
    pub fn ipv4(dst: MacAddr, src: MacAddr) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..6].copy_from_slice(&dst.0);
        bytes[6..12].copy_from_slice(&src.0);
        bytes[12..].copy_from_slice(&IPV4.to_be_bytes());
        bytes
    }
}

/// The destination that a header of [`Header::ipv4`] names.
#[inline]
pub fn destination(&[d0, d1, d2, d3, d4, d5, ..]: &[u8; HEADER_LEN]) -> MacAddr {
    MacAddr([d0, d1, d2, d3, d4, d5])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_read_as_written() {
        let bytes = Header::ipv4(MacAddr([1, 2, 3, 4, 5, 6]), MacAddr([7; 6]));
        let header = Header::parse(&bytes).unwrap();
        assert_eq!(header.dst, MacAddr([1, 2, 3, 4, 5, 6]));
        assert_eq!(header.src, MacAddr([7; 6]));
        assert_eq!((header.ethertype, header.vlan, header.len), (IPV4, None, 14));
    }

    #[test]
    fn runt_frames_have_no_header() {
        assert_eq!(Header::parse(&[0; 13]), None);
        let mut tagged = [0; 17];
        tagged[12..14].copy_from_slice(&[0x81, 0]);
        assert_eq!(Header::parse(&tagged), None);
    }

    #[test]
    fn one_vlan_tag_is_read_and_a_second_shows_as_type() {
        let mut frame = [0; 22];
        frame[12..18].copy_from_slice(&[0x81, 0, 0xf0, 5, 0x08, 0]);
        let header = Header::parse(&frame).unwrap();
        assert_eq!((header.vlan, header.ethertype, header.len), (Some(5), IPV4, 18));
        frame[16..18].copy_from_slice(&[0x81, 0]);
        assert_eq!(Header::parse(&frame).unwrap().ethertype, VLAN);
    }
}
