//! The arena: packet memory, the list of free frames and who owns which, in one sealed memfd.
//!
//! On one (interface, queue) the kernel takes one UMEM only, so whoever shares the queue shares this memory: lanes
//! of this process and of its forked children, which inherit the mapping. The kernel clears and pins it while the
//! interface is opened, which is most of what that costs.
//!
//! ```text
//!   0         header: free list, lanes, two locks
//!   4096      owner of each frame (u32)
//!             next free frame of each (u32)
//!   (page)    frames, FRAME bytes each: this part is the UMEM
//! ```
//!
//! A frame is free (owner 0, on the list), a lane's (owner 1..=63: cached, or received and not yet returned; with a
//! mark while it is being sent, so that a completion for which nobody waits any more frees nothing), the kernel's
//! (posted in a fill ring, which all lanes of the queue fill and are fed from), or left behind by a lane whose process
//! ended. That lane's number is free at once; its frames are only after a while, as the kernel may be sending them. So
//! it is the frame that says since when it is left. A process killed between taking a frame off the list and marking it
//! loses that one frame; nothing else.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};

use sys::futex::{self, Scope};
use sys::memory::{Mapping, sealed_memfd};
use sys::{Fd, Result};

/// Bytes of a frame: a page. The kernel keeps 256 in front of a received packet, and wants 18 frames at most for
/// the 64 KiB that a local peer with segmentation offload sends at once.
pub(crate) const FRAME: usize = 4096;

/// Lanes of one arena, all processes together, and 0 for none.
pub(crate) const LANES: usize = 64;
/// Seconds for which a dead process's frames are left alone: those that it sent may still be the kernel's. A completion
/// that comes later is nobody's, unless the frame is being sent again by then.
pub(crate) const GRACE_S: u32 = 2;
const HEADER: usize = 4096;

/// Owner of free frames, and of those posted in a fill ring.
const FREE: u32 = 0;
const KERNEL: u32 = u32::MAX;
/// Owner of what a lane left behind; beside it, when, in seconds.
const LEFT: u32 = 1 << 31;
/// Beside the lane that owns a frame: it sends it.
const SENT: u32 = 1 << 30;

/// Marks the lock word while somebody may sleep for it.
const CONTENDED: u32 = 1 << 31;

#[repr(C)]
struct Header {
    /// Index + 1 of the first free frame in the low half, a count of changes in the high half (against ABA).
    free: AtomicU64,
    /// Thread that holds the fill and completion rings, or 0; with CONTENDED.
    rings: AtomicU32,
    /// The same for what the steering has of many lanes. Data never waits for it: under it the kernel is asked often.
    steering: AtomicU32,
    /// Process of each lane, or 0.
    lanes: [AtomicU32; LANES],
    /// When frames were left behind last, in seconds, or 0: there are none.
    left: AtomicU32,
    /// Lanes whose process told its peers before it ended, a bit for each number.
    ended: AtomicU64,
    /// What the holder of the rings is about to post, or 0: see [`Posting`].
    posting: AtomicU64,
    /// The keeper that looks after the arena, which may have ended; 0: none does.
    keeper: AtomicU32,
    /// What tells the process of each lane from a later one of its number, or 0: it is not known.
    identities: [AtomicU64; LANES],
}

const _: () = assert!(size_of::<Header>() <= HEADER, "the header would lie over the table of owners");

/// Frames that may be posted at a time.
pub(crate) const POSTING_MAX: u32 = 0xffff;

/// Frames on their way into a fill ring. Who holds the rings' lock notes them before they are marked as posted, and
/// forgets them when the kernel sees them: so whoever takes the lock next knows of those that a killed process left in
/// between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posting {
    pub(crate) queue: u32,
    /// The first one's position in the ring.
    pub(crate) start: u32,
    pub(crate) count: u32,
}

/// A mapped arena.
#[derive(Debug)]
pub(crate) struct Arena {
    mapping: Mapping,
    frames: u32,
    /// What is mapped.
    file: Fd,
    /// One end of a pair of sockets: its credentials (SO_PEERCRED) are those of the process that made the arena, and
    /// its network namespace is that of the interface.
    maker: Fd,
}

/// Whose frame was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// The lane's that found the completion: it has the frame again.
    Own,
    /// Another's of the same queue: the frame is to be given back.
    Another,
}

/// Frames by owner.
pub(crate) struct Frames {
    pub(crate) free: u32,
    pub(crate) posted: u32,
    pub(crate) left: u32,
    pub(crate) of_lanes: [u32; LANES],
}

