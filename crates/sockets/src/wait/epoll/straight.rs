//! The kernel's own wait of a set in which nothing of ours is active: counted, so that who makes something active ends
//! it. A handler that leaves the wait by siglongjmp leaves the count: then one thread more is woken than waits.

use super::Set;
use crate::answer::Straight;
use crate::counts;
use crate::fd_table::{self, Entry};
use core::cell::Cell;
use core::sync::atomic::Ordering;
use libc::{c_int, epoll_event};

/// A wait that is in the kernel, and what it fills.
pub struct InKernel {
    set: &'static Set,
    events: *mut epoll_event,
    /// When it began, if it may be begun anew, and is to end at some time; or else 0.
    begun: u64,
}

thread_local! {
    /// How long this thread waited in the kernel for a set whose wait is to go on, nanoseconds.
    static SPENT: Cell<(c_int, u64)> = const { Cell::new((-1, 0)) };
}

/// How much of the time of a wait that begins has gone by in the kernel, nanoseconds.
pub(super) fn spent(set: &Set) -> u64 {
    let (fd, spent) = SPENT.replace((-1, 0));
    if fd == set.fd.load(Ordering::Relaxed) { spent } else { 0 }
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
    /// `None`: the wait is not the kernel's. `ends`: at some time.
    ///
    /// # Safety
    /// The kernel is to fill `events`, and [`InKernel::over`] is told how many.
    #[inline]
    pub(super) unsafe fn begin(set: &'static Set, events: *mut epoll_event, ends: bool) -> Option<InKernel> {
        // Counted first, against who makes the private set, then looks for waiters. Both steps are SeqCst.
        set.in_kernel.fetch_add(1, Ordering::SeqCst);
        let begun = match ends && set.secret.load(Ordering::Relaxed) != 0 {
            true => sys::clock::now(),
            false => 0,
        };
        let wait = InKernel { set, events, begun };
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
        if kept == 0 && self.begun != 0 {
            SPENT.set((self.set.fd.load(Ordering::Relaxed), sys::clock::now().saturating_sub(self.begun)));
        }
        (kept > 0).then_some(kept as c_int)
    }
}

/// How a wait is made. `ends`: at some time, if nothing happens.
///
/// # Safety
/// `events` is what the genuine call is given, whose answer [`InKernel::over`] is told.
#[inline]
pub unsafe fn waited(epoll: c_int, events: *mut epoll_event, ends: bool) -> Straight<InKernel> {
    let set = match fd_table::entry(epoll) {
        Some(Entry::Epoll(set)) => set,
        None => return Straight::Foreign,
        _ => return Straight::Ours,
    };
    let is_plain = !set.has_held.load(Ordering::Relaxed)
        && !set.owes.load(Ordering::SeqCst)
        && counts::part(None).is_none()
        && !logger::enabled(logger::Level::Fine);
    if !is_plain {
        return Straight::Ours;
    }
    // SAFETY: the caller's promise.
    unsafe { InKernel::begin(set, events, ends) }.map_or(Straight::Ours, Straight::Kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: u64 = 77;

    /// What becomes of a wait for which the kernel found events with these words.
    fn waited_for(set: &'static Set, ends: bool, words: &[u64]) -> (Option<c_int>, Vec<u64>) {
        let mut events: Vec<_> = words.iter().map(|word| epoll_event { events: 1, u64: *word }).collect();
        // SAFETY: `events` is what is told to be filled in.
        let wait = unsafe { InKernel::begin(set, events.as_mut_ptr(), ends) }.expect("the kernel's");
        let began = sys::clock::now();
        while sys::clock::now() == began {}
        let found = wait.over(words.len() as c_int);
        (found, events.iter().map(|event| event.u64).collect())
    }

    #[test]
    fn a_wait_that_is_begun_anew_ends_when_it_would_have() {
        let set = Set::new(900_001);
        assert_eq!(waited_for(set, true, &[5]), (Some(1), vec![5]));
        set.secret.store(SECRET, Ordering::SeqCst);
        assert_eq!(waited_for(set, true, &[SECRET, 6]).0, Some(1));
        assert_eq!(spent(set), 0, "it was not begun anew");
        assert_eq!(waited_for(set, true, &[SECRET]).0, None);
        assert!(spent(set) > 0);
        assert_eq!(spent(set), 0, "that was one wait's");
        assert_eq!(waited_for(set, false, &[SECRET]).0, None);
        assert_eq!(spent(set), 0, "it had no end");
        set.secret.store(0, Ordering::SeqCst);
        set.release();
    }
}
