//! Processes, and system calls made by number. fork(3) is followed by `pthread_atfork`, daemon(3) and popen(3) use
//! fork or spawn, and vfork must not be hooked: its child returns through the caller's frame.

use crate::hooks::{aio, confine, data, descriptor, socket, wait};
use crate::inside::opening;
use crate::start::{
    bare_child, copying, enabled, ending, executing, gave, is_as_in_parent, is_in_parents_memory,
    own_process, running,
};
use crate::table::hooks;
use libc::{c_char, c_int, c_long, c_void};
use sockets::{Answer, Stop, Why, calls};

/// Routes a system call that touches sockets or descriptors to its hook; `None`: none of those. Raw calls return
/// through `syscall` like libc functions: -1 and errno.
unsafe fn routed(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> Option<c_long> {
    let fd = a as c_int;
    // SAFETY: the application's arguments, which are the same as those of the function.
    let result = unsafe {
        match number {
            libc::SYS_read => return Some(data::read(fd, b as _, c) as c_long),
            libc::SYS_write => return Some(data::write(fd, b as _, c) as c_long),
            libc::SYS_readv => return Some(data::readv(fd, b as _, c as c_int) as c_long),
            libc::SYS_writev => return Some(data::writev(fd, b as _, c as c_int) as c_long),
            libc::SYS_recvfrom => {
                return Some(data::recvfrom(fd, b as _, c, d as c_int, e as _, f as _) as c_long);
            }
            libc::SYS_sendto => {
                return Some(data::sendto(fd, b as _, c, d as c_int, e as _, f as _) as c_long);
            }
            libc::SYS_recvmsg => return Some(data::recvmsg(fd, b as _, c as c_int) as c_long),
            libc::SYS_sendmsg => return Some(data::sendmsg(fd, b as _, c as c_int) as c_long),
            libc::SYS_preadv2 => {
                return Some(data::preadv2(fd, b as _, c as c_int, d as i64, f as c_int) as c_long);
            }
            libc::SYS_pwritev2 => {
                return Some(data::pwritev2(fd, b as _, c as c_int, d as i64, f as c_int) as c_long);
            }
            libc::SYS_recvmmsg => data::recvmmsg(fd, b as _, c as _, d as c_int, e as _),
            libc::SYS_sendmmsg => data::sendmmsg(fd, b as _, c as _, d as c_int),
            libc::SYS_socket => socket::first::socket(fd, b as c_int, c as c_int),
            libc::SYS_bind => socket::bind(fd, b as _, c as _),
            libc::SYS_connect => socket::connect(fd, b as _, c as _),
            libc::SYS_listen => socket::listen(fd, b as c_int),
            libc::SYS_socketpair => socket::socketpair(fd, b as c_int, c as c_int, d as _),
            libc::SYS_getsockname => socket::getsockname(fd, b as _, c as _),
            libc::SYS_getpeername => socket::getpeername(fd, b as _, c as _),
            libc::SYS_sendfile => return Some(data::sendfile(fd, b as c_int, c as _, d) as c_long),
            libc::SYS_splice => {
                return Some(data::splice(fd, b as _, c as c_int, d as _, e, f as _) as c_long);
            }
            libc::SYS_execve => exec::execve(a as _, b as _, c as _),
            libc::SYS_execveat => exec::execveat(fd, b as _, c as _, d as _, e as c_int),
            libc::SYS_accept4 => socket::accept4(fd, b as _, c as _, d as c_int),
            libc::SYS_shutdown => socket::shutdown(fd, b as c_int),
            libc::SYS_getsockopt => socket::first::getsockopt(fd, b as c_int, c as c_int, d as _, e as _),
            libc::SYS_setsockopt => socket::setsockopt(fd, b as c_int, c as c_int, d as _, e as _),
            libc::SYS_close => descriptor::close(fd),
            libc::SYS_close_range => descriptor::close_range(fd as _, b as _, c as c_int),
            libc::SYS_pipe2 => descriptor::makers::pipe2(a as _, b as c_int),
            libc::SYS_openat => descriptor::makers::openat(fd, b as _, c as c_int, d as _),
            libc::SYS_dup => descriptor::dup(fd),
            libc::SYS_dup3 => descriptor::dup3(fd, b as c_int, c as c_int),
            libc::SYS_fcntl => descriptor::fcntl(fd, b as c_int, c),
            libc::SYS_ioctl => descriptor::ioctl(fd, b, c),
            libc::SYS_epoll_create1 => wait::first::epoll_create1(fd),
            libc::SYS_epoll_ctl => wait::epoll_ctl(fd, b as c_int, c as c_int, d as _),
            libc::SYS_epoll_pwait => wait::epoll_pwait(fd, b as _, c as c_int, d as c_int, e as _),
            libc::SYS_epoll_pwait2 => wait::epoll_pwait2(fd, b as _, c as c_int, d as _, e as _),
            libc::SYS_ppoll => wait::raw::ppoll(a as _, b as _, c as _, d as _),
            libc::SYS_pselect6 => wait::raw::pselect6(fd, b as _, c as _, d as _, e as _, f as _),
            libc::SYS_io_submit => {
                aio::submitting(b as c_long, c as _);
                return None;
            }
            libc::SYS_io_uring_setup => {
                let ring = gave(genuine::syscall(number, a, b, c, d, e, f) as c_int);
                if ring >= 0 {
                    calls::rings_are_unseen();
                }
                ring
            }
            number if makes_descriptor(number) => gave(genuine::syscall(number, a, b, c, d, e, f) as c_int),
            _ => return routed_old(number, a, b, c, d, e),
        }
    };
    Some(c_long::from(result))
}

/// The same before anything is started: what makes the first socket or epoll set, as libc's functions do.
unsafe fn routed_first(number: c_long, a: usize, b: usize, c: usize) -> Option<c_long> {
    let first = a as c_int;
    // SAFETY: as in `routed`.
    let result = unsafe {
        match number {
            libc::SYS_socket => socket::first::socket(first, b as c_int, c as c_int),
            libc::SYS_epoll_create1 => wait::first::epoll_create1(first),
            libc::SYS_epoll_create => wait::first::epoll_create(first),
            _ => return None,
        }
    };
    Some(c_long::from(result))
}

/// What comes before system calls that end the process, or copy it past libc's fork.
///
/// # Safety
/// `a` is the first argument of the call; for clone3 a valid structure, or nothing that the kernel would accept.
unsafe fn foresee(number: c_long, a: usize) {
    let flags = match number {
        libc::SYS_exit_group => return ending(),
        libc::SYS_clone => a,
        // SAFETY: by the caller; the flags come first.
        libc::SYS_clone3 if a != 0 => unsafe { (a as *const u64).read_unaligned() as usize },
        libc::SYS_fork => 0,
        _ => return,
    };
    // A thread, and a vfork child, share this memory.
    if flags & libc::CLONE_VM as usize == 0 {
        copying();
    }
}

/// Whether a system call without a hook returns a new descriptor, whose number may have been a socket's of ours.
fn makes_descriptor(number: c_long) -> bool {
    if matches!(number, libc::SYS_open | libc::SYS_creat | libc::SYS_eventfd | libc::SYS_inotify_init) {
        return true;
    }
    matches!(
        number,
        libc::SYS_eventfd2
            | libc::SYS_timerfd_create
            | libc::SYS_signalfd4
            | libc::SYS_inotify_init1
            | libc::SYS_memfd_create
            | libc::SYS_memfd_secret
            | libc::SYS_openat2
            | libc::SYS_open_by_handle_at
            | libc::SYS_pidfd_open
            | libc::SYS_pidfd_getfd
            | libc::SYS_perf_event_open
            | libc::SYS_userfaultfd
            | libc::SYS_fanotify_init
            | libc::SYS_mq_open
    )
}

/// The system calls that only older architectures have.
unsafe fn routed_old(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize) -> Option<c_long> {
    let fd = a as c_int;
    // SAFETY: as in `routed`.
    let result = unsafe {
        match number {
            libc::SYS_accept => socket::accept(fd, b as _, c as _),
            libc::SYS_dup2 => descriptor::dup2(fd, b as c_int),
            libc::SYS_poll => wait::poll(a as _, b as _, c as c_int),
            libc::SYS_select => wait::select(fd, b as _, c as _, d as _, e as _),
            libc::SYS_epoll_wait => wait::epoll_wait(fd, b as _, c as c_int, d as c_int),
            libc::SYS_epoll_create => wait::first::epoll_create(fd),
            libc::SYS_pipe => descriptor::makers::pipe(a as _),
            _ => return None,
        }
    };
    Some(c_long::from(result))
}

hooks! { enabled:
    // A C variadic; six words cover every system call.
    fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
        // The hooks count themselves in.
        let answer = || {
            if !running() {
                return routed_first(number, a, b, c);
            }
            foresee(number, a);
            routed(number, a, b, c, d, e, f).or_else(|| confine::routed(number, [a, b, c, d, e, f]))
        };
        match opening(answer) {
            Some(result) => Ok(result),
            None => Err(Stop::Kernel(Why::NotOurs)),
        }
    }

    ; running:
    // The destructors that `exit` runs are not run here; what was sent must leave all the same.
    fn _exit(status: c_int) {
        ending();
        Err::<(), _>(Stop::Kernel(Why::NotOurs))
    }

    fn _Exit(status: c_int) {
        ending();
        Err::<(), _>(Stop::Kernel(Why::NotOurs))
    }
}

