//! Descriptors as such: closing, duplicating, controlling; and the calls that make other kinds of them, which matter
//! only because the number they return may be one that we still remember.

use crate::inside::opening;
use crate::start::{cancellable, gave, is_as_in_parent, is_in_parents_memory, own_process, running};
use crate::table::hooks;
use libc::{F_DUPFD, F_DUPFD_CLOEXEC, F_SETFD, FD_CLOEXEC, c_int, c_uint};
use sockets::{Answer, Stop, Why, calls};

/// Our own descriptors do not exist for the application.
fn hidden(fd: c_int) -> Result<(), Stop> {
    match calls::is_internal(fd) {
        true => Err(Stop::Errno(libc::EBADF)),
        false => Ok(()),
    }
}

/// Goes on when changing this number concerns us. Others are the kernel's at once, and so are all in a vfork child.
fn concerns(fd: c_int) -> Result<(), Stop> {
    match calls::knows(fd) && own_process() {
        true => hidden(fd),
        false => Err(Stop::Kernel(Why::NotOurs)),
    }
}

/// A vfork child duplicates a socket, or lets exec leave it open, for the program that it starts.
fn is_for_program(fd: c_int) {
    if calls::knows(fd) && is_in_parents_memory() && is_as_in_parent(fd) {
        calls::hand_on(fd, Why::Executed);
    }
}

/// A descriptor of a kind that is never ours. Making it may take long: opening a FIFO waits for the other side.
fn made(genuine: impl FnOnce() -> c_int) -> Answer<c_int> {
    Ok(gave(opening(genuine)))
}

/// The answer; when it is the kernel's, the descriptor that `genuine` made, which is not ours.
fn or_gave(answer: Answer<c_int>, genuine: impl FnOnce() -> c_int) -> Answer<c_int> {
    match answer {
        Err(Stop::Kernel(_)) => made(genuine),
        answer => answer,
    }
}

/// dup3(2), and dup2(2) with `flags` -1.
unsafe fn duplicate(fd: c_int, to: c_int, flags: c_int) -> Answer<c_int> {
    is_for_program(fd);
    concerns(if calls::knows(fd) { fd } else { to })?;
    hidden(to)?;
    // SAFETY: no pointers.
    unsafe { calls::dup3(fd, to, flags) }
}

/// fcntl(2). The argument is a register's worth; the command says whether it means anything.
unsafe fn control(
    fd: c_int,
    command: c_int,
    argument: usize,
    genuine: unsafe extern "C-unwind" fn(c_int, c_int, usize) -> c_int,
) -> Answer<c_int> {
    // SAFETY: the caller's promise.
    unsafe {
        match command {
            F_DUPFD | F_DUPFD_CLOEXEC => {
                is_for_program(fd);
                let answer = concerns(fd).and_then(|()| calls::fcntl(fd, command, argument));
                or_gave(answer, || genuine(fd, command, argument))
            }
            _ if !calls::knows(fd) => Err(Stop::Kernel(Why::NotOurs)),
            F_SETFD if argument as c_int & FD_CLOEXEC == 0 => {
                is_for_program(fd);
                hidden(fd).and_then(|()| calls::fcntl(fd, command, argument))
            }
            _ => hidden(fd).and_then(|()| calls::fcntl(fd, command, argument)),
        }
    }
}

hooks! { cancellable:
    fn close(fd: c_int) -> c_int {
        concerns(fd)?;
        calls::close(fd)
    }

    ; running:
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        match own_process() {
            true => calls::close_range(first, last, flags),
            false => Err(Stop::Kernel(Why::NotOurs)),
        }
    }

    fn closefrom(first: c_int) {
        match own_process() {
            true => calls::close_range(first.max(0) as c_uint, c_uint::MAX, 0).map(|_| ()),
            false => Err(Stop::Kernel(Why::NotOurs)),
        }
    }

    fn dup(fd: c_int) -> c_int {
        is_for_program(fd);
        or_gave(concerns(fd).and_then(|()| calls::dup(fd)), || genuine::dup(fd))
    }

    // Nothing becomes of equal numbers: what we know of them stays true.
    fn dup2(fd: c_int, to: c_int) -> c_int {
        match duplicate(fd, to, -1) {
            Err(Stop::Kernel(why)) if fd == to => Err(Stop::Kernel(why)),
            answer => or_gave(answer, || genuine::dup2(fd, to)),
        }
    }

    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
        or_gave(duplicate(fd, to, flags), || genuine::dup3(fd, to, flags))
    }

    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
        control(fd, command, argument, genuine::fcntl)
    }

    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
        control(fd, command, argument, genuine::fcntl64)
    }

    fn ioctl(fd: c_int, request: usize, argument: usize) -> c_int {
        let genuine = || genuine::ioctl(fd, request, argument);
        calls::steady(fd, || calls::ioctl(fd, request, argument), genuine)
    }
}

