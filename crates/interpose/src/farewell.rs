//! Signals that end the process where the application did not ask for them: peers are told first.
//!
//! The kernel closes the sockets of a process that it ends, and their peers hear of it. Ours end silently. So once there are
//! sockets of ours, the default action of the signals that people and supervisors send stands behind the relay of
//! `handlers` like an application's handler: it ends the connections, and then lets the signal do what it does. Queries
//! answer SIG_DFL. Crashes stay as they are, since nothing can be trusted then, and so does SIGQUIT, whose core is to show
//! what was.

use crate::handlers;
use crate::hooks::signal::genuine;
use crate::start;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
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
    action == SIG_DFL && ARMED.load(Relaxed) && SIGNALS.contains(&signal)
}

/// There are sockets of ours now. May be called again.
pub(crate) fn arm() {
    // The first process of a pid namespace is not ended by a default action, so there is nothing to say.
    if sys::process::pid() == 1 || ARMED.swap(true, Relaxed) {
        return;
    }
    for signal in SIGNALS {
        // SAFETY: all zero is an action; the structures live here.
        unsafe {
            let mut action: Action = core::mem::zeroed();
            if genuine::sigaction(signal, core::ptr::null(), &mut action) != 0
                || action.sa_sigaction != SIG_DFL
            {
                continue;
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
}

/// The signal has come.
pub(crate) fn say(signal: c_int) {
    start::ending();
    sys::process::take_default(signal);
}