/// Rows that run before anything is started, and those that return in two processes.
pub(crate) mod first {
    use super::*;

    hooks! { enabled:
        // The fork that runs no atfork handlers.
        fn _Fork() -> c_int {
            copying();
            let child = genuine::_Fork();
            if child == 0 {
                bare_child();
            }
            Ok(child)
        }

        // A C variadic, as `syscall`. Children with memory of their own go the way of a bare system call.
        fn clone(
            entry: extern "C" fn(*mut c_void) -> c_int,
            stack: *mut c_void,
            flags: c_int,
            argument: *mut c_void,
            parent: usize,
            storage: usize,
            child: usize,
        ) -> c_int {
            if flags & libc::CLONE_VM == 0 {
                copying();
            }
            Err::<c_int, _>(Stop::Kernel(Why::NotOurs))
        }

        // libc's forks, and ends the parent without a word that could be heard here: connections go to the child at the
        // parent's end. So there is a fork before, and libc's parent has nothing to leave.
        fn daemon(keep_directory: c_int, keep_open: c_int) -> c_int {
            if running() {
                match libc::fork() {
                    -1 => return Err(Stop::Errno(*libc::__errno_location())),
                    0 => {}
                    _ => {
                        ending();
                        super::genuine::_exit(0);
                    }
                }
            }
            let result = genuine::daemon(keep_directory, keep_open);
            if result == 0 && keep_open == 0 {
                // libc's own dup2 puts /dev/null in place of the first three.
                (0..3).for_each(|fd| _ = gave(fd));
            }
            Ok(result)
        }
    }
}

