//! Threads of our own inside somebody else's process: they never run the application's signal handlers.

use crate::Result;
use crate::poll::SIGNAL_SET_BYTES;
use crate::raw::{int, syscall};

/// All signals but 32 and 33, which libc needs in every thread: blocking them would hang setuid(2) and cancellation.
const ALL_BUT_LIBC: u64 = !(1 << 31 | 1 << 32);

/// Starts a thread with all signals blocked. `Err` is errno (EAGAIN: no more threads).
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<std::thread::JoinHandle<()>> {
    // A thread inherits the mask of its creator.
    let before = set_mask(ALL_BUT_LIBC);
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    set_mask(before);
    thread.map_err(|error| error.raw_os_error().unwrap_or(libc::EAGAIN))
}

/// Replaces this thread's signal mask (a bit per signal, signal 1 lowest); returns the former.
pub fn set_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    let (new, old) = (&raw const mask as usize, &raw mut before as usize);
    // SAFETY: both masks live here and have the size said.
    let _ = unsafe {
        syscall(libc::SYS_rt_sigprocmask, [int(libc::SIG_SETMASK), new, old, SIGNAL_SET_BYTES, 0, 0])
    };
    before
}

/// Sleeps; a signal ends it early.
pub fn sleep(ns: u64) {
    let time = crate::poll::timespec(ns);
    // SAFETY: the timespec lives here; the remainder is not asked for.
    let _ = unsafe { syscall(libc::SYS_nanosleep, [&raw const time as usize, 0, 0, 0, 0, 0]) };
}

/// Pins this thread to one processor.
pub fn pin(processor: usize) -> Result<()> {
    let mut set = [0u64; 16];
    *set.get_mut(processor / 64).ok_or(libc::EINVAL)? |= 1 << (processor % 64);
    // SAFETY: the set has the size said.
    unsafe {
        syscall(
            libc::SYS_sched_setaffinity,
            [0, core::mem::size_of_val(&set), set.as_ptr() as usize, 0, 0, 0],
        )
    }
    .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_thread_blocks_the_applications_signals_but_not_libcs() {
        let before = set_mask(0);
        let mask =
            spawn("test", || assert_eq!(set_mask(0) & ALL_BUT_LIBC, ALL_BUT_LIBC & !(1 << 8 | 1 << 18)));
        mask.unwrap().join().unwrap();
        assert_eq!(set_mask(before), 0, "the creator's mask is as it was");
    }
}
