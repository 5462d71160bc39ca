//! The genuine functions with Rust's types: what takes numbers, or memory of ours, is safe to call from any room.
//! What takes the application's pointers is called in `calls` and by the types that wrap them (`address.rs`,
//! `message.rs`).

use crate::address::{self, Given, Wanted};
use crate::answer::Answer;
use crate::arguments::{sigset, timespec_of};
use crate::errno::fail;
use crate::os::Os;
use core::ptr::null_mut;
use libc::{c_int, epoll_event, msghdr, nfds_t, pollfd, socklen_t, ssize_t};
use std::net::SocketAddrV4;

/// An errno.
type Errno = i32;

impl Os {
    /// Errno of the calling thread.
    #[inline]
    pub fn errno(&self) -> Errno {
        // SAFETY: reads a thread-local.
        unsafe { (self.errno)() }
    }

    fn result(&self, value: c_int) -> Result<c_int, Errno> {
        if value < 0 { Err(self.errno()) } else { Ok(value) }
    }

    /// A cancellation point. No lock may be held.
    #[inline]
    pub(crate) fn cancellation_point(&self) {
        // SAFETY: no arguments; unwinding is allowed here.
        unsafe { (self.testcancel)() };
    }

    /// socket(2) of AF_INET.
    pub(crate) fn inet_socket(&self, kind: c_int) -> Result<c_int, Errno> {
        // SAFETY: no pointers.
        self.result(unsafe { (self.socket)(libc::AF_INET, kind, 0) })
    }

    /// close(2).
    pub(crate) fn close_descriptor(&self, fd: c_int) {
        // SAFETY: no pointers.
        unsafe { (self.close)(fd) };
    }

    /// What a genuine call returned, as ours say it.
    pub(crate) fn answer(&self, got: ssize_t) -> Answer<ssize_t> {
        if got >= 0 { Ok(got) } else { fail(self.errno()) }
    }

    /// recvmsg(2) of bytes, and who sent them if the message has room for a name; flags are not told. One piece comes
    /// by recvfrom(2), for which the kernel reads and writes no header.
    ///
    /// # Safety
    /// The message is the application's, and writable.
    #[inline]
    pub(crate) unsafe fn receive_bytes(&self, fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        // SAFETY: the caller's promise.
        unsafe {
            if (*message).msg_iovlen != 1 {
                return (self.recvmsg)(fd, message, flags);
            }
            let piece = (*message).msg_iov.read_unaligned();
            let (name, len) = match (*message).msg_name.is_null() {
                true => (null_mut(), null_mut()),
                false => ((*message).msg_name.cast(), &raw mut (*message).msg_namelen),
            };
            (self.recvfrom)(fd, piece.iov_base, piece.iov_len, flags, name, len)
        }
    }

    /// sendmsg(2) of bytes and nothing beside them; one piece by send(2).
    ///
    /// # Safety
    /// The pieces are the application's.
    #[inline]
    pub(crate) unsafe fn send_bytes(&self, fd: c_int, message: &msghdr, flags: c_int) -> ssize_t {
        // SAFETY: the caller's promise.
        unsafe {
            if message.msg_iovlen != 1 {
                return (self.sendmsg)(fd, message, flags);
            }
            let piece = message.msg_iov.read_unaligned();
            (self.send)(fd, piece.iov_base, piece.iov_len, flags)
        }
    }

    /// fcntl(F_DUPFD): a further descriptor, of the lowest free number.
    pub(crate) fn duplicate_to_lowest(&self, fd: c_int, cloexec: bool) -> Result<c_int, Errno> {
        let command = if cloexec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
        // SAFETY: these commands take a number.
        self.result(unsafe { (self.fcntl)(fd, command, 0) })
    }

    /// dup3(2).
    pub(crate) fn duplicate_onto(&self, fd: c_int, onto: c_int, flags: c_int) {
        // SAFETY: no pointers.
        unsafe { (self.dup3)(fd, onto, flags) };
    }

