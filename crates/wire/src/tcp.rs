//! TCP headers (RFC 9293, 3.1) and options (RFC 9293, 7323, 2018).

use crate::{be16, be32};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Largest header, bytes.
pub const HEADER_LEN_MAX: usize = 60;

/// The MSS to announce on a path of this MTU: what an IPv4 and a TCP header without options leave (RFC 9293, 3.7.1),
/// and no less than every host takes.
pub const fn announced_mss(mtu: u32) -> u16 {
    const LEAST: u32 = 536;
    const MOST: u32 = 65_495;
    let mss = mtu.saturating_sub(40);
    (if mss < LEAST {
        LEAST
    } else if mss > MOST {
        MOST
    } else {
        mss
    }) as u16
}

/// The control bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(1);
    /// Synchronize sequence numbers.
    pub const SYN: Flags = Flags(2);
    /// Reset the connection.
    pub const RST: Flags = Flags(4);
    /// Push.
    pub const PSH: Flags = Flags(8);
    /// The acknowledgment field counts.
    pub const ACK: Flags = Flags(16);
    /// The urgent pointer counts.
    pub const URG: Flags = Flags(32);
    /// ECN echo (RFC 3168).
    pub const ECE: Flags = Flags(64);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(128);

    /// Whether all bits of `other` are set.
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
    /// Whether any bit of `other` is set.
    #[inline]
    pub const fn any(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }
    /// These bits and those of `other`.
    #[inline]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl core::ops::BitOr for Flags {
    type Output = Flags;
    #[inline]
    fn bitor(self, other: Flags) -> Flags {
        self.with(other)
    }
}

/// A header whose data offset is consistent and that is in memory whole, options included.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    fixed: &'a [u8; HEADER_LEN],
    options: &'a [u8],
}

#[allow(clippy::len_without_is_empty)] // a header is never empty
impl<'a> Header<'a> {
    /// Reads a header at the beginning of `segment`; `None`: too short, or a data offset below 5 or past the end.
    #[inline]
    pub fn parse(segment: &'a [u8]) -> Option<Header<'a>> {
        let (fixed, rest) = segment.split_first_chunk::<HEADER_LEN>()?;
        let options = rest.get(..(usize::from(fixed[12] >> 4) * 4).checked_sub(HEADER_LEN)?)?;
        Some(Header { fixed, options })
    }

    /// Bytes of the header with its options.
    #[inline]
    pub fn len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }
    /// Source port.
    #[inline]
    pub fn src(&self) -> u16 {
        be16(self.fixed, 0)
    }
    /// Destination port.
    #[inline]
    pub fn dst(&self) -> u16 {
        be16(self.fixed, 2)
    }
    /// Sequence number.
    #[inline]
    pub fn seq(&self) -> u32 {
        be32(self.fixed, 4)
    }
    /// Acknowledgment number.
    #[inline]
    pub fn ack(&self) -> u32 {
        be32(self.fixed, 8)
    }
    /// Control bits.
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags(self.fixed[13])
    }
    /// The four bits between data offset and control bits.
    #[inline]
    pub fn reserved(&self) -> u8 {
        self.fixed[12] & 15
    }
    /// Window, unscaled.
    #[inline]
    pub fn window(&self) -> u16 {
        be16(self.fixed, 14)
    }
    /// Checksum.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.fixed, 16)
    }
    /// Urgent pointer.
    #[inline]
    pub fn urgent(&self) -> u16 {
        be16(self.fixed, 18)
    }
    /// The bytes of the options.
    #[inline]
    pub fn option_bytes(&self) -> &'a [u8] {
        self.options
    }
    /// The options one by one.
    #[inline]
    pub fn options(&self) -> Options<'a> {
        Options { rest: self.options }
    }
    /// The timestamps of the layout that nearly every segment of a connection has (RFC 7323, appendix A: two NOPs
    /// and the option), without the walk; `None`: another layout.
    #[inline]
    pub fn aligned_timestamps(&self) -> Option<(u32, u32)> {
        match self.options.first_chunk::<12>() {
            Some(bytes) if self.options.len() == 12 && bytes[..4] == [1, 1, 8, 10] => {
                Some((be32(bytes, 4), be32(bytes, 8)))
            }
            _ => None,
        }
    }
}

/// One option. Of a kind that is not listed here, or of a length that its kind does not have: `Other`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opt<'a> {
    /// Maximum segment size, bytes.
    Mss(u16),
    /// Window scale, as sent (RFC 7323 limits it to 14; the reader decides).
    WindowScale(u8),
    /// SACK permitted.
    SackPermitted,
    /// SACK blocks.
    Sack(SackBlocks<'a>),
    /// Timestamp value and echo reply.
    Timestamps(u32, u32),
    /// Kind of something else.
    Other(u8),
}

