//! The writer's side of a segment: blocks of counters in memory that the caller mapped. See [`crate::layout`].
//!
//! The caller makes the file `vmastat.<pid>` (mode 0644, new: no file or link of somebody else's is followed), maps it
//! shared and hands the memory in. Without a file any zeroed memory serves, and before there is any,
//! [`Segment::nowhere`]. The child of a fork needs a segment of its own: the parent's memory is shared with it.

use crate::cell::{Cell, Shared, State};
use crate::counters::{Lane, Process, Socket};
use crate::layout::{CONTROL, GROUPS, HEADER, MAGIC, PROGRAM, PROGRAM_AT, Places, TABLE_HASH, VERSION, Word};
use crate::why::Why;
use core::mem::{align_of, size_of};
use core::net::Ipv4Addr;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The writer's view. Cheap to copy; all parts live as long as the process.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    process: &'static Process,
    why: &'static [Shared],
    lanes: &'static [Lane],
    sockets: &'static [Socket],
    control: &'static Control,
    groups: &'static [State],
}

/// Who writes the segment.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The process.
    pub pid: u32,
    /// The last part of argv[0].
    pub program: &'a [u8],
    /// CLOCK_REALTIME at the start, nanoseconds.
    pub started_ns: u64,
}

/// Wishes of a reader; the process's worker looks at them now and then.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Control {
    /// Level plus 2; 0: no wish.
    log_level: State,
    /// Details plus 1; 0: no wish.
    log_details: State,
    /// Descriptor plus 1 whose state is to be logged; 0: no wish.
    dump_fd: State,
    /// The level to log it at, plus 2.
    dump_level: State,
    /// Wish for copies of all frames, as `capture::Wish` has it; 0: no wish. It stands until it is done with.
    capture: State,
    /// Why the last such wish was not granted: errno.
    capture_errno: State,
}

impl Control {
    const fn new() -> Control {
        Control {
            log_level: State::new(0),
            log_details: State::new(0),
            dump_fd: State::new(0),
            dump_level: State::new(0),
            capture: State::new(0),
            capture_errno: State::new(0),
        }
    }

    /// The level that a reader wants logged from now on, once.
    pub fn take_log_level(&self) -> Option<i32> {
        level(self.log_level.take())
    }

    /// The details that a reader wants before each line, once.
    pub fn take_log_details(&self) -> Option<u32> {
        u32::try_from(self.log_details.take().checked_sub(1)?).ok()
    }

    /// The descriptor whose state a reader wants logged, and at which level, once.
    pub fn take_dump(&self) -> Option<(i32, i32)> {
        let fd = i32::try_from(self.dump_fd.take().checked_sub(1)?).ok()?;
        Some((fd, level(self.dump_level.value()).unwrap_or(3)))
    }
}

impl Control {
    /// What a reader wishes to have copied, as `capture::Wish` has it; 0: nothing.
    pub fn capture(&self) -> u64 {
        self.capture.value()
    }

    /// Done with this wish, unless there is another one already; errno: it was not granted.
    pub fn end_capture(&self, wish: u64, errno: i32) {
        self.capture_errno.set(errno.unsigned_abs().into());
        self.capture.give(wish);
    }
}

fn level(word: u64) -> Option<i32> {
    i32::try_from(word.checked_sub(1)?).ok().map(|level| level - 1)
}

/// Blocks handed out, and where the search for a free one begins. Kept outside the segment: nobody else's business.
static USED: AtomicU32 = AtomicU32::new(0);
static NEXT: AtomicU32 = AtomicU32::new(0);

static NOWHERE_PROCESS: Process = Process::new();
static NOWHERE_WHY: [Shared; Why::COUNT] = [const { Shared::new(0) }; Why::COUNT];
static NOWHERE_LANE: [Lane; 1] = [Lane::new()];
static NOWHERE_SOCKET: [Socket; 1] = [Socket::new()];
static NOWHERE_CONTROL: Control = Control::new();

impl Segment {
    /// Bytes that a segment of so many lanes and sockets takes; both are cut to their bounds of 1024.
    pub fn size(lanes: usize, sockets: usize) -> usize {
        places(lanes, sockets).2.total
    }

    /// Blocks that nobody reads: for counting before there is a segment, and without one.
    pub const fn nowhere() -> Segment {
        Segment {
            process: &NOWHERE_PROCESS,
            why: &NOWHERE_WHY,
            lanes: &NOWHERE_LANE,
            sockets: &NOWHERE_SOCKET,
            control: &NOWHERE_CONTROL,
            groups: &[],
        }
    }

