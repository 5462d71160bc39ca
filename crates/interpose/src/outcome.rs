//! From an answer to what libc's caller sees: the return value and errno. The only place where one becomes the other.

use crate::genuine::{errno, set_errno};
use crate::inside::Inside;
use libc::c_int;
use sockets::{Answer, Stop};

/// What a libc function returns, and what it returns when it fails.
pub(crate) trait Outcome: Copy + PartialEq {
    const FAILED: Self;
}

impl Outcome for c_int {
    const FAILED: Self = -1;
}

/// `ssize_t`, `c_long`.
impl Outcome for isize {
    const FAILED: Self = -1;
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
    crate::start::stay_if_ending();
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

#[cfg(test)]
mod tests {
    use super::settle;
    use crate::genuine::{errno, set_errno};
    use sockets::{Stop, Why};

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
