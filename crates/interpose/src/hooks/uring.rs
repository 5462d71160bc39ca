//! io_uring: what a program submits to a ring is done by the kernel, with the kernel's sockets. liburing's calls that
//! submit are looked at for sockets of ours, which become the kernel's. (Rings of other kinds: `process.rs` and
//! `start.rs`.)

use crate::start::running;
use crate::table::hooks;
use core::sync::atomic::{AtomicU32, Ordering::Acquire};
use libc::{c_int, c_uint, c_void, sigset_t, timespec};
use sockets::{Answer, Stop, Why, calls};

/// struct io_uring_sq of liburing.h, as far as it is looked at.
#[repr(C)]
struct Submissions {
    head: *mut c_uint,
    tail: *mut c_uint,
    mask: *mut c_uint,
    entries: *mut c_uint,
    flags: *mut c_uint,
    dropped: *mut c_uint,
    array: *mut c_uint,
    requests: *const u8,
    /// Filled in and not submitted yet: from here to there.
    first: c_uint,
    end: c_uint,
    size: usize,
    memory: *mut c_void,
    mask_copied: c_uint,
    entries_copied: c_uint,
    reserved: [c_uint; 2],
}

/// struct io_uring, likewise.
#[repr(C)]
pub(crate) struct Ring {
    submissions: Submissions,
    completions: [usize; 11],
    flags: c_uint,
}

/// linux/io_uring.h: requests of 128 bytes instead of 64; and the operation whose socket is in another place.
const IORING_SETUP_SQE128: c_uint = 1 << 10;
const IORING_OP_EPOLL_CTL: u8 = 29;
/// In a request: the operation, the flags, the descriptor; for epoll_ctl the descriptor that it is about.
const FLAGS: usize = 1;
const DESCRIPTOR: usize = 4;
const ABOUT: usize = 8;
/// The descriptor is an index into what was registered.
const IOSQE_FIXED_FILE: u8 = 1;

/// The sockets that waiting requests name become the kernel's, which does the call.
unsafe fn submitting(ring: *const Ring) -> Answer<c_int> {
    // SAFETY: the application's ring, which liburing has set up; its memory is there as long as the ring is.
    unsafe {
        let Some(ring) = ring.as_ref() else { return Err(Stop::Kernel(Why::NotOurs)) };
        let submissions = &ring.submissions;
        if !submissions.mask.is_null() && !submissions.requests.is_null() {
            let mask = (*submissions.mask.cast::<AtomicU32>()).load(Acquire);
            let size = if ring.flags & IORING_SETUP_SQE128 == 0 { 64 } else { 128 };
            let mut at = submissions.first;
            while at != submissions.end {
                let request = submissions.requests.add((at & mask) as usize * size);
                let place = if *request == IORING_OP_EPOLL_CTL { ABOUT } else { DESCRIPTOR };
                if *request.add(FLAGS) & IOSQE_FIXED_FILE == 0 || place == ABOUT {
                    calls::used_by(request.add(place).cast::<c_int>().read(), Why::IoUring);
                }
                at = at.wrapping_add(1);
            }
        }
    }
    Err(Stop::Kernel(Why::NotOurs))
}

/// Descriptors that requests may name by index from now on.
unsafe fn registering(fds: *const c_int, count: c_uint) -> Answer<c_int> {
    if !fds.is_null() {
        // SAFETY: the application's array.
        (0..count as usize).for_each(|at| calls::used_by(unsafe { fds.add(at).read() }, Why::IoUring));
    }
    Err(Stop::Kernel(Why::NotOurs))
}

hooks! { running:
    fn io_uring_submit(ring: *mut Ring) -> c_int {
        submitting(ring)
    }

    fn io_uring_submit_and_wait(ring: *mut Ring, count: c_uint) -> c_int {
        submitting(ring)
    }

    fn io_uring_submit_and_wait_timeout(
        ring: *mut Ring,
        completion: *mut c_void,
        count: c_uint,
        timeout: *mut timespec,
        mask: *mut sigset_t,
    ) -> c_int {
        submitting(ring)
    }

    fn io_uring_submit_and_get_events(ring: *mut Ring) -> c_int {
        submitting(ring)
    }

    fn io_uring_register_files(ring: *mut Ring, fds: *const c_int, count: c_uint) -> c_int {
        registering(fds, count)
    }

    fn io_uring_register_files_update(ring: *mut Ring, from: c_uint, fds: *const c_int, count: c_uint) -> c_int {
        registering(fds, count)
    }
}

/// Whether the program has a ring that is not liburing's, so that nobody sees what it is given.
pub(crate) fn are_unseen() -> bool {
    // SAFETY: a C string; looked for behind this library.
    let is_liburings = || !unsafe { libc::dlsym(libc::RTLD_NEXT, c"io_uring_submit".as_ptr()) }.is_null();
    sys::file::descriptor_of(b"anon_inode:[io_uring]", |_| true).is_some() && !is_liburings()
}
