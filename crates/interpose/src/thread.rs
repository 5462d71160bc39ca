//! What we keep per thread, where signal handlers can reach it.
//!
//! Thread-local storage in the initial-exec model: its place is fixed when the thread is made, so that reaching it can
//! neither allocate nor lock. (`thread_local!` in a shared library goes through `__tls_get_addr`, which may do both
//! where it is the dynamic linker's: see the end of this page.)

use core::cell::Cell;
use sockets::os::Handled;

/// All zero in a new thread. The owning thread and its signal handlers are the only readers and writers, and a
/// handler puts back what it found, or is meant to be seen.
#[repr(C)]
pub(crate) struct Thread {
    /// Handlers of the application that ran.
    pub(crate) handled: Volatile<Handled>,
    /// Signals that were postponed in this call; they may be blocked only because of us.
    pub(crate) postponed: Volatile<u64>,
    /// How many calls of ours this thread is in, not counting openings.
    pub(crate) inside: Volatile<u32>,
    /// Whether some of `postponed` have not been let in yet.
    pub(crate) due: Volatile<bool>,
    /// In an opening of a call of ours, outside of which `inside` counts.
    pub(crate) open: Volatile<bool>,
    /// Between the two halves of a fork, with the socket layer's locks.
    pub(crate) forking: Volatile<bool>,
    /// The signal that ends the process once this thread is outside; 0: none.
    pub(crate) farewell: Volatile<u8>,
}

/// A cell that is read and written where the program says, because a signal handler may come in between.
#[repr(transparent)]
pub(crate) struct Volatile<T>(Cell<T>);

impl<T: Copy> Volatile<T> {
    #[inline]
    pub(crate) fn get(&self) -> T {
        // SAFETY: the cell is this thread's.
        unsafe { self.0.as_ptr().read_volatile() }
    }

    #[inline]
    pub(crate) fn set(&self, value: T) {
        // SAFETY: the cell is this thread's.
        unsafe { self.0.as_ptr().write_volatile(value) }
    }

    #[inline]
    pub(crate) fn replace(&self, value: T) -> T {
        let before = self.get();
        self.set(value);
        before
    }
}

const SIZE: usize = 24;
const _: () = assert!(size_of::<Thread>() == SIZE && align_of::<Thread>() == 8);

/// The calling thread's.
#[inline]
pub(crate) fn thread() -> &'static Thread {
    let cell: *const Thread;
    // SAFETY: computes an address and touches nothing.
    unsafe {
        core::arch::asm!(
            "mov {cell}, qword ptr [rip + sidestep_thread@GOTTPOFF]",
            "add {cell}, qword ptr fs:[0]",
            cell = out(reg) cell,
            options(pure, readonly, nostack)
        );
    }
    // SAFETY: the thread's own storage, as large as `Thread`, zero when the thread begins (valid for all fields),
    // alive while the thread is. Nobody sends the reference to another thread: `Cell` forbids it.
    unsafe { &*cell }
}

core::arch::global_asm!(
    ".section .tbss.sidestep_thread,\"awT\",%nobits",
    ".hidden sidestep_thread",
    ".globl sidestep_thread",
    ".type sidestep_thread,%object",
    ".balign 8",
    "sidestep_thread: .zero {size}",
    ".size sidestep_thread, {size}",
    ".text",
    size = const SIZE,
);

// As the library is linked for the threads' static blocks (DF_STATIC_TLS), all of its thread-local variables are at a
// fixed distance from the thread pointer. So the compiler's `__tls_get_addr` is this one, hidden: a few instructions.
// And the dynamic linker is not named as a library that we need, which would have it searched early for every symbol
// of every program.
core::arch::global_asm!(
    ".text",
    ".hidden __tls_get_addr",
    ".globl __tls_get_addr",
    ".type __tls_get_addr,@function",
    "__tls_get_addr:", // rdi: the module, which is this one, and the place in its block.
    "mov rax, qword ptr fs:0",
    "add rax, qword ptr [rip + sidestep_thread@GOTTPOFF]",
    "sub rax, offset sidestep_thread@DTPOFF",
    "add rax, qword ptr [rdi + 8]",
    "ret",
    ".size __tls_get_addr, . - __tls_get_addr",
);
