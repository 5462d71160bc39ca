//! What the owner must learn: which sockets changed, and what the engine needs to know of the world.

use crate::SocketId;
use core::net::Ipv4Addr;

/// Readiness of a socket, in the meaning of poll(2) for the same state of a kernel socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ready(pub u8);

impl Ready {
    /// Data, end of stream, an error or a connection to accept can be taken without waiting (POLLIN).
    pub const IN: Ready = Ready(1);
    /// There is room to send (POLLOUT), by the kernel's rule: free space at least a third of the send buffer.
    pub const OUT: Ready = Ready(2);
    /// The peer closed its direction (POLLRDHUP).
    pub const RDHUP: Ready = Ready(4);
    /// Both directions are closed (POLLHUP).
    pub const HUP: Ready = Ready(8);
    /// An error waits (POLLERR).
    pub const ERR: Ready = Ready(16);
    /// Urgent data waits (POLLPRI).
    pub const PRI: Ready = Ready(32);

    /// Whether all bits of `other` are set.
    #[inline]
    pub fn has(self, other: Ready) -> bool {
        self.0 & other.0 == other.0
    }
    /// Whether any bit of `other` is set.
    #[inline]
    pub fn any(self, other: Ready) -> bool {
        self.0 & other.0 != 0
    }
}

impl core::ops::BitOr for Ready {
    type Output = Ready;
    #[inline]
    fn bitor(self, other: Ready) -> Ready {
        Ready(self.0 | other.0)
    }
}

impl core::ops::BitOrAssign for Ready {
    #[inline]
    fn bitor_assign(&mut self, other: Ready) {
        self.0 |= other.0;
    }
}

/// A socket had an edge in the sense of EPOLLET: data arrived (also when some was there already), room appeared
/// after there was none, or its state changed. At most one undrained event per socket; `edges` gathers what
/// happened, current readiness is asked with [`crate::Stack::ready`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The socket.
    pub id: SocketId,
    /// The owner's word for it, given when it was made or accepted.
    pub token: u64,
    /// What became true since the last event.
    pub edges: Ready,
}

/// What the engine needs to know before it can go on. Asked once; not repeated until answered or timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// How packets go: answer with `set_path`.
    Path(crate::Query),
    /// The hardware address of this next hop: answer with `set_neighbour`.
    Neighbour(Ipv4Addr),
}
