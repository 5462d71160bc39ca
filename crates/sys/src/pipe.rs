//! Pipes, and moving bytes between them without a look at them. Nothing here blocks.

use crate::copying::AtWork;
use crate::raw::{int, syscall};
use crate::{Fd, Result, fd};

/// A non-blocking pipe of ours: the end to read, the end to write.
pub fn pair() -> Result<(Fd, Fd)> {
    let mut ends = [0i32; 2];
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    let at_work = &AtWork::begin();
    // SAFETY: the kernel writes two descriptors.
    unsafe { syscall(libc::SYS_pipe2, [ends.as_mut_ptr() as usize, int(flags), 0, 0, 0, 0]) }?;
    Ok((Fd::hide(ends[0], at_work), Fd::hide(ends[1], at_work)))
}

/// Whether a descriptor is an end of a pipe, or a FIFO.
pub fn is_pipe(fd: i32) -> bool {
    fd::fcntl(fd, libc::F_GETPIPE_SZ, 0).is_ok()
}

/// Whether reads and writes of it do not wait (O_NONBLOCK).
pub fn is_nonblocking(fd: i32) -> bool {
    fd::fcntl(fd, libc::F_GETFL, 0).is_ok_and(|flags| flags & libc::O_NONBLOCK != 0)
}

/// splice(2) from pipe to pipe: what `from` holds and `to` has room for, at most `count` bytes.
pub fn splice(from: i32, to: i32, count: usize) -> Result<usize> {
    let flags = libc::SPLICE_F_NONBLOCK as usize;
    // SAFETY: no offsets.
    unsafe { syscall(libc::SYS_splice, [int(from), 0, int(to), 0, count, flags]) }
}

/// tee(2): as [`splice`], and the bytes stay in `from` as well.
pub fn tee(from: i32, to: i32, count: usize) -> Result<usize> {
    let flags = libc::SPLICE_F_NONBLOCK as usize;
    // SAFETY: no pointers.
    unsafe { syscall(libc::SYS_tee, [int(from), int(to), count, flags, 0, 0]) }
}

/// read(2) that does not block, whatever O_NONBLOCK says. EOPNOTSUPP of a FIFO.
pub fn read_now(from: i32, into: &mut [u8]) -> Result<usize> {
    let piece = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // Offset -1: the descriptor's own, which a pipe has none of.
    let arguments = [int(from), &raw const piece as usize, 1, usize::MAX, usize::MAX, int(libc::RWF_NOWAIT)];
    // SAFETY: one piece, which is the caller's buffer.
    unsafe { syscall(libc::SYS_preadv2, arguments) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_teed_stays_and_what_is_spliced_goes() {
        let ((from, into), (out, to)) = (pair().unwrap(), pair().unwrap());
        assert!(is_pipe(from.raw()) && !is_pipe(-1));
        assert_eq!(tee(from.raw(), to.raw(), 10), Err(libc::EAGAIN));
        fd::write(into.raw(), b"bytes").unwrap();
        let mut got = [0; 8];
        assert_eq!(tee(from.raw(), to.raw(), 4), Ok(4));
        assert_eq!(fd::read(out.raw(), &mut got), Ok(4));
        assert_eq!(splice(from.raw(), to.raw(), 10), Ok(5));
        assert_eq!(fd::read(out.raw(), &mut got), Ok(5));
        assert_eq!(&got[..5], b"bytes");
        assert_eq!(splice(from.raw(), to.raw(), 10), Err(libc::EAGAIN));
    }

    #[test]
    fn a_read_now_takes_what_is_there_and_waits_for_nothing() {
        let (from, into) = pair().unwrap();
        fd::fcntl(from.raw(), libc::F_SETFL, 0).unwrap();
        let mut got = [0; 8];
        assert_eq!(read_now(from.raw(), &mut got), Err(libc::EAGAIN));
        fd::write(into.raw(), b"bytes").unwrap();
        assert_eq!(read_now(from.raw(), &mut got[..2]), Ok(2));
        assert_eq!(read_now(from.raw(), &mut got), Ok(3));
        assert_eq!(&got[..3], b"tes");
        drop(into);
        assert_eq!(read_now(from.raw(), &mut got), Ok(0));
    }
}
