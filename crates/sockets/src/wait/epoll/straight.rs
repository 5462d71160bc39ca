//! The kernel's own wait of a set in which nothing of ours is active: counted, so that who makes something active ends
//! it. A handler that leaves the wait by siglongjmp leaves the count: then one thread more is woken than waits.

use super::Set;
use crate::carrier::Straight;
use crate::counts;
use crate::fd_table::{self, Entry};
use core::sync::atomic::Ordering;
use libc::{c_int, epoll_event};

/// A wait that is in the kernel, and what it fills.
pub struct InKernel {
    set: &'static Set,
    events: *mut epoll_event,
}

impl Drop for InKernel {
    /// The wait has left the kernel, and wakes the next, if waits are ours from now on.
    #[inline]
    fn drop(&mut self) {
        if self.set.in_kernel.fetch_sub(1, Ordering::SeqCst) > 1 && !self.set.is_kernels() {
            self.set.wake();
        }
    }
}

impl InKernel {
    /// `None`: the wait is not the kernel's.
    ///
    /// # Safety
    /// The kernel is to fill `events`, and [`InKernel::over`] is told how many.
    #[inline]
    pub(super) unsafe fn begin(set: &'static Set, events: *mut epoll_event) -> Option<InKernel> {
        // Counted first, against who makes the private set, then looks for waiters. Both steps are SeqCst.
        set.in_kernel.fetch_add(1, Ordering::SeqCst);
        let wait = InKernel { set, events };
        if set.is_kernels() { Some(wait) } else { None }
    }

    /// What the kernel answered, without what only ended the wait. `None`: something may be active by now, and there
    /// was nothing else. Errno is left alone.
    #[inline]
    pub fn over(self, found: c_int) -> Option<c_int> {
        let secret = self.set.secret.load(Ordering::Acquire);
        if secret == 0 || found <= 0 { Some(found) } else { self.without_secret(found, secret) }
    }

    fn without_secret(&self, found: c_int, secret: u64) -> Option<c_int> {
        let mut kept = 0;
        for i in 0..found as usize {
            // SAFETY: by the promise of `begin` the kernel filled these in, and kept <= i.
            unsafe {
                let event = self.events.add(i).read_unaligned();
                if event.u64 != secret {
                    self.events.add(kept).write_unaligned(event);
                    kept += 1;
                }
            }
        }
        if kept < found as usize {
            self.set.hush();
        }
        (kept > 0).then_some(kept as c_int)
    }
}

/// How a wait is made. `is_exact`: begun anew, it ends when it would have.
///
/// # Safety
/// `events` is what the genuine call is given, whose answer [`InKernel::over`] is told.
#[inline]
pub unsafe fn waited(epoll: c_int, events: *mut epoll_event, is_exact: bool) -> Straight<InKernel> {
    let set = match fd_table::entry(epoll) {
        Some(Entry::Epoll(set)) => set,
        None => return Straight::Foreign,
        _ => return Straight::Ours,
    };
    let is_plain = !set.has_held.load(Ordering::Relaxed)
        && !set.owes.load(Ordering::SeqCst)
        && (is_exact || set.secret.load(Ordering::Relaxed) == 0)
        && counts::part(None).is_none()
        && !logger::enabled(logger::Level::Fine);
    if !is_plain {
        return Straight::Ours;
    }
    // SAFETY: the caller's promise.
    unsafe { InKernel::begin(set, events) }.map_or(Straight::Ours, Straight::Kernel)
}
