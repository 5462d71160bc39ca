//! A segment as it arrived, read once into plain values, and how one is written.

use super::ecn;
use super::options::{SegmentOptions, SynOptions};
use super::seq::Seq;
use core::net::Ipv4Addr;
use wire::checksum::Sum;
use wire::ipv4;
use wire::tcp::{Fields, Flags, HEADER_LEN, Header, OptionsWriter};

/// Everything that a segment says except its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) seq: Seq,
    pub(crate) ack: Seq,
    pub(crate) flags: Flags,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    /// The ECN bits of its packet.
    pub(crate) ip_ecn: u8,
    /// Payload bytes.
    pub(crate) len: u32,
    pub(crate) options: SegmentOptions,
    /// Read from SYNs only.
    pub(crate) syn: SynOptions,
}

impl Segment {
    #[inline]
    pub(crate) fn read(header: &Header<'_>, len: u32, tos: u8) -> Segment {
        let flags = header.flags();
        let mut seg = Segment {
            seq: Seq(header.seq()),
            ack: Seq(header.ack()),
            flags,
            window: header.window(),
            urgent: header.urgent(),
            ip_ecn: tos & ecn::ECN_MASK,
            len,
            options: SegmentOptions::default(),
            syn: SynOptions::default(),
        };
        // In place: a struct that is built elsewhere and moved here costs more than reading it.
        seg.options.read(header);
        if flags.has(Flags::SYN) {
            seg.syn = SynOptions::read(header);
            seg.syn.ecn = ecn::is_asked(header, seg.ip_ecn);
        }
        seg
    }

    #[inline]
    pub(crate) fn has(&self, flag: Flags) -> bool {
        self.flags.has(flag)
    }

    /// Sequence space: payload, SYN and FIN.
    #[inline]
    pub(crate) fn space(&self) -> u32 {
        self.len + u32::from(self.has(Flags::SYN)) + u32::from(self.has(Flags::FIN))
    }
}

/// Writes a segment into `bytes`, which has its exact length; `fill` writes the payload.
///
/// The header goes out word by word, and its sum is made of the same words: reading back what was just written in
/// smaller pieces would wait for the stores.
#[inline]
pub(crate) fn write(
    bytes: &mut [u8],
    src: Ipv4Addr,
    dst: Ipv4Addr,
    fields: &Fields,
    options: &OptionsWriter,
    fill: impl FnOnce(&mut [u8]),
) {
    let sum = Sum::pseudo(src, dst, ipv4::TCP, bytes.len()).bytes(options.bytes());
    let header_len = HEADER_LEN + fields.options_len;
    let Some((header, rest)) = bytes.split_first_chunk_mut::<HEADER_LEN>() else { return };
    let sum = write_words(header, fixed(fields), sum);
    rest[..fields.options_len].copy_from_slice(options.bytes());
    finish(bytes, header_len, sum, fill);
}

/// As [`write`], with timestamps as the only option: nearly every segment of a connection.
#[inline]
pub(crate) fn write_stamped(
    bytes: &mut [u8],
    src: Ipv4Addr,
    dst: Ipv4Addr,
    fields: &Fields,
    stamps: (u32, u32),
    fill: impl FnOnce(&mut [u8]),
) {
    let sum = Sum::pseudo(src, dst, ipv4::TCP, bytes.len());
    let Some((header, _)) = bytes.split_first_chunk_mut::<{ HEADER_LEN + TIMESTAMPS_LEN }>() else { return };
    let [a, b, c, d, e] = fixed(fields);
    let sum = write_words(header, [a, b, c, d, e, TIMESTAMPS_AHEAD, stamps.0, stamps.1], sum);
    finish(bytes, HEADER_LEN + TIMESTAMPS_LEN, sum, fill);
}

/// Writes the header of a segment that is cut later: `bytes` is header and options, `payload` the length of the rest.
/// The checksum is that of the pseudo header only; who cuts completes it.
pub(crate) fn write_large(
    bytes: &mut [u8],
    src: Ipv4Addr,
    dst: Ipv4Addr,
    fields: &Fields,
    options: &OptionsWriter,
    payload: usize,
) {
    let pseudo = Sum::pseudo(src, dst, ipv4::TCP, bytes.len() + payload);
    let Some((header, rest)) = bytes.split_first_chunk_mut::<HEADER_LEN>() else { return };
    write_words(header, fixed(fields), Sum::default());
    rest[..fields.options_len].copy_from_slice(options.bytes());
    header[16..18].copy_from_slice(&pseudo.partial().to_be_bytes());
}

/// The header without its options, checksum zero.
#[inline(always)]
fn fixed(fields: &Fields) -> [u32; HEADER_LEN / 4] {
    let offset = ((HEADER_LEN + fields.options_len) / 4) as u32;
    [
        u32::from(fields.src) << 16 | u32::from(fields.dst),
        fields.seq,
        fields.ack,
        offset << 28 | u32::from(fields.flags.0) << 16 | u32::from(fields.window),
        u32::from(fields.urgent),
    ]
}

#[inline(always)]
fn write_words<const BYTES: usize, const WORDS: usize>(
    bytes: &mut [u8; BYTES],
    words: [u32; WORDS],
    sum: Sum,
) -> Sum {
    const { assert!(BYTES == 4 * WORDS) };
    for (bytes, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = word.to_be_bytes();
    }
    words.into_iter().fold(sum, Sum::double_word)
}

#[inline(always)]
fn finish(bytes: &mut [u8], header_len: usize, sum: Sum, fill: impl FnOnce(&mut [u8])) {
    let payload = &mut bytes[header_len..];
    fill(payload);
    let sum = sum.bytes(payload).finish();
    bytes[16..18].copy_from_slice(&sum.to_be_bytes());
}

/// NOP, NOP, kind 8, length 10 (RFC 7323, appendix A), and the option's length with them.
const TIMESTAMPS_AHEAD: u32 = 0x0101_080a;
pub(crate) const TIMESTAMPS_LEN: usize = 12;
