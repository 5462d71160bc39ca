//! Functions of any number of arguments, which fixed words cannot stand for: execl(3) and its kin, dprintf(3).
//!
//! Stable Rust cannot define them, so a few instructions do. Those of execl see to what must come before, and jump to
//! the genuine function with registers and stack as they were. Those of dprintf gather what is in registers into a
//! va_list (the x86-64 psABI, 3.5.7), and are vdprintf from there on, which takes a pointer.

use crate::genuine::Genuine;
use crate::hooks::data;
use crate::hooks::process::exec;
use crate::inside::opening;
use crate::outcome::settle;
use crate::start::running;
use crate::table::hooks;
use core::arch::naked_asm;
use libc::{c_char, c_int, c_void};
use sockets::{Answer, Stop, Why, calls};

/// A va_list as a parameter.
type Arguments = *mut c_void;

/// The exports in assembly.
pub(in crate::hooks) const IN_ASSEMBLY: &[&str] = &["execl", "execle", "execlp", "dprintf", "__dprintf_chk"];

/// A function whose first argument names a program: `before` is called with it, and tells where the genuine one is.
macro_rules! begins_program {
    ($(fn $name:ident = $before:ident: $is_there:path;)*) => { $(
        unsafe extern "C-unwind" fn $before(program: *const c_char) -> *mut c_void {
            static GENUINE: Genuine = Genuine::new(
                match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => unreachable!(),
                },
            );
            if running() {
                // SAFETY: the application's name of a program.
                let _ = settle(|| exec::after_leaving(|| unsafe { $is_there(program) }));
            }
            GENUINE.address()
        }

        #[unsafe(naked)]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "push rdx",
                ".cfi_adjust_cfa_offset 8",
                "push rcx",
                ".cfi_adjust_cfa_offset 8",
                "push r8",
                ".cfi_adjust_cfa_offset 8",
                "push r9",
                ".cfi_adjust_cfa_offset 8",
                "push rax",
                ".cfi_adjust_cfa_offset 8",
                "call {before}",
                "mov r11, rax",
                "pop rax",
                ".cfi_adjust_cfa_offset -8",
                "pop r9",
                ".cfi_adjust_cfa_offset -8",
                "pop r8",
                ".cfi_adjust_cfa_offset -8",
                "pop rcx",
                ".cfi_adjust_cfa_offset -8",
                "pop rdx",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "jmp r11",
                ".cfi_endproc",
                before = sym $before,
            )
        }
    )* };
}

begins_program! {
    fn execl = before_execl: exec::is_program;
    fn execle = before_execle: exec::is_program;
    fn execlp = before_execlp: exec::is_found;
}

/// A function that prints: `fixed` named arguments come before the others, and `list` takes the va_list behind those.
/// The area of saved registers lies at the stack pointer, the va_list behind it; what came on the stack, behind the
/// frame and the return address.
macro_rules! prints {
    ($(fn $name:ident = $list:ident: $fixed:literal, $register:literal;)*) => { $(
        #[unsafe(naked)]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "sub rsp, 216",
                ".cfi_adjust_cfa_offset 216",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "test al, al", // whether any is in a vector register
                "je 2f",
                "movaps [rsp + 48], xmm0",
                "movaps [rsp + 64], xmm1",
                "movaps [rsp + 80], xmm2",
                "movaps [rsp + 96], xmm3",
                "movaps [rsp + 112], xmm4",
                "movaps [rsp + 128], xmm5",
                "movaps [rsp + 144], xmm6",
                "movaps [rsp + 160], xmm7",
                "2:",
                "mov dword ptr [rsp + 176], {fixed} * 8",
                "mov dword ptr [rsp + 180], 48",
                "lea rax, [rsp + 224]",
                "mov [rsp + 184], rax",
                "mov [rsp + 192], rsp",
                concat!("lea ", $register, ", [rsp + 176]"),
                "call {list}",
                "add rsp, 216",
                ".cfi_adjust_cfa_offset -216",
                "ret",
                ".cfi_endproc",
                fixed = const $fixed,
                list = sym $list,
            )
        }
    )* };
}

prints! {
    fn dprintf = vdprintf: 2, "rdx";
    fn __dprintf_chk = __vdprintf_chk: 3, "rcx";
}

unsafe extern "C-unwind" {
    fn vasprintf(text: *mut *mut c_char, format: *const c_char, arguments: Arguments) -> c_int;
    fn __vasprintf_chk(
        text: *mut *mut c_char,
        flag: c_int,
        format: *const c_char,
        arguments: Arguments,
    ) -> c_int;
}

/// What libc allocated; freed in any case, as a write may be cancelled.
struct Text(*mut c_char);

impl Drop for Text {
    fn drop(&mut self) {
        // SAFETY: null, or of libc's malloc.
        unsafe { libc::free(self.0.cast()) };
    }
}

/// Formats and writes all. A descriptor that is not ours is libc's, which writes past every hook.
unsafe fn print(fd: c_int, format: impl FnOnce(*mut *mut c_char) -> c_int) -> Answer<c_int> {
    if !calls::knows(fd) {
        return Err(Stop::Kernel(Why::NotOurs));
    }
    let mut text = Text(core::ptr::null_mut());
    let len = format(&raw mut text.0);
    if len < 0 {
        text.0 = core::ptr::null_mut();
        return Ok(-1);
    }
    let mut done = 0;
    while done < len as usize {
        // SAFETY: within the text. The hook counts itself in.
        let written = opening(|| unsafe { data::write(fd, text.0.add(done).cast(), len as usize - done) });
        match usize::try_from(written) {
            Ok(written) => done += written,
            Err(_) => return Ok(-1),
        }
    }
    Ok(len)
}

hooks! { running:
    fn vdprintf(fd: c_int, format: *const c_char, arguments: Arguments) -> c_int {
        print(fd, |text| vasprintf(text, format, arguments))
    }

    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, arguments: Arguments) -> c_int {
        print(fd, |text| __vasprintf_chk(text, flag, format, arguments))
    }
}
