//! What Linux calls what the engine answers: the errno of each error, and the numbers of TCP's states. The only place
//! that has them; whoever plays the kernel's part to an application asks here.

use crate::error::{RecvError, SendError, SocketError};
use crate::tcp::{ConnectError, State};

impl SocketError {
    /// What SO_ERROR says.
    pub const fn errno(self) -> i32 {
        match self {
            SocketError::Refused => ECONNREFUSED,
            SocketError::Reset => ECONNRESET,
            SocketError::BrokenPipe => EPIPE,
            SocketError::TimedOut => ETIMEDOUT,
            SocketError::HostUnreachable => EHOSTUNREACH,
            SocketError::NetUnreachable => ENETUNREACH,
            SocketError::HostDown => EHOSTDOWN,
            SocketError::HostIsolated => ENONET,
            SocketError::ProtocolUnreachable => ENOPROTOOPT,
            SocketError::SourceRouteFailed => EOPNOTSUPP,
            SocketError::ParameterProblem => EPROTO,
            SocketError::MessageTooBig => EMSGSIZE,
            SocketError::Aborted => ECONNABORTED,
        }
    }
}

impl SendError {
    /// What a send fails with; `WouldBlock` is EAGAIN.
    pub const fn errno(self) -> i32 {
        match self {
            SendError::WouldBlock => EAGAIN,
            SendError::Closed => EPIPE,
            SendError::NotConnected => ENOTCONN,
            SendError::NoSocket => EBADF,
            SendError::Elsewhere => ENETUNREACH,
            SendError::Failed(why) => why.errno(),
        }
    }
}

impl RecvError {
    /// What a receive fails with; `WouldBlock` is EAGAIN.
    pub const fn errno(self) -> i32 {
        match self {
            RecvError::WouldBlock => EAGAIN,
            RecvError::NotConnected => ENOTCONN,
            RecvError::NoUrgentData => EINVAL,
            RecvError::NoSocket => EBADF,
            RecvError::Refused => EFAULT,
            RecvError::Failed(why) => why.errno(),
        }
    }
}

impl ConnectError {
    /// What a connect fails with.
    pub const fn errno(self) -> i32 {
        match self {
            ConnectError::InUse => EADDRNOTAVAIL,
            ConnectError::Full => ENOBUFS,
        }
    }
}

impl State {
    /// As TCP_INFO and sock_diag number the states (include/net/tcp_states.h).
    pub const fn number(self) -> u8 {
        match self {
            State::Established => 1,
            State::SynSent => 2,
            State::SynReceived => 3,
            State::FinWait1 => 4,
            State::FinWait2 => 5,
            State::TimeWait => 6,
            State::Closed => 7,
            State::CloseWait => 8,
            State::LastAck => 9,
            State::Listen => 10,
            State::Closing => 11,
        }
    }
}

// include/uapi/asm-generic/errno-base.h and errno.h.
const EBADF: i32 = 9;
const EFAULT: i32 = 14;
const EAGAIN: i32 = 11;
const EINVAL: i32 = 22;
const EPIPE: i32 = 32;
const ENONET: i32 = 64;
const EPROTO: i32 = 71;
const EMSGSIZE: i32 = 90;
const ENOPROTOOPT: i32 = 92;
const EOPNOTSUPP: i32 = 95;
const EADDRNOTAVAIL: i32 = 99;
const ENETUNREACH: i32 = 101;
const ECONNABORTED: i32 = 103;
const ECONNRESET: i32 = 104;
const ENOBUFS: i32 = 105;
const ENOTCONN: i32 = 107;
const ETIMEDOUT: i32 = 110;
const ECONNREFUSED: i32 = 111;
const EHOSTDOWN: i32 = 112;
const EHOSTUNREACH: i32 = 113;
