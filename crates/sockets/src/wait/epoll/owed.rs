//! What the kernel's set did not take when a socket went back to the kernel: the user has as many registrations as may
//! be (fs.epoll.max_user_watches), or there is no memory. The application asked for it long ago, and cannot be told.
//! So it is asked again by every wait, and waits meanwhile are short.

use super::Set;
use crate::object::set::{One, Owed};
use crate::os::Os;
use core::sync::atomic::Ordering;

/// Between two tries, nanoseconds.
const AGAIN_NS: u64 = 10_000_000;

impl Set {
    /// The kernel has refused to take a registration that was the application's. All who wait come by
    /// [`Set::ask_for_owed`].
    #[cold]
    pub(super) fn owe(&self, owed: &mut Owed, fd: i32, events: u32, data: u64, errno: i32) {
        owed.add(One { fd, cookie: cookie(fd), events, data });
        self.owes.store(true, Ordering::SeqCst);
        logger::warning!(
            "epoll: the kernel does not take fd {fd} into a set ({why}): it is asked again while the set is waited on",
            why = sys::Errno(errno)
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
        let is_paid = owed.is_paid();
        self.owes.store(!is_paid, Ordering::SeqCst);
        (!is_paid).then(|| sys::clock::now() + AGAIN_NS)
    }
}

fn cookie(fd: i32) -> u64 {
    sys::socket::option(fd, libc::SOL_SOCKET, libc::SO_COOKIE, 0).unwrap_or(0)
}
