//! Headers and options as written and as an attacker would write them.
use super::*;
use proptest::prelude::*;

#[test]
fn header_is_read_as_written() {
    let mut options = OptionsWriter::new();
    options.mss(1460);
    options.sack_permitted();
    options.timestamps(7, 8);
    options.window_scale(9);
    let fields = Fields {
        src: 1,
        dst: 2,
        seq: 3,
        ack: 4,
        flags: Flags::SYN | Flags::ACK,
        window: 5,
        urgent: 6,
        options_len: options.bytes().len(),
    };
    let mut bytes = [0; 60];
    bytes[..20].copy_from_slice(&fields.emit());
    bytes[20..20 + options.bytes().len()].copy_from_slice(options.bytes());
    let header = Header::parse(&bytes).unwrap();
    assert_eq!((header.src(), header.dst(), header.seq(), header.ack()), (1, 2, 3, 4));
    assert_eq!((header.flags(), header.window(), header.urgent()), (fields.flags, 5, 6));
    assert_eq!(header.len(), 20 + options.bytes().len());
    let read = [Opt::Mss(1460), Opt::SackPermitted, Opt::Timestamps(7, 8), Opt::WindowScale(9)];
    assert!(header.options().eq(read));
}

#[test]
fn data_offset_below_five_or_past_the_end_is_refused() {
    let mut bytes = [0; 24];
    for offset in 0..16u8 {
        bytes[12] = offset << 4;
        assert_eq!(Header::parse(&bytes).is_some(), offset == 5 || offset == 6, "offset {offset}");
    }
    assert!(Header::parse(&[0x50; 19]).is_none());
}

#[test]
fn option_lengths_zero_one_and_past_the_end_stop_the_walk() {
    for bad in [[8, 0], [8, 1], [8, 11]] {
        let bytes = [&[2, 4, 5, 0xb4][..], &bad, &[3, 3, 7]].concat_();
        assert!(Options::new(&bytes.0[..bytes.1]).eq([Opt::Mss(1460)]), "{bad:?}");
    }
    assert!(Options::new(&[2]).next().is_none());
}

#[test]
fn known_kinds_of_wrong_length_are_other() {
    assert!(Options::new(&[2, 3, 0, 3, 4, 0, 0, 5, 6, 0, 0, 0, 0]).eq([
        Opt::Other(2),
        Opt::Other(3),
        Opt::Other(5)
    ]));
}

#[test]
fn forty_nops_are_walked_over() {
    assert!(Options::new(&[1; 40]).next().is_none());
}

#[test]
fn sack_blocks_are_read_as_written_and_cut_to_the_room() {
    let mut options = OptionsWriter::new();
    options.timestamps(1, 2);
    options.sack(&[(10, 20), (30, 40), (50, 60), (70, 80)]);
    let Some(Opt::Sack(blocks)) = Options::new(options.bytes()).nth(1) else { panic!("no SACK") };
    assert!(blocks.iter().eq([(10, 20), (30, 40), (50, 60)]));
}

#[test]
fn aligned_timestamps_are_seen_without_the_walk() {
    let mut options = OptionsWriter::new();
    options.timestamps(0x01020304, 0x05060708);
    let mut bytes = [0; 32];
    bytes[12] = 8 << 4;
    bytes[20..].copy_from_slice(options.bytes());
    assert_eq!(Header::parse(&bytes).unwrap().aligned_timestamps(), Some((0x01020304, 0x05060708)));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Some(header) = Header::parse(&bytes) {
            prop_assert!(header.len() <= bytes.len());
            let mut count = 0;
            for option in header.options() {
                count += 1;
                if let Opt::Sack(blocks) = option {
                    prop_assert!(blocks.iter().count() <= 4);
                }
            }
            prop_assert!(count <= 20);
        }
    }
}

/// Joins slices without an allocator.
trait Concat {
    fn concat_(&self) -> ([u8; 64], usize);
}
impl Concat for [&[u8]] {
    fn concat_(&self) -> ([u8; 64], usize) {
        let (mut bytes, mut len) = ([0; 64], 0);
        for part in self {
            bytes[len..len + part.len()].copy_from_slice(part);
            len += part.len();
        }
        (bytes, len)
    }
}
impl<const N: usize> Concat for [&[u8]; N] {
    fn concat_(&self) -> ([u8; 64], usize) {
        self[..].concat_()
    }
}

#[test]
fn the_announced_mss_is_what_the_headers_leave_within_its_bounds() {
    let told = [0, 39, 575, 576, 577, 1500, 9000, 65_535, 65_536, u32::MAX].map(announced_mss);
    assert_eq!(told, [536, 536, 536, 536, 537, 1460, 8960, 65_495, 65_495, 65_495]);
}
