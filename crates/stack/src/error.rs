//! Why a command of the application did not succeed. What Linux calls it is in `linux`.

/// What befell a socket: kept until taken (SO_ERROR) and told to the next call that it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketError {
    /// RST in answer to SYN, or ICMP port unreachable (ECONNREFUSED).
    Refused,
    /// RST on a connection (ECONNRESET).
    Reset,
    /// RST after our side was already closed for writing, as Linux tells it (EPIPE).
    BrokenPipe,
    /// Retransmissions, probes or the user timeout ran out (ETIMEDOUT).
    TimedOut,
    /// ICMP host unreachable, or the neighbour does not answer (EHOSTUNREACH).
    HostUnreachable,
    /// ICMP network unreachable or no route (ENETUNREACH).
    NetUnreachable,
    /// ICMP host unknown (EHOSTDOWN).
    HostDown,
    /// ICMP host isolated (ENONET).
    HostIsolated,
    /// ICMP protocol unreachable (ENOPROTOOPT).
    ProtocolUnreachable,
    /// ICMP source route failed (EOPNOTSUPP).
    SourceRouteFailed,
    /// ICMP parameter problem: something in our header (EPROTO).
    ParameterProblem,
    /// Larger than the path MTU with fragmentation forbidden, or than the protocol allows (EMSGSIZE).
    MessageTooBig,
    /// The lane or the device was lost (ECONNABORTED).
    Aborted,
}

/// Why nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// No room now; an OUT edge follows (EAGAIN).
    WouldBlock,
    /// Closed for writing (EPIPE).
    Closed,
    /// No peer (ENOTCONN for TCP in LISTEN or CLOSED, EDESTADDRREQ for UDP).
    NotConnected,
    /// The id is not of a living socket (EBADF).
    NoSocket,
    /// Routing would send it by another interface (UDP).
    Elsewhere,
    /// The socket's pending error, now taken.
    Failed(SocketError),
}

/// Why nothing was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// Nothing there now; an IN edge follows (EAGAIN).
    WouldBlock,
    /// Never connected, or listening (ENOTCONN).
    NotConnected,
    /// MSG_OOB without urgent data to take (EINVAL).
    NoUrgentData,
    /// The id is not of a living socket (EBADF).
    NoSocket,
    /// The sink could not take what is there; it stays (EFAULT).
    Refused,
    /// The socket's pending error, now taken.
    Failed(SocketError),
}
