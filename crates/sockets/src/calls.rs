//! One function per intercepted call, with libc's name and arguments. `Kernel` means: call the genuine function with
//! the same arguments. Null pointers are allowed wherever libc allows them.
//!
//! # Safety
//! All of these: pointers are the application's, valid as the call's manual page demands.
#![allow(unused_variables, clippy::missing_safety_doc)]

use crate::answer::{Answer, Stop, Why};
use libc::{
    c_int, c_uint, c_void, epoll_event, fd_set, iovec, mmsghdr, msghdr, nfds_t, pollfd, sigset_t, size_t,
    sockaddr, socklen_t, ssize_t, timespec,
};

/// socket(2); makes the kernel's socket itself and returns its number.
pub unsafe fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See close(2).
pub unsafe fn close(fd: c_int) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See shutdown(2).
pub unsafe fn shutdown(fd: c_int, how: c_int) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See bind(2).
pub unsafe fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See connect(2).
pub unsafe fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See listen(2).
pub unsafe fn listen(fd: c_int, backlog: c_int) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See accept4(2).
pub unsafe fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See getsockname(2).
pub unsafe fn getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See getpeername(2).
pub unsafe fn getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See getsockopt(2).
pub unsafe fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See setsockopt(2).
pub unsafe fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See fcntl(2).
pub unsafe fn fcntl(fd: c_int, command: c_int, argument: usize) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See ioctl(2).
pub unsafe fn ioctl(fd: c_int, request: usize, argument: usize) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See dup(2).
pub unsafe fn dup(fd: c_int) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// dup2 with `flags` = -1 (which does nothing for equal descriptors), dup3 otherwise.
pub unsafe fn dup3(fd: c_int, to: c_int, flags: c_int) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See recvfrom(2).
pub unsafe fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    size: size_t,
    flags: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> Answer<ssize_t> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See recvmsg(2).
pub unsafe fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> Answer<ssize_t> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See recvmmsg(2).
pub unsafe fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See readv(2).
pub unsafe fn readv(fd: c_int, pieces: *const iovec, count: c_int) -> Answer<ssize_t> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See sendto(2).
pub unsafe fn sendto(
    fd: c_int,
    buffer: *const c_void,
    size: size_t,
    flags: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> Answer<ssize_t> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See sendmsg(2).
pub unsafe fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> Answer<ssize_t> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See sendmmsg(2).
pub unsafe fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See writev(2).
pub unsafe fn writev(fd: c_int, pieces: *const iovec, count: c_int) -> Answer<ssize_t> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See sendfile64(2).
pub unsafe fn sendfile64(out: c_int, input: c_int, offset: *mut i64, count: size_t) -> Answer<ssize_t> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// splice(2), when one end may be a socket of ours.
pub unsafe fn splice(
    input: c_int,
    input_offset: *mut i64,
    output: c_int,
    output_offset: *mut i64,
    count: size_t,
    flags: c_uint,
) -> Answer<ssize_t> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// poll(2) is this with the timeout converted and no mask.
pub unsafe fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// select(2) is this too; the caller converts the timeout and writes back what is left.
pub unsafe fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See epoll_create1(2).
pub unsafe fn epoll_create1(flags: c_int) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// See epoll_ctl(2).
pub unsafe fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// All waits of epoll: the caller converts the timeout; null: for ever.
pub unsafe fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// close_range(2) and closefrom(3), before the kernel's: lets go of ours in the range, and closes around our own
/// descriptors.
pub unsafe fn close_range(first: c_uint, last: c_uint, flags: c_int) -> Answer<c_int> {
    Err(Stop::Kernel(Why::NotOurs))
}

/// A descriptor number that the kernel just gave out by a call that makes no socket of ours (open, pipe, accept of
/// another family, ...): whatever we still knew of that number is stale.
pub fn recycled(fd: c_int) {}

/// In the child of fork, before anything else runs there.
pub fn forked_child() {}

/// Before fork, in the parent: takes our locks, so that the child finds them free. `fork_done` follows in both.
pub fn fork_begins() {}

/// After fork, in parent and child: releases what `fork_begins` took.
pub fn fork_done() {}

/// At exit of the process: pending data gets its bounded time to leave.
pub fn exiting() {}

/// A panic of ours was caught at the hook: the call fails with EIO, and nothing that it may have left half done can be
/// used again. Must not panic.
pub fn panicked() {}

/// Whether a descriptor number is one that the library keeps for itself (hidden from close, close_range, dup2).
pub fn is_internal(fd: c_int) -> bool {
    false
}

/// Whether anything here depends on this number: a socket or epoll set of ours, or a descriptor that the library keeps
/// for itself. A look at a table, for the hook to let go of other descriptors at once; `true` when in doubt.
#[inline]
pub fn knows(fd: c_int) -> bool {
    true
}

/// Called once, before the first candidate socket or epoll set is made: configuration, logging; devices are opened
/// lazily. Never fails: what cannot be done is left to the kernel.
pub fn start(os: crate::os::Os) {}
