//! The unwinder, loaded when it is needed: when a panic or a cancellation unwinds through us, or when something is
//! accelerated, at the latest. Linked as usual, libgcc_s.so would be loaded into every program, stand in the way of
//! each symbol that is looked up there, and ask the processor about itself, which takes long in a virtual machine.
//! That is as much as the rest of a short program's start under this library.
//!
//! So its functions are defined here, hidden, as jumps to where they are. They must be jumps: some of them look at the
//! frame of their caller. (The C library does the same for pthread_cancel.)

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// What std and the guard call, in the order of the jumps below.
const NAMES: [&CStr; 13] = [
    c"_Unwind_Resume",
    c"_Unwind_RaiseException",
    c"_Unwind_DeleteException",
    c"_Unwind_Backtrace",
    c"_Unwind_SetGR",
    c"_Unwind_SetIP",
    c"_Unwind_GetIP",
    c"_Unwind_GetIPInfo",
    c"_Unwind_GetCFA",
    c"_Unwind_GetTextRelBase",
    c"_Unwind_GetDataRelBase",
    c"_Unwind_GetRegionStart",
    c"_Unwind_GetLanguageSpecificData",
];

/// Where they are; null: not looked up yet.
static PLACES: [AtomicPtr<c_void>; NAMES.len()] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; NAMES.len()];

/// Finds all of them, while the program can still open files. The calling thread's stack may be small.
pub(crate) fn prepare() {
    if PLACES[0].load(Relaxed).is_null() {
        sys::thread::with_room(load);
    }
}

fn load() {
    // SAFETY: a C string; the library stays loaded, as nobody closes it.
    let library = unsafe { libc::dlopen(c"libgcc_s.so.1".as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        return;
    }
    for (name, place) in NAMES.iter().zip(&PLACES) {
        // SAFETY: a C string.
        place.store(unsafe { libc::dlsym(library, name.as_ptr()) }, Relaxed);
    }
}

/// Without an unwinder a panic cannot end where it should: the process ends instead.
extern "C" fn find(number: usize) -> *mut c_void {
    load();
    let found = PLACES[number].load(Relaxed);
    if found.is_null() {
        logger::error!("libgcc_s.so.1 cannot be loaded, without which nothing unwinds");
        // SAFETY: ends the process.
        unsafe { libc::abort() }
    }
    found
}

// A jump keeps all registers that carry arguments, and the stack as the caller left it.
core::arch::global_asm!(
    ".macro sidestep_unwind name, number",
    ".hidden \\name",
    ".globl \\name",
    ".type \\name,@function",
    "\\name:",
    "mov r11, qword ptr [rip + {places} + 8 * \\number]",
    "test r11, r11",
    "jz 1f",
    "jmp r11",
    "1: mov r11d, \\number",
    "jmp sidestep_unwind_find",
    ".size \\name, . - \\name",
    ".endm",
    ".text",
    "sidestep_unwind_find:",
    "push rdi",
    "push rsi",
    "push rdx",
    "push rcx",
    "push r8", // Five and the return address: the stack is aligned for a call.
    "mov rdi, r11",
    "call {find}",
    "mov r11, rax",
    "pop r8",
    "pop rcx",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "jmp r11",
    "sidestep_unwind _Unwind_Resume, 0",
    "sidestep_unwind _Unwind_RaiseException, 1",
    "sidestep_unwind _Unwind_DeleteException, 2",
    "sidestep_unwind _Unwind_Backtrace, 3",
    "sidestep_unwind _Unwind_SetGR, 4",
    "sidestep_unwind _Unwind_SetIP, 5",
    "sidestep_unwind _Unwind_GetIP, 6",
    "sidestep_unwind _Unwind_GetIPInfo, 7",
    "sidestep_unwind _Unwind_GetCFA, 8",
    "sidestep_unwind _Unwind_GetTextRelBase, 9",
    "sidestep_unwind _Unwind_GetDataRelBase, 10",
    "sidestep_unwind _Unwind_GetRegionStart, 11",
    "sidestep_unwind _Unwind_GetLanguageSpecificData, 12",
    ".purgem sidestep_unwind",
    places = sym PLACES,
    find = sym find,
);
