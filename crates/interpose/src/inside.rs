//! Handlers and our own critical work: a handler that comes while this thread is inside a call of ours waits for a
//! better moment.
//!
//! A signal may arrive while the thread holds a lane's lock, or is in the middle of malloc. A handler may call `send`
//! (POSIX allows it), and would wait for ever for the lock of the thread that it interrupted; or it may leave by
//! siglongjmp, and nobody would ever unlock. In a system call neither happens: the kernel runs handlers only where it
//! holds nothing. So do we, at the end of the call, or earlier at an opening: while the call sleeps, and when a wait
//! looks whether a handler ran.
//!
//! Postponing is left to the kernel: the relay sends the signal once more to its own thread, with the same information,
//! and returns with it blocked; unblocking it delivers it, in a frame of its own.

use crate::farewell;
use crate::thread::thread;
use core::ffi::c_int;
use libc::{c_void, siginfo_t, sigset_t, ucontext_t};
use sys::raw::{int, syscall};

/// Never postponed: the instruction that caused them would run again and again; and abort(3).
const AT_ONCE: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS)
    | bit(libc::SIGABRT);

/// The kernel's signal set is one word.
const SET_BYTES: usize = 8;

/// A signal, 1 to 64, in the kernel's set.
pub(crate) const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// This thread is inside; handlers wait until it is dropped, at the latest.
pub(crate) struct Inside(());

impl Inside {
    #[inline]
    pub(crate) fn enter() -> Inside {
        let depth = thread().inside.get();
        // Left by a handler that jumped; the application may have blocked the same signals since.
        if depth == 0 && thread().postponed.get() != 0 {
            thread().postponed.set(0);
            thread().due.set(false);
            farewell::say_if_waiting();
        }
        thread().inside.set(depth + 1);
        Inside(())
    }
}

impl Inside {
    /// For a stay that ends elsewhere (see [`Inside::resume`]).
    pub(crate) fn suspend(self) {
        core::mem::forget(self);
    }

    /// The end of a stay that [`Inside::suspend`] left open in this thread.
    pub(crate) fn resume() -> Inside {
        Inside(())
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        // A handler that jumped out of an opening has left with the count at zero.
        let depth = thread().inside.get().saturating_sub(1);
        thread().inside.set(depth);
        if depth == 0 && thread().postponed.get() != 0 {
            let signals = thread().postponed.replace(0);
            thread().due.set(false);
            farewell::say_if_waiting();
            change_mask(libc::SIG_UNBLOCK, signals);
        }
    }
}

/// Runs what may block for long, and holds nothing that a handler could want: handlers run meanwhile, those that wait
/// run first.
#[inline]
pub(crate) fn opening<R>(body: impl FnOnce() -> R) -> R {
    let _closed = Opening::open();
    run_due();
    body()
}

/// Like [`opening`] for a sleep that puts a signal mask in force: what was postponed stays blocked until then, so that
/// it is the sleep that is interrupted. Gives the mask without the signals that are blocked only because of us.
///
/// # Safety
/// `mask` is null or valid.
pub(crate) unsafe fn opening_masked<R>(mask: *const sigset_t, body: impl FnOnce(*const sigset_t) -> R) -> R {
    let _closed = Opening::open();
    farewell::say_if_waiting();
    let postponed = thread().postponed.get();
    if mask.is_null() || postponed == 0 {
        run_due();
        return body(mask);
    }
    // SAFETY: all zero is an empty set, and its first word is the kernel's.
    let cleaned = unsafe {
        let mut cleaned: sigset_t = core::mem::zeroed();
        *(&raw mut cleaned).cast::<u64>() = *mask.cast::<u64>() & !postponed;
        cleaned
    };
    thread().due.set(false);
    body(&cleaned)
}

/// Lets handlers that wait run now. The caller holds nothing that they could want.
#[inline]
pub(crate) fn look() {
    if thread().due.get() {
        opening(|| ());
    }
}

