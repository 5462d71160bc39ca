//! The application's buffers as cursors: iovecs to send from and to receive into. The one place where its pointers
//! become slices.

use crate::answer::Answer;
use crate::errno::fail;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};
use libc::{c_int, c_void, iovec, msghdr};
use sys::linux::UIO_MAXIOV;

/// The first and the last address that can be the application's memory: not the null page, not above user space.
const LOWEST: usize = 4096;
const HIGHEST: usize = 1 << 47;

/// The program has a handler for faults, which would get ours: where memory is not there it must not hear of it.
static FAULTS_ARE_CAUGHT: AtomicBool = AtomicBool::new(false);

/// The program installed a handler for SIGSEGV or SIGBUS, behind one that knows [`sys::foreign`].
pub fn faults_are_caught() {
    FAULTS_ARE_CAUGHT.store(true, Ordering::Relaxed);
}

/// Whether `count` values can be there: where they cannot it is EFAULT, as in the kernel. An address that looks like
/// memory and is none ends a program that catches no faults (`docs/design/interposition.md`).
#[inline]
pub(crate) fn plausible<T>(start: *const T, count: usize) -> bool {
    count == 0 || is_in_range(start) && is_there(start, count)
}

#[inline]
fn is_in_range<T>(start: *const T) -> bool {
    (start as usize).wrapping_sub(LOWEST) < HIGHEST - LOWEST
}

/// As [`plausible`], of bytes.
pub fn can_be_read(start: *const u8, count: usize) -> bool {
    plausible(start, count)
}

/// Whether all of it can be read, in a program that catches faults; asked by one load a page.
#[inline]
fn is_there<T>(start: *const T, count: usize) -> bool {
    !FAULTS_ARE_CAUGHT.load(Ordering::Relaxed)
        || sys::foreign::can_be_read(start.cast(), size_of::<T>().max(1).saturating_mul(count))
}

/// [`plausible`], or EFAULT.
#[inline]
pub(crate) fn check<T>(start: *const T, count: usize) -> Answer<()> {
    if plausible(start, count) { Ok(()) } else { fail(libc::EFAULT) }
}

/// As [`check`], of what the call writes.
#[inline]
pub(crate) fn check_room<T>(start: *mut T, count: usize) -> Answer<()> {
    if is_room(start, count) { Ok(()) } else { fail(libc::EFAULT) }
}

/// As [`plausible`], of what the call writes. Asked by one write a page, of what is there.
#[inline]
pub(crate) fn is_room<T>(start: *mut T, count: usize) -> bool {
    let bytes = size_of::<T>().max(1).saturating_mul(count);
    // SAFETY: the application gave it to be written.
    let can_be_written = || unsafe { sys::foreign::can_be_written(start.cast(), bytes) };
    count == 0 || is_in_range(start) && (!FAULTS_ARE_CAUGHT.load(Ordering::Relaxed) || can_be_written())
}

/// [`check`] for an argument that may be null.
#[inline]
pub(crate) fn check_given<T>(start: *const T) -> Answer<()> {
    if start.is_null() { Ok(()) } else { check(start, 1) }
}

/// As [`check`] for a buffer, of which no more need be there than is used.
#[inline]
fn check_buffer(piece: &iovec) -> Answer<()> {
    if piece.iov_len == 0 || is_in_range(piece.iov_base) { Ok(()) } else { fail(libc::EFAULT) }
}

/// Room for pieces of what is left of a call, for [`Buffers::message`].
pub(crate) type Pieces = [MaybeUninit<iovec>; 16];
pub(crate) const NO_PIECES: Pieces = [const { MaybeUninit::uninit() }; 16];

/// A cursor over buffers of the application.
#[derive(Clone)]
pub(crate) struct Buffers<'a> {
    next: *const iovec,
    pieces: usize,
    /// Bytes of the current piece already passed.
    passed: usize,
    left: usize,
    _life: PhantomData<&'a iovec>,
}

/// Checks what the kernel checks of an iovec array and sums it up.
///
/// # Safety
/// `pieces` points to `count` iovecs whose buffers stay valid (readable or writable as the call demands) for `'a`.
pub(crate) unsafe fn buffers<'a>(pieces: *const iovec, count: usize, too_many: i32) -> Answer<Buffers<'a>> {
    if count > UIO_MAXIOV {
        return fail(too_many);
    }
    check(pieces, count)?;
    let mut left = 0usize;
    for i in 0..count {
        // SAFETY: within the array that the caller vouches for.
        let piece = unsafe { pieces.add(i).read_unaligned() };
        if piece.iov_len > isize::MAX as usize - left {
            return fail(libc::EINVAL);
        }
        check_buffer(&piece)?;
        left += piece.iov_len;
    }
    Ok(Buffers { next: pieces, pieces: count, passed: 0, left, _life: PhantomData })
}

