//! What an object (`object.rs`) is: its word, for those who know no objects.

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Not in use.
    Free,
    /// A UDP socket; without legs until it is bound, connected or sends.
    Udp,
    /// A TCP socket before connect and listen.
    TcpIdle,
    /// A TCP listener: legs and the shadow both accept.
    Listener,
    /// A TCP connection, from connect(2) or accept(2) on. One leg.
    Stream,
    /// A UDP socket in the child of a fork: claimed from the parent when the child receives by it.
    Inherited,
    /// A connection in the child of a fork: claimed from the parent when the child uses it.
    Lent,
    /// A TCP socket that the kernel carries, and whose connection may move to an engine (carrier/).
    Carried,
    /// One that moves right now.
    Moving,
    /// A connection inside the host that travels through memory, or is about to (memory/).
    Memory,
}