/// Calls that return a descriptor, or two, which is never a socket of ours.
pub(crate) mod makers {
    use super::*;
    use libc::c_char;
    type Sigset = *const libc::sigset_t;
    type Path = *const c_char;

    unsafe fn pair(made: c_int, fds: *const c_int) -> Answer<c_int> {
        if made == 0 {
            // SAFETY: the kernel filled both.
            unsafe {
                gave(*fds);
                gave(*fds.add(1));
            }
        }
        Ok(made)
    }

    hooks! { running:
        fn pipe(fds: *mut c_int) -> c_int { pair(genuine::pipe(fds), fds) }
        fn pipe2(fds: *mut c_int, flags: c_int) -> c_int { pair(genuine::pipe2(fds, flags), fds) }

        fn open(path: Path, flags: c_int, mode: c_uint) -> c_int { made(|| genuine::open(path, flags, mode)) }
        fn open64(path: Path, flags: c_int, mode: c_uint) -> c_int { made(|| genuine::open64(path, flags, mode)) }
        fn openat(at: c_int, path: Path, flags: c_int, mode: c_uint) -> c_int {
            made(|| genuine::openat(at, path, flags, mode))
        }
        fn openat64(at: c_int, path: Path, flags: c_int, mode: c_uint) -> c_int {
            made(|| genuine::openat64(at, path, flags, mode))
        }
        fn __open_2(path: Path, flags: c_int) -> c_int { made(|| genuine::__open_2(path, flags)) }
        fn __open64_2(path: Path, flags: c_int) -> c_int { made(|| genuine::__open64_2(path, flags)) }
        fn __openat_2(at: c_int, path: Path, flags: c_int) -> c_int { made(|| genuine::__openat_2(at, path, flags)) }
        fn __openat64_2(at: c_int, path: Path, flags: c_int) -> c_int {
            made(|| genuine::__openat64_2(at, path, flags))
        }
        fn creat(path: Path, mode: c_uint) -> c_int { made(|| genuine::creat(path, mode)) }
        fn creat64(path: Path, mode: c_uint) -> c_int { made(|| genuine::creat64(path, mode)) }
        fn mkstemp(path: *mut c_char) -> c_int { made(|| genuine::mkstemp(path)) }
        fn mkstemp64(path: *mut c_char) -> c_int { made(|| genuine::mkstemp64(path)) }
        fn mkostemp(path: *mut c_char, flags: c_int) -> c_int { made(|| genuine::mkostemp(path, flags)) }
        fn mkostemp64(path: *mut c_char, flags: c_int) -> c_int { made(|| genuine::mkostemp64(path, flags)) }
        fn shm_open(path: Path, flags: c_int, mode: c_uint) -> c_int { made(|| genuine::shm_open(path, flags, mode)) }
        fn memfd_create(name: Path, flags: c_uint) -> c_int { made(|| genuine::memfd_create(name, flags)) }

        fn eventfd(count: c_uint, flags: c_int) -> c_int { made(|| genuine::eventfd(count, flags)) }
        fn timerfd_create(clock: c_int, flags: c_int) -> c_int { made(|| genuine::timerfd_create(clock, flags)) }
        fn signalfd(fd: c_int, mask: Sigset, flags: c_int) -> c_int { made(|| genuine::signalfd(fd, mask, flags)) }
        fn inotify_init() -> c_int { made(|| genuine::inotify_init()) }
        fn inotify_init1(flags: c_int) -> c_int { made(|| genuine::inotify_init1(flags)) }
        fn pidfd_open(process: c_int, flags: c_uint) -> c_int { made(|| genuine::pidfd_open(process, flags)) }
        fn pidfd_getfd(pidfd: c_int, fd: c_int, flags: c_uint) -> c_int {
            made(|| genuine::pidfd_getfd(pidfd, fd, flags))
        }
    }
}
