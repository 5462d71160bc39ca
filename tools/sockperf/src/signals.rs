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
    set_timer(0.05);
}

fn set_timer(seconds: f64) {
    let time = |s: f64| libc::timeval { tv_sec: s as i64, tv_usec: (s.fract() * 1e6) as i64 };
    let timer = libc::itimerval { it_interval: time(seconds.min(0.05)), it_value: time(seconds) };
    // SAFETY: setitimer is async-signal-safe on Linux and `timer` outlives the call.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
}

/// From `seconds` on, blocking calls are interrupted again and again; 0 ends that.
pub fn interrupt_after(seconds: f64) {
    if !stopped() {
        set_timer(seconds);
    }
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