    /// Lays a segment out in `length` bytes at `memory`. `None` if they are fewer than [`Segment::size`] or not aligned
    /// to 64 bytes.
    ///
    /// # Safety
    /// The memory is zeroed, readable and writable, and stays mapped until the process ends; this process writes it
    /// only through the segment. (A reader may write the control words and the baseline at any time.)
    pub unsafe fn create(
        memory: NonNull<u8>,
        length: usize,
        lanes: usize,
        sockets: usize,
        about: About<'_>,
    ) -> Option<Segment> {
        let (lanes, sockets, places) = places(lanes, sockets);
        let base = memory.as_ptr();
        if length < places.total || base.align_offset(64) != 0 {
            return None;
        }
        const { assert!(align_of::<Process>() == 64 && align_of::<Lane>() == 64 && align_of::<Socket>() == 64) };
        const { assert!(size_of::<Control>() == CONTROL && PROGRAM_AT + PROGRAM <= HEADER) };
        // SAFETY: every place is within `total` bytes and a multiple of 64; zeros are valid cells; the memory lives as
        // long as the process and all later accesses are atomic.
        let segment = unsafe {
            Segment {
                process: &*base.add(places.process).cast(),
                why: core::slice::from_raw_parts(base.add(places.why).cast(), Why::COUNT),
                lanes: core::slice::from_raw_parts(base.add(places.lanes).cast(), lanes),
                // One more, for those that found no block.
                sockets: core::slice::from_raw_parts(base.add(places.sockets).cast(), sockets + 1),
                control: &*base.add(HEADER).cast(),
                groups: core::slice::from_raw_parts(base.add(places.groups).cast(), GROUPS),
            }
        };
        let word = |word: Word, value: u64| {
            // SAFETY: the header has room for all words, and nothing else refers to it.
            unsafe { &*base.cast::<AtomicU64>().add(word as usize) }.store(value, Ordering::Relaxed);
        };
        word(Word::Version, VERSION);
        word(Word::TableHash, TABLE_HASH);
        word(Word::Pid, u64::from(about.pid));
        word(Word::StartedNs, about.started_ns);
        word(Word::Lanes, lanes as u64);
        word(Word::Sockets, sockets as u64);
        word(Word::Total, places.total as u64);
        // The name ends with a zero at the latest in its last byte.
        for (place, byte) in about.program.iter().take(PROGRAM - 1).enumerate() {
            // SAFETY: within the header, see the assertion above.
            unsafe { base.add(PROGRAM_AT + place).write_volatile(*byte) };
        }
        USED.store(0, Ordering::Relaxed);
        // Last: a reader that finds the mark finds a header.
        core::sync::atomic::fence(Ordering::Release);
        word(Word::Magic, MAGIC);
        Some(segment)
    }

    /// A fresh segment takes over what was counted while there was none.
    pub fn begin_with_nowhere(&self) {
        if !core::ptr::eq(self.process, &NOWHERE_PROCESS) {
            self.process.take(&NOWHERE_PROCESS);
            for (why, counted) in self.why.iter().zip(&NOWHERE_WHY) {
                why.add(counted.value());
                Cell::put(counted, 0);
            }
        }
    }

    /// What was counted while there was no segment was another process's.
    pub fn forget_nowhere(&self) {
        NOWHERE_PROCESS.clear();
        NOWHERE_WHY.iter().for_each(|counted| Cell::put(counted, 0));
    }