fn this_process() -> u32 {
    sys::process::pid() as u32
}

impl Arena {
    /// See [`Arena::create_in`].
    #[cfg(test)]
    pub(crate) fn create(frames: u32) -> Result<Arena> {
        Self::create_in(frames, true)
    }

    /// A new arena with all frames free, in huge pages where they are wanted and can be had.
    pub(crate) fn create_in(frames: u32, huge_pages: bool) -> Result<Arena> {
        let length = Self::length(frames);
        let file = sealed_memfd(c"sidestep-arena", length as u64)?;
        let mapping = if huge_pages {
            Mapping::shared_in_huge_pages(file.raw(), length)?
        } else {
            Mapping::shared(file.raw(), length, 0, false)?
        };
        let (maker, _) = sys::socket::pair(libc::SOCK_STREAM)?;
        let arena = Arena { mapping, frames, file, maker };
        for frame in 0..frames {
            // Each is followed by the next, and the last one by none.
            let next = if frame + 1 < frames { frame + 2 } else { 0 };
            if let Some(word) = arena.word(1, frame) {
                word.store(next, Ordering::Relaxed);
            }
        }
        arena.header().free.store(u64::from(frames.min(1)), Ordering::Release);
        Ok(arena)
    }

    /// The arena that another process made, of so many frames, by its two descriptors. EINVAL: it is none.
    pub(crate) fn from_descriptors(file: Fd, maker: Fd, frames: u32) -> Result<Arena> {
        let length = Self::length(frames);
        let seals = sys::fd::fcntl(file.raw(), libc::F_GET_SEALS, 0)?;
        if seals & libc::F_SEAL_SHRINK == 0 || sys::file::size(file.raw())? != length as u64 {
            return Err(libc::EINVAL);
        }
        let mapping = Mapping::shared_aligned(file.raw(), length)?;
        Ok(Arena { mapping, frames, file, maker })
    }

    /// By which another process has it.
    pub(crate) fn descriptors(&self) -> [i32; 2] {
        [self.file.raw(), self.maker.raw()]
    }

    /// The keeper that looks after it, or did until its end: sidestepd, or a process that forked the others.
    pub(crate) fn keeper(&self) -> i32 {
        self.header().keeper.load(Ordering::Acquire) as i32
    }

    /// This process looks after it from now on.
    pub(crate) fn keep(&self) {
        self.header().keeper.store(this_process(), Ordering::Release);
    }

    /// Whether this process is the one that looks after it.
    pub(crate) fn is_kept_here(&self) -> bool {
        self.keeper() == sys::process::pid()
    }