    /// bind(2) to what the application named.
    pub(crate) fn bind_given(&self, fd: c_int, given: &Given) -> Result<c_int, Errno> {
        // SAFETY: `Given` vouches for its pointer and length.
        self.result(unsafe { (self.bind)(fd, given.pointer(), given.len()) })
    }

    /// bind(2).
    pub(crate) fn bind_to(&self, fd: c_int, endpoint: SocketAddrV4) -> Result<c_int, Errno> {
        let inet = address::to_sockaddr(endpoint);
        // SAFETY: a local of the stated size.
        self.result(unsafe { (self.bind)(fd, (&raw const inet).cast(), size_of_val(&inet) as socklen_t) })
    }

    /// connect(2) to what the application named.
    pub(crate) fn connect_given(&self, fd: c_int, given: &Given) -> Result<c_int, Errno> {
        // SAFETY: `Given` vouches for its pointer and length.
        self.result(unsafe { (self.connect)(fd, given.pointer(), given.len()) })
    }

    /// listen(2).
    pub(crate) fn listen_on(&self, fd: c_int, backlog: c_int) -> Result<c_int, Errno> {
        // SAFETY: no pointers.
        self.result(unsafe { (self.listen)(fd, backlog) })
    }

    /// accept4(2).
    pub(crate) fn accept_from(&self, fd: c_int, wanted: Wanted, flags: c_int) -> Result<c_int, Errno> {
        // SAFETY: `Wanted` vouches for its pointers.
        self.result(unsafe { (self.accept4)(fd, wanted.address(), wanted.len(), flags) })
    }

    /// setsockopt(2) with a value of ours.
    pub(crate) fn set_option(
        &self,
        fd: c_int,
        level: c_int,
        name: c_int,
        value: &[u8],
    ) -> Result<c_int, Errno> {
        // SAFETY: the value is as long as said.
        self.result(unsafe {
            (self.setsockopt)(fd, level, name, value.as_ptr().cast(), value.len() as socklen_t)
        })
    }

    /// Where the next read(2) of a file begins.
    pub(crate) fn position(&self, fd: c_int) -> Result<i64, Errno> {
        self.move_by(fd, 0)
    }

    /// Moves it by `count` bytes; where it is then.
    pub(crate) fn move_by(&self, fd: c_int, count: i64) -> Result<i64, Errno> {
        // SAFETY: no pointers.
        let at = unsafe { (self.lseek64)(fd, count, libc::SEEK_CUR) };
        if at < 0 { Err(self.errno()) } else { Ok(at) }
    }

    /// pread(2); bytes read, 0 at the end of the file.
    pub(crate) fn read_at(&self, fd: c_int, into: &mut [u8], at: i64) -> Result<usize, Errno> {
        // SAFETY: the buffer is as long as said.
        let got = unsafe { (self.pread64)(fd, into.as_mut_ptr().cast(), into.len(), at) };
        if got < 0 { Err(self.errno()) } else { Ok(got as usize) }
    }

    /// ppoll(2): sleeps `timeout` nanoseconds at the most (`None`: for ever), with the kernel's signal mask `mask`.
    /// Handlers run, and cancellation unwinds: no lock may be held where it can sleep.
    pub(crate) fn poll_all(
        &self,
        fds: &mut [pollfd],
        timeout: Option<u64>,
        mask: Option<u64>,
    ) -> Result<c_int, Errno> {
        let timeout = timeout.map(timespec_of);
        let mask = mask.map(sigset);
        let timeout = timeout.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
        let mask = mask.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
        // SAFETY: the array is ours and as long as said; timeout and mask are locals.
        self.result(unsafe { (self.ppoll)(fds.as_mut_ptr(), fds.len() as nfds_t, timeout, mask) })
    }

    /// epoll_ctl(2).
    pub(crate) fn epoll_control(
        &self,
        epoll: c_int,
        operation: c_int,
        fd: c_int,
        events: u32,
        data: u64,
    ) -> Result<c_int, Errno> {
        let mut event = epoll_event { events, u64: data };
        // SAFETY: a local event.
        self.result(unsafe { (self.epoll_ctl)(epoll, operation, fd, &raw mut event) })
    }
}
