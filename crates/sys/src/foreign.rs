//! Memory of the application that may not be there: a copy that ends where it cannot go on, as the kernel's own do.
//!
//! It works where the application catches faults: whoever is called for SIGSEGV or SIGBUS asks [`mended`] first.
//! Elsewhere a fault in the copy is what it would be anywhere.

use libc::{c_void, ucontext_t};

/// The kernel's pages, at the least.
const PAGE: usize = 4096;

/// Copies `count` bytes; how many of them, counted from the end, could not be.
///
/// # Safety
/// One side is memory of the caller's, as large as said. What can be reached on the other side may be read or written.
unsafe fn copy(from: *const u8, to: *mut u8, count: usize) -> usize {
    // SAFETY: the caller's promise; a fault ends the copy.
    unsafe { sidestep_copy(to, from, count) }
}

/// Copies into the application's memory. False: not all of it can be written.
///
/// # Safety
/// What can be written of `to` may be written by the caller.
pub unsafe fn write(to: *mut u8, bytes: &[u8]) -> bool {
    // SAFETY: the caller's promise.
    unsafe { copy(bytes.as_ptr(), to, bytes.len()) == 0 }
}

/// Whether all of the application's memory from `start` on can be read.
pub fn can_be_read(start: *const u8, count: usize) -> bool {
    on_each_page(start, count, |at| {
        let mut byte = 0u8;
        // SAFETY: one byte into a local; a fault ends the copy.
        unsafe { copy(at, &raw mut byte, 1) == 0 }
    })
}

/// Whether all of the application's memory from `start` on can be written. Nothing in it changes.
///
/// # Safety
/// What can be written of it may be written by the caller.
pub unsafe fn can_be_written(start: *mut u8, count: usize) -> bool {
    // SAFETY: one byte gets the value that it has, in one step that no other thread's writing falls into.
    on_each_page(start, count, |at| unsafe { sidestep_touch(at.cast_mut()) == 0 })
}

/// Whether `holds` does for the first byte and for that of each further page.
fn on_each_page(start: *const u8, count: usize, mut holds: impl FnMut(*const u8) -> bool) -> bool {
    if count == 0 {
        return true;
    }
    let Some(last) = (start as usize).checked_add(count - 1) else { return false };
    let pages = (start as usize / PAGE + 1..=last / PAGE).map(|page| page * PAGE);
    core::iter::once(start as usize).chain(pages).all(|at| holds(at as *const u8))
}

/// In the handler of a fault: true if it was of this room, where the thread goes on when the handler returns.
///
/// # Safety
/// `context` is what the kernel passed to the handler.
pub unsafe fn mended(context: *mut c_void) -> bool {
    // SAFETY: the caller's promise.
    let at = unsafe { &mut *instruction(context.cast()) };
    let copying = &raw const sidestep_copy_at as usize..&raw const sidestep_copy_end as usize;
    let touching = &raw const sidestep_touch_at as usize..&raw const sidestep_touch_end as usize;
    let Some(place) = [copying, touching].into_iter().find(|place| place.contains(&(*at as usize))) else {
        return false;
    };
    *at = place.end as _;
    true
}

/// Where the interrupted thread stands.
///
/// # Safety
/// `context` is valid.
unsafe fn instruction(context: *mut ucontext_t) -> *mut i64 {
    // SAFETY: a place in the caller's structure.
    unsafe { &raw mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize] }
}

unsafe extern "C" {
    /// Bytes left; 0: all are copied.
    fn sidestep_copy(to: *mut u8, from: *const u8, count: usize) -> usize;
    /// 0: the byte can be written.
    fn sidestep_touch(at: *mut u8) -> usize;
    static sidestep_copy_at: u8;
    static sidestep_copy_end: u8;
    static sidestep_touch_at: u8;
    static sidestep_touch_end: u8;
}

// Between the two places of each nothing but its own registers changes, so that a fault anywhere there can go on
// behind.
core::arch::global_asm!(
    ".text",
    ".hidden sidestep_copy",
    ".globl sidestep_copy",
    ".type sidestep_copy,@function",
    "sidestep_copy:",
    "mov rcx, rdx",
    ".hidden sidestep_copy_at",
    ".globl sidestep_copy_at",
    "sidestep_copy_at:",
    "rep movsb",
    ".hidden sidestep_copy_end",
    ".globl sidestep_copy_end",
    "sidestep_copy_end:",
    "mov rax, rcx",
    "ret",
    ".size sidestep_copy, . - sidestep_copy",
    ".hidden sidestep_touch",
    ".globl sidestep_touch",
    ".type sidestep_touch,@function",
    "sidestep_touch:",
    "mov eax, 1",
    ".hidden sidestep_touch_at",
    ".globl sidestep_touch_at",
    "sidestep_touch_at:",
    "lock or byte ptr [rdi], 0",
    "xor eax, eax",
    ".hidden sidestep_touch_end",
    ".globl sidestep_touch_end",
    "sidestep_touch_end:",
    "ret",
    ".size sidestep_touch, . - sidestep_touch",
);

#[cfg(test)]
mod tests {
    use super::*;
    use libc::{MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_NONE, PROT_READ, PROT_WRITE};

    extern "C" fn on_fault(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: what the kernel passed.
        if !unsafe { mended(context) } {
            // SAFETY: a fault of the test itself.
            unsafe { libc::abort() };
        }
    }

    /// Three pages: one that can be written, one that can be read, one that cannot be reached.
    fn pages() -> *mut u8 {
        // SAFETY: fresh pages; all zero is an action, and the handler takes three arguments.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGSEGV, &action, core::ptr::null_mut()), 0);
            let flags = MAP_PRIVATE | MAP_ANONYMOUS;
            let pages = libc::mmap(core::ptr::null_mut(), 3 * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
            assert_ne!(pages, MAP_FAILED);
            assert_eq!(libc::mprotect(pages.byte_add(PAGE), PAGE, PROT_READ), 0);
            assert_eq!(libc::mprotect(pages.byte_add(2 * PAGE), PAGE, PROT_NONE), 0);
            pages.cast()
        }
    }

    #[test]
    fn what_is_not_there_is_said_and_what_is_there_is_copied() {
        let pages = pages();
        let within = |offset: usize| pages.wrapping_add(offset);
        // SAFETY: the pages are this test's.
        unsafe {
            assert!(write(within(10), b"0123456789abcdefghijk"));
            assert_eq!(core::slice::from_raw_parts(within(10), 21), b"0123456789abcdefghijk");
            assert!(!write(within(PAGE - 3), b"xyz that does not fit"));
            assert_eq!(core::slice::from_raw_parts(within(PAGE - 3), 4), b"xyz\0");
            assert!(!write(within(2 * PAGE), b"x"));
        }
        assert!(can_be_read(within(2 * PAGE), 0));
        assert!(can_be_read(within(5), 2 * PAGE - 5));
        assert!(!can_be_read(within(5), 2 * PAGE - 4));
        assert!(!can_be_read(within(2 * PAGE), 1));
        assert!(!can_be_read(within(0), usize::MAX));
        // SAFETY: as above.
        unsafe {
            assert!(can_be_written(within(5), PAGE - 5));
            assert!(!can_be_written(within(5), PAGE - 4));
            assert!(!can_be_written(within(PAGE), 1));
            assert!(!can_be_written(within(2 * PAGE), 1));
            assert_eq!(core::slice::from_raw_parts(within(10), 21), b"0123456789abcdefghijk");
        }
    }
}