    /// If this process looks after it, nobody does from now on.
    pub(crate) fn stop_keeping(&self) {
        let own = this_process();
        let _ = self.header().keeper.compare_exchange(own, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whether a keeper looks after it.
    pub(crate) fn has_keeper(&self) -> bool {
        let keeper = self.keeper();
        keeper != 0 && sys::process::is_running(keeper)
    }

    /// Whether this descriptor is of the same memory.
    pub(crate) fn is_in(&self, file: i32) -> bool {
        let own = sys::identity::identity(self.file.raw());
        own.is_ok_and(|own| sys::identity::identity(file) == Ok(own))
    }

    /// Whether there is a lane whose process has not ended.
    pub(crate) fn is_used(&self) -> bool {
        self.header().lanes.iter().any(|process| process.load(Ordering::Acquire) != 0)
    }

    /// Who has lanes: their numbers and processes.
    pub(crate) fn processes(&self) -> impl Iterator<Item = (u32, i32)> {
        let lanes = (0..).zip(&self.header().lanes).skip(1);
        let lanes = lanes.map(|(lane, process)| (lane, process.load(Ordering::Acquire) as i32));
        lanes.filter(|(_, process)| *process != 0)
    }

    /// Whose the frames are.
    pub(crate) fn count_frames(&self) -> Frames {
        let mut frames = Frames { free: 0, posted: 0, left: 0, of_lanes: [0; LANES] };
        for frame in 0..self.frames {
            match self.owner(frame) {
                FREE => frames.free += 1,
                KERNEL => frames.posted += 1,
                owner => match lane_of(owner) {
                    Some(lane) => frames.of_lanes[lane as usize] += 1,
                    None => frames.left += 1,
                },
            }
        }
        frames
    }

    fn length(frames: u32) -> usize {
        Self::umem_offset(frames) + frames as usize * FRAME
    }

    fn umem_offset(frames: u32) -> usize {
        (HEADER + 2 * size_of::<u32>() * frames as usize).next_multiple_of(FRAME)
    }

    pub(crate) fn frames(&self) -> u32 {
        self.frames
    }

    /// The first byte of the frames, which are the UMEM.
    #[inline]
    pub(crate) fn umem(&self) -> *mut u8 {
        // SAFETY: `length` made the mapping longer than that.
        unsafe { self.mapping.start().add(Self::umem_offset(self.frames)).as_ptr() }
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: `length` made the mapping longer than a header; it was zeroed, and what others change in it is
        // atomic.
        unsafe { self.mapping.start().cast::<Header>().as_ref() }
    }

    /// Element `frame` of the owner table (0) or of the next table (1). Indices read from shared memory are checked
    /// here, because another process can write it.
    #[inline]
    fn word(&self, table: usize, frame: u32) -> Option<&AtomicU32> {
        if frame >= self.frames {
            return None;
        }
        let index = table * self.frames as usize + frame as usize;
        // SAFETY: both tables have `frames` elements, inside the mapping.
        Some(unsafe { self.mapping.start().add(HEADER).cast::<AtomicU32>().add(index).as_ref() })
    }

    #[inline]
    fn set_owner(&self, frame: u32, owner: u32) {
        if let Some(word) = self.word(0, frame) {
            word.store(owner, Ordering::Relaxed);
        }
    }

    /// Whose frame is it? (FREE for one that does not exist.)
    #[inline]
    pub(crate) fn owner(&self, frame: u32) -> u32 {
        self.word(0, frame).map_or(FREE, |word| word.load(Ordering::Relaxed))
    }

    /// The frame is another's from now on, if it is still this one's. True: it was.
    #[inline]
    pub(crate) fn pass_on(&self, frame: u32, from: u32, to: u32) -> bool {
        let pass = |word: &AtomicU32| word.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        self.word(0, frame).is_some_and(|word| pass(word).is_ok())
    }

    /// A posted frame came back with a packet for `lane`.
    #[inline]
    pub(crate) fn received(&self, frame: u32, lane: u32) {
        self.set_owner(frame, lane);
    }

    /// A frame of `lane` goes into its transmit ring.
    #[inline]
    pub(crate) fn sending(&self, frame: u32, lane: u32) {
        self.set_owner(frame, lane | SENT);
    }

    /// `lane` found the completion of this frame, which is its own from now on. `None`: nobody waited for it, and the
    /// frame stays whose it is. (What a dead lane sent comes back by itself.)
    #[inline]
    pub(crate) fn completed(&self, frame: u32, lane: u32) -> Option<Completed> {
        let owner = self.owner(frame);
        if owner == lane | SENT {
            self.set_owner(frame, lane);
            return Some(Completed::Own);
        }
        let is_anothers = owner & SENT != 0 && lane_of(owner).is_some();
        (is_anothers && self.pass_on(frame, owner, lane)).then_some(Completed::Another)
    }

    /// A frame of ours goes into a fill ring.
    #[inline]
    pub(crate) fn posted(&self, frame: u32) {
        self.set_owner(frame, KERNEL);
    }

    /// Marks frames as posted that are in a fill ring, and not shown to the kernel yet. Callers hold the lock.
    pub(crate) fn begin_posting(&self, posting: Posting, frames: &[u32]) {
        let Posting { queue, start, count } = posting;
        let word = u64::from(queue + 1) << 48 | u64::from(count & POSTING_MAX) << 32 | u64::from(start);
        self.header().posting.store(word, Ordering::Release);
        // Whatever stops this process comes between two instructions: their order is all that counts.
        compiler_fence(Ordering::SeqCst);
        frames.iter().for_each(|frame| self.posted(*frame));
    }

    /// The kernel sees them. Callers hold the lock.
    pub(crate) fn end_posting(&self) {
        self.header().posting.store(0, Ordering::Release);
    }

    /// What a killed process was about to post. Callers hold the lock.
    #[inline]
    pub(crate) fn left_posting(&self) -> Option<Posting> {
        let word = self.header().posting.load(Ordering::Relaxed);
        let queue = ((word >> 48) as u32).checked_sub(1)?;
        Some(Posting { queue, start: word as u32, count: (word >> 32) as u32 & POSTING_MAX })
    }

    /// Whether there are free frames, at the moment.
    pub(crate) fn has_free(&self) -> bool {
        self.header().free.load(Ordering::Relaxed) as u32 != 0
    }

    /// Takes up to `count` free frames for `lane`.
    pub(crate) fn take(&self, lane: u32, count: usize, into: &mut Vec<u32>) {
        for _ in 0..count {
            let Some(frame) = self.pop_free() else { return };
            self.set_owner(frame, lane);
            into.push(frame);
        }
    }

    /// Frames that are posted, and will never come out of a ring: those of them that are nobody else's are free.
    pub(crate) fn take_back(&self, frames: impl Iterator<Item = u32>) {
        self.give(frames.filter(|frame| self.owner(*frame) == KERNEL));
    }

    /// Takes a free frame that goes into a fill ring at once.
    pub(crate) fn take_to_post(&self) -> Option<u32> {
        let frame = self.pop_free()?;
        self.posted(frame);
        Some(frame)
    }

    /// Gives frames back for everybody's use.
    pub(crate) fn give(&self, frames: impl Iterator<Item = u32>) {
        for frame in frames {
            self.set_owner(frame, FREE);
            self.push_free(frame);
        }
    }

    fn push_free(&self, frame: u32) {
        let (Some(next), list) = (self.word(1, frame), &self.header().free) else { return };
        let mut head = list.load(Ordering::Relaxed);
        loop {
            next.store(head as u32, Ordering::Relaxed);
            let new = (head >> 32).wrapping_add(1) << 32 | u64::from(frame + 1);
            match list.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    fn pop_free(&self) -> Option<u32> {
        let list = &self.header().free;
        let mut head = list.load(Ordering::Acquire);
        loop {
            let frame = (head as u32).checked_sub(1)?;
            let next = self.word(1, frame)?.load(Ordering::Relaxed);
            let new = (head >> 32).wrapping_add(1) << 32 | u64::from(next);
            match list.compare_exchange_weak(head, new, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(frame),
                Err(now) => head = now,
            }
        }
    }

    // lanes

    /// Whether this process is in another pid namespace than the one that made the arena: the numbers by which
    /// processes know each other here mean others there, or nobody.
    pub(crate) fn is_in_other_pid_namespace(&self) -> bool {
        sys::socket::peer_process(self.maker.raw()).is_ok_and(|pid| pid == 0)
    }

    /// A number for the network namespace in which it was made.
    pub(crate) fn network_namespace(&self) -> Result<u64> {
        sys::socket::network_namespace(self.maker.raw())
    }

    /// Registers a lane of this process. EAGAIN: too many.
    pub(crate) fn join(&self) -> Result<u32> {
        let pid = this_process();
        for (lane, process) in self.header().lanes.iter().enumerate().skip(1) {
            if process.compare_exchange(0, pid, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                let identity = sys::process::identity(pid as i32);
                self.header().identities[lane].store(identity, Ordering::Release);
                return Ok(lane as u32);
            }
        }
        Err(libc::EAGAIN)
    }

    /// The process of this lane ends, and its peers know.
    pub(crate) fn end(&self, lane: u32) {
        self.header().ended.fetch_or(1 << lane, Ordering::Release);
    }

    /// Whether a lane belongs to another process than this one, which lives.
    pub(crate) fn is_of_another_process(&self, lane: u32) -> bool {
        let process = self.processes().find(|(number, _)| *number == lane).map_or(0, |(_, process)| process);
        process != 0 && process as u32 != this_process() && sys::process::is_running(process)
    }

    /// Those of these lanes whose process ended without a word.
    pub(crate) fn killed(&self, dead: u64) -> u64 {
        dead & !self.header().ended.load(Ordering::Acquire)
    }

    /// Lanes whose process is dead, a bit for each number. Callers hold the steering's lock.
    pub(crate) fn find_dead(&self) -> u64 {
        let is_dead = |pid: i32| !sys::process::is_running(pid);
        self.processes().filter(|(_, pid)| is_dead(*pid)).fold(0, |dead, (lane, _)| dead | 1 << lane)
    }

    /// The same, and those whose process has a successor with its number. It takes a descriptor for a moment, so it is
    /// the keeper who asks, and no program.
    pub(crate) fn find_dead_and_followed(&self) -> u64 {
        let identity = |lane: u32| self.header().identities[lane as usize].load(Ordering::Acquire);
        let is_dead = |lane: u32, pid: i32| !sys::process::is_still_running(pid, identity(lane));
        self.processes()
            .filter(|(lane, pid)| is_dead(*lane, *pid))
            .fold(0, |dead, (lane, _)| dead | 1 << lane)
    }

    /// Dead lanes end (a bit for each number), to which nothing is steered any more: their numbers are free, and their
    /// frames will be. Callers hold the steering's lock.
    pub(crate) fn bury(&self, dead: u64, now_s: u32) {
        if dead == 0 {
            return;
        }
        let left = LEFT | now_s & !LEFT;
        // First: whoever is killed here leaves lanes that are found dead again.
        self.header().left.store(now_s, Ordering::Release);
        for frame in 0..self.frames {
            let owner = self.owner(frame);
            if lane_of(owner).is_some_and(|lane| dead >> lane & 1 == 1) {
                // One that was sent may have come back in between.
                self.pass_on(frame, owner, left);
            }
        }
        self.header().ended.fetch_and(!dead, Ordering::Release);
        for (lane, process) in self.header().lanes.iter().enumerate() {
            if dead >> lane & 1 == 1 {
                // First: the next one who takes the number is not to be taken for the one that died.
                self.header().identities[lane].store(0, Ordering::Release);
                process.store(0, Ordering::Release);
            }
        }
    }

    /// Takes back what was left behind a while ago.
    pub(crate) fn take_back_left(&self, now_s: u32) {
        let last = || self.header().left.load(Ordering::Acquire);
        if last() == 0 {
            return;
        }
        let _lock = self.lock_steering();
        let since = |owner: u32| now_s.wrapping_sub(owner) & !LEFT;
        for frame in 0..self.frames {
            let owner = self.owner(frame);
            let is_left = owner & LEFT != 0 && owner != KERNEL;
            if is_left && since(owner) >= GRACE_S && self.pass_on(frame, owner, FREE) {
                self.push_free(frame);
            }
        }
        if since(last()) >= GRACE_S {
            self.header().left.store(0, Ordering::Release);
        }
    }

    /// Takes the lock of the fill and completion rings, across processes. That of a thread which was killed is taken
    /// over as soon as it can do nothing more, however long its process takes to end: rings are consistent at each
    /// moment, because positions are published last.
    #[inline]
    pub(crate) fn lock_rings(&self) -> Locked<'_> {
        self.lock(&self.header().rings)
    }

    /// Takes the lock of what the steering has of many lanes in the same way: whoever finds a dead one's work half done
    /// does it again.
    pub(crate) fn lock_steering(&self) -> Locked<'_> {
        self.lock(&self.header().steering)
    }

    #[inline]
    fn lock<'a>(&self, word: &'a AtomicU32) -> Locked<'a> {
        let thread = sys::thread::number() as u32;
        if word.compare_exchange(0, thread, Ordering::Acquire, Ordering::Relaxed).is_err() {
            lock_contended(word, thread);
        }
        Locked { word }
    }
}

