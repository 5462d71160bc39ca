//! Readiness: poll, select and epoll. The relatives of each become its most exact form, with nanoseconds; the kernel,
//! when it is the kernel's, gets the call as it was made.

use crate::start::{cancellable, enabled, ensure, gave, own_process, running};
use crate::table::hooks;
use core::ptr::null;
use libc::{c_int, epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use sockets::{Answer, Stop, Why, calls};

/// A timeout in milliseconds; negative: for ever, which is `None`.
pub(super) fn milliseconds(timeout: c_int) -> Option<timespec> {
    (timeout >= 0).then(|| timespec {
        tv_sec: i64::from(timeout / 1000),
        tv_nsec: i64::from(timeout % 1000) * 1_000_000,
    })
}

/// A timeout of select; null: for ever. Microseconds above a million carry over, as in the kernel.
///
/// # Safety
/// `timeout` is null or valid.
unsafe fn microseconds(timeout: *const timeval) -> Option<timespec> {
    // SAFETY: null or valid.
    let timeout = unsafe { timeout.as_ref() }?;
    Some(timespec {
        tv_sec: timeout.tv_sec.saturating_add(timeout.tv_usec / 1_000_000),
        tv_nsec: timeout.tv_usec % 1_000_000 * 1000,
    })
}

pub(super) fn pointer(timeout: &Option<timespec>) -> *const timespec {
    timeout.as_ref().map_or(null(), |timeout| timeout)
}

fn now() -> timespec {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: this clock exists; it is read without a system call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now
}

/// What is left of `whole` after the time since `begun`.
fn left(whole: timespec, begun: timespec, now: timespec) -> timeval {
    let spent = (now.tv_sec - begun.tv_sec) * 1_000_000 + (now.tv_nsec - begun.tv_nsec) / 1000;
    let whole = whole.tv_sec.saturating_mul(1_000_000).saturating_add(whole.tv_nsec / 1000);
    let left = whole.saturating_sub(spent).max(0);
    timeval { tv_sec: left / 1_000_000, tv_usec: left % 1_000_000 }
}

hooks! { running:
    fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
        calls::epoll_ctl(epoll, operation, fd, event)
    }

    ; cancellable:
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int where polled(fds, count, timeout == 0) {
        calls::ppoll(fds, count, pointer(&milliseconds(timeout)), null())
    }

    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int
    where polled(fds, count, false) {
        calls::ppoll(fds, count, timeout, mask)
    }

    // Linux writes back the time that is left.
    fn select(
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
        timeout: *mut timeval,
    ) -> c_int {
        let whole = microseconds(timeout);
        let begun = whole.map(|_| now());
        let answer = calls::pselect(count, read, write, except, pointer(&whole), null());
        if let (Some(whole), Some(begun), Ok(_) | Err(Stop::Errno(libc::EINTR))) = (whole, begun, answer) {
            *timeout = left(whole, begun, now());
        }
        answer
    }

    fn pselect(
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
        timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int {
        calls::pselect(count, read, write, except, timeout, mask)
    }

    fn epoll_wait(epoll: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int
    where waited(epoll, events, timeout > 0) {
        calls::epoll_pwait2(epoll, events, max, pointer(&milliseconds(timeout)), null())
    }

    fn epoll_pwait(
        epoll: c_int,
        events: *mut epoll_event,
        max: c_int,
        timeout: c_int,
        mask: *const sigset_t,
    ) -> c_int where waited(epoll, events, timeout > 0) {
        calls::epoll_pwait2(epoll, events, max, pointer(&milliseconds(timeout)), mask)
    }

    fn epoll_pwait2(
        epoll: c_int,
        events: *mut epoll_event,
        max: c_int,
        timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int where waited(epoll, events, !timeout.is_null()) {
        calls::epoll_pwait2(epoll, events, max, timeout, mask)
    }
}

/// The forms that the system calls have by number. Linux writes back the time that is left; libc's functions hide that.
pub(super) mod raw {
    use super::*;

    /// What the last argument of pselect6 points to: a mask and its size.
    #[repr(C)]
    pub(in crate::hooks) struct Masked {
        mask: *const sigset_t,
        size: usize,
    }

    /// Counts `timeout` down by the time that `wait` took.
    unsafe fn counting_down(timeout: *mut timespec, wait: impl FnOnce() -> c_int) -> c_int {
        // SAFETY: null or valid.
        let Some(whole) = (unsafe { timeout.as_ref() }).copied() else { return wait() };
        let begun = now();
        let outcome = wait();
        let nanoseconds = |time: timespec| i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
        let rest = (nanoseconds(whole) - (nanoseconds(now()) - nanoseconds(begun))).max(0);
        let (tv_sec, tv_nsec) = ((rest / 1_000_000_000) as i64, (rest % 1_000_000_000) as i64);
        // SAFETY: as above.
        unsafe { timeout.write(timespec { tv_sec, tv_nsec }) };
        outcome
    }

    pub(in crate::hooks) unsafe fn ppoll(
        fds: *mut pollfd,
        count: nfds_t,
        timeout: *mut timespec,
        mask: *const sigset_t,
    ) -> c_int {
        // SAFETY: the application's arguments.
        unsafe { counting_down(timeout, || super::ppoll(fds, count, timeout, mask)) }
    }

    pub(in crate::hooks) unsafe fn pselect6(
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
        timeout: *mut timespec,
        masked: *const Masked,
    ) -> c_int {
        // SAFETY: the application's arguments; null, or a mask with its size.
        unsafe {
            let mask = masked.as_ref().map_or(null(), |masked| masked.mask);
            counting_down(timeout, || super::pselect(count, read, write, except, timeout, mask))
        }
    }
}

/// Rows that run before anything is started: an epoll set may be made before the first socket.
pub(crate) mod first {
    use super::*;

    fn create(flags: c_int, genuine: impl FnOnce() -> c_int) -> Answer<c_int> {
        let answer = match ensure() && own_process() {
            // SAFETY: no pointers.
            true => unsafe { calls::epoll_create1(flags) },
            false => Err(Stop::Kernel(Why::NotOurs)),
        };
        match answer {
            Err(Stop::Kernel(_)) => Ok(gave(genuine())),
            answer => answer,
        }
    }

    hooks! { enabled:
        fn epoll_create(size: c_int) -> c_int {
            match size {
                1.. => create(0, || genuine::epoll_create(size)),
                _ => Err(Stop::Errno(libc::EINVAL)),
            }
        }

        fn epoll_create1(flags: c_int) -> c_int {
            create(flags, || genuine::epoll_create1(flags))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(time: timespec) -> (i64, i64) {
        (time.tv_sec, time.tv_nsec)
    }

    #[test]
    fn milliseconds_keep_their_fraction_and_negative_is_for_ever() {
        assert_eq!(milliseconds(2_345).map(parts), Some((2, 345_000_000)));
        assert_eq!(milliseconds(0).map(parts), Some((0, 0)));
        assert!(milliseconds(-1).is_none());
    }

    #[test]
    fn microseconds_carry_over() {
        let time = timeval { tv_sec: 1, tv_usec: 2_500_000 };
        // SAFETY: a timeval, and the null pointer that the function takes.
        let (given, none) = unsafe { (microseconds(&time), microseconds(null())) };
        assert_eq!(given.map(parts), Some((3, 500_000_000)));
        assert!(none.is_none());
    }

    #[test]
    fn time_left_is_never_negative() {
        let at = |tv_sec, tv_nsec| timespec { tv_sec, tv_nsec };
        let rest = left(at(2, 0), at(10, 900_000_000), at(11, 100_000_000));
        assert_eq!((rest.tv_sec, rest.tv_usec), (1, 800_000));
        let rest = left(at(2, 0), at(10, 0), at(13, 0));
        assert_eq!((rest.tv_sec, rest.tv_usec), (0, 0));
    }
}
