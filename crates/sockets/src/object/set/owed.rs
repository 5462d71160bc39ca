//! What the kernel's set did not take of an epoll set of ours, and owes (`wait/epoll/owed.rs`).

/// A registration that the kernel owes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct One {
    pub fd: i32,
    /// The number may be another file's by the next try (SO_COOKIE).
    pub cookie: u64,
    pub events: u32,
    pub data: u64,
}

/// All of a set.
#[derive(Debug, Default)]
pub(crate) struct Owed(Vec<One>);

impl Owed {
    /// Whether there is nothing.
    pub(crate) fn is_paid(&self) -> bool {
        self.0.is_empty()
    }

    /// The application has asked anew, or does not want it any more.
    pub(crate) fn forget(&mut self, fd: i32) {
        self.0.retain(|one| one.fd != fd);
    }

    pub(crate) fn add(&mut self, one: One) {
        self.forget(one.fd);
        self.0.push(one);
    }

    /// Asks for each of them. What can never be had (the descriptor is closed, or there already) is no longer owed.
    pub(crate) fn ask(&mut self, mut register: impl FnMut(One) -> Result<(), i32>) {
        self.0.retain(|one| matches!(register(*one), Err(libc::ENOSPC | libc::ENOMEM)));
    }
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
