//! The Internet checksum (RFC 1071), accumulated in pieces.
//!
//! Sums are kept in the machine's byte order, which the one's complement sum allows (RFC 1071, 2 (B)), in 64 bits so
//! that carries are folded once, at the end. A sum holds any number of words: 64 KiB of 0xff grow it by 2^46 at most.

use core::net::Ipv4Addr;

/// A one's complement sum in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Of nothing.
    pub const ZERO: Sum = Sum(0);

    /// The pseudo-header of TCP and UDP; `len` counts the transport header and its payload.
    #[inline]
    pub fn pseudo(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: usize) -> Sum {
        Sum(u64::from(u32::from_ne_bytes(src.octets())) + u64::from(u32::from_ne_bytes(dst.octets())))
            .word(u16::from(protocol))
            .word(len as u16)
    }

    /// Adds one 16-bit field given by its value.
    #[inline]
    pub fn word(self, value: u16) -> Sum {
        Sum(self.0 + u64::from(value.to_be()))
    }

    /// Adds two 16-bit fields given by their value.
    #[inline]
    pub fn double_word(self, value: u32) -> Sum {
        Sum(self.0 + u64::from(value.to_be()))
    }

    /// Adds bytes that begin at an even offset of what is summed. Only the last piece may be of odd length.
    #[inline]
    pub fn bytes(self, bytes: &[u8]) -> Sum {
        // Four independent lanes: the compiler keeps them in vector registers.
        let (blocks, rest) = bytes.as_chunks::<32>();
        let mut lanes = [0u64; 4];
        for block in blocks {
            let (words, _) = block.as_chunks::<8>();
            for (lane, word) in lanes.iter_mut().zip(words) {
                let word = u64::from_ne_bytes(*word);
                *lane += (word & 0xffff_ffff) + (word >> 32);
            }
        }
        let mut sum = self.0 + lanes[0] + lanes[1] + lanes[2] + lanes[3];
        let (words, rest) = rest.as_chunks::<4>();
        for word in words {
            sum += u64::from(u32::from_ne_bytes(*word));
        }
        match *rest {
            [] => {}
            [a] => sum += u64::from(u16::from_ne_bytes([a, 0])),
            [a, b] => sum += u64::from(u16::from_ne_bytes([a, b])),
            [a, b, c, ..] => {
                sum += u64::from(u16::from_ne_bytes([a, b])) + u64::from(u16::from_ne_bytes([c, 0]));
            }
        }
        Sum(sum)
    }

    /// Adds bytes that begin at `offset` of what is summed, even or odd.
    #[inline]
    pub fn bytes_at(self, offset: usize, bytes: &[u8]) -> Sum {
        let piece = Sum::ZERO.bytes(bytes);
        Sum(self.0 + if offset & 1 == 0 { piece.0 } else { u64::from(piece.fold().swap_bytes()) })
    }

    /// The sum in 16 bits, in the machine's order.
    #[inline]
    fn fold(self) -> u16 {
        // The upper half of a word plus itself turned by half is the sum of its halves, carry added around the end.
        let sum = (self.0.wrapping_add(self.0.rotate_left(32)) >> 32) as u32;
        (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
    }

    /// The folded sum, not complemented: what CHECKSUM_PARTIAL leaves in the checksum field.
    #[inline]
    pub fn partial(self) -> u16 {
        u16::from_be(self.fold())
    }

    /// The value for the checksum field.
    #[inline]
    pub fn finish(self) -> u16 {
        !self.partial()
    }

    /// Whether bytes summed together with their checksum field are intact.
    #[inline]
    pub fn is_valid(self) -> bool {
        self.fold() == 0xffff
    }
}

#[cfg(test)]
mod tests;
