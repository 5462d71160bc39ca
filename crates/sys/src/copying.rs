//! A copy of this process finds the marks of [`crate::own_fd`] and its table of descriptors in agreement.
//!
//! The kernel copies the table before the memory, and other threads go on meanwhile. A child that has the mark of a
//! descriptor, but not the descriptor, hides a number that its program gets next. So who makes or closes a descriptor
//! of ours says so, and who forks waits until nobody is at it. Nothing that may wait for long is done between the two.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use crate::futex::{self, Scope};

/// In [`STATE`]: a thread copies the process, or waits for those who are at work.
const COPIES: u32 = 1 << 31;

/// How many are at work, and [`COPIES`].
static STATE: AtomicU32 = AtomicU32::new(0);

/// The thread that copies; what it does itself waits for nobody.
static COPIER: AtomicI32 = AtomicI32::new(0);

/// A descriptor of ours comes or goes: the process is not copied until this is dropped.
pub(crate) struct AtWork {
    is_counted: bool,
    not_send: PhantomData<*const ()>,
}

impl AtWork {
    #[inline]
    pub(crate) fn begin() -> AtWork {
        let state = STATE.load(Ordering::Relaxed);
        let begins =
            |state| STATE.compare_exchange(state, state + 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let is_counted = state & COPIES == 0 && begins(state) || AtWork::begin_contended();
        AtWork { is_counted, not_send: PhantomData }
    }

    /// False: the caller is the one who copies, and is not counted.
    #[cold]
    fn begin_contended() -> bool {
        loop {
            let state = STATE.load(Ordering::Relaxed);
            if state & COPIES == 0 {
                if STATE.compare_exchange(state, state + 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return true;
                }
                continue;
            }
            if COPIER.load(Ordering::Relaxed) == crate::process::tid() {
                return false;
            }
            let _ = futex::wait(&STATE, state, None, Scope::Private);
        }
    }
}

impl Drop for AtWork {
    #[inline]
    fn drop(&mut self) {
        if self.is_counted && STATE.fetch_sub(1, Ordering::Release) == COPIES + 1 {
            futex::wake(&STATE, u32::MAX >> 1, Scope::Private);
        }
    }
}

/// No descriptor of ours comes or goes until this is dropped, by the thread that copies the process and by its copy.
pub struct Copying(PhantomData<*const ()>);

impl Copying {
    /// Waits for those who are at work.
    pub fn begin() -> Copying {
        let mut state = STATE.load(Ordering::Relaxed);
        loop {
            if state & COPIES != 0 {
                let _ = futex::wait(&STATE, state, None, Scope::Private);
                state = STATE.load(Ordering::Relaxed);
                continue;
            }
            match STATE.compare_exchange(state, state | COPIES, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break,
                Err(other) => state = other,
            }
        }
        COPIER.store(crate::process::tid(), Ordering::Relaxed);
        loop {
            match STATE.load(Ordering::Acquire) {
                COPIES => return Copying(PhantomData),
                at_work => _ = futex::wait(&STATE, at_work, None, Scope::Private),
            }
        }
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        COPIER.store(0, Ordering::Relaxed);
        STATE.store(0, Ordering::Release);
        futex::wake(&STATE, u32::MAX >> 1, Scope::Private);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::{int, syscall};
    use crate::{Fd, daemon, fd, own_fd};
    use std::sync::atomic::AtomicBool;

    /// Marks of numbers that this process has not got.
    fn marks_without_descriptor() -> usize {
        /// The test of the marks themselves makes them up from here on.
        const MADE_UP: i32 = 60_000;
        let all = core::iter::successors(own_fd::next_own(0), |fd| own_fd::next_own(fd + 1));
        all.take_while(|fd| *fd < MADE_UP).filter(|fd| fd::fcntl(*fd, libc::F_GETFD, 0).is_err()).count()
    }

    #[test]
    fn a_copy_has_every_descriptor_that_is_marked_there() {
        let stop = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        crate::file::read_number(c"/proc/sys/net/core/rmem_max").unwrap();
                        drop(fd::eventfd().and_then(|fd| Fd::duplicate_of(fd.raw())));
                    }
                });
            }
            for _ in 0..400 {
                let copying = Copying::begin();
                let child = daemon::fork().unwrap();
                if child == 0 {
                    let wrong = marks_without_descriptor();
                    // SAFETY: no pointers.
                    let _ = unsafe { syscall(libc::SYS_exit_group, [wrong.min(255), 0, 0, 0, 0, 0]) };
                }
                drop(copying);
                let mut status = 0i32;
                let arguments = [child, &raw mut status as usize, int(libc::__WALL), 0, 0, 0];
                // SAFETY: the status is ours.
                let waited = unsafe { syscall(libc::SYS_wait4, arguments) };
                stop.store(waited != Ok(child) || status != 0, Ordering::Relaxed);
                assert_eq!((waited, status), (Ok(child), 0), "marks of nothing, in a copy");
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn who_copies_may_make_descriptors_and_others_wait_for_it() {
        let copying = Copying::begin();
        drop(fd::eventfd().unwrap());
        std::thread::scope(|scope| {
            let made = scope.spawn(|| fd::eventfd().is_ok());
            drop(copying);
            assert!(made.join().unwrap());
        });
    }
}
