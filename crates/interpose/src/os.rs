//! The genuine functions as the socket layer gets them. Those that sleep let signal handlers in (see `inside`): the
//! socket layer holds no lock when it calls one of them with time to wait, nor when it calls `handled`.

use crate::genuine::{errno, genuine, set_errno};
use crate::hooks::{data, descriptor, socket, uring, wait};
use crate::inside::{opening, opening_masked};
use crate::{farewell, handlers, unwind};
use libc::{
    c_int, c_void, epoll_event, fd_set, msghdr, nfds_t, pollfd, sigset_t, size_t, sockaddr, socklen_t,
    ssize_t, timespec,
};
use sockets::os::Os;

genuine! {
    fn lseek64(fd: c_int, offset: i64, whence: c_int) -> i64;
    fn pread64(fd: c_int, buffer: *mut c_void, size: size_t, offset: i64) -> ssize_t;
    fn pthread_testcancel();
}

unsafe extern "C-unwind" fn write_errno(value: c_int) {
    set_errno(value);
}

unsafe extern "C-unwind" fn read_errno() -> c_int {
    errno()
}

/// Whether a wait only looks.
unsafe fn is_zero(timeout: *const timespec) -> bool {
    // SAFETY: null or valid.
    unsafe { timeout.as_ref() }.is_some_and(|timeout| timeout.tv_sec == 0 && timeout.tv_nsec == 0)
}

unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    size: size_t,
    flags: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    let receive = || unsafe { data::genuine::recvfrom(fd, buffer, size, flags, address, len) };
    if flags & libc::MSG_DONTWAIT != 0 { receive() } else { opening(receive) }
}

unsafe extern "C-unwind" fn send(fd: c_int, buffer: *const c_void, size: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let send = || unsafe { data::genuine::send(fd, buffer, size, flags) };
    if flags & libc::MSG_DONTWAIT != 0 { send() } else { opening(send) }
}

unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let receive = || unsafe { data::genuine::recvmsg(fd, message, flags) };
    if flags & libc::MSG_DONTWAIT != 0 { receive() } else { opening(receive) }
}

unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let send = || unsafe { data::genuine::sendmsg(fd, message, flags) };
    if flags & libc::MSG_DONTWAIT != 0 { send() } else { opening(send) }
}

unsafe extern "C-unwind" fn sendfile64(out: c_int, input: c_int, offset: *mut i64, count: size_t) -> ssize_t {
    // SAFETY: the caller's promise.
    opening(|| unsafe { data::genuine::sendfile64(out, input, offset, count) })
}

unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match is_zero(timeout) {
            true => wait::genuine::ppoll(fds, count, timeout, mask),
            false => opening_masked(mask, |mask| wait::genuine::ppoll(fds, count, timeout, mask)),
        }
    }
}

unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match is_zero(timeout) {
            true => wait::genuine::pselect(count, read, write, except, timeout, mask),
            false => {
                opening_masked(mask, |mask| wait::genuine::pselect(count, read, write, except, timeout, mask))
            }
        }
    }
}

unsafe extern "C-unwind" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match timeout {
            0 => wait::genuine::epoll_pwait(epoll, events, max, timeout, mask),
            _ => opening_masked(mask, |mask| wait::genuine::epoll_pwait(epoll, events, max, timeout, mask)),
        }
    }
}

unsafe extern "C-unwind" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match is_zero(timeout) {
            true => wait::genuine::epoll_pwait2(epoll, events, max, timeout, mask),
            false => {
                opening_masked(mask, |mask| wait::genuine::epoll_pwait2(epoll, events, max, timeout, mask))
            }
        }
    }
}

/// The application's own code, as if it had not called us.
fn outside(body: &mut dyn FnMut()) {
    opening(body);
}

/// From now on the program may be confined, and is worth an unwinder; and work goes on in the background.
fn opened() {
    farewell::arm();
    unwind::prepare();
    sockets::calls::opened();
}

pub(crate) const OS: Os = Os {
    socket: socket::first::genuine::socket,
    close: descriptor::genuine::close,
    bind: socket::genuine::bind,
    connect: socket::genuine::connect,
    listen: socket::genuine::listen,
    accept4: socket::genuine::accept4,
    shutdown: socket::genuine::shutdown,
    getsockname: socket::genuine::getsockname,
    getpeername: socket::genuine::getpeername,
    getsockopt: socket::first::genuine::getsockopt,
    setsockopt: socket::genuine::setsockopt,
    fcntl: descriptor::genuine::fcntl,
    ioctl: descriptor::genuine::ioctl,
    dup: descriptor::genuine::dup,
    dup3: descriptor::genuine::dup3,
    recvfrom,
    send,
    recvmsg,
    sendmsg,
    read: data::genuine::read,
    lseek64,
    pread64,
    sendfile64,
    ppoll,
    pselect,
    epoll_create1: wait::first::genuine::epoll_create1,
    epoll_ctl: wait::genuine::epoll_ctl,
    epoll_pwait,
    epoll_pwait2,
    set_errno: write_errno,
    errno: read_errno,
    testcancel: pthread_testcancel,
    handled: handlers::handled,
    outside,
    opened,
    has_unseen_rings: uring::are_unseen,
    has_unseen_sets: sockets::calls::has_unseen_sets,
};