/// The lane that owns a frame, by the frame's word.
#[inline]
fn lane_of(owner: u32) -> Option<u32> {
    Some(owner & !SENT).filter(|lane| (1..LANES as u32).contains(lane))
}

#[cold]
fn lock_contended(word: &AtomicU32, thread: u32) {
    const SPINS: u32 = 200;
    const PATIENCE_NS: u64 = 1_000_000;
    for _ in 0..SPINS {
        core::hint::spin_loop();
        if word.compare_exchange(0, thread, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return;
        }
    }
    loop {
        let held = word.load(Ordering::Relaxed);
        let holder = held & !CONTENDED;
        // Whoever slept takes it contended: others may still sleep.
        if holder == 0 || !sys::process::can_thread_run(holder as i32) {
            let taken = thread | CONTENDED;
            if word.compare_exchange(held, taken, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return;
            }
            continue;
        }
        let contended = held | CONTENDED;
        if held == contended
            || word.compare_exchange(held, contended, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let _ = futex::wait(word, contended, Some(PATIENCE_NS), Scope::Shared);
        }
    }
}

/// Of the monotonic clock, never 0.
pub(crate) fn seconds() -> u32 {
    (sys::clock::monotonic() / 1_000_000_000).max(1) as u32
}

/// A right that one thread has at a time, until dropped.
pub struct Locked<'a> {
    word: &'a AtomicU32,
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.word.swap(0, Ordering::Release) & CONTENDED != 0 {
            futex::wake(self.word, 1, Scope::Shared);
        }
    }
}

#[cfg(test)]
#[path = "arena/tests.rs"]
mod tests;
