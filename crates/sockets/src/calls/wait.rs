//! Waiting for readiness.

use super::passing::used_by;
use super::select;
use super::{hearing, kernel};
use crate::answer::{Answer, Stop, Why};
use crate::arguments;
use crate::errno::fail;
use crate::fd_table;
use crate::message;
use crate::parting::prepare;
use crate::runtime::{self, Runtime};
use crate::sdp;
use crate::wait::epoll::{self, Set};
use crate::wait::poll;
use core::sync::atomic::Ordering;
use libc::{c_int, epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec};

/// poll(2) is this with the timeout converted and no mask.
pub unsafe fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> Answer<c_int> {
    let Some(runtime) = runtime::get() else { return kernel() };
    if count == 0 || !message::is_room(fds, count as usize) || count as usize > fd_table::LEN {
        return kernel();
    }
    // SAFETY: the application's array.
    let fds = unsafe { core::slice::from_raw_parts_mut(fds, count as usize) };
    if !fds.iter().any(|polled| fd_table::entry(polled.fd).is_some()) {
        return kernel();
    }
    for polled in fds.iter() {
        prepare(runtime, polled.fd);
    }
    // SAFETY: null or valid.
    let (deadline, mask) = unsafe { (arguments::deadline(timeout)?, arguments::mask(mask)?) };
    poll::poll(runtime, fds, deadline, mask)
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
    let Some(runtime) = runtime::get() else { return kernel() };
    if [read, write, except].iter().any(|set| !set.is_null() && !message::is_room(*set, 1)) {
        return kernel();
    }
    // SAFETY: null or valid.
    let (deadline, mask) = unsafe { (arguments::deadline(timeout)?, arguments::mask(mask)?) };
    // SAFETY: the application's sets.
    unsafe { select::pselect(runtime, count, read, write, except, deadline, mask) }
}

/// Whether sets are ours: libsdp.so has some where it carries something.
fn has_sets(runtime: &'static Runtime) -> bool {
    runtime.sdp.is_none() || runtime.carries_in_memory()
}

/// Whether the program has sets that were not seen made: by an inline system call, as Rust's rustix and Go do. Who
/// waits on such a one asks the kernel alone, and which sockets are in it nobody tells.
pub fn has_unseen_sets() -> bool {
    let unseen = |meant: &dyn Fn(c_int) -> bool| {
        let is_unseen = |fd| meant(fd) && fd_table::epoll(fd).is_none() && !sys::own_fd::is_own(fd);
        sys::file::descriptor_of(b"anon_inode:[eventpoll]", is_unseen)
    };
    let Some(found) = runtime::get().filter(|runtime| has_sets(runtime)).and_then(|_| unseen(&|_| true))
    else {
        return false;
    };
    // Another thread may make one just now, or close it, or do so for us.
    (0..UNSEEN_LOOKS).all(|_| {
        sys::thread::sleep(UNSEEN_PAUSE_NS);
        unseen(&|fd| fd == found).is_some()
    })
}

/// Looks that must find a set unseen before it is taken for one, and nanoseconds before each.
const UNSEEN_LOOKS: u32 = 3;
const UNSEEN_PAUSE_NS: u64 = 1_000_000;

/// epoll_create1(2).
pub unsafe fn epoll_create1(flags: c_int) -> Answer<c_int> {
    let Some(runtime) = runtime::get().filter(|runtime| has_sets(runtime)) else { return kernel() };
    // SAFETY: no pointers.
    let fd = unsafe { (runtime.os.epoll_create1)(flags) };
    if fd < 0 {
        return fail(runtime.os.errno());
    }
    super::recycled(fd);
    let set = Set::new(fd);
    if !fd_table::enter_epoll(fd, set) {
        set.release();
    }
    Ok(fd)
}

/// epoll_ctl(2). Who waits on a set that was not seen made (an inline system call, another program before exec) asks
/// the kernel alone, so what is put into one is the kernel's.
pub unsafe fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> Answer<c_int> {
    let Some(runtime) = runtime::get() else { return kernel() };
    let Some(set) = fd_table::epoll(epoll) else {
        if operation == libc::EPOLL_CTL_ADD && fd_table::socket(fd).is_some() && has_sets(runtime) {
            used_by(fd, Why::UnseenSet);
        }
        return kernel();
    };
    if operation == libc::EPOLL_CTL_ADD {
        sdp::before_set(runtime, fd);
        if set.is_unseen.load(Ordering::Relaxed) {
            used_by(fd, Why::UnseenSet);
        }
    }
    set.before_change(runtime, fd);
    let _ = hearing(fd);
    // SAFETY: the application's event.
    let event = message::plausible(event, 1).then(|| unsafe { event.read_unaligned() });
    set.control(&runtime.os, operation, fd, event)
}

/// All waits of epoll: the caller converts the timeout; null: for ever.
pub unsafe fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> Answer<c_int> {
    let (Some(runtime), Some(set)) = (runtime::get(), fd_table::epoll(epoll)) else {
        return Err(Stop::Kernel(Why::NotOurs));
    };
    set.before_wait(runtime);
    // SAFETY: the application's array, timeout and mask.
    unsafe { epoll::wait(runtime, set, events, max, timeout, mask) }
}