/// One buffer as an iovec, for [`one`].
pub(crate) fn piece(buffer: *const c_void, size: usize) -> iovec {
    iovec { iov_base: buffer.cast_mut(), iov_len: size }
}

/// A cursor over the single buffer that `piece` describes.
///
/// # Safety
/// As for [`buffers`].
#[inline]
pub(crate) unsafe fn one(piece: &iovec) -> Answer<Buffers<'_>> {
    check_buffer(piece)?;
    Ok(unfilled(piece))
}

/// As [`one`] for a buffer that is passed over, never written (MSG_TRUNC on a stream): it may be anywhere.
#[inline]
pub(crate) fn unfilled(piece: &iovec) -> Buffers<'_> {
    let left = piece.iov_len.min(isize::MAX as usize);
    Buffers { next: piece, pieces: 1, passed: 0, left, _life: PhantomData }
}

impl Buffers<'_> {
    /// Bytes left.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Whether what is left lies in more than one piece.
    #[inline]
    pub(crate) fn is_scattered(&self) -> bool {
        self.pieces > 1
    }

    /// What is to be sent, all of which must be there.
    #[inline]
    pub(crate) fn readable(self) -> Answer<Self> {
        if FAULTS_ARE_CAUGHT.load(Ordering::Relaxed) && !self.can_be_read() {
            fail(libc::EFAULT)
        } else {
            Ok(self)
        }
    }

    #[cold]
    fn can_be_read(&self) -> bool {
        let mut rest = self.clone();
        while rest.left > 0 {
            let (start, count) = rest.run(usize::MAX);
            if !sys::foreign::can_be_read(start, count) {
                return false;
            }
        }
        true
    }

    /// [`stack::Sink::put`] where some of the room may not be there; then nothing of it is used up.
    #[cold]
    fn put_what_fits(&mut self, mut bytes: &[u8]) -> bool {
        let mut rest = self.clone();
        while !bytes.is_empty() {
            let (to, n) = rest.run(bytes.len());
            // SAFETY: the application's buffer by the contract of `buffers`, as far as it is there.
            if !unsafe { sys::foreign::write(to, &bytes[..n]) } {
                return false;
            }
            bytes = &bytes[n..];
        }
        *self = rest;
        true
    }

    /// A message of what is left, `most` bytes of it at the most; as far as `pieces` have room, where the application's
    /// own pieces do not say it.
    pub(crate) fn message(&self, pieces: &mut Pieces, mut most: usize) -> msghdr {
        // SAFETY: all zeros is an empty message.
        let mut message: msghdr = unsafe { core::mem::zeroed() };
        if self.passed == 0 && self.left <= most {
            (message.msg_iov, message.msg_iovlen) = (self.next.cast_mut(), self.pieces as _);
            return message;
        }
        let mut passed = self.passed;
        let mut count = 0;
        for i in 0..self.pieces {
            // SAFETY: within the array that `buffers` or `one` was given: `pieces` of it remain.
            let piece = unsafe { self.next.add(i).read_unaligned() };
            let len = (piece.iov_len - passed).min(most);
            let base = piece.iov_base.wrapping_byte_add(core::mem::take(&mut passed));
            // A message of empty pieces alone would be answered as the end.
            if len > 0 {
                let Some(slot) = pieces.get_mut(count) else { break };
                slot.write(iovec { iov_base: base, iov_len: len });
                (count, most) = (count + 1, most - len);
            }
        }
        (message.msg_iov, message.msg_iovlen) = (pieces.as_mut_ptr().cast(), count as _);
        message
    }

    /// Moves past `n` bytes, which are left.
    pub(crate) fn pass(&mut self, mut n: usize) {
        while n > 0 && self.left > 0 {
            n -= self.run(n).1;
        }
    }

    /// Gives `put` the buffers in turn, each as far as it is left, to write to, and moves past what it wrote; ends when
    /// it writes less than there is room for. How much that was. Not for a program that catches faults: see
    /// [`Buffers::are_sure`].
    pub(crate) fn fill(&mut self, mut put: impl FnMut(&mut [u8]) -> usize) -> usize {
        let mut done = 0;
        while self.left > 0 {
            let mut rest = self.clone();
            let (to, n) = rest.run(usize::MAX);
            // SAFETY: `to` has n writable bytes by the contract of `buffers`, and nobody else writes there.
            let wrote = put(unsafe { core::slice::from_raw_parts_mut(to, n) }).min(n);
            self.pass(wrote);
            done += wrote;
            if wrote < n {
                break;
            }
        }
        done
    }

    /// Gives `take` the buffers in turn, to read from, and moves past what it took; ends when it takes less than all of
    /// one. How much that was.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(&[u8]) -> usize) -> usize {
        let mut done = 0;
        while self.left > 0 {
            let mut rest = self.clone();
            let (from, n) = rest.run(usize::MAX);
            // SAFETY: `from` has n readable bytes by the contract of `buffers`.
            let took = take(unsafe { core::slice::from_raw_parts(from, n) }).min(n);
            self.pass(took);
            done += took;
            if took < n {
                break;
            }
        }
        done
    }

    /// Whether the program means its buffers to be there: else what is to be written goes through
    /// [`stack::Sink::put`], which finds out.
    pub(crate) fn are_sure() -> bool {
        !FAULTS_ARE_CAUGHT.load(Ordering::Relaxed)
    }

    /// The next contiguous run, at most `limit` bytes, and moves past it.
    #[inline]
    fn run(&mut self, limit: usize) -> (*mut u8, usize) {
        loop {
            debug_assert!(self.pieces > 0);
            // SAFETY: `left` > 0 (the callers ask for no more than that), so a piece remains in the array that
            // `buffers` or `one` was given.
            let piece = unsafe { self.next.read_unaligned() };
            let here = piece.iov_len - self.passed;
            if here == 0 {
                // SAFETY: stays within or one past the array.
                self.next = unsafe { self.next.add(1) };
                self.pieces -= 1;
                self.passed = 0;
                continue;
            }
            let start = piece.iov_base.cast::<u8>().wrapping_add(self.passed);
            let n = here.min(limit);
            self.passed += n;
            self.left -= n;
            return (start, n);
        }
    }
}

