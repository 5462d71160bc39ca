//! Making, naming, connecting and setting sockets.

use crate::inside::opening;
use crate::start::{enabled, ensure, gave, own_process, running};
use crate::table::hooks;
use libc::{AF_INET, AF_INET6, SOCK_DGRAM, SOCK_STREAM, c_int, c_void, sockaddr, socklen_t};
use sockets::{Answer, Stop, Why, calls};

/// The low bits of a socket's type; above them are SOCK_NONBLOCK and SOCK_CLOEXEC.
const KIND: c_int = 0xf;

/// Whether the next byte to read is where urgent data was (asm-generic/sockios.h).
const SIOCATMARK: usize = 0x8905;

/// Whether this could be accelerated, in which case everything starts; or, once it has, is worth counting.
fn candidate(domain: c_int, kind: c_int) -> bool {
    let started = match domain {
        AF_INET => ensure,
        AF_INET6 => running,
        _ => return false,
    };
    matches!(kind & KIND, SOCK_STREAM | SOCK_DGRAM) && started() && own_process()
}

/// The answer; when it is the kernel's, the descriptor that `genuine` made, which is not ours.
fn or_gave(answer: Answer<c_int>, genuine: impl FnOnce() -> c_int) -> Answer<c_int> {
    match answer {
        Err(Stop::Kernel(_)) => Ok(gave(opening(genuine))),
        answer => answer,
    }
}

/// Rows that run before anything is started: they are how the first candidate is noticed.
pub(crate) mod first {
    use super::*;

    hooks! { enabled:
        fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
            let answer = match candidate(domain, kind) {
                true => calls::socket(domain, kind, protocol),
                false => Err(Stop::Kernel(Why::NotOurs)),
            };
            or_gave(answer, || genuine::socket(domain, kind, protocol))
        }
    }
}

hooks! { running:
    fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
        calls::bind(fd, address, len)
    }

    fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
        calls::connect(fd, address, len)
    }

    fn listen(fd: c_int, backlog: c_int) -> c_int {
        calls::listen(fd, backlog)
    }

    fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        or_gave(calls::accept4(fd, address, len, 0), || genuine::accept(fd, address, len))
    }

    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        or_gave(calls::accept4(fd, address, len, flags), || genuine::accept4(fd, address, len, flags))
    }

    fn shutdown(fd: c_int, how: c_int) -> c_int {
        calls::shutdown(fd, how)
    }

    fn getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        calls::getsockname(fd, address, len)
    }

    fn getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        calls::getpeername(fd, address, len)
    }

    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
        calls::getsockopt(fd, level, name, value, len)
    }

    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
        calls::setsockopt(fd, level, name, value, len)
    }

    fn sockatmark(fd: c_int) -> c_int {
        let mut at_mark: c_int = 0;
        calls::ioctl(fd, SIOCATMARK, &raw mut at_mark as usize).map(|_| at_mark)
    }

    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, fds: *mut c_int) -> c_int {
        let made = genuine::socketpair(domain, kind, protocol, fds);
        if made == 0 {
            gave(*fds);
            gave(*fds.add(1));
        }
        Ok(made)
    }
}
