//! The reader's side: bytes of a segment in, values out. The bytes are another process's, perhaps another user's:
//! nothing in them is believed before it is checked, and a reader works on a copy, so that nothing changes under it.

use crate::counters::{Lane, Process, Socket};
use crate::layout::{GROUPS, HEADER, MAGIC, PROGRAM, PROGRAM_AT, Places, TABLE_HASH, VERSION, Word};
use crate::segment::member_of;
use crate::why::Why;
use core::mem::size_of;
use core::net::Ipv4Addr;

/// Bytes of the largest segment: a reader need not read more of a file.
pub const SIZE_MAX: usize = 8 << 20;

/// Everything that a segment said at one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// The writer.
    pub pid: u32,
    /// Its program.
    pub program: String,
    /// CLOCK_REALTIME when it started, nanoseconds.
    pub started_ns: u64,
    /// The process's block.
    pub process: Process,
    /// Sockets left to the kernel, per reason.
    pub left: Vec<(Why, u64)>,
    /// Blocks of lanes that are in use, with their numbers.
    pub lanes: Vec<(usize, Lane)>,
    /// Blocks of sockets that are in use.
    pub sockets: Vec<Socket>,
    /// Memberships of multicast groups: the descriptor's cell and the group.
    groups: Vec<(u64, Ipv4Addr)>,
    /// What sockets without a block counted together.
    pub others: Socket,
    /// The wish for copies of frames that stands, as `capture::Wish` has it; 0: none.
    pub capture: u64,
    /// Why the last one was not granted: errno.
    pub capture_errno: u64,
    places: Places,
}

/// Why bytes are not a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// No segment, or one that is just being made.
    NotASegment,
    /// Another version of the product wrote it: theirs and ours, each the form of the file and its counters.
    OtherVersion([u64; 2], [u64; 2]),
    /// Cut off, or its sizes contradict each other.
    Damaged,
}

impl core::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Unreadable::NotASegment => write!(f, "not a statistics file"),
            Unreadable::OtherVersion(theirs, ours) => {
                let ([form, table], [our_form, our_table]) = (theirs, ours);
                write!(
                    f,
                    "Version {form}-{table:016x} is not compatible with stats protocol version {our_form}-{our_table:016x}"
                )
            }
            Unreadable::Damaged => write!(f, "the statistics file is damaged or cut off"),
        }
    }
}

impl Snapshot {
    /// Reads a copy of a segment, with the counts that a reader set aside as baseline taken away.
    pub fn parse(bytes: &[u8]) -> Result<Snapshot, Unreadable> {
        let header = bytes.get(..HEADER).ok_or(Unreadable::NotASegment)?;
        let word = |word: Word| words(&header[word as usize * 8..][..8])[0];
        if word(Word::Magic) != MAGIC {
            return Err(Unreadable::NotASegment);
        }
        let (theirs, ours) = ([word(Word::Version), word(Word::TableHash)], [VERSION, TABLE_HASH]);
        if theirs != ours {
            return Err(Unreadable::OtherVersion(theirs, ours));
        }
        let number = |which: Word| usize::try_from(word(which)).map_err(|_| Unreadable::Damaged);
        let (lanes, sockets) = (number(Word::Lanes)?, number(Word::Sockets)?);
        let places = Places::new(lanes, sockets).ok_or(Unreadable::Damaged)?;
        if number(Word::Total)? != places.total || bytes.len() < places.total {
            return Err(Unreadable::Damaged);
        }
        let parts = Parts { bytes, places };
        let name = &header[PROGRAM_AT..PROGRAM_AT + PROGRAM];
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name);
        let program = name.chars().map(|c| if c.is_control() { '?' } else { c });
        let mut blocks: Vec<Socket> = (0..=sockets).map(|number| parts.socket(number)).collect();
        let others = blocks.pop().unwrap_or(Socket::new());
        let groups = words(&bytes[places.groups..][..GROUPS * 8]).into_iter().filter_map(|word| {
            let (number, group) = member_of(word)?;
            Some((blocks.get(number as usize)?.fd.value(), group))
        });
        let groups = groups.collect();
        Ok(Snapshot {
            pid: u32::try_from(word(Word::Pid)).map_err(|_| Unreadable::Damaged)?,
            program: program.collect(),
            started_ns: word(Word::StartedNs),
            process: parts.process(),
            left: parts.left(),
            lanes: (0..lanes)
                .map(|n| (n, parts.lane(n)))
                .filter(|(_, lane)| lane.interface.value() != 0)
                .collect(),
            sockets: blocks.into_iter().filter(|socket| socket.fd.value() != 0).collect(),
            groups,
            others,
            capture: words(&bytes[HEADER + CAPTURE * 8..][..8])[0],
            capture_errno: words(&bytes[HEADER + CAPTURE * 8 + 8..][..8])[0],
            places,
        })
    }

    /// The same writer with other numbers: what happened between two looks, say.
    pub fn with(
        &self,
        process: Process,
        left: Vec<(Why, u64)>,
        lanes: Vec<(usize, Lane)>,
        sockets: Vec<Socket>,
    ) -> Snapshot {
        let (program, others) = (self.program.clone(), Socket::from_words(&self.others.words()));
        let groups = self.groups.clone();
        Snapshot { program, process, left, lanes, sockets, groups, others, ..*self }
    }

    /// The block of a descriptor.
    pub fn socket(&self, fd: i32) -> Option<&Socket> {
        let named = u64::try_from(fd).ok()? + 1;
        self.sockets.iter().find(|socket| socket.fd.value() == named)
    }

    /// The multicast groups of a socket.
    pub fn groups(&self, socket: &Socket) -> Vec<Ipv4Addr> {
        let own = self.groups.iter().filter(|(fd, _)| *fd != 0 && *fd == socket.fd.value());
        own.map(|(_, group)| *group).collect()
    }

    /// What to write where in the file so that all counts begin at zero: the place, and the range of the file's bytes
    /// to put there.
    pub fn zeroing(&self) -> (usize, core::ops::Range<usize>) {
        (self.places.baseline, self.places.process..self.places.baseline)
    }
}

