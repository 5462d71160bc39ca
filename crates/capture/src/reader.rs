//! The reader's side of a ring. It reads the file and maps nothing: the program, perhaps another user's, may cut the
//! file off or write anything into it, and nothing of it is believed before it is checked.

use crate::{DATA, Direction, MAGIC, PACKET, Stage, Wish, Word};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 20;

/// A packet as the program had it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// CLOCK_REALTIME, nanoseconds.
    pub time_ns: u64,
    /// Which way it went.
    pub direction: Direction,
    /// Bytes that it had.
    pub original: u32,
    /// Those that were copied.
    pub bytes: Vec<u8>,
}

/// Why a ring cannot be read.
#[derive(Debug)]
pub enum Broken {
    /// The system said so.
    Io(io::Error),
    /// What stands in it cannot be.
    Nonsense,
}

impl core::fmt::Display for Broken {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Broken::Io(error) => write!(f, "{error}"),
            Broken::Nonsense => write!(f, "what stands in it cannot be"),
        }
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::Io(error)
    }
}

/// A ring that somebody else's program writes.
#[derive(Debug)]
pub struct Reader {
    file: File,
    wish: Wish,
    /// The interface's index.
    pub interface: u32,
    /// Its name.
    pub name: String,
    tail: u64,
    pulse: u64,
    /// Read and not understood yet: the beginning of a packet.
    unread: Vec<u8>,
}

impl Reader {
    /// The ring in a file, if it is the answer to this wish. `None`: not yet.
    pub fn open(path: &Path, wish: Wish) -> Result<Option<Reader>, Broken> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = match OpenOptions::new().read(true).write(true).custom_flags(flags).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let about = file.metadata()?;
        if !about.is_file() || about.len() != wish.file_length() as u64 {
            return Ok(None);
        }
        let reader =
            Reader { file, wish, interface: 0, name: String::new(), tail: 0, pulse: 0, unread: Vec::new() };
        if reader.word(Word::Magic)? != MAGIC || reader.word(Word::Wish)? != wish.word() {
            return Ok(None);
        }
        let interface = u32::try_from(reader.word(Word::Interface)?).map_err(|_| Broken::Nonsense)?;
        let mut name = [0; 16];
        reader.file.read_exact_at(&mut name, Word::Name as u64 * 8)?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name =
            String::from_utf8_lossy(name).chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        Ok(Some(Reader { interface, name, ..reader }))
    }

    /// Whose file it is.
    pub fn owner(&self) -> io::Result<u32> {
        use std::os::unix::fs::MetadataExt;
        Ok(self.file.metadata()?.uid())
    }

    /// How far it is.
    pub fn stage(&self) -> Result<Stage, Broken> {
        match self.word(Word::Stage)? {
            0 => Ok(Stage::Made),
            1 => Ok(Stage::Live),
            2 => Ok(Stage::Closed),
            _ => Err(Broken::Nonsense),
        }
    }

    /// Packets that found no room.
    pub fn dropped(&self) -> Result<u64, Broken> {
        self.word(Word::Dropped)
    }

    /// Says that there is a reader. One that does not for ten seconds has left.
    pub fn beat(&mut self) -> Result<(), Broken> {
        self.pulse += 1;
        self.set(Word::Pulse, self.pulse)
    }

    /// All packets that are there, in order. The room that they took is the program's again.
    pub fn take(&mut self, mut packet: impl FnMut(Packet)) -> Result<(), Broken> {
        let head = self.word(Word::Head)?;
        let size = self.wish.size() as u64;
        if head.wrapping_sub(self.tail) > size {
            return Err(Broken::Nonsense);
        }
        while self.tail != head {
            let at = self.tail % size;
            let some = (head - self.tail).min(size - at).min(CHUNK as u64) as usize;
            let before = self.unread.len();
            self.unread.resize(before + some, 0);
            self.file.read_exact_at(&mut self.unread[before..], DATA as u64 + at)?;
            self.tail += some as u64;
            self.set(Word::Tail, self.tail)?;
            let understood = packets(&self.unread, self.wish.snap, &mut packet)?;
            self.unread.drain(..understood);
        }
        if self.unread.is_empty() { Ok(()) } else { Err(Broken::Nonsense) }
    }

    fn word(&self, word: Word) -> Result<u64, Broken> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, word as u64 * 8)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    fn set(&self, word: Word, value: u64) -> Result<(), Broken> {
        Ok(self.file.write_all_at(&value.to_ne_bytes(), word as u64 * 8)?)
    }
}

/// Whole packets at the beginning of `bytes`; says how many bytes they took.
fn packets(bytes: &[u8], snap: u32, packet: &mut impl FnMut(Packet)) -> Result<usize, Broken> {
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + PACKET) {
        let word = |place: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&header[place * 8..][..8]);
            u64::from_ne_bytes(word)
        };
        let (captured, original) = (word(0) as u32, (word(0) >> 32) as u32);
        if captured > snap || captured > original {
            return Err(Broken::Nonsense);
        }
        let direction = match word(2) {
            1 => Direction::In,
            2 => Direction::Out,
            _ => return Err(Broken::Nonsense),
        };
        let length = captured as usize;
        let Some(content) = bytes.get(at + PACKET..at + PACKET + length.next_multiple_of(8)) else { break };
        packet(Packet { time_ns: word(1), direction, original, bytes: content[..length].to_vec() });
        at += PACKET + length.next_multiple_of(8);
    }
    Ok(at)
}
