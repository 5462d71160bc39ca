//! The socket functions that can be exchanged at run time, for `--load-vma` and `--load-xlio`.
//!
//! Everything else in the program calls libc in the ordinary way, so that `LD_PRELOAD` works as on any program.
//! The table is an array of pointers, which costs on the hot path what the call through the linker's table costs.

use std::ffi::{CString, c_int, c_void};
use std::sync::OnceLock;

use libc::{epoll_event, fd_set, msghdr, nfds_t, pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval};

use crate::address::text_of;
use crate::exit::{Code, Failure, Result};

macro_rules! table {
    ($($name:ident: fn($($arg:ty),*) -> $ret:ty;)*) => {
        /// One pointer for each exchangeable function, with libc's own meaning.
        #[derive(Clone, Copy)]
        #[allow(missing_docs)]
        pub struct Calls { $(pub $name: unsafe extern "C" fn($($arg),*) -> $ret,)* }

        /// The functions the program was linked with, which `LD_PRELOAD` may have replaced.
        const LINKED: Calls = Calls { $($name: libc::$name,)* };

        fn loaded(handle: *mut c_void) -> Calls {
            let mut calls = LINKED;
            $(
                let name = concat!(stringify!($name), "\0");
                // SAFETY: `handle` is an open library and `name` ends with NUL.
                let symbol = unsafe { libc::dlsym(handle, name.as_ptr().cast()) };
                if !symbol.is_null() {
                    // SAFETY: a library that stands in for libc gives this name libc's signature.
                    calls.$name = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) -> $ret>(symbol) };
                }
            )*
            calls
        }
    };
}

table! {
    socket: fn(c_int, c_int, c_int) -> c_int;
    close: fn(c_int) -> c_int;
    bind: fn(c_int, *const sockaddr, socklen_t) -> c_int;
    listen: fn(c_int, c_int) -> c_int;
    accept: fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    connect: fn(c_int, *const sockaddr, socklen_t) -> c_int;
    shutdown: fn(c_int, c_int) -> c_int;
    getsockname: fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    getpeername: fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    getsockopt: fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
    setsockopt: fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int;
    sendto: fn(c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t;
    recvfrom: fn(c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t;
    sendmsg: fn(c_int, *const msghdr, c_int) -> ssize_t;
    recvmsg: fn(c_int, *mut msghdr, c_int) -> ssize_t;
    poll: fn(*mut pollfd, nfds_t, c_int) -> c_int;
    select: fn(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *mut timeval) -> c_int;
    epoll_create1: fn(c_int) -> c_int;
    epoll_ctl: fn(c_int, c_int, c_int, *mut epoll_event) -> c_int;
    epoll_wait: fn(c_int, *mut epoll_event, c_int, c_int) -> c_int;
}

static TABLE: OnceLock<Calls> = OnceLock::new();

/// The functions in force.
#[inline]
pub fn calls() -> &'static Calls {
    TABLE.get().unwrap_or(&LINKED)
}

/// Sends every later call through the shared library `path`; names it lacks stay with libc.
pub fn load(path: &str) -> Result<()> {
    let name =
        CString::new(path).map_err(|_| Failure::new(Code::Argument, "library path holds a NUL byte"))?;
    // SAFETY: `name` is NUL-terminated; what the library's constructor does is the user's choice.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    if handle.is_null() {
        // SAFETY: dlerror has no precondition.
        let reason = text_of(unsafe { libc::dlerror() });
        return Err(Failure::new(Code::Argument, format!("cannot load {path}: {reason}")));
    }
    let _ = TABLE.set(loaded(handle));
    Ok(())
}
