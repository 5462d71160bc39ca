//! Bytes and datagrams, in and out.

use crate::inside::opening;
use crate::start::{cancellable, gave, running};
use crate::table::hooks;
use core::ptr::{null, null_mut};
use libc::{
    MSG_DONTWAIT, RWF_APPEND, RWF_DSYNC, RWF_HIPRI, RWF_NOWAIT, RWF_SYNC, SCM_RIGHTS, SOL_SOCKET, c_int,
    c_uint, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec,
};
use sockets::{Answer, Stop, Why, calls};

/// read(2): `recv` without flags, except that a read of nothing takes nothing, not even an empty datagram.
///
/// # Safety
/// As read(2).
pub(super) unsafe fn plain_read(fd: c_int, buffer: *mut c_void, size: size_t) -> Answer<ssize_t> {
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            0 => calls::readv(fd, &iovec { iov_base: buffer, iov_len: 0 }, 1),
            _ => calls::recvfrom(fd, buffer, size, 0, null_mut(), null_mut()),
        }
    }
}

/// `preadv2` without a place, which is how it works on sockets. With a place sockets refuse, and the shadow does so by
/// itself.
unsafe fn placeless_read(
    fd: c_int,
    pieces: *const iovec,
    count: c_int,
    offset: i64,
    flags: c_int,
) -> Answer<ssize_t> {
    // SAFETY: the caller's promise.
    unsafe {
        match (offset, without_effect(flags)) {
            (-1, 0) => calls::readv(fd, pieces, count),
            (-1, RWF_NOWAIT) if count >= 0 => calls::recvmsg(fd, &mut placeless(pieces, count), MSG_DONTWAIT),
            _ => Err(Stop::Kernel(Why::NotOurs)),
        }
    }
}

/// `pwritev2`, likewise.
unsafe fn placeless_write(
    fd: c_int,
    pieces: *const iovec,
    count: c_int,
    offset: i64,
    flags: c_int,
) -> Answer<ssize_t> {
    // SAFETY: the caller's promise.
    unsafe {
        match (offset, without_effect(flags)) {
            (-1, 0) => calls::writev(fd, pieces, count),
            (-1, RWF_NOWAIT) if count >= 0 => calls::sendmsg(fd, &placeless(pieces, count), MSG_DONTWAIT),
            _ => Err(Stop::Kernel(Why::NotOurs)),
        }
    }
}

/// RWF_* without those that mean nothing to a socket, and that it takes.
fn without_effect(flags: c_int) -> c_int {
    flags & !(RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_APPEND)
}

fn placeless(pieces: *const iovec, count: c_int) -> msghdr {
    // SAFETY: all zero is an empty message.
    let mut message: msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = pieces.cast_mut();
    message.msg_iovlen = count as usize;
    message
}