/// Another program takes the place of this one, or begins beside it. (execl and its kin are in `variadic.rs`.)
pub(crate) mod exec {
    use super::*;
    use core::ffi::CStr;
    type Words = *const *const c_char;

    /// Whether it can succeed: after a call that fails the program goes on, with its connections.
    pub(in crate::hooks) unsafe fn is_program(path: *const c_char) -> bool {
        sys::file::is_program(path)
    }

    /// As execvp(3) looks for it.
    pub(in crate::hooks) unsafe fn is_found(name: *const c_char) -> bool {
        if name.is_null() {
            return false;
        }
        // SAFETY: the application's name.
        let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
        if bytes.contains(&b'/') {
            // SAFETY: as above.
            return unsafe { is_program(name) };
        }
        // SAFETY: reads the environment, which the application does not change meanwhile.
        let path = unsafe { libc::getenv(c"PATH".as_ptr()) };
        // SAFETY: null, or a string of the environment.
        let path = if path.is_null() { b"/bin:/usr/bin" } else { unsafe { CStr::from_ptr(path) }.to_bytes() };
        path.split(|byte| *byte == b':').any(|folder| {
            let folder = if folder.is_empty() { b"." } else { folder };
            let whole = [folder, b"/", bytes, b"\0"].concat();
            // SAFETY: it ends with a null byte.
            unsafe { is_program(whole.as_ptr().cast()) }
        })
    }

    /// The kernel's, after what must come before. A vfork child goes away from its parent's memory, and only sees to
    /// what the new program gets.
    pub(in crate::hooks) fn after_leaving(leaves: impl FnOnce() -> bool) -> Answer<c_int> {
        if own_process() {
            if leaves() {
                executing();
            }
        } else if is_in_parents_memory() && leaves() {
            calls::starting_program(is_as_in_parent);
        }
        Err(Stop::Kernel(Why::NotOurs))
    }

    /// The same for posix_spawn(3).
    fn after_lending(begins: impl FnOnce() -> bool) -> Answer<c_int> {
        if own_process() && begins() {
            calls::starting_program(|_| true);
        }
        Err(Stop::Kernel(Why::NotOurs))
    }

    type Actions = *mut libc::posix_spawn_file_actions_t;
    type Attributes = *const libc::posix_spawnattr_t;

    hooks! { running:
        fn execve(path: *const c_char, arguments: Words, environment: Words) -> c_int {
            after_leaving(|| is_program(path))
        }

        fn execv(path: *const c_char, arguments: Words) -> c_int {
            after_leaving(|| is_program(path))
        }

        fn execvp(name: *const c_char, arguments: Words) -> c_int {
            after_leaving(|| is_found(name))
        }

        fn execvpe(name: *const c_char, arguments: Words, environment: Words) -> c_int {
            after_leaving(|| is_found(name))
        }

        fn fexecve(fd: c_int, arguments: Words, environment: Words) -> c_int {
            after_leaving(|| true)
        }

        fn execveat(at: c_int, path: *const c_char, arguments: Words, environment: Words, flags: c_int) -> c_int {
            after_leaving(|| true)
        }

        fn posix_spawn(
            process: *mut c_int,
            path: *const c_char,
            actions: Actions,
            attributes: Attributes,
            arguments: Words,
            environment: Words,
        ) -> c_int {
            after_lending(|| is_program(path))
        }

        fn posix_spawnp(
            process: *mut c_int,
            name: *const c_char,
            actions: Actions,
            attributes: Attributes,
            arguments: Words,
            environment: Words,
        ) -> c_int {
            after_lending(|| is_found(name))
        }

        // libc makes the duplicate in the child, unseen.
        fn posix_spawn_file_actions_adddup2(actions: Actions, fd: c_int, to: c_int) -> c_int {
            if own_process() {
                calls::hand_on(fd, Why::Executed);
            }
            Err(Stop::Kernel(Why::NotOurs))
        }
    }
}
