//! What the compiler makes of checked calls (_FORTIFY_SOURCE): the function with the size of the buffer. A call that
//! would overflow it goes to libc, which ends the program.

use crate::hooks::data::plain_read;
use crate::hooks::wait::{milliseconds, pointer};
use crate::start::cancellable;
use crate::table::hooks;
use core::ptr::{null, null_mut};
use libc::{c_int, c_void, nfds_t, pollfd, sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec};
use sockets::{Stop, Why, calls};

/// Goes on when what the call may fill fits into `room` bytes.
fn fits(size: size_t, room: size_t) -> Result<(), Stop> {
    if size <= room { Ok(()) } else { Err(Stop::Kernel(Why::NotOurs)) }
}

/// The same for an array of pollfd.
fn fits_polls(count: nfds_t, room: size_t) -> Result<(), Stop> {
    fits((count as size_t).saturating_mul(size_of::<pollfd>()), room)
}

hooks! { cancellable:
    fn __read_chk(fd: c_int, buffer: *mut c_void, size: size_t, room: size_t) -> ssize_t {
        fits(size, room)?;
        plain_read(fd, buffer, size)
    }

    fn __recv_chk(fd: c_int, buffer: *mut c_void, size: size_t, room: size_t, flags: c_int) -> ssize_t {
        fits(size, room)?;
        calls::recvfrom(fd, buffer, size, flags, null_mut(), null_mut())
    }

    fn __recvfrom_chk(
        fd: c_int,
        buffer: *mut c_void,
        size: size_t,
        room: size_t,
        flags: c_int,
        address: *mut sockaddr,
        len: *mut socklen_t,
    ) -> ssize_t {
        fits(size, room)?;
        calls::recvfrom(fd, buffer, size, flags, address, len)
    }

    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int {
        fits_polls(count, room)?;
        calls::ppoll(fds, count, pointer(&milliseconds(timeout)), null())
    }

    fn __ppoll_chk(
        fds: *mut pollfd,
        count: nfds_t,
        timeout: *const timespec,
        mask: *const sigset_t,
        room: size_t,
    ) -> c_int {
        fits_polls(count, room)?;
        calls::ppoll(fds, count, timeout, mask)
    }
}
