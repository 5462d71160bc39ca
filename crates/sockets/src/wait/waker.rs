//! The eventfd that wakes a thread.
//!
//! Each thread that ever slept here has one. It is kept in a thread-local without a destructor, since calls come in the
//! destructors of other thread-locals too (a pool that closes its connections), and closed by a key of pthreads, whose
//! destructors run after those and may be set again by a call that comes later still.

use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};

thread_local! {
    /// Its number; 0: none (no descriptor of ours is ever that low).
    static WAKE: Cell<i32> = const { Cell::new(0) };
}

/// The key, plus one; 0: not made.
static KEY: AtomicU32 = AtomicU32::new(0);

/// The eventfd of the calling thread, made on first use. Without one (descriptors or keys exhausted) -1, which poll
/// ignores; see `Sleeper::part`.
pub(super) fn of_this_thread() -> i32 {
    match WAKE.get() {
        0 => make(),
        fd => fd,
    }
}

#[cold]
fn make() -> i32 {
    let (Some(key), Ok(eventfd)) = (key(), sys::fd::eventfd()) else { return -1 };
    let fd = eventfd.raw();
    // SAFETY: the key exists. The value is the number, never a pointer.
    if unsafe { libc::pthread_setspecific(key, fd as usize as *const c_void) } != 0 {
        return -1;
    }
    // Closed by `ended`.
    core::mem::forget(eventfd);
    WAKE.set(fd);
    fd
}

fn key() -> Option<libc::pthread_key_t> {
    let known = KEY.load(Ordering::Acquire);
    if known != 0 {
        return Some(known - 1);
    }
    let mut key = 0;
    // SAFETY: `key` is a local; the destructor is a function of this library, which is linked to stay loaded.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(ended)) } != 0 {
        return None;
    }
    match KEY.compare_exchange(0, key + 1, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(key),
        Err(other) => {
            // SAFETY: nobody else has seen this key.
            unsafe { libc::pthread_key_delete(key) };
            Some(other - 1)
        }
    }
}

/// The thread ends.
unsafe extern "C" fn ended(value: *mut c_void) {
    let fd = value as usize as i32;
    if WAKE.get() == fd {
        WAKE.set(0);
        sys::Fd::close_raw(fd);
    }
}

/// In the child of a fork: the eventfd of the thread that forked is the parent's.
pub(crate) fn after_fork() {
    let fd = WAKE.replace(0);
    if fd != 0 {
        sys::Fd::close_raw(fd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_eventfd_until_it_ends() {
        let fd = std::thread::spawn(|| {
            let fd = of_this_thread();
            assert!(fd > 0 && of_this_thread() == fd && sys::own_fd::is_own(fd));
            fd
        });
        let fd = fd.join().unwrap();
        // Another thread may have been given the number since.
        assert!(!sys::own_fd::is_own(fd) || of_this_thread() != fd);
    }
}
