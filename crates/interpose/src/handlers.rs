//! The application's signal handlers, and what a waiting call must know of them.
//!
//! A call that spins in user space must end with EINTR when a handler ran, as the system call would. Nothing tells
//! user space, so every handler is installed behind [`relay`], which counts in the thread and then calls the
//! application's own. Flags and mask stay in the kernel as the application gave them; only the address differs, and
//! every query gets the application's back.
//!
//! All of this runs inside signal handlers too: no lock, no allocation, no thread-local that is made on first use.

use crate::thread::thread;
use crate::{crash, farewell, inside, start};
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use libc::{SA_RESETHAND, SA_RESTART, SA_SIGINFO, c_int, c_void, siginfo_t};
use sockets::os::Handled;

/// Signals are 1 to 64.
const SIGNALS: usize = 65;

/// Marks a handler that was installed with SA_RESTART, in the top bits of its address: user space ends far below.
const RESTART: u64 = 1 << 63;
/// The same for SA_SIGINFO.
const INFORMED: u64 = 1 << 62;
/// The same for SA_RESETHAND.
const ONCE: u64 = 1 << 61;
/// In place of all else: the default action, after peers were told (see `farewell`).
const FAREWELL: u64 = 1 << 60;
/// The rest.
const ADDRESS: u64 = FAREWELL - 1;

fn marks(flags: c_int) -> u64 {
    [(SA_RESTART, RESTART), (SA_SIGINFO, INFORMED), (SA_RESETHAND, ONCE)]
        .into_iter()
        .filter(|(flag, _)| flags & flag != 0)
        .fold(0, |word, (_, mark)| word | mark)
}

/// The application's handlers: address and marks in one word, so that the relay reads all at once.
static HANDLERS: [AtomicU64; SIGNALS] = [const { AtomicU64::new(0) }; SIGNALS];

/// What a pointer that leads nowhere causes.
const FAULTS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Whether `action` is a function, not SIG_DFL, SIG_IGN, SIG_ERR or SIG_HOLD.
pub(crate) fn is_function(action: usize) -> bool {
    action > 2 && action != libc::SIG_ERR
}

/// The application's own address for what the kernel has installed.
pub(crate) fn own(signal: c_int, installed: usize) -> usize {
    match HANDLERS.get(signal as usize) {
        Some(slot) if installed == relay as *const () as usize => (slot.load(SeqCst) & ADDRESS) as usize,
        _ => installed,
    }
}

/// Changes a signal's action and flags (those of sigaction(2)) by `install`, which asks the kernel with the address
/// that it is given, and returns whether it agreed and the address that was there. Returns the application's previous
/// address.
///
/// The table is written first, so that the relay never runs without its handler; SIG_DFL (but for the signals of
/// `farewell`) and SIG_IGN leave the table alone, for a delivery that is under way on another thread. A refusal puts
/// the old handler back. A vfork child's actions are the kernel's alone: the table is its parent's.
pub(crate) fn change(
    signal: c_int,
    action: usize,
    flags: c_int,
    install: impl FnOnce(usize) -> (bool, usize),
) -> usize {
    let word = match action {
        _ if is_function(action) => action as u64 | marks(flags),
        _ if farewell::stands_for(signal, action) => FAREWELL,
        _ => 0,
    };
    let Some(slot) = HANDLERS.get(signal as usize).filter(|_| word != 0 && !start::is_guest()) else {
        let (_, previous) = install(action);
        return own(signal, previous);
    };
    let before = slot.swap(word, SeqCst);
    let (agreed, previous) = install(relay as *const () as usize);
    if agreed && FAULTS.contains(&signal) {
        sockets::calls::faults_are_caught();
    }
    if !agreed {
        let _ = slot.compare_exchange(word, before, SeqCst, SeqCst);
    }
    if previous == relay as *const () as usize { (before & ADDRESS) as usize } else { previous }
}

