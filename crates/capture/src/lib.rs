//! Copies of frames on their way to whoever looks at them: one ring for each lane, in a file beside the program's
//! statistics. A reader wishes for it ([`Wish`], a word of the statistics), the program makes the file, copies into it
//! under the lane's lock, and never waits: what finds no room is counted and dropped. `docs/design/capture.md`.
//!
//! ```text
//! 0         about      mark, the wish, sizes, the interface; how far it is
//! 64        head       bytes ever written, packets dropped: the program's
//! 128       tail       bytes ever read, the reader's pulse: the only words that the reader writes
//! 4096      data       packets one behind the other, around and around
//! ```
//!
//! A packet is three words (captured and original length; time; direction) and its bytes, filled up to a whole word.
#![deny(unsafe_code)]

mod reader;
#[cfg(test)]
mod tests;
#[allow(unsafe_code)] // refers to memory that another process writes
mod writer;

pub use reader::{Broken, Packet, Reader};
pub use writer::{Ring, Writer};

/// First word of a ring's file.
const MAGIC: u64 = u64::from_le_bytes(*b"VMACAPT1");
/// Where the data begins.
const DATA: usize = 4096;
/// Bytes before those of a packet.
const PACKET: usize = 24;

/// Words before the data, by their place.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Word {
    Magic = 0,
    Wish = 1,
    /// See [`Stage`].
    Stage = 2,
    /// The interface's index.
    Interface = 3,
    /// Its name: two words.
    Name = 4,
    Head = 8,
    Dropped = 9,
    Tail = 16,
    Pulse = 17,
}

/// How far a ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Stage {
    /// Made; the lane does not use it yet.
    Made = 0,
    /// Every frame of the lane is copied into it.
    Live = 1,
    /// Nothing more comes.
    Closed = 2,
}

/// Which way a frame goes, seen from the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u64)]
pub enum Direction {
    /// Received.
    In = 1,
    /// Sent.
    Out = 2,
}

/// What a reader wants of a program: one word, 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The data's bytes, as a power of two.
    pub size_log2: u8,
    /// The most that is copied of a packet.
    pub snap: u32,
    /// Tells this capture from others, and from those before; not 0.
    pub token: u32,
}

impl Wish {
    /// Sizes that a ring may have.
    pub const SIZES: core::ops::RangeInclusive<u8> = 16..=30;
    /// The longest packet there is: 64 KiB and an Ethernet header fit.
    pub const SNAP_MAX: u32 = 262_144;

    /// As a word.
    pub fn word(self) -> u64 {
        u64::from(self.token) << 32 | u64::from(self.snap & 0xff_ffff) << 8 | u64::from(self.size_log2)
    }

    /// What a word wishes for. `None`: nothing, or what no reader asks for.
    pub fn of(word: u64) -> Option<Wish> {
        let wish =
            Wish { size_log2: word as u8, snap: (word >> 8) as u32 & 0xff_ffff, token: (word >> 32) as u32 };
        let is_sound = wish.token != 0
            && Wish::SIZES.contains(&wish.size_log2)
            && (1..=Wish::SNAP_MAX).contains(&wish.snap);
        is_sound.then_some(wish)
    }

    /// Bytes of the file.
    pub fn file_length(self) -> usize {
        DATA + self.size()
    }

    fn size(self) -> usize {
        1 << self.size_log2
    }
}

/// What the names of rings begin with.
pub const FILE_PREFIX: &str = "vmacap.";

/// The name of a ring's file: of a process' lane.
pub fn file_name(pid: u32, lane: usize) -> String {
    format!("{FILE_PREFIX}{pid}.{lane}")
}