    /// The process's block.
    #[inline]
    pub fn process(&self) -> &'static Process {
        self.process
    }

    /// The block of a lane by its number; lanes beyond the last share the last block.
    #[inline]
    pub fn lane(&self, number: usize) -> &'static Lane {
        match self.lanes.get(number).or(self.lanes.last()) {
            Some(lane) => lane,
            None => &NOWHERE_LANE[0],
        }
    }

    /// Wishes of readers.
    pub fn control(&self) -> &'static Control {
        self.control
    }

    /// Counts a socket that was left to the kernel.
    pub fn left_to_kernel(&self, why: Why) {
        self.process.sockets_left.one();
        self.why[why as usize].one();
    }

    /// How many sockets were left to the kernel for a reason.
    pub fn left(&self, why: Why) -> u64 {
        self.why[why as usize].value()
    }

    /// A block for a socket. When all are taken, sockets share one.
    pub fn claim_socket(&self, fd: i32) -> &'static Socket {
        let (blocks, shared) = self.sockets.split_at(self.sockets.len() - 1);
        let named = u64::try_from(fd).map_or(0, |fd| fd + 1);
        if named == 0 || USED.load(Ordering::Relaxed) as usize >= blocks.len() {
            return &shared[0];
        }
        let start = NEXT.fetch_add(1, Ordering::Relaxed) as usize;
        for step in 0..blocks.len() {
            let block = &blocks[(start + step) % blocks.len()];
            if block.fd.value() == 0 && block.fd.claim(named) {
                USED.fetch_add(1, Ordering::Relaxed);
                let generation = block.generation.value();
                block.clear();
                block.generation.set(generation.wrapping_add(1));
                block.fd.set(named);
                return block;
            }
        }
        &shared[0]
    }

    /// Gives a socket's block back. The shared block stays, with what it counted.
    pub fn release_socket(&self, block: &'static Socket) {
        let Some(number) = self.number(block) else { return };
        if block.groups.value() != 0 {
            for (cell, group) in self.memberships(number) {
                cell.give(membership(number, group));
            }
            block.groups.set(0);
        }
        if block.fd.take() != 0 {
            USED.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The number of a socket's own block.
    fn number(&self, block: &Socket) -> Option<u32> {
        let own = &self.sockets[..self.sockets.len() - 1];
        let number = own.iter().position(|one| core::ptr::eq(one, block))?;
        u32::try_from(number).ok()
    }

    /// Says whether a socket is a member of a multicast group. The shared block is of none; of more memberships than a
    /// segment has room for, the first are shown, and [`Socket::groups`] counts them all.
    pub fn member(&self, block: &'static Socket, group: Ipv4Addr, joined: bool) {
        let Some(number) = self.number(block) else { return };
        let known = self.memberships(number).find(|(_, other)| *other == group);
        match (known, joined) {
            (None, true) => {
                block.groups.add(1);
                let _ =
                    self.groups.iter().any(|cell| cell.value() == 0 && cell.claim(membership(number, group)));
            }
            (Some((cell, _)), false) => {
                cell.give(membership(number, group));
                block.groups.subtract(1);
            }
            // One that found no room.
            (None, false) if block.groups.value() > self.memberships(number).count() as u64 => {
                block.groups.subtract(1);
            }
            _ => {}
        }
    }

    /// The groups of a socket.
    pub fn groups(&self, block: &Socket) -> Vec<Ipv4Addr> {
        let Some(number) = self.number(block).filter(|_| block.groups.value() != 0) else {
            return Vec::new();
        };
        self.memberships(number).map(|(_, group)| group).collect()
    }

    fn memberships(&self, number: u32) -> impl Iterator<Item = (&'static State, Ipv4Addr)> {
        self.groups.iter().filter_map(move |cell| {
            let (of, group) = member_of(cell.value())?;
            (of == number).then_some((cell, group))
        })
    }
}

fn places(lanes: usize, sockets: usize) -> (usize, usize, Places) {
    let (lanes, sockets) = (lanes.min(crate::layout::LANES_MAX), sockets.min(crate::layout::SOCKETS_MAX));
    let places = Places::new(lanes, sockets).expect("both are within their bounds");
    (lanes, sockets, places)
}

/// A membership as a cell keeps it: the number of the socket's block plus 1, and the group.
fn membership(number: u32, group: Ipv4Addr) -> u64 {
    (u64::from(number) + 1) << 32 | u64::from(group.to_bits())
}

/// The block's number and the group that a cell keeps; none if it is free.
pub(crate) fn member_of(word: u64) -> Option<(u32, Ipv4Addr)> {
    let number = u32::try_from((word >> 32).checked_sub(1)?).ok()?;
    Some((number, Ipv4Addr::from_bits(word as u32)))
}

/// The name of a process's file, to stand in VMA_STATS_SHMEM_DIR.
pub fn file_name(pid: u32) -> String {
    format!("{FILE_PREFIX}{pid}")
}

/// What the name of every such file begins with.
pub const FILE_PREFIX: &str = "vmastat.";

/// Bits of [`Socket::flags`].
pub mod flag {
    /// Accelerated.
    pub const ACCELERATED: u64 = 1;
    /// TCP; else UDP.
    pub const TCP: u64 = 2;
    /// Non-blocking.
    pub const NONBLOCKING: u64 = 4;
    /// Multicast loop is on.
    pub const MC_LOOP: u64 = 8;
    /// [`super::Socket::why`] is valid: the socket was left to the kernel.
    pub const LEFT: u64 = 16;
}

/// An address as a cell keeps it.
pub fn address(address: core::net::SocketAddrV4) -> u64 {
    u64::from(address.ip().to_bits()) << 16 | u64::from(address.port())
}

/// The address that a cell keeps.
pub fn address_of(word: u64) -> core::net::SocketAddrV4 {
    core::net::SocketAddrV4::new(core::net::Ipv4Addr::from_bits((word >> 16) as u32), word as u16)
}