/// siginterrupt(3) changed whether the signal's handler restarts calls.
pub(crate) fn set_restart(signal: c_int, restart: bool) {
    if let Some(slot) = HANDLERS.get(signal as usize).filter(|_| !start::is_guest()) {
        if restart {
            slot.fetch_or(RESTART, SeqCst)
        } else {
            slot.fetch_and(!RESTART, SeqCst)
        };
    }
}

/// What the kernel calls. All three arguments are always there, in registers;
/// a handler without SA_SIGINFO takes the first.
unsafe extern "C-unwind" fn relay(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: what the kernel passed.
    if FAULTS.contains(&signal) && unsafe { sys::foreign::mended(context) } {
        return;
    }
    let word = HANDLERS[signal as usize % SIGNALS].load(SeqCst);
    // One that is gone from the kernel with its first delivery cannot be delivered again later.
    if word == FAREWELL {
        if crash::stands_for(signal) {
            // SAFETY: what the kernel passed.
            return unsafe { crash::come(signal, context) };
        }
        return farewell::come(signal);
    }
    if word & ONCE == 0 {
        // SAFETY: what the kernel passed; with SA_SIGINFO it filled in the information.
        let waits = unsafe { inside::postpone(signal, word & INFORMED != 0, info, context) };
        if waits {
            return;
        }
    }
    let mut handled = thread().handled.get();
    handled.all = handled.all.wrapping_add(1);
    if word & RESTART == 0 {
        handled.without_restart = handled.without_restart.wrapping_add(1);
    }
    thread().handled.set(handled);
    let address = (word & ADDRESS) as usize;
    if !is_function(address) {
        return;
    }
    // SAFETY: the application installed this address as a signal handler.
    let handler: unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void) =
        unsafe { core::mem::transmute(address) };
    // Even when it could not be postponed.
    inside::outside(|| {
        // SAFETY: with what the kernel passed.
        unsafe { handler(signal, info, context) }
    });
}

/// Handlers of the application that have run in the calling thread. Those that wait run now: the caller holds nothing
/// that they could want.
pub(crate) fn handled() -> Handled {
    inside::look();
    thread().handled.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A signal's table slot is global; each test has its own signal and asks no kernel.
    const RELAY: fn() -> usize = || relay as *const () as usize;

    extern "C" fn first(_: c_int) {}
    extern "C" fn second(_: c_int) {}

    #[test]
    fn the_kernel_gets_the_relay_and_queries_get_the_application() {
        let address = first as *const () as usize;
        assert_eq!(change(40, address, SA_RESTART, |given| (given == RELAY(), libc::SIG_DFL)), libc::SIG_DFL);
        assert_eq!(own(40, RELAY()), address);
        assert_eq!(change(40, second as *const () as usize, SA_RESTART, |_| (true, RELAY())), address);
        assert_eq!(change(40, libc::SIG_IGN, SA_RESTART, |given| (given == libc::SIG_IGN, RELAY())), {
            second as *const () as usize
        });
    }

    #[test]
    fn a_refusal_changes_nothing() {
        change(41, first as *const () as usize, SA_RESTART, |_| (true, libc::SIG_DFL));
        change(41, second as *const () as usize, SA_RESTART, |_| (false, libc::SIG_ERR));
        assert_eq!(own(41, RELAY()), first as *const () as usize);
    }

    #[test]
    fn handlers_are_counted_in_their_thread_by_restart() {
        let before = handled();
        change(42, first as *const () as usize, SA_RESTART, |_| (true, libc::SIG_DFL));
        // SAFETY: `first` looks at none of its arguments.
        unsafe { relay(42, core::ptr::null_mut(), core::ptr::null_mut()) };
        set_restart(42, false);
        // SAFETY: as above.
        unsafe { relay(42, core::ptr::null_mut(), core::ptr::null_mut()) };
        let after = handled();
        assert_eq!(after.all.wrapping_sub(before.all), 2);
        assert_eq!(after.without_restart.wrapping_sub(before.without_restart), 1);
        assert_eq!(std::thread::spawn(handled).join().unwrap(), Handled::default());
    }
}
