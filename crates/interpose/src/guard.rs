//! The wall between the program and our own code: a panic stops here, everything else passes.
//!
//! `catch_unwind` will not do. Cancelling a thread (pthread_cancel) that sleeps in a call of ours unwinds its stack by
//! force, through our frames; a `catch_unwind` on the way is entered like a handler and aborts the process, since the
//! exception is not Rust's. So the frame that catches is made by hand, with a personality routine that knows one kind
//! of exception, Rust's own, and is transparent to forced unwinding and to C++. What it caught goes through std's
//! `catch_unwind` once more, at a place where nothing else can come by, to be taken apart properly.

use core::ffi::c_int;
use core::mem::{ManuallyDrop, MaybeUninit};

/// Runs `body`; `None` when it panicked (`sockets` has been told).
#[inline]
pub(crate) fn run<R>(body: impl FnOnce() -> R) -> Option<R> {
    struct Call<F, R> {
        body: ManuallyDrop<F>,
        result: MaybeUninit<R>,
    }
    unsafe extern "C-unwind" fn invoke<F: FnOnce() -> R, R>(call: *mut u8) {
        // SAFETY: `run` passes a `Call` of these types, once.
        let call = unsafe { &mut *call.cast::<Call<F, R>>() };
        // SAFETY: taken once, and never dropped by `run`.
        let body = unsafe { ManuallyDrop::take(&mut call.body) };
        call.result.write(body());
    }
    fn invoker<F: FnOnce() -> R, R>(_: &F) -> unsafe extern "C-unwind" fn(*mut u8) {
        invoke::<F, R>
    }
    let invoke = invoker(&body);
    let mut call = Call { body: ManuallyDrop::new(body), result: MaybeUninit::<R>::uninit() };
    // SAFETY: `call` outlives the call, and `invoke` is made for its types.
    let caught = unsafe { sidestep_guard(invoke, (&raw mut call).cast()) };
    if caught.is_null() {
        // SAFETY: `invoke` returned, so it wrote the result.
        Some(unsafe { call.result.assume_init() })
    } else {
        dispose(caught);
        None
    }
}

/// Takes a caught panic apart and tells the socket layer.
#[cold]
fn dispose(exception: *mut u8) {
    // The payload's destructor is the panicking code's and could panic too: leaked instead.
    // SAFETY: a Rust exception that left its frames, raised again exactly once.
    core::mem::forget(std::panic::catch_unwind(|| unsafe { _Unwind_RaiseException(exception) }));
    let _ = std::panic::catch_unwind(sockets::calls::panicked);
}

unsafe extern "C-unwind" {
    /// Calls `invoke(data)`; null, or the Rust exception that it ended with.
    fn sidestep_guard(invoke: unsafe extern "C-unwind" fn(*mut u8), data: *mut u8) -> *mut u8;
    fn _Unwind_RaiseException(exception: *mut u8) -> c_int;
}

unsafe extern "C" {
    fn _Unwind_SetIP(context: *mut u8, address: usize);
    fn _Unwind_SetGR(context: *mut u8, register: c_int, value: usize);
    static sidestep_guard_caught: u8;
}

// The frame. Where the personality lands, the stack pointer is as after the call, and the register that returns a
// value holds the exception.
core::arch::global_asm!(
    ".text",
    ".hidden sidestep_guard",
    ".globl sidestep_guard",
    ".type sidestep_guard,@function",
    "sidestep_guard:",
    ".cfi_startproc",
    ".cfi_personality 0x9b, sidestep_personality_address", // 0x9b: indirect, pc-relative, four bytes
    "sub rsp, 8",
    ".cfi_adjust_cfa_offset 8",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "xor eax, eax",
    ".hidden sidestep_guard_caught",
    ".globl sidestep_guard_caught",
    "sidestep_guard_caught:",
    "add rsp, 8",
    ".cfi_adjust_cfa_offset -8",
    "ret",
    ".cfi_endproc",
    ".size sidestep_guard, . - sidestep_guard",
    ".section .data.rel.ro.sidestep_guard,\"aw\"",
    ".balign 8",
    "sidestep_personality_address: .quad {personality}",
    ".text",
    personality = sym personality,
);

