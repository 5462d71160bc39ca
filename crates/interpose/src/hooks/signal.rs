//! Installing signal handlers: each is put behind the relay of `handlers`, and every query answers with the
//! application's own.

use crate::handlers::{change, own, set_restart};
use crate::start::{enabled, is_guest};
use crate::table::hooks;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use libc::{SA_RESETHAND, SA_RESTART, SIG_DFL, SIG_ERR, c_int, sigaction as Action};
use sockets::Answer;

/// A handler's address, SIG_DFL, SIG_IGN or SIG_ERR.
type Handler = usize;

/// Signals that siginterrupt(3) made interrupt calls: signal(3) remembers.
static INTERRUPTING: AtomicU64 = AtomicU64::new(0);

fn bit(signal: c_int) -> u64 {
    if (1..=64).contains(&signal) { 1 << (signal - 1) } else { 0 }
}

/// sigaction(2) with only the handler's address changed on its way.
///
/// # Safety
/// As sigaction(2).
unsafe fn act(
    signal: c_int,
    new: *const Action,
    old: *mut Action,
    genuine: unsafe extern "C-unwind" fn(c_int, *const Action, *mut Action) -> c_int,
) -> Answer<c_int> {
    // SAFETY: null or the application's; all zero is an action.
    unsafe {
        let mut previous: Action = core::mem::zeroed();
        let result;
        let handler;
        if let Some(&new) = new.as_ref() {
            let mut status = -1;
            previous.sa_sigaction = SIG_ERR;
            handler = change(signal, new.sa_sigaction, new.sa_flags, |address| {
                let new = Action { sa_sigaction: address, ..new };
                status = genuine(signal, &new, &mut previous);
                (status == 0, previous.sa_sigaction)
            });
            result = status;
        } else {
            result = genuine(signal, core::ptr::null(), &mut previous);
            handler = own(signal, previous.sa_sigaction);
        }
        if handler == SIG_DFL && previous.sa_sigaction != SIG_DFL {
            // `farewell`: its flags and mask are not the application's.
            previous = core::mem::zeroed();
        }
        previous.sa_sigaction = handler;
        if result == 0 && !old.is_null() {
            *old = previous;
        }
        Ok(result)
    }
}

/// signal(3) and its relatives.
fn set(
    signal: c_int,
    handler: Handler,
    flags: c_int,
    genuine: impl FnOnce(Handler) -> Handler,
) -> Answer<Handler> {
    Ok(change(signal, handler, flags, |address| {
        let previous = genuine(address);
        (previous != SIG_ERR, previous)
    }))
}

/// What signal(3) asks for.
fn restarts(signal: c_int) -> c_int {
    if INTERRUPTING.load(Relaxed) & bit(signal) == 0 { SA_RESTART } else { 0 }
}

hooks! { enabled:
    fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
        act(signal, new, old, genuine::sigaction)
    }

    fn __sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
        act(signal, new, old, genuine::__sigaction)
    }

    fn signal(signal: c_int, handler: Handler) -> Handler {
        set(signal, handler, restarts(signal), |address| genuine::signal(signal, address))
    }

    fn bsd_signal(signal: c_int, handler: Handler) -> Handler {
        set(signal, handler, restarts(signal), |address| genuine::bsd_signal(signal, address))
    }

    fn ssignal(signal: c_int, handler: Handler) -> Handler {
        set(signal, handler, restarts(signal), |address| genuine::ssignal(signal, address))
    }

    fn sysv_signal(signal: c_int, handler: Handler) -> Handler {
        set(signal, handler, SA_RESETHAND, |address| genuine::sysv_signal(signal, address))
    }

    fn __sysv_signal(signal: c_int, handler: Handler) -> Handler {
        set(signal, handler, SA_RESETHAND, |address| genuine::__sysv_signal(signal, address))
    }

    fn sigset(signal: c_int, handler: Handler) -> Handler {
        set(signal, handler, 0, |address| genuine::sigset(signal, address))
    }

    fn siginterrupt(signal: c_int, interrupt: c_int) -> c_int {
        let result = genuine::siginterrupt(signal, interrupt);
        if result == 0 && !is_guest() {
            match interrupt {
                0 => INTERRUPTING.fetch_and(!bit(signal), Relaxed),
                _ => INTERRUPTING.fetch_or(bit(signal), Relaxed),
            };
            set_restart(signal, interrupt == 0);
        }
        Ok(result)
    }
}
