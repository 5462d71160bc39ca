//! Waiting for descriptors: poll and epoll.

use crate::raw::{int, syscall};
use crate::{Fd, Result};

/// What a descriptor is asked for and what it answered; as in poll(2).
pub use libc::pollfd;

/// One descriptor that is asked for `events`.
#[inline]
pub fn asked(fd: i32, events: i16) -> pollfd {
    pollfd { fd, events, revents: 0 }
}

/// ppoll(2): sleeps until a descriptor is ready, `timeout_ns` passed (`None`: for ever) or a signal arrived (EINTR).
/// `mask`, if given, replaces the signal mask while asleep.
pub fn poll(fds: &mut [pollfd], timeout_ns: Option<u64>, mask: Option<u64>) -> Result<usize> {
    // The kernel writes the rest of the time back: the timespec must be ours and mutable.
    let mut timeout = timeout_ns.map(timespec);
    let timeout = timeout.as_mut().map_or(0, |timeout| core::ptr::from_mut(timeout) as usize);
    let mask = mask.as_ref().map_or(0, |mask| core::ptr::from_ref(mask) as usize);
    let arguments = [fds.as_mut_ptr() as usize, fds.len(), timeout, mask, SIGNAL_SET_BYTES, 0];
    // SAFETY: fds, timeout and mask live here for the whole call.
    unsafe { syscall(libc::SYS_ppoll, arguments) }
}

/// Is this one descriptor readable now?
pub fn readable(fd: i32) -> bool {
    let mut one = [asked(fd, libc::POLLIN)];
    poll(&mut one, Some(0), None) == Ok(1) && one[0].revents & libc::POLLIN != 0
}

/// epoll_create1(2).
pub fn epoll() -> Result<Fd> {
    // SAFETY: no pointer.
    Fd::made(|| unsafe { syscall(libc::SYS_epoll_create1, [int(libc::EPOLL_CLOEXEC), 0, 0, 0, 0, 0]) })
}

/// epoll_ctl(2); `operation` is `libc::EPOLL_CTL_*`, `events` is `libc::EPOLL*`.
pub fn epoll_control(epoll: i32, operation: i32, fd: i32, events: u32, data: u64) -> Result<()> {
    let mut event = libc::epoll_event { events, u64: data };
    let event = &raw mut event as usize;
    // SAFETY: the event lives here for the call.
    unsafe { syscall(libc::SYS_epoll_ctl, [int(epoll), int(operation), int(fd), event, 0, 0]) }.map(|_| ())
}

/// epoll_pwait(2) with a timeout in milliseconds (-1: for ever).
pub fn epoll_wait(
    epoll: i32,
    events: &mut [libc::epoll_event],
    timeout_ms: i32,
    mask: Option<u64>,
) -> Result<usize> {
    let mask = mask.as_ref().map_or(0, |mask| core::ptr::from_ref(mask) as usize);
    let (array, length) = (events.as_mut_ptr() as usize, events.len());
    let arguments = [int(epoll), array, length, int(timeout_ms), mask, SIGNAL_SET_BYTES];
    // SAFETY: events and mask live here for the whole call.
    unsafe { syscall(libc::SYS_epoll_pwait, arguments) }
}

/// Nanoseconds as the kernel wants them.
pub(crate) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ }
}

/// Bytes of the kernel's signal set (64 signals).
pub(crate) const SIGNAL_SET_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd;

    #[test]
    fn poll_and_epoll_see_a_signalled_eventfd() {
        let event = fd::eventfd().unwrap();
        let set = epoll().unwrap();
        epoll_control(set.raw(), libc::EPOLL_CTL_ADD, event.raw(), libc::EPOLLIN as u32, 42).unwrap();
        assert!(!readable(event.raw()));
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
        assert_eq!(epoll_wait(set.raw(), &mut events, 0, None), Ok(0));
        fd::signal(event.raw());
        assert!(readable(event.raw()));
        assert_eq!(epoll_wait(set.raw(), &mut events, 0, None), Ok(1));
        assert_eq!({ events[0].u64 }, 42);
    }
}
