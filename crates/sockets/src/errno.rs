//! How a call says its errno. Which errno an error of the engine is stands in the engine (`stack::SocketError::errno`).

use crate::answer::Stop;

/// Shorthand for `Err(Stop::Errno(..))`.
pub(crate) fn fail<T>(errno: i32) -> crate::Answer<T> {
    Err(Stop::Errno(errno))
}

#[cfg(test)]
mod tests {
    use stack::tcp::ConnectError;
    use stack::{RecvError, SendError, SocketError};

    #[test]
    fn the_engine_numbers_errors_as_libc_does() {
        let socket = [
            (SocketError::Refused, libc::ECONNREFUSED),
            (SocketError::Reset, libc::ECONNRESET),
            (SocketError::BrokenPipe, libc::EPIPE),
            (SocketError::TimedOut, libc::ETIMEDOUT),
            (SocketError::HostUnreachable, libc::EHOSTUNREACH),
            (SocketError::NetUnreachable, libc::ENETUNREACH),
            (SocketError::HostDown, libc::EHOSTDOWN),
            (SocketError::HostIsolated, libc::ENONET),
            (SocketError::ProtocolUnreachable, libc::ENOPROTOOPT),
            (SocketError::SourceRouteFailed, libc::EOPNOTSUPP),
            (SocketError::ParameterProblem, libc::EPROTO),
            (SocketError::MessageTooBig, libc::EMSGSIZE),
            (SocketError::Aborted, libc::ECONNABORTED),
        ];
        for (error, errno) in socket {
            assert_eq!(error.errno(), errno, "{error:?}");
        }
        assert_eq!(SendError::WouldBlock.errno(), libc::EAGAIN);
        assert_eq!(SendError::Closed.errno(), libc::EPIPE);
        assert_eq!(SendError::NotConnected.errno(), libc::ENOTCONN);
        assert_eq!(SendError::NoSocket.errno(), libc::EBADF);
        assert_eq!(RecvError::NoUrgentData.errno(), libc::EINVAL);
        assert_eq!(RecvError::NotConnected.errno(), libc::ENOTCONN);
        assert_eq!(ConnectError::InUse.errno(), libc::EADDRNOTAVAIL);
        assert_eq!(ConnectError::Full.errno(), libc::ENOBUFS);
    }
}
