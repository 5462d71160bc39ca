//! The only mapping from engine and device errors to errno.

use crate::answer::Stop;
use stack::tcp::ConnectError;
use stack::{RecvError, SendError, SocketError};

/// What a socket's pending error is called by the kernel.
pub(crate) fn of_socket(error: SocketError) -> i32 {
    match error {
        SocketError::Refused => libc::ECONNREFUSED,
        SocketError::Reset => libc::ECONNRESET,
        SocketError::BrokenPipe => libc::EPIPE,
        SocketError::TimedOut => libc::ETIMEDOUT,
        SocketError::HostUnreachable => libc::EHOSTUNREACH,
        SocketError::NetUnreachable => libc::ENETUNREACH,
        SocketError::ProtocolUnreachable => libc::ENOPROTOOPT,
        SocketError::MessageTooBig => libc::EMSGSIZE,
        SocketError::Aborted => libc::ECONNABORTED,
    }
}

/// A failed send; `WouldBlock` is EAGAIN.
pub(crate) fn of_send(error: SendError) -> i32 {
    match error {
        SendError::WouldBlock => libc::EAGAIN,
        SendError::Closed => libc::EPIPE,
        SendError::NotConnected => libc::ENOTCONN,
        SendError::NoSocket => libc::EBADF,
        SendError::Failed(e) => of_socket(e),
    }
}

/// A failed receive; `WouldBlock` is EAGAIN.
pub(crate) fn of_recv(error: RecvError) -> i32 {
    match error {
        RecvError::WouldBlock => libc::EAGAIN,
        RecvError::NotConnected => libc::ENOTCONN,
        RecvError::NoUrgentData => libc::EINVAL,
        RecvError::NoSocket => libc::EBADF,
        RecvError::Failed(e) => of_socket(e),
    }
}

/// A connection that could not be begun.
pub(crate) fn of_connect(error: ConnectError) -> i32 {
    match error {
        ConnectError::InUse => libc::EADDRNOTAVAIL,
        ConnectError::Full => libc::ENOBUFS,
    }
}

/// Shorthand for `Err(Stop::Errno(..))`.
pub(crate) fn fail<T>(errno: i32) -> crate::Answer<T> {
    Err(Stop::Errno(errno))
}
