//! The sum against a word-by-word model, and the example of RFC 1071.
use super::*;
use proptest::prelude::*;

fn model(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[test]
fn sum_of_rfc_1071_example() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(Sum::ZERO.bytes(&bytes).partial(), 0xddf2);
    assert_eq!(Sum::ZERO.bytes(&bytes).finish(), !0xddf2);
}

#[test]
fn sum_of_64_kib_of_ones_does_not_overflow() {
    let bytes = [0xff; 65536];
    assert_eq!(Sum::ZERO.bytes(&bytes).partial(), 0xffff);
}

proptest! {
    #[test]
    fn sum_equals_the_model(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(Sum::ZERO.bytes(&bytes).partial(), model(&bytes));
    }

    #[test]
    fn pieces_equal_the_whole(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..300) {
        let cut = cut.min(bytes.len());
        let pieces = Sum::ZERO.bytes_at(0, &bytes[..cut]).bytes_at(cut, &bytes[cut..]);
        prop_assert_eq!(pieces.partial(), model(&bytes));
    }

    #[test]
    fn one_flipped_bit_is_noticed(mut bytes in proptest::collection::vec(any::<u8>(), 4..100), bit in 0usize..800) {
        bytes.truncate(bytes.len() & !1);
        bytes[..2].fill(0);
        let sum = Sum::ZERO.bytes(&bytes).finish();
        bytes[..2].copy_from_slice(&sum.to_be_bytes());
        prop_assert!(Sum::ZERO.bytes(&bytes).is_valid());
        let bit = bit % (bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!Sum::ZERO.bytes(&bytes).is_valid());
    }
}