const SEARCH_PHASE: c_int = 1;
const HANDLER_FRAME: c_int = 4;
const FORCE_UNWIND: c_int = 8;
const HANDLER_FOUND: c_int = 6;
const INSTALL_CONTEXT: c_int = 7;
const CONTINUE_UNWIND: c_int = 8;

/// The number of the register that returns a value (rax).
const RETURN_REGISTER: c_int = 0;

/// The class of Rust panics. (Another Rust library in the process has the same, but its panics never come through
/// our frames: we call back into nothing but libc and signal handlers.)
const RUST: u64 = u64::from_ne_bytes(*b"MOZ\0RUST");

/// What the unwinder asks about the guard's frame (Itanium C++ ABI: Exception Handling, 2.5.2).
unsafe extern "C" fn personality(
    _version: c_int,
    actions: c_int,
    class: u64,
    exception: *mut u8,
    context: *mut u8,
) -> c_int {
    if actions & FORCE_UNWIND != 0 || class != RUST {
        return CONTINUE_UNWIND;
    }
    if actions & SEARCH_PHASE != 0 {
        return HANDLER_FOUND;
    }
    if actions & HANDLER_FRAME == 0 {
        return CONTINUE_UNWIND;
    }
    // SAFETY: the unwinder's own context; the landing place is in the frame that it asks about.
    unsafe {
        _Unwind_SetGR(context, RETURN_REGISTER, exception as usize);
        _Unwind_SetIP(context, &raw const sidestep_guard_caught as usize);
    }
    INSTALL_CONTEXT
}

#[cfg(test)]
mod tests {
    use super::run;
    use std::cell::Cell;

    struct Dropped<'a>(&'a Cell<u32>);

    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn the_result_comes_through() {
        let text = String::from("captured");
        assert_eq!(run(move || text + "!"), Some("captured!".into()));
    }

    #[test]
    fn a_panic_stops_at_the_guard_and_cleans_up_on_the_way() {
        let drops = Cell::new(0);
        for _ in 0..3 {
            let ended = run(|| {
                let _dropped = Dropped(&drops);
                assert!(drops.get() > 100, "on purpose");
            });
            assert_eq!(ended, None);
        }
        assert_eq!(drops.get(), 3);
        assert!(!std::thread::panicking());
    }

    #[test]
    fn guards_nest() {
        let outer = run(|| {
            assert_eq!(run(|| panic!("inner")), None::<()>);
            7
        });
        assert_eq!(outer, Some(7));
    }

    #[test]
    fn forced_unwinding_passes() {
        use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
        static DROPPED: AtomicBool = AtomicBool::new(false);
        struct Note;
        impl Drop for Note {
            fn drop(&mut self) {
                DROPPED.store(true, SeqCst);
            }
        }
        extern "C-unwind" fn thread(_: *mut libc::c_void) -> *mut libc::c_void {
            run(|| {
                let _note = Note;
                // SAFETY: a thread of pthread_create, whose frames may be unwound.
                unsafe { libc_exit(core::ptr::without_provenance_mut(42)) };
            });
            core::ptr::null_mut()
        }
        unsafe extern "C-unwind" {
            #[link_name = "pthread_exit"]
            fn libc_exit(value: *mut libc::c_void) -> !;
            fn pthread_create(
                thread: *mut libc::pthread_t,
                attributes: *const libc::c_void,
                start: extern "C-unwind" fn(*mut libc::c_void) -> *mut libc::c_void,
                argument: *mut libc::c_void,
            ) -> i32;
        }
        let mut id = 0;
        let mut value = core::ptr::null_mut();
        // SAFETY: `id` and `value` outlive the calls, and the thread is joined once.
        unsafe {
            assert_eq!(pthread_create(&mut id, core::ptr::null(), thread, core::ptr::null_mut()), 0);
            assert_eq!(libc::pthread_join(id, &mut value), 0);
        }
        assert_eq!(value as usize, 42);
        assert!(DROPPED.load(SeqCst));
    }
}
