//! Ctrl-C and SIGTERM end a run in order; a second one ends it at once.
//!
//! A signal that comes between the check and the blocking call would be missed, so the handler starts a timer
//! that interrupts again until the program has noticed.

use std::sync::atomic::{AtomicU32, Ordering};

static STOP: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_signal(signal: i32) {
    match signal {
        // A timer, which goes on by itself: being interrupted is all that is wanted.
        libc::SIGALRM => return,
        // A connection waits.
        libc::SIGIO => {}
        _ if STOP.fetch_add(1, Ordering::Relaxed) >= 2 => {
            // SAFETY: _exit is async-signal-safe.
            unsafe { libc::_exit(128 + signal) };
        }
        _ => {}
    }
    set_timer(0.05, 0.05);
}

fn set_timer(seconds: f64, every: f64) {
    let time = |s: f64| libc::timeval { tv_sec: s as i64, tv_usec: (s.fract() * 1e6) as i64 };
    let timer = libc::itimerval { it_interval: time(every), it_value: time(seconds) };
    // SAFETY: setitimer is async-signal-safe on Linux and `timer` outlives the call.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
}

/// From `seconds` on, blocking calls are interrupted again and again; 0 ends that.
pub fn interrupt_after(seconds: f64) {
    interrupt(seconds, 0.05);
}

/// Interrupts blocking calls every `seconds`; 0 ends that.
pub fn interrupt_every(seconds: f64) {
    interrupt(seconds, seconds);
}

fn interrupt(seconds: f64, every: f64) {
    if !stopped() {
        set_timer(seconds, every);
    }
}

/// True when blocking calls are the kernel's own, so that a signal surely interrupts them. Under an accelerator,
/// receive time-outs do the same at no cost to the kernel.
pub fn are_reliable() -> bool {
    !crate::extra_api::is_present() && std::env::var_os("LD_PRELOAD").is_none()
}

/// Installs the handlers.
pub fn install() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGALRM, libc::SIGIO] {
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