/// Signals stay out of the mask of a caller that has blocked all of them for its own purpose.
fn run_due() {
    if thread().due.replace(false) {
        farewell::say_if_waiting();
        let before = change_mask(libc::SIG_UNBLOCK, thread().postponed.get());
        if before & ALL == ALL {
            change_mask(libc::SIG_SETMASK, before);
        }
    }
}

/// What the socket layer blocks, as far as it can be blocked, other than libc's own 32 and 33.
const ALL: u64 = sys::thread::ALL_BUT_FAULTS & !(bit(libc::SIGKILL) | bit(libc::SIGSTOP) | bit(32) | bit(33));

struct Opening {
    depth: u32,
    was_open: bool,
}

impl Opening {
    fn open() -> Opening {
        Opening::with(true)
    }

    fn with(open: bool) -> Opening {
        Opening { depth: thread().inside.replace(0), was_open: thread().open.replace(open) }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        thread().open.set(self.was_open);
        thread().inside.set(self.depth);
    }
}

/// In the relay: runs the application's handler, outside of all calls of ours. One that this thread is in the middle of
/// is over for others: the handler may never return to it.
pub(crate) fn outside(handler: impl FnOnce()) {
    if thread().open.get() && thread().inside.get() == 0 {
        crate::guard::run(sockets::calls::leave);
    }
    let _closed = Opening::with(false);
    run_due();
    handler();
}

/// In the relay: a signal ends the process. Whether it waits until this thread is outside; it is not blocked meanwhile.
pub(crate) fn postpone_end(signal: c_int) -> bool {
    if thread().inside.get() == 0 {
        return false;
    }
    thread().farewell.set(signal as u8);
    thread().postponed.set(thread().postponed.get() | bit(signal));
    thread().due.set(true);
    true
}

/// In the relay: whether this signal waits. If so, the relay returns at once.
///
/// # Safety
/// `context` is what the kernel passed; `info` too, if `informed`.
pub(crate) unsafe fn postpone(
    signal: c_int,
    informed: bool,
    info: *mut siginfo_t,
    context: *mut c_void,
) -> bool {
    if thread().inside.get() == 0 || AT_ONCE & bit(signal) != 0 {
        return false;
    }
    // Before it is sent: a handler with SA_NODEFER would get it now.
    change_mask(libc::SIG_BLOCK, bit(signal));
    // SAFETY: the information is the kernel's own.
    if unsafe { send_again(signal, informed, info) }.is_err() {
        return false;
    }
    // SAFETY: the interrupted context, whose mask the kernel puts in force when the relay returns; its first word is
    // the kernel's.
    unsafe { *(&raw mut (*context.cast::<ucontext_t>()).uc_sigmask).cast::<u64>() |= bit(signal) };
    thread().postponed.set(thread().postponed.get() | bit(signal));
    thread().due.set(true);
    true
}

/// Sends a signal to this thread; with its information if the handler will look at that.
unsafe fn send_again(signal: c_int, informed: bool, info: *mut siginfo_t) -> sys::Result<usize> {
    let (process, thread) = (int(sys::process::pid()), int(sys::process::tid()));
    // SAFETY: `info` is valid where it is passed.
    unsafe {
        match informed {
            true => syscall(libc::SYS_rt_tgsigqueueinfo, [process, thread, int(signal), info as usize, 0, 0]),
            false => syscall(libc::SYS_tgkill, [process, thread, int(signal), 0, 0, 0]),
        }
    }
}