impl stack::Source for Buffers<'_> {
    #[inline]
    fn remaining(&self) -> usize {
        self.left
    }

    #[inline]
    fn copy_to(&mut self, into: &mut [u8]) {
        let mut done = 0;
        while done < into.len() {
            assert!(self.left > 0, "asked for more than remains");
            let (from, n) = self.run(into.len() - done);
            // SAFETY: `from` has n readable bytes by the contract of `buffers`; `into` has room; they do not overlap,
            // since `into` is the library's own memory.
            unsafe { core::ptr::copy_nonoverlapping(from, into.as_mut_ptr().add(done), n) };
            done += n;
        }
    }
}

impl stack::Sink for Buffers<'_> {
    #[inline]
    fn room(&self) -> usize {
        self.left
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> bool {
        if FAULTS_ARE_CAUGHT.load(Ordering::Relaxed) {
            return self.put_what_fits(bytes);
        }
        let mut done = 0;
        while done < bytes.len() {
            assert!(self.left > 0, "more bytes than room");
            let (to, n) = self.run(bytes.len() - done);
            // SAFETY: `to` has n writable bytes by the contract of `buffers`; `bytes` is the library's own memory.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr().add(done), to, n) };
            done += n;
        }
        true
    }
}

/// A value as the kernel reads it: an int, or one byte of what is shorter. (Where it takes nothing shorter it refused.)
pub(crate) fn word_of(bytes: &[u8]) -> Option<c_int> {
    let byte = || bytes.first().map(|byte| c_int::from(*byte));
    bytes.first_chunk::<4>().map(|four| c_int::from_ne_bytes(*four)).or_else(byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stack::{Sink, Source};

    #[test]
    fn bytes_pass_through_scattered_pieces_in_order() {
        let mut a = [0u8; 3];
        let mut b = [0u8; 0];
        let mut c = [0u8; 5];
        let pieces = [
            piece(a.as_mut_ptr().cast(), 3),
            piece(b.as_mut_ptr().cast(), 0),
            piece(c.as_mut_ptr().cast(), 5),
        ];
        // SAFETY: the pieces are locals.
        let mut sink = unsafe { buffers(pieces.as_ptr(), 3, libc::EINVAL) }.unwrap_or_else(|_| panic!());
        assert_eq!(sink.room(), 8);
        assert!(sink.put(b"ab") && sink.put(b"cdefgh"));
        // SAFETY: as above.
        let mut source = unsafe { buffers(pieces.as_ptr(), 3, libc::EINVAL) }.unwrap_or_else(|_| panic!());
        let mut out = [0u8; 8];
        source.copy_to(&mut out);
        assert_eq!((&out, source.remaining()), (b"abcdefgh", 0));
    }

    #[test]
    fn more_pieces_than_the_kernel_takes_are_refused() {
        // SAFETY: refused before anything is read.
        let answer = unsafe { buffers(core::ptr::null(), UIO_MAXIOV + 1, libc::EMSGSIZE) };
        assert!(matches!(answer, Err(crate::Stop::Errno(libc::EMSGSIZE))));
    }
}
