//! Timeouts and signal masks as C passes them, and as libc wants them.

use crate::answer::Answer;
use crate::errno::fail;
use crate::message;
use libc::timespec;

/// Nanoseconds as a timespec.
pub(crate) fn timespec_of(ns: u64) -> timespec {
    timespec { tv_sec: (ns / 1_000_000_000) as libc::time_t, tv_nsec: (ns % 1_000_000_000) as libc::c_long }
}

/// A deadline from a relative timeout; `None` for null. EINVAL and EFAULT as in the kernel.
///
/// # Safety
/// `timeout` is null or valid.
pub(crate) unsafe fn deadline(timeout: *const timespec) -> Answer<Option<u64>> {
    if timeout.is_null() {
        return Ok(None);
    }
    message::check(timeout, 1)?;
    // SAFETY: not null, hence valid.
    let span = unsafe { timeout.read_unaligned() };
    if span.tv_sec < 0 || !(0..1_000_000_000).contains(&span.tv_nsec) {
        return fail(libc::EINVAL);
    }
    if span.tv_sec == 0 && span.tv_nsec == 0 {
        // Long over: a look needs no clock.
        return Ok(Some(0));
    }
    let ns = (span.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(span.tv_nsec as u64);
    Ok(Some(sys::clock::now().saturating_add(ns)))
}

/// A timeout that epoll_pwait(2) takes exactly: whole milliseconds, -1 for null. `None`: it cannot.
///
/// # Safety
/// `timeout` is null or valid.
pub(crate) unsafe fn milliseconds(timeout: *const timespec) -> Option<i32> {
    if timeout.is_null() {
        return Some(-1);
    }
    // SAFETY: not null, hence valid.
    let span = unsafe { timeout.read_unaligned() };
    if span.tv_nsec % 1_000_000 != 0 {
        return None;
    }
    i32::try_from(span.tv_sec.checked_mul(1000)?.checked_add(span.tv_nsec / 1_000_000)?).ok()
}

/// A kernel signal mask as libc's type.
pub(crate) fn sigset(mask: u64) -> libc::sigset_t {
    // SAFETY: all zeros is a valid, empty sigset_t.
    let mut set: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: glibc's and musl's sigset_t begin with the kernel's 64 bits.
    unsafe { (&raw mut set).cast::<u64>().write(mask) };
    set
}

/// The kernel's 64 bits of the application's mask; `None` for null. EFAULT as in the kernel.
///
/// # Safety
/// `set` is null or valid.
pub(crate) unsafe fn mask(set: *const libc::sigset_t) -> Answer<Option<u64>> {
    message::check_given(set)?;
    // SAFETY: as `sigset`.
    Ok((!set.is_null()).then(|| unsafe { set.cast::<u64>().read_unaligned() }))
}

/// What is left until a deadline, as a timeout.
pub(crate) fn left_until(deadline: u64) -> timespec {
    timespec_of(deadline.saturating_sub(sys::clock::now()))
}
