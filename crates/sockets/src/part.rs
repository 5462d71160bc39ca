//! One part of a call that moves data on a connection: what it finds ([`Progress`]), and what it comes to
//! ([`Outcome`]). Each carrier makes such parts, and `carrier/across.rs` a call of them.

use crate::answer::{Answer, Stop};
use crate::wait::in_kernel::deadline_of;
use libc::{c_int, pollfd, ssize_t};
use sys::linux::SIOCATMARK;

/// How far a call has come by the parts before.
pub(crate) struct Progress {
    /// Bytes that a receive still waits for; 0: it waits for none.
    pub least: usize,
    /// Nothing was moved before. Later, what ends the call (an error, the urgent mark, a signal) is left to the next
    /// one.
    pub begins: bool,
    /// Bytes of this send went before, or of this piece of a larger call. What befell the connection since is the next
    /// one's to tell: nobody takes it.
    pub has_sent: bool,
    /// When the call's time is over; reckoned when it first waits.
    deadline: Option<u64>,
}

impl Progress {
    /// Of a call that has not begun, and waits for nothing.
    pub(crate) fn new() -> Progress {
        Progress { least: 0, begins: true, has_sent: false, deadline: None }
    }

    /// What the kernel would make a call of its own of has a time and errors of its own, too (pieces of sendfile and
    /// splice).
    pub(crate) fn begin_piece(&mut self) {
        self.deadline = None;
        self.has_sent = false;
    }

    /// So many bytes were sent.
    #[inline]
    pub(crate) fn sent(&mut self, count: usize) {
        self.begins &= count == 0;
        self.has_sent |= count > 0;
    }

    /// When a wait that begins now ends by `timeout` (SO_RCVTIMEO or SO_SNDTIMEO, nanoseconds; 0: none), which is of
    /// the call as a whole; and whether a handler that was installed with SA_RESTART leaves it waiting, as it does
    /// until something was moved, and never under a timeout (signal(7)).
    pub(crate) fn limits(&mut self, timeout: u64) -> (Option<u64>, bool) {
        self.deadline = self.deadline.or_else(|| deadline_of(timeout));
        (self.deadline, self.deadline.is_none() && self.begins)
    }
}

/// What a part came to.
pub(crate) enum Outcome {
    /// It ends the call, or moved all that it could.
    Done(Answer<ssize_t>),
    /// Somebody else carries the connection by now: the rest of the call is to be made there.
    Moved,
}

/// A write to a connection that is closed raises SIGPIPE.
#[cold]
pub(crate) fn raised(stop: Stop, flags: c_int) -> Stop {
    if stop == Stop::Errno(libc::EPIPE) && flags & libc::MSG_NOSIGNAL == 0 {
        sys::process::signal_self(libc::SIGPIPE);
    }
    stop
}

/// Whether what is read next from the kernel's socket is behind the urgent mark: a call ends there.
pub(crate) fn is_at_mark(tcp: c_int) -> bool {
    sys::socket::ask(tcp, SIOCATMARK).is_ok_and(|is_at_mark| is_at_mark != 0)
}

/// Whether an error has ended the connection, which nobody was told yet.
pub(crate) fn has_failed(tcp: c_int) -> bool {
    const FAILED: i16 = libc::POLLERR | libc::POLLHUP;
    let mut one = [pollfd { fd: tcp, events: 0, revents: 0 }];
    let _ = sys::poll::poll(&mut one, Some(0), None);
    one[0].revents & FAILED == FAILED
}
