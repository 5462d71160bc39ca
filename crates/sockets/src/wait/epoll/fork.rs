//! A set in the child of a fork.
//!
//! The kernel's set behind the descriptor is the parent's as well: a private set that the child registered there would
//! wake the parent, under a word that it does not know. So a child that waits on a set with sockets of ours in it, or
//! adds one, parts from the parent: it gets a kernel set of its own under the same numbers, with all that was
//! registered. Its connections are claimed from the parent then.

use super::Set;
use crate::object::set::{Held, Registered, Relations};
use core::sync::atomic::Ordering;
use libc::c_int;
use std::ffi::CString;

/// How much of /proc/self/fdinfo is read: some ten thousand descriptors of one set.
const REGISTERED_MAX: usize = 1 << 20;

impl Set {
    /// In the child of a fork: its sockets are the parent's. The private set stays registered, and filtered out.
    pub(crate) fn after_fork(&self, child: &sys::InChild) {
        self.items.take_over(child);
        self.settling.take_over(child);
        self.bells.after_fork(child);
        self.relations.take_over(child);
        self.held.take_over(child);
        let items = core::mem::take(&mut *self.items.lock());
        *self.relations.lock() = Relations::default();
        self.has_inner.store(false, Ordering::Relaxed);
        self.lanes.store(0, Ordering::Relaxed);
        let mut held = self.held.lock();
        held.extend(items.iter().map(|(_, item)| Held {
            object: item.object,
            registered: Registered { fd: item.descriptor(), events: item.events, data: item.data },
            disarmed: item.disarmed,
        }));
        self.has_held.store(!held.is_empty(), Ordering::Relaxed);
        self.is_parents.store(true, Ordering::Relaxed);
    }
}

/// Whether a descriptor that reports once has done so in the kernel's set.
pub(super) fn is_disarmed(epoll: c_int, fd: c_int) -> Option<bool> {
    const ASKED: u32 = 0xffff;
    let one = registered(epoll)?.into_iter().find(|one| one.fd == fd)?;
    // It keeps the flags, and nothing that it could report.
    Some(one.events & ASKED & !(libc::EPOLLERR | libc::EPOLLHUP) as u32 == 0)
}

/// What the kernel has in a set.
pub(crate) fn registered(epoll: c_int) -> Option<Vec<Registered>> {
    let path = CString::new(format!("/proc/self/fdinfo/{epoll}")).ok()?;
    let bytes = sys::file::read_whole(&path, REGISTERED_MAX).ok()?;
    let text = core::str::from_utf8(&bytes).ok()?;
    text.lines().filter(|line| line.starts_with("tfd:")).map(parse).collect()
}

/// A line as `tfd: 5 events: 80000019 data: 7f0012345678 pos:0 ino:1a sdev:8`.
fn parse(line: &str) -> Option<Registered> {
    let mut words = line.split_whitespace();
    let mut after = |label| if words.next() == Some(label) { words.next() } else { None };
    Some(Registered {
        fd: after("tfd:")?.parse().ok()?,
        events: u32::from_str_radix(after("events:")?, 16).ok()?,
        data: u64::from_str_radix(after("data:")?, 16).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::{EPOLL_CTL_ADD, epoll_event};

    #[test]
    fn what_is_registered_in_a_set_is_read_back() {
        let (set, event) = (sys::poll::epoll().unwrap(), sys::fd::eventfd().unwrap());
        let one = Registered { fd: event.raw(), events: 0x8000_0019, data: u64::MAX - 7 };
        sys::poll::epoll_control(set.raw(), EPOLL_CTL_ADD, one.fd, one.events, one.data).unwrap();
        assert_eq!(registered(set.raw()), Some(vec![one]));
        assert_eq!(parse("tfd: x events: 1 data: 1"), None);
        assert_eq!(is_disarmed(set.raw(), one.fd), Some(false));
        let once = (libc::EPOLLOUT | libc::EPOLLONESHOT) as u32;
        sys::poll::epoll_control(set.raw(), libc::EPOLL_CTL_MOD, one.fd, once, 0).unwrap();
        let mut told = [epoll_event { events: 0, u64: 0 }; 2];
        assert_eq!(sys::poll::epoll_wait(set.raw(), &mut told, 0, None), Ok(1));
        assert_eq!(is_disarmed(set.raw(), one.fd), Some(true));
    }
}
