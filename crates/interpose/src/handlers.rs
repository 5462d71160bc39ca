//! The application's signal handlers, and what a waiting call must know of them.
//!
//! A call that spins in user space must end with EINTR when a handler ran, as the system call would. Nothing tells
//! user space, so every handler is installed behind [`relay`], which counts in the thread and then calls the
//! application's own. Flags and mask stay in the kernel as the application gave them; only the address differs, and
//! every query gets the application's back.
//!
//! All of this runs inside signal handlers too: no lock, no allocation, no thread-local that is made on first use.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use libc::{c_int, c_void, siginfo_t};
use sockets::os::Handled;

/// Signals are 1 to 64.
const SIGNALS: usize = 65;

/// Marks a handler that was installed with SA_RESTART, in the top bit of its address: user space ends far below.
const RESTART: u64 = 1 << 63;

/// The application's handlers: address and [`RESTART`], in one word, so that the relay reads both at once.
static HANDLERS: [AtomicU64; SIGNALS] = [const { AtomicU64::new(0) }; SIGNALS];

/// Whether `action` is a function, not SIG_DFL, SIG_IGN, SIG_ERR or SIG_HOLD.
pub(crate) fn is_function(action: usize) -> bool {
    action > 2 && action != libc::SIG_ERR
}

/// The address to install for the application's `action`.
pub(crate) fn relayed(action: usize) -> usize {
    if is_function(action) { relay as *const () as usize } else { action }
}

/// The application's own address for what the kernel has installed.
pub(crate) fn own(signal: c_int, installed: usize) -> usize {
    match HANDLERS.get(signal as usize) {
        Some(slot) if installed == relay as *const () as usize => (slot.load(SeqCst) & !RESTART) as usize,
        _ => installed,
    }
}

/// Changes a signal's action by `install` (which asks the kernel, with the address from [`relayed`], and returns whether
/// it agreed and the address that was there). Returns the application's previous address.
///
/// The table is written first, so that the relay never runs without its handler; SIG_DFL and SIG_IGN leave the table
/// alone, for a delivery that is under way on another thread. A refusal puts the old handler back.
pub(crate) fn change(
    signal: c_int,
    action: usize,
    restart: bool,
    install: impl FnOnce(usize) -> (bool, usize),
) -> usize {
    let Some(slot) = HANDLERS.get(signal as usize).filter(|_| is_function(action)) else {
        let (_, previous) = install(action);
        return own(signal, previous);
    };
    let word = action as u64 | if restart { RESTART } else { 0 };
    let before = slot.swap(word, SeqCst);
    let (agreed, previous) = install(relayed(action));
    if !agreed {
        let _ = slot.compare_exchange(word, before, SeqCst, SeqCst);
    }
    if previous == relay as *const () as usize { (before & !RESTART) as usize } else { previous }
}

/// siginterrupt(3) changed whether the signal's handler restarts calls.
pub(crate) fn set_restart(signal: c_int, restart: bool) {
    if let Some(slot) = HANDLERS.get(signal as usize) {
        if restart {
            slot.fetch_or(RESTART, SeqCst)
        } else {
            slot.fetch_and(!RESTART, SeqCst)
        };
    }
}

/// What the kernel calls. All three arguments are always there in registers on the architectures that we support;
/// a handler without SA_SIGINFO takes the first.
unsafe extern "C-unwind" fn relay(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let word = HANDLERS[signal as usize % SIGNALS].load(SeqCst);
    let counts = counts();
    // SAFETY: the calling thread's own cell; a nested handler leaves it counted up, which is all that readers compare.
    unsafe {
        (*counts).all = (*counts).all.wrapping_add(1);
        if word & RESTART == 0 {
            (*counts).without_restart = (*counts).without_restart.wrapping_add(1);
        }
    }
    let address = (word & !RESTART) as usize;
    if !is_function(address) {
        return;
    }
    // SAFETY: the application installed this address as a signal handler.
    let handler: unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void) =
        unsafe { core::mem::transmute(address) };
    // SAFETY: with what the kernel passed.
    unsafe { handler(signal, info, context) }
}

/// Handlers of the application that have run in the calling thread.
pub(crate) fn handled() -> Handled {
    // SAFETY: the calling thread's own cell. A volatile read, because a handler may have run since the last.
    unsafe { counts().read_volatile() }
}

/// The calling thread's counts. Thread-local storage in the initial-exec model: its place is fixed when the thread is
/// made, so that reaching it in a signal handler can neither allocate nor lock. (`thread_local!` in a cdylib goes
/// through `__tls_get_addr`, which may do both when the library was opened by dlopen.)
fn counts() -> *mut Handled {
    let cell: *mut Handled;
    // SAFETY: computes an address and touches nothing.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!(
            "mov {cell}, qword ptr [rip + sidestep_handled@GOTTPOFF]",
            "add {cell}, qword ptr fs:[0]",
            cell = out(reg) cell,
            options(pure, readonly, nostack)
        );
    }
    // SAFETY: computes an address and touches nothing.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!(
            "adrp {offset}, :gottprel:sidestep_handled",
            "ldr {offset}, [{offset}, :gottprel_lo12:sidestep_handled]",
            "mrs {cell}, tpidr_el0",
            "add {cell}, {cell}, {offset}",
            offset = out(reg) _,
            cell = out(reg) cell,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    cell
}

const _: () = assert!(size_of::<Handled>() == 8 && align_of::<Handled>() <= 8);

core::arch::global_asm!(
    ".section .tbss.sidestep_handled,\"awT\",%nobits",
    ".hidden sidestep_handled",
    ".globl sidestep_handled",
    ".type sidestep_handled,%object",
    ".balign 8",
    "sidestep_handled: .zero 8",
    ".size sidestep_handled, 8",
    ".text",
);

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
        assert_eq!(change(40, address, true, |given| (given == RELAY(), libc::SIG_DFL)), libc::SIG_DFL);
        assert_eq!(own(40, RELAY()), address);
        assert_eq!(change(40, second as *const () as usize, true, |_| (true, RELAY())), address);
        assert_eq!(change(40, libc::SIG_IGN, true, |given| (given == libc::SIG_IGN, RELAY())), {
            second as *const () as usize
        });
    }

    #[test]
    fn a_refusal_changes_nothing() {
        change(41, first as *const () as usize, true, |_| (true, libc::SIG_DFL));
        change(41, second as *const () as usize, true, |_| (false, libc::SIG_ERR));
        assert_eq!(own(41, RELAY()), first as *const () as usize);
    }

    #[test]
    fn handlers_are_counted_in_their_thread_by_restart() {
        let before = handled();
        change(42, first as *const () as usize, true, |_| (true, libc::SIG_DFL));
        unsafe { relay(42, core::ptr::null_mut(), core::ptr::null_mut()) };
        set_restart(42, false);
        unsafe { relay(42, core::ptr::null_mut(), core::ptr::null_mut()) };
        let after = handled();
        assert_eq!(after.all.wrapping_sub(before.all), 2);
        assert_eq!(after.without_restart.wrapping_sub(before.without_restart), 1);
        assert_eq!(std::thread::spawn(handled).join().unwrap(), Handled::default());
    }
}
