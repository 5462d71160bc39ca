//! Making, naming, connecting and setting sockets.

use super::sdp::{self, Name};
use crate::extra;
use crate::genuine::{errno, set_errno};
use crate::inside::opening;
use crate::start::{cancellable, enabled, ensure, gave, is_sdp, own_process, running};
use crate::table::hooks;
use libc::{AF_INET, AF_INET6, SOCK_DGRAM, SOCK_STREAM, c_int, c_void, sockaddr, socklen_t};
use sockets::calls::sdp::Connects;
use sockets::{Answer, Stop, Why, calls};
use sys::linux::SIOCATMARK;

/// The low bits of a socket's type; above them are SOCK_NONBLOCK and SOCK_CLOEXEC.
const KIND: c_int = 0xf;

/// Whether this could be accelerated, in which case everything starts; or, once it has, is worth counting.
fn candidate(domain: c_int, kind: c_int) -> bool {
    let started = match domain {
        AF_INET => ensure,
        // Stream sockets get connections over IPv4, too.
        AF_INET6 if kind & KIND == SOCK_STREAM => ensure,
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

/// As [`or_gave`], for what is accepted by `listener`: the socket layer may know that one, and want to know this.
fn or_accepted(
    answer: Answer<c_int>,
    listener: c_int,
    flags: c_int,
    (address, len): (*mut sockaddr, *mut socklen_t),
    genuine: impl FnOnce() -> c_int,
) -> Answer<c_int> {
    let is_genuine = matches!(answer, Err(Stop::Kernel(_)));
    // SAFETY: the application's pointers.
    let room = if is_genuine { unsafe { calls::accepts(listener, address, len) } } else { None };
    let fd = or_gave(answer, genuine)?;
    if is_genuine && fd >= 0 && calls::knows(listener) && own_process() {
        if let Some(room) = room {
            // SAFETY: the application's pointers, to what the kernel wrote there.
            unsafe { calls::took_client((listener, fd), flags, address, len, room) };
        }
        calls::accepted(listener, fd, flags);
    }
    Ok(fd)
}

/// accept(2) of libsdp.so, by the `genuine` one: who must speak SDP and does not is reset, and the next one accepted;
/// or the call fails, where the program has looked whether there is a client, and there was only this one.
fn accept_sdp(call: &str, listener: c_int, flags: c_int, genuine: impl Fn() -> c_int) -> Answer<c_int> {
    loop {
        let fd = gave(sdp::called(Err(Stop::Kernel(Why::NotOurs)), call, listener, &genuine)?);
        if fd < 0 || !calls::knows(listener) || !own_process() || calls::accepted(listener, fd, flags) {
            return Ok(fd);
        }
        sdp::reset(fd);
        if !calls::accepts_next(listener) {
            return Err(Stop::Errno(libc::ECONNABORTED));
        }
    }
}

/// Rows that run before anything is started: they are how the first candidate is noticed.
pub(crate) mod first {
    use super::*;

    hooks! { enabled:
        fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
            if is_sdp() {
                let genuine = |domain, kind, protocol| genuine::socket(domain, kind, protocol);
                return Ok(sdp::socket(domain, kind, protocol, genuine));
            }
            let answer = match candidate(domain, kind) {
                true => calls::socket(domain, kind, protocol),
                false => Err(Stop::Kernel(Why::NotOurs)),
            };
            or_gave(answer, || genuine::socket(domain, kind, protocol))
        }

        // Descriptor -1 is asked for the table of the extra API before there is any socket.
        fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
            match running() {
                _ if fd == -1 && !is_sdp() => extra::asked_for(fd, level, name, value, len),
                true => calls::steady(
                    fd,
                    || calls::getsockopt(fd, level, name, value, len),
                    || genuine::getsockopt(fd, level, name, value, len),
                ),
                false => Err(Stop::Kernel(Why::NotOurs)),
            }
        }
    }
}

hooks! { running:
    fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
        if is_sdp() {
            let name = Name::new(address, len);
            return Ok(name.call("bind", fd, |address| genuine::bind(fd, address, len)));
        }
        calls::bind(fd, address, len)
    }

    fn listen(fd: c_int, backlog: c_int) -> c_int {
        let answer = match is_sdp() {
            true => sdp::called(calls::listen(fd, backlog), "listen", fd, || genuine::listen(fd, backlog)),
            false => calls::steady(fd, || calls::listen(fd, backlog), || genuine::listen(fd, backlog)),
        };
        if answer == Ok(0) && is_sdp() {
            sdp::listens(fd, genuine::getsockname);
        }
        answer
    }

    fn shutdown(fd: c_int, how: c_int) -> c_int {
        calls::steady(fd, || calls::shutdown(fd, how), || genuine::shutdown(fd, how))
    }

    fn getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        let genuine = || genuine::getsockname(fd, address, len);
        calls::steady(fd, || calls::getsockname(fd, address, len), genuine)
    }

    fn getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        let genuine = || genuine::getpeername(fd, address, len);
        calls::steady(fd, || calls::getpeername(fd, address, len), genuine)
    }

    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
        calls::setsockopt(fd, level, name, value, len)
    }

    fn sockatmark(fd: c_int) -> c_int {
        let mut at_mark: c_int = 0;
        let ours = || calls::ioctl(fd, SIOCATMARK as usize, &raw mut at_mark as usize).map(|_| at_mark);
        calls::steady(fd, ours, || genuine::sockatmark(fd))
    }

    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, fds: *mut c_int) -> c_int {
        let made = genuine::socketpair(domain, kind, protocol, fds);
        if made == 0 {
            gave(*fds);
            gave(*fds.add(1));
        }
        Ok(made)
    }

    ; cancellable:
    fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
        if is_sdp() {
            let name = Name::new(address, len);
            let connects = name.address.map(|to| (to, calls::sdp::connects(fd, to)));
            if let Some((_, Connects::Refused(errno))) = connects {
                return Err(Stop::Errno(errno));
            }
            let value = name.call("connect", fd, |address| genuine::connect(fd, address, len));
            let failure = errno();
            if let Some((to, connects)) = connects
                && (value == 0 || matches!(failure, libc::EINPROGRESS | libc::EINTR))
            {
                calls::sdp::connected(fd, to, connects);
                set_errno(failure);
            }
            return Ok(value);
        }
        let genuine = || opening(|| genuine::connect(fd, address, len));
        calls::steady_wait(fd, || calls::connect(fd, address, len), genuine)
    }

    fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        let answer = calls::accept4(fd, address, len, 0);
        if is_sdp() && matches!(answer, Err(Stop::Kernel(_))) {
            return accept_sdp("accept", fd, 0, || genuine::accept(fd, address, len));
        }
        or_accepted(answer, fd, 0, (address, len), || genuine::accept(fd, address, len))
    }

    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        let answer = calls::accept4(fd, address, len, flags);
        if is_sdp() && matches!(answer, Err(Stop::Kernel(_))) {
            return accept_sdp("accept4", fd, flags, || genuine::accept4(fd, address, len, flags));
        }
        or_accepted(answer, fd, flags, (address, len), || genuine::accept4(fd, address, len, flags))
    }
}