/// Descriptors that arrived in a message of the kernel's: their numbers are not ours.
unsafe fn took_rights(message: *const msghdr) {
    // SAFETY: the kernel filled the message.
    unsafe {
        if (*message).msg_control.is_null() {
            return;
        }
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == SOL_SOCKET && (*header).cmsg_type == SCM_RIGHTS {
                let bytes = (*header).cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                let fds = libc::CMSG_DATA(header).cast::<c_int>();
                for index in 0..bytes / size_of::<c_int>() {
                    gave(fds.add(index).read_unaligned());
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

hooks! { running:
    // `off_t` is 64 bits wide where we run.
    fn sendfile(output: c_int, input: c_int, offset: *mut i64, count: size_t) -> ssize_t {
        calls::sendfile64(output, input, offset, count)
    }

    fn sendfile64(output: c_int, input: c_int, offset: *mut i64, count: size_t) -> ssize_t {
        calls::sendfile64(output, input, offset, count)
    }

    ; cancellable:

    fn read(fd: c_int, buffer: *mut c_void, size: size_t) -> ssize_t where received(fd, 0) {
        plain_read(fd, buffer, size)
    }

    fn readv(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t where received(fd, 0) {
        calls::readv(fd, pieces, count)
    }

    fn preadv2(fd: c_int, pieces: *const iovec, count: c_int, offset: i64, flags: c_int) -> ssize_t {
        placeless_read(fd, pieces, count, offset, flags)
    }

    fn preadv64v2(fd: c_int, pieces: *const iovec, count: c_int, offset: i64, flags: c_int) -> ssize_t {
        placeless_read(fd, pieces, count, offset, flags)
    }

    fn recv(fd: c_int, buffer: *mut c_void, size: size_t, flags: c_int) -> ssize_t where received(fd, flags) {
        calls::recvfrom(fd, buffer, size, flags, null_mut(), null_mut())
    }

    fn recvfrom(
        fd: c_int,
        buffer: *mut c_void,
        size: size_t,
        flags: c_int,
        address: *mut sockaddr,
        len: *mut socklen_t,
    ) -> ssize_t where received(fd, flags) {
        calls::recvfrom(fd, buffer, size, flags, address, len)
    }

    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t where received_message(fd, flags) {
        match calls::recvmsg(fd, message, flags) {
            Err(Stop::Kernel(_)) => {
                let size = opening(|| genuine::recvmsg(fd, message, flags));
                if size >= 0 {
                    took_rights(message);
                }
                Ok(size)
            }
            answer => answer,
        }
    }

    fn recvmmsg(
        fd: c_int,
        messages: *mut mmsghdr,
        count: c_uint,
        flags: c_int,
        timeout: *mut timespec,
    ) -> c_int {
        match calls::recvmmsg(fd, messages, count, flags, timeout) {
            Err(Stop::Kernel(_)) => {
                let received = opening(|| genuine::recvmmsg(fd, messages, count, flags, timeout));
                for index in 0..received.max(0) as usize {
                    took_rights(&(*messages.add(index)).msg_hdr);
                }
                Ok(received)
            }
            answer => answer,
        }
    }

    fn write(fd: c_int, buffer: *const c_void, size: size_t) -> ssize_t where sent(fd, 0) {
        calls::sendto(fd, buffer, size, 0, null(), 0)
    }

    fn writev(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t where sent(fd, 0) {
        calls::writev(fd, pieces, count)
    }

    fn pwritev2(fd: c_int, pieces: *const iovec, count: c_int, offset: i64, flags: c_int) -> ssize_t {
        placeless_write(fd, pieces, count, offset, flags)
    }

    fn pwritev64v2(fd: c_int, pieces: *const iovec, count: c_int, offset: i64, flags: c_int) -> ssize_t {
        placeless_write(fd, pieces, count, offset, flags)
    }

    fn send(fd: c_int, buffer: *const c_void, size: size_t, flags: c_int) -> ssize_t where sent(fd, flags) {
        calls::sendto(fd, buffer, size, flags, null(), 0)
    }

    fn sendto(
        fd: c_int,
        buffer: *const c_void,
        size: size_t,
        flags: c_int,
        address: *const sockaddr,
        len: socklen_t,
    ) -> ssize_t where sent(fd, flags) {
        calls::sendto(fd, buffer, size, flags, address, len)
    }

    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t where sent_message(fd, flags) {
        let answer = calls::sendmsg(fd, message, flags);
        if matches!(answer, Err(Stop::Kernel(_))) {
            calls::passing(message);
        }
        answer
    }

    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        let answer = calls::sendmmsg(fd, messages, count, flags);
        if matches!(answer, Err(Stop::Kernel(_))) && !messages.is_null() {
            (0..(count as usize).min(sys::linux::UIO_MAXIOV)).for_each(|at| calls::passing(&raw const (*messages.add(at)).msg_hdr));
        }
        answer
    }

    fn splice(
        input: c_int,
        input_offset: *mut i64,
        output: c_int,
        output_offset: *mut i64,
        count: size_t,
        flags: c_uint,
    ) -> ssize_t {
        calls::splice(input, input_offset, output, output_offset, count, flags)
    }
}
