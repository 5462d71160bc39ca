//! The genuine functions as the socket layer gets them.

use crate::genuine::{errno, genuine, set_errno};
use crate::handlers;
use crate::hooks::{data, descriptor, socket, wait};
use libc::{c_int, c_void, size_t, ssize_t};
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
    getsockopt: socket::genuine::getsockopt,
    setsockopt: socket::genuine::setsockopt,
    fcntl: descriptor::genuine::fcntl,
    ioctl: descriptor::genuine::ioctl,
    dup: descriptor::genuine::dup,
    dup3: descriptor::genuine::dup3,
    recvmsg: data::genuine::recvmsg,
    sendmsg: data::genuine::sendmsg,
    read: data::genuine::read,
    lseek64,
    pread64,
    ppoll: wait::genuine::ppoll,
    pselect: wait::genuine::pselect,
    epoll_create1: wait::first::genuine::epoll_create1,
    epoll_ctl: wait::genuine::epoll_ctl,
    epoll_pwait: wait::genuine::epoll_pwait,
    set_errno: write_errno,
    errno: read_errno,
    testcancel: pthread_testcancel,
    handled: handlers::handled,
};
