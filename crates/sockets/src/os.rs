//! The genuine libc functions, handed down by `interpose` (tests hand down libc itself). They are used for the
//! application's descriptors only, so that cancellation points and other preload libraries keep working; our own
//! I/O goes through `sys`.

use libc::{
    c_int, c_void, epoll_event, fd_set, msghdr, nfds_t, pollfd, sigset_t, size_t, sockaddr, socklen_t,
    ssize_t, timespec,
};

/// Which library this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// libvma.so: sockets move to the wire.
    Vma,
    /// libsdp.so: rules say which stream sockets speak SDP; no interface is touched.
    Sdp,
}

/// A table of genuine functions.
#[allow(missing_docs)]
#[derive(Clone, Copy)]
pub struct Os {
    pub socket: unsafe extern "C-unwind" fn(c_int, c_int, c_int) -> c_int,
    pub close: unsafe extern "C-unwind" fn(c_int) -> c_int,
    pub bind: unsafe extern "C-unwind" fn(c_int, *const sockaddr, socklen_t) -> c_int,
    pub connect: unsafe extern "C-unwind" fn(c_int, *const sockaddr, socklen_t) -> c_int,
    pub listen: unsafe extern "C-unwind" fn(c_int, c_int) -> c_int,
    pub accept4: unsafe extern "C-unwind" fn(c_int, *mut sockaddr, *mut socklen_t, c_int) -> c_int,
    pub shutdown: unsafe extern "C-unwind" fn(c_int, c_int) -> c_int,
    pub getsockname: unsafe extern "C-unwind" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    pub getpeername: unsafe extern "C-unwind" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    pub getsockopt: unsafe extern "C-unwind" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    pub setsockopt: unsafe extern "C-unwind" fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    pub fcntl: unsafe extern "C-unwind" fn(c_int, c_int, usize) -> c_int,
    pub ioctl: unsafe extern "C-unwind" fn(c_int, usize, usize) -> c_int,
    pub dup: unsafe extern "C-unwind" fn(c_int) -> c_int,
    pub dup3: unsafe extern "C-unwind" fn(c_int, c_int, c_int) -> c_int,
    pub recvfrom: unsafe extern "C-unwind" fn(
        c_int,
        *mut c_void,
        size_t,
        c_int,
        *mut sockaddr,
        *mut socklen_t,
    ) -> ssize_t,
    pub send: unsafe extern "C-unwind" fn(c_int, *const c_void, size_t, c_int) -> ssize_t,
    pub recvmsg: unsafe extern "C-unwind" fn(c_int, *mut msghdr, c_int) -> ssize_t,
    pub sendmsg: unsafe extern "C-unwind" fn(c_int, *const msghdr, c_int) -> ssize_t,
    pub read: unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t) -> ssize_t,
    pub pread64: unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t, i64) -> ssize_t,
    pub lseek64: unsafe extern "C-unwind" fn(c_int, i64, c_int) -> i64,
    pub sendfile64: unsafe extern "C-unwind" fn(c_int, c_int, *mut i64, size_t) -> ssize_t,
    pub ppoll: unsafe extern "C-unwind" fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int,
    pub pselect: unsafe extern "C-unwind" fn(
        c_int,
        *mut fd_set,
        *mut fd_set,
        *mut fd_set,
        *const timespec,
        *const sigset_t,
    ) -> c_int,
    pub epoll_create1: unsafe extern "C-unwind" fn(c_int) -> c_int,
    pub epoll_ctl: unsafe extern "C-unwind" fn(c_int, c_int, c_int, *mut epoll_event) -> c_int,
    pub epoll_pwait:
        unsafe extern "C-unwind" fn(c_int, *mut epoll_event, c_int, c_int, *const sigset_t) -> c_int,
    pub epoll_pwait2: unsafe extern "C-unwind" fn(
        c_int,
        *mut epoll_event,
        c_int,
        *const timespec,
        *const sigset_t,
    ) -> c_int,
    /// Sets errno of the calling thread.
    pub set_errno: unsafe extern "C-unwind" fn(c_int),
    /// Errno of the calling thread.
    pub errno: unsafe extern "C-unwind" fn() -> c_int,
    /// pthread_testcancel(3): a wait that spins calls it now and then, holding no lock.
    pub testcancel: unsafe extern "C-unwind" fn(),
    /// Signal handlers of the application that have run in the calling thread. Handlers that came while this thread
    /// was inside a call of ours run now, or in `ppoll`, `pselect`, `epoll_pwait` and `epoll_pwait2` with time to wait,
    /// and may call back into everything or never return: hold no lock and no borrow.
    pub handled: fn() -> Handled,
    /// Runs the application's own code (a callback that it registered), in which signal handlers may run and which may
    /// call back into everything or never return: hold no lock and no borrow.
    pub outside: fn(&mut dyn FnMut()),
    /// A lane was opened: the process has sockets whose peers must be told when it ends ([`crate::calls::exiting`]),
    /// and a background thread ([`crate::calls::opened`]). Called for each lane.
    pub opened: fn(),
    /// Whether the program has rings of io_uring whose requests are not seen. Looks at every descriptor.
    pub has_unseen_rings: fn() -> bool,
    /// Whether the program has sets of epoll that were made past every hook. Looks at every descriptor.
    pub has_unseen_sets: fn() -> bool,
}

/// How many of the application's signal handlers have run in one thread; the counts wrap. A wait compares before and
/// after: any change of `without_restart` is EINTR; calls that SA_RESTART does not restart (poll, select, epoll_wait,
/// and those with a socket timeout) look at `all`.
///
/// A handler that runs between the last look and the sleep would be missed; so, before sleeping, block all signals
/// (`rt_sigprocmask`), look once more, sleep in `ppoll` with the mask that was, and restore it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handled {
    /// Every handler.
    pub all: u32,
    /// Those installed without SA_RESTART.
    pub without_restart: u32,
}
