//! Owned descriptors: high, close-on-exec, recorded in [`crate::own_fd`], closed on drop.

use crate::copying::AtWork;
use crate::raw::{int, syscall};
use crate::{Result, own_fd};
use core::sync::atomic::{AtomicU32, Ordering};

/// A descriptor of ours.
#[derive(Debug, PartialEq, Eq)]
pub struct Fd(i32);

impl Fd {
    /// The descriptor that a system call makes which does not wait, [hidden](Fd::adopt).
    pub fn made(call: impl FnOnce() -> Result<usize>) -> Result<Fd> {
        let at_work = &AtWork::begin();
        call().map(|low| Fd::hide(low as i32, at_work))
    }

    /// Takes a descriptor that a system call just returned and moves it out of the numbers that applications expect
    /// to get: programs count on the lowest free number, and on `FD_SETSIZE`.
    pub fn adopt(low: usize) -> Fd {
        Fd::hide(low as i32, &AtWork::begin())
    }

    pub(crate) fn hide(low: i32, _: &AtWork) -> Fd {
        let fd = match raised(low) {
            Ok(high) if (high as usize) < own_fd::CAPACITY => {
                close(low);
                high
            }
            Ok(high) => {
                close(high);
                low
            }
            // No room up there (a tiny RLIMIT_NOFILE): it stays where it is, and still hidden.
            Err(_) => low,
        };
        own_fd::record(fd);
        Fd(fd)
    }

    /// The number, for calls.
    #[inline]
    pub fn raw(&self) -> i32 {
        self.0
    }

    /// A second descriptor of the same open file.
    pub fn duplicate(&self) -> Result<Fd> {
        Fd::duplicate_of(self.0)
    }

    /// A descriptor of our own for the open file behind somebody else's number.
    pub fn duplicate_of(fd: i32) -> Result<Fd> {
        let _at_work = AtWork::begin();
        let copy = raised(fd)?;
        own_fd::record(copy);
        Ok(Fd(copy))
    }

    /// Closes a descriptor of ours whose owner was forgotten and kept the number only.
    pub fn close_raw(fd: i32) {
        drop(Fd(fd));
    }

    /// Gives the descriptor up: no longer ours, not closed, its number stays.
    pub fn release(self) -> i32 {
        let fd = self.0;
        own_fd::forget(fd);
        core::mem::forget(self);
        fd
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        let _at_work = AtWork::begin();
        own_fd::forget(self.0);
        close(self.0);
    }
}

/// A descriptor that is closed again before the caller returns, and stays where it is: to move it costs more than what
/// it is for. The process is not copied meanwhile: in a child nobody would close it.
pub(crate) struct Brief {
    number: i32,
    _at_work: AtWork,
}

impl Brief {
    pub(crate) fn made(call: impl FnOnce() -> Result<usize>) -> Result<Brief> {
        let at_work = AtWork::begin();
        let number = call()? as i32;
        own_fd::record(number);
        Ok(Brief { number, _at_work: at_work })
    }

    pub(crate) fn raw(&self) -> i32 {
        self.number
    }
}

impl Drop for Brief {
    fn drop(&mut self) {
        own_fd::forget(self.number);
        close(self.number);
    }
}

/// A copy of a descriptor among our numbers.
fn raised(fd: i32) -> Result<i32> {
    let known = LOWEST_OWN.load(Ordering::Relaxed);
    let lowest = if known == 0 { lowest_own() } else { known };
    match fcntl(fd, libc::F_DUPFD_CLOEXEC, lowest as usize) {
        // The limit was lowered.
        Err(libc::EINVAL) => fcntl(fd, libc::F_DUPFD_CLOEXEC, lowest_own() as usize),
        copy => copy,
    }
}

/// Has the kernel's table of descriptors reach our numbers. It grows at once while the process has one thread; beside
/// others, it waits for a grace period of RCU, in whichever call is the first to need it: 18 ms.
pub fn make_room() {
    if let Some(copy) = (0..=2).find_map(|fd| raised(fd).ok()) {
        close(copy);
    }
}

