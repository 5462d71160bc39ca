//! The memory that two processes share for one connection, and where what lies in it.
//!
//! ```text
//!   0        four lines: what each side grants the other (credit), and what each side wants to be woken for
//!   4096     slots of side 0, then of side 1: a header and a short payload each
//!   ...      bodies of side 0, then of side 1: longer payloads, whose slot names the body
//! ```
//!
//! A side writes its own slots and bodies, its credit and its wants. Slot `n % SLOTS` holds message `n` as soon as its
//! `mseq` says so: that is stored last, with release, and read first, with acquire. No index is shared. Of a message
//! that grows the slot has its extent: the writer moves it on, the reader closes it.
//!
//! The other process may write anywhere at any time. So nothing here depends on what the memory holds: every place is
//! computed from numbers of this process, which are bounded here, and what is read is copied.

use crate::SLOTS;
use crate::header::{Credit, Header};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sys::memory::Mapping;
use sys::{Fd, Result};

/// Bytes of a line of the cache: what two processors write must not share one.
const LINE: usize = 64;
const SLOT: usize = 256;
/// Behind the header, the number of the body, and 4 bytes that keep the payload aligned.
const INLINE_AT: usize = 24;
/// Payload that fits into a slot.
pub(crate) const INLINE: usize = SLOT - INLINE_AT;
/// Payload that fits into a body.
pub(crate) const BODY: usize = 8192;
/// In the place of a body's number: the payload lies in the slot.
pub(crate) const IN_SLOT: u32 = u32::MAX;
/// In an extent: the reader is behind it, and nothing is added any more.
pub(crate) const CLOSED: u32 = 1 << 31;
const SLOTS_AT: usize = 4096;
const BODIES_AT: usize = SLOTS_AT + 2 * SLOTS as usize * SLOT;
/// Bytes of a segment. The kernel gives a page when it is first written; bodies are used again as soon as they are
/// free.
pub(crate) const LENGTH: usize = BODIES_AT + 2 * SLOTS as usize * BODY;

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Made the segment.
    Maker,
    /// Was given it.
    Guest,
}

impl Side {
    /// The other one.
    pub fn other(self) -> Side {
        match self {
            Side::Maker => Side::Guest,
            Side::Guest => Side::Maker,
        }
    }
}

/// A segment, mapped.
#[derive(Debug)]
pub struct Segment {
    mapping: Mapping,
}

impl Segment {
    /// A new segment, and the file that gives it to the other side.
    pub fn make() -> Result<(Segment, Fd)> {
        let file = sys::memory::sealed_memfd(c"sidestep-connection", LENGTH as u64)?;
        Ok((Segment { mapping: Mapping::shared(file.raw(), LENGTH, 0, false)? }, file))
    }

    /// The segment in a file that came from the other side. EPERM: it could shrink, which would kill whoever reads it;
    /// EINVAL: it has not the size of a segment, or is no memory.
    pub fn join(file: &Fd) -> Result<Segment> {
        let needed = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // Also EINVAL where there are no seals: not a memfd.
        let seals = sys::fd::fcntl(file.raw(), libc::F_GET_SEALS, 0)?;
        if seals & needed != needed {
            return Err(libc::EPERM);
        }
        // What cannot be executed is as good: it is sealed so where it is made so.
        if seals & !(needed | libc::F_SEAL_EXEC) != 0 || sys::file::size(file.raw())? != LENGTH as u64 {
            return Err(libc::EINVAL);
        }
        Ok(Segment { mapping: Mapping::shared(file.raw(), LENGTH, 0, false)? })
    }

    fn at(&self, offset: usize, length: usize) -> *mut u8 {
        assert!(offset + length <= LENGTH, "within the segment");
        // SAFETY: just checked; the mapping is LENGTH bytes long and lives as long as self.
        unsafe { self.mapping.start().as_ptr().add(offset) }
    }

    fn credit_cell(&self, of: Side) -> &AtomicU64 {
        // SAFETY: within the mapping, aligned to a line; all access to it is atomic.
        unsafe { &*self.at(2 * LINE * of as usize, 8).cast() }
    }

