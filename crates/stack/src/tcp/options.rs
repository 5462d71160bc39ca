//! Options of segments: what a SYN offers, what every other segment tells. Read once, into plain values.

use super::seq::Seq;
use wire::tcp::{Header, Opt, OptionsWriter};

/// What a SYN said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SynOptions {
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack_permitted: bool,
    pub(crate) timestamps: Option<(u32, u32)>,
    /// It asked for ECN, by its flags (see `ecn`).
    pub(crate) ecn: bool,
}

impl SynOptions {
    /// Of an option that comes twice the first one counts.
    pub(crate) fn read(header: &Header<'_>) -> SynOptions {
        let mut read = SynOptions::default();
        for option in header.options() {
            match option {
                Opt::Mss(mss) => _ = read.mss.get_or_insert(mss),
                Opt::WindowScale(shift) => _ = read.window_scale.get_or_insert(shift),
                Opt::SackPermitted => read.sack_permitted = true,
                Opt::Timestamps(value, echo) => _ = read.timestamps.get_or_insert((value, echo)),
                Opt::Sack(_) | Opt::Other(_) => {}
            }
        }
        read
    }

    pub(crate) fn write(&self) -> OptionsWriter {
        let mut options = OptionsWriter::new();
        if let Some(mss) = self.mss {
            options.mss(mss);
        }
        if self.sack_permitted {
            options.sack_permitted();
        }
        if let Some((value, echo)) = self.timestamps {
            options.timestamps(value, echo);
        }
        if let Some(shift) = self.window_scale {
            options.window_scale(shift);
        }
        options
    }
}

/// What a segment of a connection said.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SegmentOptions {
    pub(crate) timestamps: Option<(u32, u32)>,
    blocks: [(Seq, Seq); 4],
    count: u8,
}

impl SegmentOptions {
    #[inline]
    pub(crate) fn read(&mut self, header: &Header<'_>) {
        self.timestamps = header.aligned_timestamps();
        if self.timestamps.is_none() && !header.option_bytes().is_empty() {
            self.walk(header);
        }
    }

    #[cold]
    fn walk(&mut self, header: &Header<'_>) {
        for option in header.options() {
            match option {
                Opt::Timestamps(value, echo) => _ = self.timestamps.get_or_insert((value, echo)),
                Opt::Sack(blocks) if self.count == 0 => {
                    for (slot, (left, right)) in self.blocks.iter_mut().zip(blocks.iter()) {
                        *slot = (Seq(left), Seq(right));
                        self.count += 1;
                    }
                }
                _ => {}
            }
        }
    }

    /// SACK blocks as sent, edges unchecked.
    #[inline]
    pub(crate) fn sack_blocks(&self) -> &[(Seq, Seq)] {
        &self.blocks[..usize::from(self.count)]
    }
}

/// The smallest shift with which a window of `space` bytes can be told (RFC 7323, 2.2).
pub(crate) fn window_scale_for(space: u32) -> u8 {
    let mut shift = 0;
    while shift < 14 && space >> shift > 65_535 {
        shift += 1;
    }
    shift
}