/// The place of the wish for copies among the words of the control block; why it was refused is behind it.
const CAPTURE: usize = 4;

/// Words of the control block that a reader writes; each is one 8-byte write into the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Log at this level from now on (-1: nothing).
    LogLevel(i32),
    /// Put this much before each line.
    LogDetails(u32),
    /// Log the state of this descriptor, at this level.
    Dump(i32, i32),
    /// Copy all frames, as `capture::Wish` says; 0: no more.
    Capture(u64),
}

impl Wish {
    /// Places in the file and the words to write there, in order.
    pub fn writes(self) -> Vec<(usize, [u8; 8])> {
        let level = |level: i32| (i64::from(level) + 2).max(0) as u64;
        let at = |place: usize, word: u64| (HEADER + place * 8, word.to_ne_bytes());
        match self {
            Wish::LogLevel(wanted) => vec![at(0, level(wanted))],
            Wish::LogDetails(wanted) => vec![at(1, u64::from(wanted) + 1)],
            Wish::Dump(fd, wanted) => vec![at(3, level(wanted)), at(2, (i64::from(fd) + 1).max(0) as u64)],
            // A new wish begins without the refusal of an old one.
            Wish::Capture(word) => vec![at(CAPTURE + 1, 0), at(CAPTURE, word)],
        }
    }
}

/// The parts of a copy whose length was checked.
struct Parts<'a> {
    bytes: &'a [u8],
    places: Places,
}

impl Parts<'_> {
    /// A part's words, and those of its baseline.
    fn part(&self, at: usize, length: usize) -> (Vec<u64>, Vec<u64>) {
        let baseline = at - self.places.process + self.places.baseline;
        (words(&self.bytes[at..at + length]), words(&self.bytes[baseline..baseline + length]))
    }

    fn process(&self) -> Process {
        let (now, then) = self.part(self.places.process, size_of::<Process>());
        Process::from_words(&now).since(&Process::from_words(&then))
    }

    fn left(&self) -> Vec<(Why, u64)> {
        let (now, then) = self.part(self.places.why, Why::COUNT * 8);
        let counts = now.into_iter().zip(then).map(|(now, then)| now.saturating_sub(then));
        Why::ALL.iter().copied().zip(counts).collect()
    }

    fn lane(&self, number: usize) -> Lane {
        let (now, then) = self.part(self.places.lanes + number * size_of::<Lane>(), size_of::<Lane>());
        Lane::from_words(&now).since(&Lane::from_words(&then))
    }

    fn socket(&self, number: usize) -> Socket {
        let (now, then) = self.part(self.places.sockets + number * size_of::<Socket>(), size_of::<Socket>());
        let (now, then) = (Socket::from_words(&now), Socket::from_words(&then));
        // The baseline may be that of an earlier socket in the same block.
        if now.generation.value() == then.generation.value() { now.since(&then) } else { now }
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks_exact(8)
        .map(|word| {
            u64::from_ne_bytes([word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]])
        })
        .collect()
}