    /// What `side` wants to be woken for.
    pub(crate) fn wants(&self, side: Side) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { &*self.at(2 * LINE * side as usize + LINE, 4).cast() }
    }

    /// What `side` grants the other one.
    #[inline]
    pub(crate) fn credit(&self, side: Side) -> Credit {
        Credit::of_word(self.credit_cell(side).load(Ordering::Acquire))
    }

    /// Grants it: the slots and bodies that it gives back are not read any more.
    #[inline]
    pub(crate) fn grant(&self, side: Side, credit: Credit) {
        self.credit_cell(side).store(credit.to_word(), Ordering::Release);
    }

    fn slot(&self, of: Side, number: u64) -> usize {
        let index = (number % u64::from(SLOTS)) as usize;
        SLOTS_AT + (of as usize * SLOTS as usize + index) * SLOT
    }

    fn stamp(&self, of: Side, number: u64) -> &AtomicU32 {
        // SAFETY: within the mapping, aligned to 4 bytes; all access to it is atomic.
        unsafe { &*self.at(self.slot(of, number) + 8, 4).cast() }
    }

    /// The message number that stands in the slot of message `number`.
    #[inline]
    pub(crate) fn stamped(&self, of: Side, number: u64) -> u32 {
        u32::from_be(self.stamp(of, number).load(Ordering::Acquire))
    }

    /// The header of a message, and the body that its slot names.
    #[inline]
    pub(crate) fn header(&self, of: Side, number: u64) -> (Option<Header>, u32) {
        let at = self.at(self.slot(of, number), INLINE_AT);
        // SAFETY: INLINE_AT bytes of the mapping; copied as bytes, of which any is valid. Whoever changes them
        // meanwhile is another process, and gets a header of two halves checked.
        let bytes: [u8; INLINE_AT] = unsafe { at.cast::<[u8; INLINE_AT]>().read_volatile() };
        let [a, b, c, d, e, f, g, h, _, _, _, _, i, j, k, l, m, n, o, p, ..] = bytes;
        (Header::parse([a, b, c, d, e, f, g, h], [i, j, k, l]), u32::from_be_bytes([m, n, o, p]))
    }

    /// How much of a growing message's body is payload; and [`CLOSED`].
    pub(crate) fn extent(&self, of: Side, number: u64) -> &AtomicU32 {
        // SAFETY: within the mapping, aligned to 4 bytes. It stands where short payloads do, which such a message has
        // not; whoever reads the place as bytes does so as what another process may write at any time.
        unsafe { &*self.at(self.slot(of, number) + INLINE_AT, 4).cast() }
    }

    /// Where a part of a payload lies: in the slot, or in a body.
    fn payload(&self, of: Side, number: u64, body: u32, from: usize, length: usize) -> *mut u8 {
        if body == IN_SLOT {
            assert!(from + length <= INLINE, "within the slot");
            return self.at(self.slot(of, number) + INLINE_AT + from, length);
        }
        assert!(body < SLOTS && from + length <= BODY, "within a body");
        self.at(BODIES_AT + (of as usize * SLOTS as usize + body as usize) * BODY + from, length)
    }

    /// Copies a part of a payload out.
    #[inline]
    pub(crate) fn read(&self, of: Side, number: u64, body: u32, from: usize, into: &mut [u8]) {
        let source = self.payload(of, number, body, from, into.len());
        // SAFETY: `payload` checked the bounds; `into` is no part of the mapping, of which there are no references to
        // bytes.
        unsafe { core::ptr::copy_nonoverlapping(source, into.as_mut_ptr(), into.len()) };
    }

    /// Adds to the payload of a message of `side`, whose extent is `from`. False: it is closed.
    pub(crate) fn extend(&self, side: Side, number: u64, body: u32, from: usize, more: &[u8]) -> bool {
        let target = self.payload(side, number, body, from, more.len());
        // SAFETY: `payload` checked the bounds; the source is ours, outside of the mapping.
        unsafe { core::ptr::copy_nonoverlapping(more.as_ptr(), target, more.len()) };
        let (before, after) = (from as u32, (from + more.len()) as u32);
        self.extent(side, number)
            .compare_exchange(before, after, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// Writes a message of `side` and publishes it.
    #[inline]
    pub(crate) fn publish(&self, side: Side, number: u64, header: Header, body: u32, payload: &[u8]) {
        let target = self.payload(side, number, body, 0, payload.len());
        if header.grows {
            self.extent(side, number).store(payload.len() as u32, Ordering::Relaxed);
        }
        let slot = self.at(self.slot(side, number), INLINE_AT);
        let (front, behind) = header.to_bytes();
        // SAFETY: all within the slot and the payload, which `payload` checked; the sources are ours, outside of the
        // mapping.
        unsafe {
            core::ptr::copy_nonoverlapping(payload.as_ptr(), target, payload.len());
            slot.cast::<[u8; 8]>().write_volatile(front);
            slot.add(12).cast::<[u8; 4]>().write_volatile(behind);
            slot.add(16).cast::<[u8; 4]>().write_volatile(body.to_be_bytes());
        }
        self.stamp(side, number).store((number as u32).to_be(), Ordering::Release);
    }

    /// Writes anywhere, as a peer can that means harm.
    #[cfg(any(test, feature = "testing"))]
    pub fn scribble(&self, at: usize, bytes: &[u8]) {
        for (offset, byte) in bytes.iter().enumerate() {
            // SAFETY: `at` checks the bounds; the byte is any.
            unsafe { self.at((at + offset) % LENGTH, 1).write_volatile(*byte) };
        }
    }

    /// Where the slot of a message begins.
    #[cfg(any(test, feature = "testing"))]
    pub fn slot_at(&self, of: Side, number: u64) -> usize {
        self.slot(of, number)
    }

    /// Where the extent of a message stands.
    #[cfg(any(test, feature = "testing"))]
    pub fn extent_at(&self, of: Side, number: u64) -> usize {
        self.slot(of, number) + INLINE_AT
    }

    /// Where the credit of a side stands.
    #[cfg(any(test, feature = "testing"))]
    pub fn credit_at(&self, of: Side) -> usize {
        2 * LINE * of as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_shrink_or_has_another_size_is_not_joined() {
        let (_made, file) = Segment::make().unwrap();
        assert!(Segment::join(&file).is_ok());
        let short = sys::memory::sealed_memfd(c"sidestep-test", 4096).unwrap();
        assert_eq!(Segment::join(&short).err(), Some(libc::EINVAL));
        let (socket, _other) = sys::socket::pair(libc::SOCK_STREAM).unwrap();
        assert!(Segment::join(&socket).is_err(), "a socket is no memory");
        let open = unsealed(LENGTH);
        assert_eq!(Segment::join(&open).err(), Some(libc::EPERM));
    }

    fn unsealed(length: usize) -> Fd {
        // SAFETY: a C string; then no pointers.
        let fd = unsafe { libc::memfd_create(c"sidestep-test".as_ptr(), libc::MFD_ALLOW_SEALING) };
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::ftruncate(fd, length as libc::off_t) }, 0);
        Fd::adopt(fd as usize)
    }

    #[test]
    fn both_sides_see_one_memory_and_no_places_overlap() {
        let (made, file) = Segment::make().unwrap();
        let joined = Segment::join(&file).unwrap();
        made.grant(Side::Maker, Credit { acknowledged: 5, buffers: 7 });
        assert_eq!(joined.credit(Side::Maker), Credit { acknowledged: 5, buffers: 7 });
        assert_eq!(joined.credit(Side::Guest).acknowledged, 0);
        joined.wants(Side::Guest).store(3, Ordering::SeqCst);
        assert_eq!(
            (made.wants(Side::Guest).load(Ordering::SeqCst), made.wants(Side::Maker).load(Ordering::SeqCst)),
            (3, 0)
        );
        let last = u64::from(SLOTS) - 1;
        assert_eq!(made.slot(Side::Maker, last) + SLOT, made.slot(Side::Guest, 0));
        assert_eq!(made.slot(Side::Guest, last) + SLOT, BODIES_AT);
    }
}
