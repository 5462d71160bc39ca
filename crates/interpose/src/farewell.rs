//! Signals that end the process where the application did not ask for them: peers are told first.
//!
//! The kernel closes the sockets of a process that it ends, and their peers hear of it. Ours end silently. So once
//! there are sockets of ours, the default action of the signals that people and supervisors send stands behind the
//! relay of `handlers` like an application's handler: it ends the connections, and then lets the signal do what it
//! does. Queries answer SIG_DFL. Crashes stay as they are, since nothing can be trusted then (`crash` tells where they
//! were), and so does SIGQUIT, whose core is to show what was.

use crate::hooks::signal::genuine;
use crate::start;
use crate::thread::thread;
use crate::{crash, handlers, hooks, inside};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use libc::{SIG_DFL, c_int, sigaction as Action};

/// Those whose default action ends the process, and which are sent on purpose.
const SIGNALS: [c_int; 12] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGSTKFLT,
    libc::SIGPWR,
];

/// Whether there are peers to tell.
static ARMED: AtomicBool = AtomicBool::new(false);

/// Whether `action` of this signal is the default that tells peers first.
pub(crate) fn stands_for(signal: c_int, action: usize) -> bool {
    let tells = ARMED.load(Relaxed) && SIGNALS.contains(&signal) || crash::stands_for(signal);
    action == SIG_DFL && tells
}

/// There are sockets of ours now. May be called again.
pub(crate) fn arm() {
    // The first process of a pid namespace is not ended by a default action, so there is nothing to say.
    if sys::process::pid() == 1 || ARMED.swap(true, Relaxed) {
        return;
    }
    SIGNALS.into_iter().for_each(stand_for);
}

/// Installs the relay in place of a signal's default, where that is still the kernel's.
pub(crate) fn stand_for(signal: c_int) {
    // SAFETY: all zero is an action; the structures live here.
    unsafe {
        let mut action: Action = core::mem::zeroed();
        if genuine::sigaction(signal, core::ptr::null(), &mut action) != 0 || action.sa_sigaction != SIG_DFL {
            return;
        }
        // All signals wait: the process ends in the handler.
        core::ptr::write_bytes(&mut action.sa_mask, 0xff, 1);
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        handlers::change(signal, SIG_DFL, 0, |address| {
            action.sa_sigaction = address;
            let mut previous: Action = core::mem::zeroed();
            if genuine::sigaction(signal, &action, &mut previous) != 0 {
                return (false, SIG_DFL);
            }
            // Another thread of the application was faster.
            let is_ours = previous.sa_sigaction == SIG_DFL;
            if !is_ours {
                genuine::sigaction(signal, &previous, core::ptr::null_mut());
            }
            (is_ours, previous.sa_sigaction)
        });
    }
}

/// There are no peers any more. The defaults are the kernel's again.
pub(crate) fn disarm() {
    if !ARMED.swap(false, Relaxed) {
        return;
    }
    for signal in SIGNALS {
        // SAFETY: all zero is an action, the default one; the structures live here.
        unsafe {
            let (default, mut action): (Action, Action) = (core::mem::zeroed(), core::mem::zeroed());
            let asked = hooks::signal::sigaction(signal, core::ptr::null(), &mut action);
            if asked == 0 && action.sa_sigaction == SIG_DFL {
                hooks::signal::sigaction(signal, &default, core::ptr::null_mut());
            }
        }
    }
}

/// How long a thread that is inside may keep the process from its end, nanoseconds. Threads leave within microseconds
/// unless they lose the processor, or wait for one that is stopped.
const PATIENCE_NS: u64 = 500_000_000;

/// When the first of them came that waits; 0: none does.
static SINCE: AtomicU64 = AtomicU64::new(0);

/// The signal has come. Where it must wait, it comes once more when it has waited for long, and then waits no longer.
pub(crate) fn come(signal: c_int) {
    if start::is_guest() {
        return sys::process::take_default(signal);
    }
    let now = sys::clock::monotonic().max(1);
    let since = match SINCE.compare_exchange(0, now, Relaxed, Relaxed) {
        Ok(_) => now,
        Err(since) => since,
    };
    if now.saturating_sub(since) >= PATIENCE_NS || !inside::postpone_end(signal) {
        return say(signal);
    }
    sys::process::signal_self_later(signal, PATIENCE_NS);
}

/// The thread is outside: a signal that waited for that ends the process.
#[inline]
pub(crate) fn say_if_waiting() {
    let signal = thread().farewell.get();
    if signal != 0 {
        say(c_int::from(signal));
    }
}

#[cold]
fn say(signal: c_int) {
    thread().farewell.set(0);
    start::ending();
    sys::process::take_default(signal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inside::Inside;

    /// How a child ends that gets SIGTERM inside of a call and leaves it after so many looks, a millisecond each.
    fn end_of_child(looks: u32) -> c_int {
        // SAFETY: the child touches nothing that another thread may hold, and ends by itself or by the signal.
        let child = unsafe { libc::fork() };
        if child == 0 {
            arm();
            let inside = Inside::enter();
            sys::process::signal_self(libc::SIGTERM);
            for _ in 0..looks {
                sys::thread::sleep(1_000_000);
            }
            drop(inside);
            // SAFETY: ends this process, without the handlers of the test harness.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: the child is ours.
        unsafe { libc::waitpid(child, &mut status, 0) };
        status
    }

    #[test]
    fn a_signal_that_ends_the_process_waits_for_the_end_of_the_call_but_not_for_ever() {
        assert_eq!(end_of_child(1), libc::SIGTERM);
        let begun = sys::clock::monotonic();
        // A minute: the child would be alive still.
        assert_eq!(end_of_child(60_000), libc::SIGTERM);
        assert!(sys::clock::monotonic() - begun < 30_000_000_000);
    }
}
