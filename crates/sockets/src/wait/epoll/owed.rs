//! What the kernel's set did not take when a socket went back to the kernel: the user has as many registrations as may
//! be (fs.epoll.max_user_watches), or there is no memory. The application asked for it long ago, and cannot be told.
//! So it is asked again by every wait, and waits meanwhile are short.

use super::Set;
use crate::os::Os;
use core::sync::atomic::Ordering;

/// Between two tries, nanoseconds.
const AGAIN_NS: u64 = 10_000_000;

/// A registration that the kernel owes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct One {
    fd: i32,
    /// The number may be another file's by the next try (SO_COOKIE).
    cookie: u64,
    events: u32,
    data: u64,
}

/// All of a set.
#[derive(Debug, Default)]
pub(super) struct Owed(Vec<One>);

impl Owed {
    /// The application has asked anew, or does not want it any more.
    pub(super) fn forget(&mut self, fd: i32) {
        self.0.retain(|one| one.fd != fd);
    }

    fn add(&mut self, one: One) {
        self.forget(one.fd);
        self.0.push(one);
    }

    /// Asks for each of them. What can never be had (the descriptor is closed, or there already) is no longer owed.
    fn ask(&mut self, mut register: impl FnMut(One) -> Result<(), i32>) {
        self.0.retain(|one| matches!(register(*one), Err(libc::ENOSPC | libc::ENOMEM)));
    }
}

impl Set {
    /// The kernel has refused to take a registration that was the application's. All who wait come by
    /// [`Set::ask_for_owed`].
    #[cold]
    pub(super) fn owe(&self, owed: &mut Owed, fd: i32, events: u32, data: u64, errno: i32) {
        owed.add(One { fd, cookie: cookie(fd), events, data });
        self.owes.store(true, Ordering::SeqCst);
        logger::warning!(
            "epoll: the kernel does not take fd {fd} into a set (errno {errno}): it is asked again while the set is waited on"
        );
        self.moved();
    }

    /// Before a wait: asks for what is owed. Until when the wait may last, then, and no longer.
    #[inline]
    pub(super) fn ask_for_owed(&self, os: &Os) -> Option<u64> {
        if self.owes.load(Ordering::SeqCst) { self.ask(os) } else { None }
    }

    #[cold]
    fn ask(&self, os: &Os) -> Option<u64> {
        let mut owed = self.settling.lock();
        let set = self.fd.load(Ordering::Relaxed);
        owed.ask(|one| match cookie(one.fd) == one.cookie {
            true => os.epoll_control(set, libc::EPOLL_CTL_ADD, one.fd, one.events, one.data).map(drop),
            false => Err(libc::EBADF),
        });
        let is_paid = owed.0.is_empty();
        self.owes.store(!is_paid, Ordering::SeqCst);
        (!is_paid).then(|| sys::clock::now() + AGAIN_NS)
    }
}

fn cookie(fd: i32) -> u64 {
    sys::socket::option(fd, libc::SOL_SOCKET, libc::SO_COOKIE, 0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_for_want_of_room_is_asked_for_until_it_is_had() {
        let mut owed = Owed::default();
        let one = |fd| One { fd, cookie: 9, events: 1, data: 7 };
        owed.add(one(3));
        owed.add(one(4));
        owed.add(one(5));
        owed.add(One { events: 4, ..one(3) });
        owed.forget(5);
        let mut asked = Vec::new();
        owed.ask(|one| {
            asked.push((one.fd, one.events));
            Err(if one.fd == 3 { libc::ENOSPC } else { libc::EBADF })
        });
        assert_eq!(asked, [(4, 1), (3, 4)]);
        owed.ask(|_| Err(libc::ENOMEM));
        assert_eq!(owed.0, [One { events: 4, ..one(3) }]);
        owed.ask(|_| Ok(()));
        assert_eq!(owed.0, []);
    }
}
