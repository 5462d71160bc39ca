//! Ctrl-C and SIGTERM end a run in order; a second one ends it at once.
//!
//! A signal that comes between the check and the blocking call would be missed, so the handler starts a timer
//! that interrupts again until the program has noticed.

use std::sync::atomic::{AtomicU32, Ordering};

static STOP: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_signal(signal: i32) {
    if signal != libc::SIGALRM && STOP.fetch_add(1, Ordering::Relaxed) >= 2 {
        // SAFETY: _exit is async-signal-safe.
        unsafe { libc::_exit(128 + signal) };
    }
    let every = libc::timeval { tv_sec: 0, tv_usec: 50_000 };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: setitimer is async-signal-safe on Linux and `timer` outlives the call.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
}

/// Installs the handlers.
pub fn install() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGALRM] {
        // SAFETY: all-zero is a valid sigaction; the handler only uses async-signal-safe calls.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// True once a signal asked to stop.
#[inline]
pub fn stopped() -> bool {
    STOP.load(Ordering::Relaxed) != 0
}

/// Asks the whole program to stop, as a signal would.
pub fn stop() {
    // SAFETY: the process's own id; the handler is installed.
    unsafe { libc::kill(libc::getpid(), libc::SIGINT) };
}

/// True once a second signal asked.
#[inline]
pub fn stopped_twice() -> bool {
    STOP.load(Ordering::Relaxed) > 1
}

/// Sleeps, but not through a signal.
pub fn sleep(seconds: f64) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs_f64(seconds);
    while !stopped() {
        let rest = end.saturating_duration_since(std::time::Instant::now());
        if rest.is_zero() {
            return;
        }
        std::thread::sleep(rest.min(std::time::Duration::from_millis(100)));
    }
}