/// SACK blocks as sent: one to four, unchecked edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SackBlocks<'a>(&'a [u8]);

impl SackBlocks<'_> {
    /// The blocks: left edge, and the sequence number behind the right edge.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.0.as_chunks::<8>().0.iter().map(|block| (be32(block, 0), be32(block, 4)))
    }
}

/// Walks over options. Ends at End of Option List, and at the first whose length is 0, 1 or past the end: what
/// follows cannot be found.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// Over the bytes of options.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Options<'a> {
        Options { rest: bytes }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Opt<'a>;

    #[inline]
    fn next(&mut self) -> Option<Opt<'a>> {
        loop {
            let (&kind, after) = self.rest.split_first()?;
            match kind {
                0 => return None,
                1 => self.rest = after,
                _ => {
                    let len = usize::from(*after.first()?);
                    let (option, rest) = self.rest.split_at_checked(len)?;
                    let body = option.get(2..)?;
                    self.rest = rest;
                    return Some(match (kind, body.len()) {
                        (2, 2) => Opt::Mss(be16(body, 0)),
                        (3, 1) => Opt::WindowScale(body[0]),
                        (4, 0) => Opt::SackPermitted,
                        (5, 8 | 16 | 24 | 32) => Opt::Sack(SackBlocks(body)),
                        (8, 8) => Opt::Timestamps(be32(body, 0), be32(body, 4)),
                        _ => Opt::Other(kind),
                    });
                }
            }
        }
    }
}

/// What the fixed part of a header is made from. The checksum is written later, over header, options and payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Fields {
    /// Source port.
    pub src: u16,
    /// Destination port.
    pub dst: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// Window, unscaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Bytes of options that follow, a multiple of 4, at most 40.
    pub options_len: usize,
}

impl Fields {
    /// The bytes of the fixed part, checksum zero.
    #[inline]
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0..2].copy_from_slice(&self.src.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.dst.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.seq.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.ack.to_be_bytes());
        bytes[12] = (((HEADER_LEN + self.options_len) / 4) as u8) << 4;
        bytes[13] = self.flags.0;
        bytes[14..16].copy_from_slice(&self.window.to_be_bytes());
        bytes[18..20].copy_from_slice(&self.urgent.to_be_bytes());
        bytes
    }
}

/// Writes options one behind the other into room for the largest header.
#[derive(Clone, Copy, Debug)]
pub struct OptionsWriter {
    bytes: [u8; HEADER_LEN_MAX - HEADER_LEN],
    len: usize,
}

impl Default for OptionsWriter {
    fn default() -> Self {
        OptionsWriter::new()
    }
}

impl OptionsWriter {
    /// Without options.
    #[inline]
    pub fn new() -> OptionsWriter {
        OptionsWriter { bytes: [0; HEADER_LEN_MAX - HEADER_LEN], len: 0 }
    }
    /// Bytes of room left.
    #[inline]
    pub fn room(&self) -> usize {
        self.bytes.len() - self.len
    }
    /// Appends raw bytes; without room for them, nothing.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        if let Some(into) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            into.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }
    /// Maximum segment size.
    #[inline]
    pub fn mss(&mut self, mss: u16) {
        let [a, b] = mss.to_be_bytes();
        self.put(&[2, 4, a, b]);
    }
    /// Window scale, with a NOP that aligns it.
    #[inline]
    pub fn window_scale(&mut self, shift: u8) {
        self.put(&[1, 3, 3, shift]);
    }
    /// SACK permitted, with NOPs that align it.
    #[inline]
    pub fn sack_permitted(&mut self) {
        self.put(&[1, 1, 4, 2]);
    }
    /// Timestamps in the layout of RFC 7323, appendix A.
    #[inline]
    pub fn timestamps(&mut self, value: u32, echo: u32) {
        let mut option = [1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0];
        option[4..8].copy_from_slice(&value.to_be_bytes());
        option[8..12].copy_from_slice(&echo.to_be_bytes());
        self.put(&option);
    }
    /// As many of the SACK blocks as there is room for.
    #[inline]
    pub fn sack(&mut self, blocks: &[(u32, u32)]) {
        let count = blocks.len().min(self.room().saturating_sub(4) / 8);
        if count == 0 {
            return;
        }
        self.put(&[1, 1, 5, (2 + 8 * count) as u8]);
        for (left, right) in &blocks[..count] {
            self.put(&left.to_be_bytes());
            self.put(&right.to_be_bytes());
        }
    }
    /// What was written, a multiple of 4 (padded by End of Option List).
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len.next_multiple_of(4)]
    }
}

#[cfg(test)]
mod tests;
