//! IPv4 headers (RFC 791).

use crate::checksum::Sum;
use crate::{be16, be32};
use core::net::Ipv4Addr;

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Largest packet, bytes.
pub const LEN_MAX: usize = 65_535;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// A header whose version and lengths are consistent and that is in memory whole, options included. The payload may
/// lie elsewhere in part.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    fixed: &'a [u8; HEADER_LEN],
    options: &'a [u8],
}

#[allow(clippy::len_without_is_empty)] // a header is never empty
impl<'a> Header<'a> {
    /// Reads a header at the beginning of `packet`. `None`: too short, another version, or a header or total length
    /// that cannot be. The checksum is not looked at.
    #[inline]
    pub fn parse(packet: &'a [u8]) -> Option<Header<'a>> {
        let (fixed, rest) = packet.split_first_chunk::<HEADER_LEN>()?;
        let options = match fixed[0] {
            0x45 => &[],
            0x46..=0x4f => rest.get(..usize::from(fixed[0] & 15) * 4 - HEADER_LEN)?,
            _ => return None,
        };
        let header = Header { fixed, options };
        (header.total_len() >= header.len()).then_some(header)
    }

    /// Bytes of the header with its options.
    #[inline]
    pub fn len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }
    /// Bytes of header and payload; at least `len()`.
    #[inline]
    pub fn total_len(&self) -> usize {
        usize::from(be16(self.fixed, 2))
    }
    /// Type of service: DSCP and ECN.
    #[inline]
    pub fn tos(&self) -> u8 {
        self.fixed[1]
    }
    /// Identification.
    #[inline]
    pub fn ident(&self) -> u16 {
        be16(self.fixed, 4)
    }
    /// Don't Fragment.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        be16(self.fixed, 6) & DONT_FRAGMENT != 0
    }
    /// More Fragments.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        be16(self.fixed, 6) & MORE_FRAGMENTS != 0
    }
    /// Where this fragment's payload belongs in the datagram's, bytes.
    #[inline]
    pub fn fragment_offset(&self) -> usize {
        usize::from(be16(self.fixed, 6) & OFFSET) * 8
    }
    /// Whether it is a part of a datagram only.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        be16(self.fixed, 6) & (MORE_FRAGMENTS | OFFSET) != 0
    }
    /// Time to live.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.fixed[8]
    }
    /// Protocol of the payload.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.fixed[9]
    }
    /// Source.
    #[inline]
    pub fn src(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(be32(self.fixed, 12))
    }
    /// Destination.
    #[inline]
    pub fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(be32(self.fixed, 16))
    }
    /// The options, unparsed.
    #[inline]
    pub fn options(&self) -> &'a [u8] {
        self.options
    }
    /// Whether the options can be walked over and none of them names a route (LSRR, SSRR): nobody but an attacker
    /// tells a host by which way to answer, and Linux drops such packets by default.
    #[inline]
    pub fn options_are_harmless(&self) -> bool {
        let mut rest = self.options;
        while let Some((kind, after)) = rest.split_first() {
            rest = match kind {
                0 => return true,
                1 => after,
                131 | 137 => return false,
                _ => match after.first().and_then(|len| rest.split_at_checked(usize::from((*len).max(2)))) {
                    Some((_, behind)) if after[0] >= 2 => behind,
                    _ => return false,
                },
            };
        }
        true
    }
    /// Whether the header is intact.
    #[inline]
    pub fn checksum_is_valid(&self) -> bool {
        Sum::ZERO.bytes(self.fixed).bytes(self.options).is_valid()
    }
}

/// What a header without options is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Source.
    pub src: Ipv4Addr,
    /// Destination.
    pub dst: Ipv4Addr,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Type of service.
    pub tos: u8,
    /// Time to live.
    pub ttl: u8,
    /// Identification.
    pub ident: u16,
    /// Flags and fragment offset; see [`Fragment`].
    pub fragment: Fragment,
    /// Bytes of payload; with the header at most [`LEN_MAX`].
    pub payload_len: usize,
}

/// The word of flags and fragment offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment(u16);

impl Fragment {
    /// A whole datagram that routers may fragment.
    pub const WHOLE: Fragment = Fragment(0);
    /// A whole datagram that must not be fragmented.
    pub const DONT: Fragment = Fragment(DONT_FRAGMENT);

