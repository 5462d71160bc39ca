//! Waiting for many sockets: select, poll, epoll, or taking them in turn with blocking reads.
//!
//! All are level-triggered; an interrupted wait is an empty one.

mod epoll;
mod poll;
mod select;

use crate::exit::Result;

/// How to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Blocking reads, one socket after the other.
    Recvfrom,
    /// select(2)
    Select,
    /// poll(2)
    Poll,
    /// epoll(7)
    Epoll,
    /// Completions of the accelerator's extra API.
    Socketxtreme,
}

impl Kind {
    /// The kind called `name`, by letter or word.
    pub fn parse(name: &str) -> Option<Kind> {
        Some(match name {
            "r" | "recvfrom" => Kind::Recvfrom,
            "s" | "select" => Kind::Select,
            "p" | "poll" => Kind::Poll,
            "e" | "epoll" => Kind::Epoll,
            "x" | "socketxtreme" => Kind::Socketxtreme,
            _ => return None,
        })
    }

    /// The call's name as the banner shows it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Recvfrom => "recvfrom",
            Kind::Select => "select",
            Kind::Poll => "poll",
            Kind::Epoll => "epoll",
            Kind::Socketxtreme => "socketxtreme",
        }
    }
}

/// A set of descriptors and a way to wait for them.
pub enum Mux {
    /// In turn: position and descriptors.
    Turn(usize, Vec<i32>),
    /// select(2)
    Select(select::Select),
    /// poll(2)
    Poll(poll::Poll),
    /// epoll(7)
    Epoll(epoll::Epoll),
}

impl Mux {
    /// An empty set.
    pub fn new(kind: Kind) -> Result<Mux> {
        Ok(match kind {
            Kind::Recvfrom | Kind::Socketxtreme => Mux::Turn(0, Vec::new()),
            Kind::Select => Mux::Select(select::Select::default()),
            Kind::Poll => Mux::Poll(poll::Poll::default()),
            Kind::Epoll => Mux::Epoll(epoll::Epoll::new()?),
        })
    }

    /// Watches `fd` for input.
    pub fn add(&mut self, fd: i32) -> Result<()> {
        match self {
            Mux::Turn(_, fds) => fds.push(fd),
            Mux::Select(select) => select.add(fd),
            Mux::Poll(poll) => poll.add(fd),
            Mux::Epoll(epoll) => epoll.add(fd)?,
        }
        Ok(())
    }

    /// Forgets `fd`; call it before closing.
    pub fn remove(&mut self, fd: i32) {
        match self {
            Mux::Turn(_, fds) => fds.retain(|f| *f != fd),
            Mux::Select(select) => select.remove(fd),
            Mux::Poll(poll) => poll.remove(fd),
            Mux::Epoll(epoll) => epoll.remove(fd),
        }
    }

    /// Puts `new` in the place of `old`, when sockets are taken in turn.
    pub fn replace(&mut self, old: i32, new: i32) {
        if let Mux::Turn(_, fds) = self {
            fds.iter_mut().filter(|fd| **fd == old).for_each(|fd| *fd = new);
        }
    }

    /// Puts the readable descriptors into `ready`; none after `timeout_ms` (-1: for ever) or a signal.
    #[inline]
    pub fn wait(&mut self, timeout_ms: i32, ready: &mut Vec<i32>) -> Result<()> {
        ready.clear();
        match self {
            Mux::Turn(at, fds) => {
                if !fds.is_empty() {
                    *at %= fds.len();
                    ready.push(fds[*at]);
                    *at += 1;
                }
                Ok(())
            }
            Mux::Select(select) => select.wait(timeout_ms, ready),
            Mux::Poll(poll) => poll.wait(timeout_ms, ready),
            Mux::Epoll(epoll) => epoll.wait(timeout_ms, ready),
        }
    }
}

/// `Ok` for an interrupted call, the failure otherwise.
fn interrupted(call: &str) -> Result<()> {
    if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted {
        return Ok(());
    }
    Err(crate::exit::Failure::socket(format!("{call} failed")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn every_multiplexer_names_the_readable_descriptor_and_forgets_removed_ones() {
        for kind in [Kind::Select, Kind::Poll, Kind::Epoll] {
            let (mut a, b) = UnixStream::pair().unwrap();
            let (_c, d) = UnixStream::pair().unwrap();
            let mut mux = Mux::new(kind).unwrap();
            mux.add(b.as_raw_fd()).unwrap();
            mux.add(d.as_raw_fd()).unwrap();
            let mut ready = Vec::new();
            mux.wait(0, &mut ready).unwrap();
            assert!(ready.is_empty(), "{kind:?}");
            a.write_all(b"x").unwrap();
            for _ in 0..2 {
                mux.wait(-1, &mut ready).unwrap();
                assert_eq!(ready, [b.as_raw_fd()], "{kind:?}");
            }
            mux.remove(b.as_raw_fd());
            mux.wait(0, &mut ready).unwrap();
            assert!(ready.is_empty(), "{kind:?}");
        }
    }

    #[test]
    fn select_takes_descriptors_above_1024() {
        let (mut a, b) = UnixStream::pair().unwrap();
        let limit = libc::rlimit { rlim_cur: 4096, rlim_max: 1 << 20 };
        // SAFETY: plain system calls on this process's own descriptors.
        let high = unsafe {
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
            libc::fcntl(b.as_raw_fd(), libc::F_DUPFD, 2000)
        };
        if high < 0 {
            return rig::skip::skipped_here("descriptors above 1024 are not allowed here");
        }
        let mut mux = Mux::new(Kind::Select).unwrap();
        mux.add(high).unwrap();
        a.write_all(b"x").unwrap();
        let mut ready = Vec::new();
        mux.wait(1000, &mut ready).unwrap();
        assert_eq!(ready, [high]);
    }

    #[test]
    fn taking_turns_goes_round() {
        let mut mux = Mux::new(Kind::Recvfrom).unwrap();
        mux.add(5).unwrap();
        mux.add(6).unwrap();
        let mut ready = Vec::new();
        let mut seen = Vec::new();
        for _ in 0..4 {
            mux.wait(-1, &mut ready).unwrap();
            seen.append(&mut ready);
        }
        assert_eq!(seen, [5, 6, 5, 6]);
    }
}
