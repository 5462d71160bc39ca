//! futex(2): sleep until a word changes.

use core::sync::atomic::AtomicU32;

use crate::Result;
use crate::raw::syscall;

/// Who else may wait on the word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Threads of this process.
    Private,
    /// Other processes too: the word lies in shared memory.
    Shared,
}

/// Sleeps while `*word == expected`, for at most `timeout_ns`. `Err`: EAGAIN (the word differed), ETIMEDOUT, EINTR.
pub fn wait(word: &AtomicU32, expected: u32, timeout_ns: Option<u64>, scope: Scope) -> Result<()> {
    let timeout = timeout_ns.map(crate::poll::timespec);
    let timeout = timeout.as_ref().map_or(0, |timeout| core::ptr::from_ref(timeout) as usize);
    let operation = libc::FUTEX_WAIT | flag(scope);
    // SAFETY: the word outlives the call, and the timespec lives on this stack.
    unsafe {
        syscall(
            libc::SYS_futex,
            [word.as_ptr() as usize, operation as usize, expected as usize, timeout, 0, 0],
        )
    }
    .map(|_| ())
}

/// Wakes up to `count` waiters of `word`; says how many.
pub fn wake(word: &AtomicU32, count: u32, scope: Scope) -> usize {
    let operation = libc::FUTEX_WAKE | flag(scope);
    // SAFETY: the kernel reads no memory for a wake-up; the address is only a name.
    unsafe { syscall(libc::SYS_futex, [word.as_ptr() as usize, operation as usize, count as usize, 0, 0, 0]) }
        .unwrap_or(0)
}

fn flag(scope: Scope) -> i32 {
    match scope {
        Scope::Private => libc::FUTEX_PRIVATE_FLAG,
        Scope::Shared => 0,
    }
}
