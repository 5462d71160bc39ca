//! The system call instruction. Everything else in this crate is written in terms of
//! [`syscall`].

use core::arch::asm;

/// Makes the system call `number` (`libc::SYS_*`). `Err` is errno.
///
/// # Safety
/// The arguments must be valid for that call: pointers must point to memory of the size and lifetime it asks for.
#[inline]
pub unsafe fn syscall(number: libc::c_long, arguments: [usize; 6]) -> Result<usize, i32> {
    let [a, b, c, d, e, f] = arguments;
    let returned: isize;
    // SAFETY: the registers are those of the kernel's calling convention; the caller vouches for the arguments.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => returned,
             in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
             lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    // The kernel returns -4095..=-1 for errors.
    if (-4095..0).contains(&returned) { Err(-returned as i32) } else { Ok(returned as usize) }
}

/// A signed integer as a system call argument.
#[inline]
pub fn int(value: i32) -> usize {
    value as isize as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_errno_and_a_result_is_a_value() {
        // SAFETY: close takes no pointer, and -1 is no descriptor.
        assert_eq!(unsafe { syscall(libc::SYS_close, [int(-1), 0, 0, 0, 0, 0]) }, Err(libc::EBADF));
        // SAFETY: getpid takes no argument.
        assert_eq!(unsafe { syscall(libc::SYS_getpid, [0; 6]) }, Ok(std::process::id() as usize));
    }
}
