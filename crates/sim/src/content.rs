//! What applications say: byte n of a stream is a function of the stream and of n, so that a reader, and the observer
//! on the wire, know every byte without being told.

use crate::chance::mix;

/// Writes the bytes of `stream` from `offset` on.
pub fn fill(stream: u64, offset: u64, into: &mut [u8]) {
    let mut at = 0;
    while at < into.len() {
        let position = offset + at as u64;
        let word = word(stream, position / 8);
        let skip = (position % 8) as usize;
        let count = (8 - skip).min(into.len() - at);
        into[at..at + count].copy_from_slice(&word[skip..skip + count]);
        at += count;
    }
}

/// Where `bytes` differ from the stream at `offset`, if anywhere.
pub fn first_difference(stream: u64, offset: u64, bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < bytes.len() {
        let position = offset + at as u64;
        let word = word(stream, position / 8);
        let skip = (position % 8) as usize;
        let count = (8 - skip).min(bytes.len() - at);
        if bytes[at..at + count] != word[skip..skip + count] {
            return (at..at + count).find(|i| bytes[*i] != word[skip + i - at]);
        }
        at += count;
    }
    None
}

fn word(stream: u64, index: u64) -> [u8; 8] {
    mix(stream.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index.wrapping_mul(0xd6e8_feb8_6659_fd93)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_agree_with_the_whole_and_a_changed_byte_is_found() {
        let mut whole = [0u8; 100];
        fill(7, 3, &mut whole);
        let mut piece = [0u8; 20];
        fill(7, 3 + 31, &mut piece);
        assert_eq!(piece, whole[31..51]);
        assert_eq!(first_difference(7, 3, &whole), None);
        whole[57] ^= 1;
        assert_eq!(first_difference(7, 3, &whole), Some(57));
        assert_eq!(first_difference(7, 3 + 50, &whole[50..]), Some(7));
    }
}
