//! Asynchronous I/O, Linux's (io_submit) and POSIX' (aio_read): the kernel, or a thread inside libc, does what a
//! request asks for with the kernel's socket. So sockets that requests name become the kernel's, as in `uring.rs`.

use crate::start::running;
use crate::table::hooks;
use libc::{c_int, c_long, c_void};
use sockets::{Answer, Stop, Why, calls};

/// linux/aio_abi.h: where struct iocb has its descriptor.
const IOCB_DESCRIPTOR: usize = 20;
/// As many requests as one call is looked at for. (The kernel takes as many as its ring has room for, libc any number.)
const REQUESTS_MAX: usize = 1 << 16;

/// A request of POSIX, struct aiocb as far as it is looked at. The one with 64-bit offsets begins in the same way.
#[repr(C)]
pub(crate) struct Request {
    descriptor: c_int,
    operation: c_int,
}

/// The sockets that requests name, each by a descriptor `place` bytes from its beginning, become the kernel's. Requests
/// that cannot be there are for the kernel to refuse.
unsafe fn named(requests: *const *const c_void, count: c_long, place: usize) {
    let count = usize::try_from(count).map_or(0, |count| count.min(REQUESTS_MAX));
    if !calls::can_be_read(requests.cast(), count * size_of::<usize>()) {
        return;
    }
    for at in 0..count {
        // SAFETY: the application's array; a request has its descriptor there.
        unsafe {
            let fd = requests.add(at).read_unaligned().byte_add(place).cast::<c_int>();
            if calls::can_be_read(fd.cast(), size_of::<c_int>()) {
                calls::used_by(fd.read_unaligned(), Why::Aio);
            }
        }
    }
}

/// Requests of Linux, before they are submitted.
///
/// # Safety
/// As io_submit(2).
pub(crate) unsafe fn submitting(count: c_long, requests: *const *const c_void) {
    // SAFETY: by the caller.
    unsafe { named(requests, count, IOCB_DESCRIPTOR) };
}

unsafe fn beginning(request: *const Request) -> Answer<c_int> {
    // SAFETY: the application's request.
    unsafe { named(&raw const request as _, 1, 0) };
    Err(Stop::Kernel(Why::NotOurs))
}

hooks! { running:
    // libaio's.
    fn io_submit(context: *mut c_void, count: c_long, requests: *const *const c_void) -> c_int {
        submitting(count, requests);
        Err(Stop::Kernel(Why::NotOurs))
    }

    fn aio_read(request: *mut Request) -> c_int {
        beginning(request)
    }

    fn aio_read64(request: *mut Request) -> c_int {
        beginning(request)
    }

    fn aio_write(request: *mut Request) -> c_int {
        beginning(request)
    }

    fn aio_write64(request: *mut Request) -> c_int {
        beginning(request)
    }

    fn lio_listio(mode: c_int, requests: *const *const c_void, count: c_int, event: *mut c_void) -> c_int {
        named(requests, c_long::from(count), 0);
        Err(Stop::Kernel(Why::NotOurs))
    }

    fn lio_listio64(mode: c_int, requests: *const *const c_void, count: c_int, event: *mut c_void) -> c_int {
        named(requests, c_long::from(count), 0);
        Err(Stop::Kernel(Why::NotOurs))
    }
}
