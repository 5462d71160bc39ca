//! From an answer to what libc's caller sees: the return value and errno. The only place where one becomes the other.

use crate::genuine::{errno, set_errno};
use crate::inside::Inside;
use libc::c_int;
use sockets::{Answer, Stop, Why};

/// What a libc function returns, and what it returns when it fails.
pub(crate) trait Outcome: Copy + PartialEq {
    const FAILED: Self;
    /// What a call on a connection that has ended may return, beside failures.
    const ENDED: Option<Self> = None;
}

impl Outcome for c_int {
    const FAILED: Self = -1;
}

/// `ssize_t`, `c_long`.
impl Outcome for isize {
    const FAILED: Self = -1;
    const ENDED: Option<Self> = Some(0);
}

impl Outcome for i64 {
    const FAILED: Self = -1;
}

/// Addresses of signal handlers; the failure is SIG_ERR.
impl Outcome for usize {
    const FAILED: Self = libc::SIG_ERR;
}

impl Outcome for () {
    const FAILED: Self = ();
}

/// Runs `body` behind the guard. `None`: call the genuine function. A call that succeeds leaves errno as it was.
#[inline]
pub(crate) fn settle<R: Outcome>(body: impl FnOnce() -> Answer<R>) -> Option<R> {
    let before = errno();
    let _inside = Inside::enter();
    let answer = crate::guard::run(body);
    if crate::start::is_ending() {
        stay(&answer);
    }
    match answer {
        Some(Ok(value)) => {
            // A body that called the genuine function itself may return its failure, and errno says why.
            if value != R::FAILED {
                set_errno(before);
            }
            Some(value)
        }
        Some(Err(Stop::Errno(why))) => {
            set_errno(why);
            Some(R::FAILED)
        }
        Some(Err(Stop::Kernel(_))) => {
            set_errno(before);
            None
        }
        None => {
            set_errno(libc::EIO);
            Some(R::FAILED)
        }
    }
}

/// Another thread ends the process: no thread gets to see how the connections of the process end, as none would on the
/// kernel. What does not tell of that goes on, at the latest when our part of the end is over: a destructor of another
/// library may wait for this thread.
#[cold]
fn stay<R: Outcome>(answer: &Option<Answer<R>>) {
    let (stays, shows_end) = match answer {
        // What is there of a connection of ours for the kernel is a socket without one.
        Some(Err(Stop::Kernel(why))) => (*why != Why::NotOurs, true),
        Some(Err(Stop::Errno(libc::EAGAIN | libc::EINTR))) => (true, false),
        Some(Ok(value)) => (true, Some(*value) == R::ENDED),
        _ => (true, true),
    };
    if stays {
        crate::start::stay(shows_end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genuine::{errno, set_errno};

    #[test]
    fn success_leaves_errno_as_it_was() {
        set_errno(libc::ERANGE);
        let settled = settle(|| {
            set_errno(libc::EAGAIN);
            Ok(3)
        });
        assert_eq!((settled, errno()), (Some(3), libc::ERANGE));
    }

    #[test]
    fn an_errno_becomes_minus_one() {
        assert_eq!(settle::<isize>(|| Err(Stop::Errno(libc::EPIPE))), Some(-1));
        assert_eq!(errno(), libc::EPIPE);
    }

    #[test]
    fn the_kernel_answer_leaves_errno_and_asks_for_the_genuine_call() {
        set_errno(libc::ERANGE);
        assert_eq!(settle::<i32>(|| Err(Stop::Kernel(Why::NotOurs))), None);
        assert_eq!(errno(), libc::ERANGE);
    }

    #[test]
    fn a_panic_becomes_eio() {
        let settled = settle::<i32>(|| panic!("on purpose"));
        assert_eq!((settled, errno()), (Some(-1), libc::EIO));
    }
}
