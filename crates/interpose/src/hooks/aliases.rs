//! Second names under which glibc exports some of the same functions.

use crate::hooks::{data, descriptor, socket, wait};
use crate::table::aliases;
use libc::{
    c_char, c_int, c_uint, c_void, fd_set, nfds_t, pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval,
};

aliases! {
    fn __read(fd: c_int, buffer: *mut c_void, size: size_t) -> ssize_t = data::read;
    fn __write(fd: c_int, buffer: *const c_void, size: size_t) -> ssize_t = data::write;
    fn __send(fd: c_int, buffer: *const c_void, size: size_t, flags: c_int) -> ssize_t = data::send;
    fn __connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int = socket::connect;
    fn __close(fd: c_int) -> c_int = descriptor::close;
    fn __dup2(fd: c_int, to: c_int) -> c_int = descriptor::dup2;
    fn __fcntl(fd: c_int, command: c_int, argument: usize) -> c_int = descriptor::fcntl;
    fn __pipe(fds: *mut c_int) -> c_int = descriptor::makers::pipe;
    fn __open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int = descriptor::makers::open;
    fn __open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int = descriptor::makers::open64;
    fn __poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int = wait::poll;
    fn __select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int
        = wait::select;
}
