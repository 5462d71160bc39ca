//! What is left to be done when this process and all that it forked are gone, however they ended: by a process of its
//! own, which waits for that and knows nothing else.
//!
//! It is a copy of this one, as fork(2) makes it, so that nothing has to be installed for it; it costs the pages that
//! this process writes from then on. So it is for what somebody asked for, not for every program.

use crate::daemon::{fork, leave};
use crate::raw::{int, syscall};
use crate::thread::{set_mask, without_handlers};
use crate::{Fd, Result, pipe};

/// While it is there, or a copy of it in a child of a fork or in who was passed its descriptor, what was left waits.
pub struct Hold {
    /// Whose end is what is waited for.
    pipe: Fd,
}

impl Hold {
    /// Of another process, which passed it.
    pub fn received(descriptor: Fd) -> Hold {
        Hold { pipe: descriptor }
    }

    /// To be passed to others.
    pub fn raw(&self) -> i32 {
        self.pipe.raw()
    }
}

/// One system call of those that are left.
pub enum Last<'a> {
    /// write(2) of all of this.
    Write(&'a Fd, &'a [u8]),
    /// ioctl(2).
    Ioctl(&'a Fd, u32, usize),
}

impl Last<'_> {
    fn file(&self) -> i32 {
        let (Last::Write(file, _) | Last::Ioctl(file, ..)) = self;
        file.raw()
    }

    /// System calls only.
    fn make(&self) {
        let (number, arguments) = match *self {
            Last::Write(file, bytes) => {
                (libc::SYS_write, [int(file.raw()), bytes.as_ptr() as usize, bytes.len(), 0, 0, 0])
            }
            Last::Ioctl(file, request, argument) => {
                (libc::SYS_ioctl, [int(file.raw()), request as usize, argument, 0, 0, 0])
            }
        };
        // SAFETY: the bytes are a slice; of ioctls the caller of `when_gone` vouches.
        let _ = unsafe { syscall(number, arguments) };
    }
}

/// Leaves these calls, to be made in this order. Files beside those that they name stay open until then, as locks on
/// them do, where they are in `kept`.
///
/// # Safety
/// The argument of each ioctl must be what its request asks for, and point to memory that is there now: what is used is
/// a copy of it.
pub unsafe fn when_gone(calls: &[Last<'_>], kept: &[&Fd]) -> Result<Hold> {
    let (end, hold) = pipe::pair()?;
    let mut files: Vec<i32> = calls.iter().map(Last::file).chain(kept.iter().map(|fd| fd.raw())).collect();
    files.push(end.raw());
    files.sort_unstable();
    let child = without_handlers(u64::MAX, || {
        let child = fork();
        if child == Ok(0) {
            set_mask(u64::MAX);
            // SAFETY: without pointers to anything.
            let _ = unsafe { syscall(libc::SYS_setsid, [0; 6]) };
            if fork() == Ok(0) {
                wait_and_make(end.raw(), &files, calls);
            }
            leave();
        }
        child
    });
    crate::daemon::wait_for(child?);
    Ok(Hold { pipe: hold })
}

/// In the process that waits: it has the signals of a daemon, none, and the files that it needs.
fn wait_and_make(end: i32, files: &[i32], calls: &[Last<'_>]) -> ! {
    let name = c"sidestep-after".as_ptr() as usize;
    let mut first = 0;
    // SAFETY: a string that ends with a null; else numbers.
    unsafe {
        let _ = syscall(libc::SYS_prctl, [int(libc::PR_SET_NAME), name, 0, 0, 0, 0]);
        let _ = syscall(libc::SYS_chdir, [c"/".as_ptr() as usize, 0, 0, 0, 0, 0]);
        for &file in files.iter().filter(|&&file| file >= 0) {
            if file > first {
                let _ = syscall(libc::SYS_close_range, [int(first), int(file - 1), 0, 0, 0, 0]);
            }
            first = file + 1;
        }
        let _ = syscall(libc::SYS_close_range, [int(first), u32::MAX as usize, 0, 0, 0, 0]);
    }
    let mut ends = [libc::pollfd { fd: end, events: 0, revents: 0 }];
    while crate::poll::poll(&mut ends, None, None) == Err(libc::EINTR) {}
    calls.iter().for_each(Last::make);
    leave()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn what_is_left_is_done_when_the_last_holder_is_gone_and_not_before() {
        let path = std::env::temp_dir().join(format!("sys-afterwards-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        let file = crate::file::open(&name, libc::O_WRONLY, 0).unwrap();
        // SAFETY: there is no ioctl.
        let hold = unsafe { when_gone(&[Last::Write(&file, b"first "), Last::Write(&file, b"second")], &[]) }
            .unwrap();
        // Another process that has it, too, and is killed.
        let mut other = std::process::Command::new("sleep");
        let inherited = hold.raw();
        let command = std::os::unix::process::CommandExt::pre_exec;
        // SAFETY: one system call.
        let mut other = unsafe {
            command(&mut other, move || {
                crate::fd::fcntl(inherited, libc::F_SETFD, 0)
                    .map(|_| ())
                    .map_err(std::io::Error::from_raw_os_error)
            })
        }
        .arg("600")
        .spawn()
        .unwrap();
        drop(hold);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
        other.kill().unwrap();
        other.wait().unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while std::fs::read_to_string(&path).unwrap() != "first second" {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(1));
        }
        std::fs::remove_file(&path).unwrap();
    }
}
