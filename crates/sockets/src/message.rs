//! The application's buffers as cursors: iovecs to send from and to receive into. The one place where its pointers
//! become slices.

use crate::answer::Answer;
use crate::errno::fail;
use core::marker::PhantomData;
use libc::{c_void, iovec};

/// UIO_MAXIOV: more pieces than this are EMSGSIZE (msghdr) or EINVAL (readv, writev).
pub(crate) const PIECES_MAX: usize = 1024;

/// The first and the last address that can be the application's memory: not the null page, not above user space.
const LOWEST: usize = 4096;
const HIGHEST: usize = 1 << 47;

/// Whether `count` values can be there: where they cannot it is EFAULT, as in the kernel. An address that looks like
/// memory and is none ends the program, which the kernel would have told (`docs/design/interposition.md`).
#[inline]
pub(crate) fn plausible<T>(start: *const T, count: usize) -> bool {
    count == 0 || (start as usize).wrapping_sub(LOWEST) < HIGHEST - LOWEST
}

/// [`plausible`], or EFAULT.
#[inline]
pub(crate) fn check<T>(start: *const T, count: usize) -> Answer<()> {
    if plausible(start, count) { Ok(()) } else { fail(libc::EFAULT) }
}

/// [`check`] for an argument that may be null.
#[inline]
pub(crate) fn check_given<T>(start: *const T) -> Answer<()> {
    if start.is_null() { Ok(()) } else { check(start, 1) }
}

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
    if count > PIECES_MAX {
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
        check(piece.iov_base, piece.iov_len)?;
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
    check(piece.iov_base, piece.iov_len)?;
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
    fn put(&mut self, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            assert!(self.left > 0, "more bytes than room");
            let (to, n) = self.run(bytes.len() - done);
            // SAFETY: `to` has n writable bytes by the contract of `buffers`; `bytes` is the library's own memory.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr().add(done), to, n) };
            done += n;
        }
    }
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
        sink.put(b"ab");
        sink.put(b"cdefgh");
        // SAFETY: as above.
        let mut source = unsafe { buffers(pieces.as_ptr(), 3, libc::EINVAL) }.unwrap_or_else(|_| panic!());
        let mut out = [0u8; 8];
        source.copy_to(&mut out);
        assert_eq!((&out, source.remaining()), (b"abcdefgh", 0));
    }

    #[test]
    fn more_pieces_than_the_kernel_takes_are_refused() {
        // SAFETY: refused before anything is read.
        let answer = unsafe { buffers(core::ptr::null(), PIECES_MAX + 1, libc::EMSGSIZE) };
        assert!(matches!(answer, Err(crate::Stop::Errno(libc::EMSGSIZE))));
    }
}
