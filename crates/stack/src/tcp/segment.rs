//! A segment as it arrived, read once into plain values, and how one is written.

use super::options::{SegmentOptions, SynOptions};
use super::seq::Seq;
use crate::Duration;
use core::net::Ipv4Addr;
use wire::checksum::Sum;
use wire::ipv4;
use wire::tcp::{Fields, Flags, HEADER_LEN, Header, OptionsWriter};

/// How long an acknowledgment waits for data to ride on (Linux: TCP_DELACK_MIN).
pub(crate) const DELAYED_ACK: Duration = Duration::from_millis(40);

/// Everything that a segment says except its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) seq: Seq,
    pub(crate) ack: Seq,
    pub(crate) flags: Flags,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    /// Payload bytes.
    pub(crate) len: u32,
    pub(crate) options: SegmentOptions,
    /// Read from SYNs only.
    pub(crate) syn: SynOptions,
}

impl Segment {
    #[inline]
    pub(crate) fn read(header: &Header<'_>, len: u32) -> Segment {
        let flags = header.flags();
        Segment {
            seq: Seq(header.seq()),
            ack: Seq(header.ack()),
            flags,
            window: header.window(),
            urgent: header.urgent(),
            len,
            options: SegmentOptions::read(header),
            syn: if flags.has(Flags::SYN) { SynOptions::read(header) } else { SynOptions::default() },
        }
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
#[inline]
pub(crate) fn write(
    bytes: &mut [u8],
    src: Ipv4Addr,
    dst: Ipv4Addr,
    fields: &Fields,
    options: &OptionsWriter,
    fill: impl FnOnce(&mut [u8]),
) {
    let header_len = HEADER_LEN + fields.options_len;
    bytes[..HEADER_LEN].copy_from_slice(&fields.emit());
    bytes[HEADER_LEN..header_len].copy_from_slice(options.bytes());
    fill(&mut bytes[header_len..]);
    let sum = Sum::pseudo(src, dst, ipv4::TCP, bytes.len()).bytes(bytes).finish();
    bytes[16..18].copy_from_slice(&sum.to_be_bytes());
}