/// What [`lowest_own`] found last; 0: nothing yet.
static LOWEST_OWN: AtomicU32 = AtomicU32::new(0);

/// Half of what the process may open, but low enough that the kernel's table of descriptors stays small where the
/// limit is a million; for the usual 1024, three quarters.
fn lowest_own() -> u32 {
    let limit = crate::process::limit(libc::RLIMIT_NOFILE as i32).map_or(1024, |limit| limit.soft);
    let lowest = if limit <= 1024 { (limit * 3 / 4) as u32 } else { (limit / 2).clamp(768, 4096) as u32 };
    LOWEST_OWN.store(lowest, Ordering::Relaxed);
    lowest
}

/// read(2).
#[inline]
pub fn read(fd: i32, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the buffer is ours and as long as said.
    unsafe { syscall(libc::SYS_read, [int(fd), buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) }
}

/// write(2).
#[inline]
pub fn write(fd: i32, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the bytes are ours and as many as said.
    unsafe { syscall(libc::SYS_write, [int(fd), bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) }
}

/// close(2) of a plain number; owned descriptors are closed by dropping them.
pub fn close(fd: i32) {
    // SAFETY: close takes no pointer. Its errors leave nothing to do: the number is free either way.
    let _ = unsafe { syscall(libc::SYS_close, [int(fd), 0, 0, 0, 0, 0]) };
}

/// close_range(2): closes the numbers from `first` to `last`, or marks them close-on-exec, as `flags` say.
pub fn close_range(first: u32, last: u32, flags: i32) -> Result<()> {
    // SAFETY: close_range takes no pointer.
    unsafe { syscall(libc::SYS_close_range, [first as usize, last as usize, int(flags), 0, 0, 0]) }
        .map(|_| ())
}

/// fcntl(2) with an integer argument.
pub fn fcntl(fd: i32, command: i32, argument: usize) -> Result<i32> {
    // SAFETY: callers pass commands that take an integer.
    unsafe { syscall(libc::SYS_fcntl, [int(fd), int(command), argument, 0, 0, 0]) }.map(|value| value as i32)
}

/// ioctl(2) with a structure that the kernel reads and writes.
///
/// # Safety
/// `argument` must be of the type that `request` asks for, and pointers in it must be valid.
pub unsafe fn ioctl<T>(fd: i32, request: u32, argument: &mut T) -> Result<usize> {
    let pointer = core::ptr::from_mut(argument) as usize;
    // SAFETY: by the contract of this function.
    unsafe { syscall(libc::SYS_ioctl, [int(fd), request as usize, pointer, 0, 0, 0]) }
}

/// A non-blocking eventfd(2).
pub fn eventfd() -> Result<Fd> {
    let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
    // SAFETY: eventfd2 takes no pointer.
    Fd::made(|| unsafe { syscall(libc::SYS_eventfd2, [0, int(flags), 0, 0, 0, 0]) })
}

/// Makes an eventfd readable. Never blocks: a counter at its limit is readable already.
#[inline]
pub fn signal(eventfd: i32) {
    let _ = write(eventfd, &1u64.to_ne_bytes());
}

/// Makes an eventfd unreadable again; true if it was readable.
#[inline]
pub fn clear(eventfd: i32) -> bool {
    read(eventfd, &mut [0; 8]).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_descriptors_are_high_hidden_and_close_on_exec() {
        let fd = eventfd().unwrap();
        let number = fd.raw();
        assert!(number >= lowest_own() as i32, "{number}");
        assert!(own_fd::is_own(number));
        assert_eq!(fcntl(number, libc::F_GETFD, 0), Ok(libc::FD_CLOEXEC));
        drop(fd);
        assert!(!own_fd::is_own(number));
        assert_eq!(fcntl(number, libc::F_GETFD, 0), Err(libc::EBADF));
    }

    #[test]
    fn an_eventfd_is_signalled_and_cleared() {
        let fd = eventfd().unwrap();
        assert!(!clear(fd.raw()));
        signal(fd.raw());
        signal(fd.raw());
        assert!(clear(fd.raw()));
        assert!(!clear(fd.raw()));
    }
}