    /// A part that begins at `offset`, a multiple of 8, with more to follow or not.
    #[inline]
    pub fn part(offset: usize, more: bool) -> Fragment {
        Fragment((offset / 8) as u16 & OFFSET | if more { MORE_FRAGMENTS } else { 0 })
    }
}

impl Fields {
    /// The bytes of the header.
    #[inline]
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        self.write(&mut bytes);
        bytes
    }

    /// Writes the header. Its sum is made of the words that are written, not of the bytes read back.
    #[inline]
    pub fn write(&self, bytes: &mut [u8; HEADER_LEN]) {
        let len = (HEADER_LEN + self.payload_len) as u16;
        let first = 0x4500_0000 | u32::from(self.tos) << 16 | u32::from(len);
        let second = u32::from(self.ident) << 16 | u32::from(self.fragment.0);
        let third = u32::from(self.ttl) << 24 | u32::from(self.protocol) << 16;
        let (src, dst) = (self.src.to_bits(), self.dst.to_bits());
        let sum = [first, second, third, src, dst].into_iter().fold(Sum::ZERO, Sum::double_word);
        let third = third | u32::from(sum.finish());
        let (words, _) = bytes.as_chunks_mut::<4>();
        for (bytes, word) in words.iter_mut().zip([first, second, third, src, dst]) {
            *bytes = word.to_be_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields() -> Fields {
        Fields {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 0, 2),
            protocol: UDP,
            tos: 0x10,
            ttl: 64,
            ident: 0x1234,
            fragment: Fragment::part(1480, true),
            payload_len: 100,
        }
    }

    #[test]
    fn header_is_read_as_written() {
        let bytes = fields().emit();
        let header = Header::parse(&bytes).unwrap();
        assert!(header.checksum_is_valid());
        assert_eq!((header.src(), header.dst()), (fields().src, fields().dst));
        assert_eq!((header.protocol(), header.tos(), header.ttl(), header.ident()), (UDP, 0x10, 64, 0x1234));
        assert_eq!((header.total_len(), header.len()), (120, 20));
        assert!(header.is_fragment() && header.more_fragments() && !header.dont_fragment());
        assert_eq!(header.fragment_offset(), 1480);
    }

    #[test]
    fn ihl_below_five_or_past_the_packet_is_refused() {
        let mut bytes = fields().emit();
        for ihl in 0..5 {
            bytes[0] = 0x40 | ihl;
            assert!(Header::parse(&bytes).is_none());
        }
        bytes[0] = 0x46;
        assert!(Header::parse(&bytes).is_none());
    }

    #[test]
    fn total_length_below_the_header_is_refused() {
        let mut bytes = fields().emit();
        bytes[2..4].copy_from_slice(&19u16.to_be_bytes());
        assert!(Header::parse(&bytes).is_none());
    }

    #[test]
    fn other_versions_are_refused() {
        let mut bytes = fields().emit();
        for version in (0..16u8).filter(|version| *version != 4) {
            bytes[0] = version << 4 | 5;
            assert!(Header::parse(&bytes).is_none());
        }
    }

    #[test]
    fn options_that_name_a_route_or_cannot_be_walked_are_harmful() {
        let with = |options: [u8; 8]| {
            let mut bytes = [0; 28];
            bytes[..20].copy_from_slice(&fields().emit());
            bytes[0] = 0x47;
            bytes[20..].copy_from_slice(&options);
            Header::parse(&bytes).unwrap().options_are_harmless()
        };
        assert!(with([1, 1, 1, 1, 1, 1, 1, 1]));
        assert!(with([148, 4, 0, 0, 0, 131, 0, 0]));
        assert!(!with([1, 131, 7, 4, 1, 2, 3, 4]));
        assert!(!with([1, 137, 7, 4, 1, 2, 3, 4]));
        for len in [0, 1, 9] {
            assert!(!with([7, len, 0, 0, 0, 0, 0, 0]), "{len}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(header) = Header::parse(&bytes) {
                prop_assert!(header.len() <= bytes.len());
                prop_assert!(header.total_len() >= header.len());
                header.checksum_is_valid();
                header.options_are_harmless();
            }
        }
    }
}