/// rt_sigprocmask(2) directly; returns the former mask.
fn change_mask(how: c_int, signals: u64) -> u64 {
    let mut before = 0u64;
    let (new, old) = (&raw const signals as usize, &raw mut before as usize);
    // SAFETY: both masks live here and have the size said.
    let _ = unsafe { syscall(libc::SYS_rt_sigprocmask, [int(how), new, old, SET_BYTES, 0, 0]) };
    before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handlers::handled;
    use crate::hooks::signal::sigaction;
    use std::cell::Cell;

    thread_local! {
        static RAN: Cell<(u32, i32)> = const { Cell::new((0, 0)) };
    }

    extern "C" fn note(_: c_int, info: *mut siginfo_t, _: *mut c_void) {
        // SAFETY: installed with SA_SIGINFO, so the kernel passes one.
        let value = unsafe { (*info).si_value().sival_ptr as i32 };
        RAN.set((RAN.get().0 + 1, value));
    }

    /// Each test has a signal of its own.
    fn install(signal: c_int, flags: c_int) {
        // SAFETY: all zero is a valid sigaction, and `note` is a handler of three arguments.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = note as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | flags;
            assert_eq!(sigaction(signal, &action, core::ptr::null_mut()), 0);
        }
    }

    fn send(signal: c_int, value: i32) {
        let value = libc::sigval { sival_ptr: value as *mut c_void };
        // SAFETY: to this thread, which has a handler for it.
        assert_eq!(unsafe { libc::pthread_sigqueue(libc::pthread_self(), signal, value) }, 0);
    }

    fn is_blocked(signal: c_int) -> bool {
        sys::thread::mask() & bit(signal) != 0
    }

    #[test]
    fn a_handler_waits_for_the_end_of_the_call_and_gets_its_information() {
        for (signal, flags) in [(50, 0), (51, libc::SA_NODEFER)] {
            install(signal, flags);
            RAN.set((0, 0));
            let before = handled();
            let inside = Inside::enter();
            send(signal, 17);
            assert_eq!((RAN.get(), handled_without_looking()), ((0, 0), before));
            assert!(is_blocked(signal));
            drop(inside);
            assert_eq!(RAN.get(), (1, 17));
            assert_eq!(handled().all, before.all.wrapping_add(1));
            assert!(!is_blocked(signal));
        }
    }

    fn handled_without_looking() -> sockets::os::Handled {
        thread().handled.get()
    }

    #[test]
    fn a_wait_that_looks_lets_handlers_in() {
        install(52, 0);
        let _inside = Inside::enter();
        let before = handled();
        send(52, 3);
        assert_ne!(handled(), before);
        assert_eq!(RAN.get(), (1, 3));
    }

    #[test]
    fn an_opening_lets_handlers_in_at_once() {
        install(53, 0);
        let _inside = Inside::enter();
        opening(|| {
            send(53, 4);
            assert_eq!(RAN.get(), (1, 4));
        });
    }

    /// As the socket layer sleeps: all signals blocked, a last look, then a sleep with the mask that was.
    #[test]
    fn a_sleep_is_interrupted_by_what_was_postponed() {
        install(54, 0);
        let inside = Inside::enter();
        send(54, 5);
        let mask = sys::thread::set_mask(sys::thread::ALL_BUT_FAULTS);
        assert!(mask & bit(54) != 0);
        // SAFETY: the kernel's mask is the first word of a sigset_t, which all zero is; no descriptor is passed.
        let woken = unsafe {
            let mut set: sigset_t = core::mem::zeroed();
            *(&raw mut set).cast::<u64>() = mask;
            let long = libc::timespec { tv_sec: 60, tv_nsec: 0 };
            opening_masked(&set, |set| libc::ppoll(core::ptr::null_mut(), 0, &long, set))
        };
        assert_eq!((woken, RAN.get()), (-1, (1, 5)));
        sys::thread::set_mask(mask);
        drop(inside);
        assert!(!is_blocked(54));
    }

    /// The same, when the last look lets the handler in: everything stays blocked for the sleep.
    #[test]
    fn a_look_with_everything_blocked_leaves_everything_blocked() {
        install(55, 0);
        let inside = Inside::enter();
        send(55, 6);
        let mask = sys::thread::set_mask(sys::thread::ALL_BUT_FAULTS);
        handled();
        assert_eq!(RAN.get(), (1, 6));
        assert!(is_blocked(55) && is_blocked(libc::SIGUSR2));
        sys::thread::set_mask(mask);
        drop(inside);
        assert!(!is_blocked(55) && !is_blocked(libc::SIGUSR2));
    }

    #[test]
    fn a_handler_that_vanishes_with_its_delivery_runs_at_once() {
        install(56, libc::SA_RESETHAND);
        let _inside = Inside::enter();
        send(56, 7);
        assert_eq!(RAN.get(), (1, 7));
    }
}
