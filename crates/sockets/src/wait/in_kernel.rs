//! Waits for what the kernel carries now and somebody else may carry before they end: they sleep in the kernel, beside
//! the eventfd by which [`super::moves`] ends them. What is there is taken by one system call, as without us.

use super::block::{Signals, Stopped};
use super::moves::{Sleeper, Watched};
use super::presence::Using;
use crate::answer::Answer;
use crate::counts;
use crate::errno::fail;
use crate::object::Object;
use crate::runtime::Runtime;
use libc::pollfd;
use sys::Few;
use sys::poll::asked;

/// A call that waits on one socket, which the kernel carries. `look` makes it without waiting; `None`: nothing yet. The
/// deadline is that of SO_RCVTIMEO or SO_SNDTIMEO; `restartable`: a handler with SA_RESTART leaves the call waiting,
/// which it does not with a timeout (signal(7)). `moves`: of the socket, read before its carrier was looked at.
pub(crate) fn call<T>(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: i32,
    events: i16,
    (deadline, restartable): (Option<u64>, bool),
    moves: u32,
    mut look: impl FnMut() -> Option<T>,
) -> Result<T, Stopped> {
    let os = &runtime.os;
    if let Some(done) = look() {
        return Ok(done);
    }
    let one = [object];
    let watched = Watched { objects: &one, sets: &[] };
    let signals = Signals::begin(os);
    let mut using = Using::begin(&one);
    loop {
        if signals.interrupt(os, restartable) || !using.stands() {
            return Err(Stopped::Interrupted);
        }
        let left = deadline.map(|deadline| deadline.saturating_sub(sys::clock::now()));
        if left == Some(0) {
            return Err(Stopped::TimedOut);
        }
        {
            let sleeper = Sleeper::begin(watched);
            if watched.moves() != moves {
                return Err(Stopped::Moved);
            }
            let mut fds = [
                pollfd { fd: object.shadow(fd), events, revents: 0 },
                pollfd { fd: sleeper.eventfd, events: libc::POLLIN, revents: 0 },
            ];
            let _ = os.poll_all(&mut fds, counts::part(sleeper.part(left)), None);
            if fds[1].revents != 0 {
                sys::fd::clear(sleeper.eventfd);
            }
        }
        if !using.stands() {
            return Err(Stopped::Interrupted);
        }
        if watched.moves() != moves {
            return Err(Stopped::Moved);
        }
        if let Some(done) = look() {
            return Ok(done);
        }
        counts::in_use();
    }
}

/// When a socket's timeout is over; 0: never.
pub(crate) fn deadline_of(timeout: u64) -> Option<u64> {
    (timeout > 0).then(|| sys::clock::now().saturating_add(timeout))
}

/// poll(2) of descriptors that the kernel carries all. `moves`: of what is watched, read before the carriers were
/// looked at.
pub(super) fn poll(
    runtime: &'static Runtime,
    fds: &mut [pollfd],
    watched: Watched<'_>,
    moves: u32,
    deadline: Option<u64>,
    mask: Option<u64>,
) -> Result<Answer<i32>, Stopped> {
    let mut polled: Few<pollfd> = fds.iter().map(|one| asked(one.fd, one.events)).collect();
    let (result, woken) = {
        let sleeper = Sleeper::begin(watched);
        if watched.moves() != moves {
            return Err(Stopped::Moved);
        }
        polled.push(asked(sleeper.eventfd, libc::POLLIN));
        let result = loop {
            let left = deadline.map(|deadline| deadline.saturating_sub(sys::clock::now()));
            let part = counts::part(sleeper.part(left));
            let result = runtime.os.poll_all(&mut polled, part, mask);
            if result != Ok(0) || part == left || watched.moves() != moves {
                break result;
            }
            counts::in_use();
        };
        let woken = polled[fds.len()].revents != 0;
        if woken {
            sys::fd::clear(sleeper.eventfd);
        }
        (result, woken)
    };
    match result {
        // What the kernel's socket says while it is left, or taken back, is about nothing.
        Ok(_) if watched.moves() != moves => Err(Stopped::Moved),
        Err(errno) => Ok(fail(errno)),
        Ok(1) if woken => Err(Stopped::Moved),
        Ok(ready) => {
            fds.iter_mut().zip(polled.iter()).for_each(|(one, polled)| one.revents = polled.revents);
            Ok(Ok(ready - i32::from(woken)))
        }
    }
}
