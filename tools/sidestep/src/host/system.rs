//! The few calls that have no safe form in the standard library.

use std::io::Error;

/// SIGPIPE ends this process again, as it ends a C program: Rust's start-up code ignores it.
pub(crate) fn die_with_the_pipe() {
    // SAFETY: the default action is no handler, and nothing else here cares for SIGPIPE.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// An ethtool request about an interface. `data` begins with the command and has the size that the command asks for;
/// the kernel writes its answer there.
pub(super) fn ethtool(interface: &str, data: &mut [u32]) -> Result<(), i32> {
    const SIOCETHTOOL: u32 = 0x8946;
    /// `struct ifreq`: a name, and here a pointer.
    #[repr(C, align(8))]
    struct Request {
        name: [u8; 16],
        data: *mut u32,
        rest: [u8; 16],
    }
    if interface.is_empty() || interface.len() > 15 {
        return Err(libc::ENODEV);
    }
    let mut request = Request { name: [0; 16], data: data.as_mut_ptr(), rest: [0; 16] };
    request.name[..interface.len()].copy_from_slice(interface.as_bytes());
    let socket = sys::socket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    // SAFETY: the request points to `data`, which lives for the call; `super::ethtool` gives it the command's size.
    unsafe { sys::fd::ioctl(socket.raw(), SIOCETHTOOL, &mut request) }.map(|_| ())
}

/// The number of an interface in this network namespace; 0 if it is not there.
pub(super) fn index(interface: &str) -> u32 {
    let Ok(name) = std::ffi::CString::new(interface) else { return 0 };
    // SAFETY: a C string, which lives for the call.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

/// The kernel's view of the clock: synchronised, and the largest error in microseconds.
pub(super) fn clock() -> Result<(bool, u64), i32> {
    // SAFETY: zeros are a valid timex, which asks without changing anything.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: adjtimex reads and writes the structure given.
    let status = unsafe { libc::adjtimex(&mut state) };
    if status < 0 {
        return Err(Error::last_os_error().raw_os_error().unwrap_or(libc::EIO));
    }
    const STA_UNSYNC: i32 = 0x40;
    Ok((state.status & STA_UNSYNC == 0, u64::try_from(state.maxerror).unwrap_or(0)))
}

/// What waits for a process to end. The error says that there is none.
pub(crate) fn process_end(pid: i32) -> Result<impl FnOnce() -> Result<(), Error>, Error> {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    // SAFETY: pidfd_open takes two numbers.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let opened = i32::try_from(opened).ok().filter(|fd| *fd >= 0).ok_or_else(Error::last_os_error)?;
    // SAFETY: the kernel has just given us the descriptor.
    let process = unsafe { OwnedFd::from_raw_fd(opened) };
    Ok(move || {
        let mut wait = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        loop {
            // SAFETY: one pollfd, which lives for the call.
            match unsafe { libc::poll(&mut wait, 1, -1) } {
                1 => return Ok(()),
                _ if Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
                _ => return Err(Error::last_os_error()),
            }
        }
    })
}

/// Timers of this thread are not gathered with others.
pub(crate) fn timers_are_exact() {
    // SAFETY: PR_SET_TIMERSLACK takes a number and concerns the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// This thread gets a network namespace of its own.
pub(crate) fn new_network() -> Result<(), Error> {
    // SAFETY: CLONE_NEWNET concerns the calling thread alone.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })
}

/// This thread goes into a network namespace.
pub(crate) fn enter_network(namespace: i32) -> Result<(), Error> {
    // SAFETY: setns takes two numbers, and concerns the calling thread alone.
    check(unsafe { libc::setns(namespace, libc::CLONE_NEWNET) })
}

fn check(result: i32) -> Result<(), Error> {
    if result < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

/// The effective group of this process.
pub(crate) fn group() -> u32 {
    // SAFETY: no arguments.
    unsafe { libc::getegid() }
}

/// Whether the program has capabilities of its own (setcap(8)).
pub(crate) fn has_capabilities(program: &std::path::Path) -> bool {
    let Ok(path) = std::ffi::CString::new(program.as_os_str().as_encoded_bytes()) else { return false };
    // SAFETY: two C strings; no room for the value is asked for.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), core::ptr::null_mut(), 0) > 0 }
}
