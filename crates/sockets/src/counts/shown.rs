//! When a process begins to keep statistics. To make the file costs a short program a tenth of its time, on a file
//! system with a journal; and who would look at it is not there yet. So sockets that the kernel carries count for
//! nobody at first, and the file is made, with a block for each of them, when the first of these happens: something is
//! accelerated, or left to the kernel for a reason; a socket listens, or made the calls after which the judge looks; a
//! program still calls, or waits, some milliseconds after its first socket.

use super::{NOBODY, SEGMENT, claim, open};
use crate::kind::Kind;
use crate::runtime;
use core::sync::atomic::{AtomicU64, Ordering};
use libc::timespec;
use stats::Socket as Block;

/// A program that ends sooner keeps none.
const SOON_NS: u64 = 20_000_000;

/// When the first socket came that counts for nobody yet; 0: there was none.
static SINCE: AtomicU64 = AtomicU64::new(0);

/// Whether sockets are still to be shown.
#[inline]
fn is_due_later() -> bool {
    SEGMENT.load(Ordering::Acquire).is_null() && SINCE.load(Ordering::Relaxed) != 0
}

/// A block for a new socket, or nobody's, if the process keeps no statistics yet and the kernel carries the socket.
pub(crate) fn claim_soon(kind: Kind, fd: i32, nonblocking: bool) -> &'static Block {
    if kind != Kind::Carried || !SEGMENT.load(Ordering::Acquire).is_null() {
        return claim(kind, fd, nonblocking);
    }
    if SINCE.load(Ordering::Relaxed) == 0 {
        SINCE.store(sys::clock::now().max(1), Ordering::Relaxed);
    }
    &NOBODY
}

/// A call on a socket that the kernel carries, or the next part of a wait for one, begins.
#[inline]
pub(crate) fn in_use() {
    if is_due_later() {
        show_if_late();
    }
}

#[cold]
fn show_if_late() {
    if sys::clock::now().saturating_sub(SINCE.load(Ordering::Relaxed)) >= SOON_NS {
        show();
    }
}

/// From now on the process keeps statistics, of all sockets.
#[cold]
pub(crate) fn show() {
    if let Some(runtime) = runtime::get().filter(|_| is_due_later()) {
        open(runtime);
    }
}

/// How long a wait sleeps at most before it says [`in_use`] again, of `left` nanoseconds (`None`: for ever).
#[inline]
pub(crate) fn part(left: Option<u64>) -> Option<u64> {
    if is_due_later() { Some(first_of(left)) } else { left }
}

fn first_of(left: Option<u64>) -> u64 {
    left.map_or(SOON_NS, |left| left.min(SOON_NS))
}

/// The first part of a wait of `timeout` (`None`: for ever) and what is left after it; `None`: it has one part.
pub(crate) fn parts(timeout: Option<timespec>) -> Option<(timespec, Option<timespec>)> {
    if is_due_later() { split(timeout) } else { None }
}

fn split(timeout: Option<timespec>) -> Option<(timespec, Option<timespec>)> {
    let first = timespec { tv_sec: 0, tv_nsec: SOON_NS as libc::c_long };
    let Some(whole) = timeout else { return Some((first, None)) };
    let (mut sec, mut nsec) = (whole.tv_sec, whole.tv_nsec - first.tv_nsec);
    if nsec < 0 {
        (sec, nsec) = (sec - 1, nsec + 1_000_000_000);
    }
    (sec >= 0).then_some((first, Some(timespec { tv_sec: sec, tv_nsec: nsec })))
}

/// In the child of a fork: what it inherited counts for nobody until it has a socket of its own.
pub(super) fn after_fork() {
    SINCE.store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_has_two_parts_while_a_socket_counts_for_nobody() {
        let ms = |ms: i64| timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 };
        let of = |timeout: Option<i64>| {
            let number = |time: timespec| time.tv_sec * 1000 + time.tv_nsec / 1_000_000;
            split(timeout.map(ms)).map(|(first, rest)| (number(first), rest.map(number)))
        };
        assert_eq!(of(None), Some((20, None)));
        assert_eq!(of(Some(19)), None);
        assert_eq!(of(Some(20)), Some((20, Some(0))));
        assert_eq!(of(Some(1_010)), Some((20, Some(990))));
        assert_eq!((first_of(None), first_of(Some(5))), (SOON_NS, 5));
    }
}
