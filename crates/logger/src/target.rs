//! Where lines go, and the promise that they go nowhere else.
//!
//! A daemon closes descriptor 2 and the next socket or data file gets its number; a line written there would corrupt
//! a connection or a file. So the file behind descriptor 2 is remembered at the start, and if another one is there
//! later, lines go to it only if it can be meant for messages: a terminal, a pipe, or a file opened for appending.
//! A pipe that is full or has lost its reader loses the line; it neither blocks nor kills the program.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use sys::identity::{self, Identity};

const STDERR: i32 = 2;

/// A descriptor of our own with the log file; -1: standard error.
static OWN: AtomicI32 = AtomicI32::new(-1);
/// Whether lines go to [`OWN`].
static TO_FILE: AtomicBool = AtomicBool::new(false);
/// Whether [`OWN`] is a socket of the system's log.
static TO_SYSLOG: AtomicBool = AtomicBool::new(false);
/// Whether the two values below are those of the start; they stay zero if descriptor 2 was closed then.
static REMEMBERED: AtomicBool = AtomicBool::new(false);
/// Device and inode of descriptor 2 at the start.
static STDERR_DEVICE: AtomicU64 = AtomicU64::new(0);
static STDERR_INODE: AtomicU64 = AtomicU64::new(0);
/// Lines that could not be written.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Lines that could not be written since the start.
pub fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Remembers what descriptor 2 is; the first call counts. Best called by the library's constructor, before the
/// program can have closed or replaced it.
pub fn remember_stderr() {
    if REMEMBERED.swap(true, Ordering::Relaxed) {
        return;
    }
    if let Ok(stderr) = identity::identity(STDERR) {
        STDERR_DEVICE.store(stderr.device, Ordering::Relaxed);
        STDERR_INODE.store(stderr.inode, Ordering::Relaxed);
    }
}

/// Opens (and empties) the log file; on failure standard error is used and errno returned.
pub(crate) fn open(path: Option<&CStr>) -> Result<(), i32> {
    remember_stderr();
    TO_FILE.store(false, Ordering::Relaxed);
    let Some(path) = path.filter(|path| !path.is_empty()) else { return Ok(()) };
    let file = sys::file::open(path, OPEN_FLAGS, 0o644)?;
    adopt(Some(file), false)
}

/// From now on lines go to this file or socket, or to standard error.
pub(crate) fn adopt(file: Option<sys::Fd>, is_syslog: bool) -> Result<(), i32> {
    remember_stderr();
    TO_SYSLOG.store(is_syslog, Ordering::Relaxed);
    let Some(file) = file else {
        TO_FILE.store(false, Ordering::Relaxed);
        return Ok(());
    };
    match OWN.load(Ordering::Relaxed) {
        // Another thread may be writing: its number must stay valid.
        number @ 0.. => identity::replace(number, file)?,
        _ => {
            OWN.store(file.raw(), Ordering::Relaxed);
            // Open, hidden and close-on-exec until the process ends.
            core::mem::forget(file);
        }
    }
    TO_FILE.store(true, Ordering::Relaxed);
    Ok(())
}

/// A named pipe without a reader is an error (ENXIO), not a wait.
const OPEN_FLAGS: i32 =
    libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND | libc::O_NOCTTY | libc::O_NONBLOCK;

/// Whether somebody reads lines as they come: in a log file, or at a terminal. Other programs read pipes and files.
pub fn is_for_people() -> bool {
    TO_FILE.load(Ordering::Relaxed)
        || identity::identity(STDERR).is_ok_and(|kind| Target { fd: STDERR, kind }.is_terminal())
}

/// Whether lines go to the system's log.
pub(crate) fn is_syslog() -> bool {
    TO_SYSLOG.load(Ordering::Relaxed)
}

/// Where a line may go now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    fd: i32,
    kind: Identity,
}

/// The log file, or standard error if that is still what it was; `None`: nowhere.
pub(crate) fn current() -> Option<Target> {
    let to_file = TO_FILE.load(Ordering::Relaxed);
    let fd = if to_file { OWN.load(Ordering::Relaxed) } else { STDERR };
    let target = identity::identity(fd).ok().map(|kind| Target { fd, kind });
    let target = target.filter(|target| to_file || target.takes_messages());
    if target.is_none() {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
    target
}

impl Target {
    /// Whether this is the standard error of the start, or can be its successor.
    fn takes_messages(&self) -> bool {
        let (device, inode) = (STDERR_DEVICE.load(Ordering::Relaxed), STDERR_INODE.load(Ordering::Relaxed));
        if (self.kind.device, self.kind.inode) == (device, inode) {
            return true;
        }
        let appends =
            || sys::fd::fcntl(self.fd, libc::F_GETFL, 0).is_ok_and(|flags| flags & libc::O_APPEND != 0);
        self.kind.is(libc::S_IFCHR) || self.kind.is(libc::S_IFIFO) || self.kind.is(libc::S_IFREG) && appends()
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.kind.is(libc::S_IFCHR) && identity::is_terminal(self.fd)
    }

    /// One write(2); a line that cannot be written at once is lost and counted.
    pub(crate) fn write(&self, line: &[u8]) {
        let written = if self.kind.is(libc::S_IFSOCK) {
            let send = || sys::socket::send(self.fd, line, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT);
            match send() {
                // The system's log was started anew.
                Err(libc::ECONNREFUSED | libc::ENOTCONN) if is_syslog() => {
                    crate::libsdp::connect(self.fd).and_then(|()| send())
                }
                sent => sent,
            }
        } else if self.kind.is(libc::S_IFIFO) {
            self.write_to_pipe(line)
        } else {
            sys::fd::write(self.fd, line)
        };
        if written != Ok(line.len()) {
            LOST.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A pipe that polls writable has room for PIPE_BUF bytes, which is more than a line.
    fn write_to_pipe(&self, line: &[u8]) -> sys::Result<usize> {
        let mut one = [sys::poll::pollfd { fd: self.fd, events: libc::POLLOUT, revents: 0 }];
        sys::poll::poll(&mut one, Some(0), None)?;
        if one[0].revents & libc::POLLOUT == 0 || one[0].revents & libc::POLLERR != 0 {
            return Err(libc::EAGAIN);
        }
        sys::thread::without_sigpipe(|| sys::fd::write(self.fd, line))
    }
}
