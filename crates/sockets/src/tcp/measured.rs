//! What the kernel is told of the round trip of a connection that it gets.
//!
//! TCP_REPAIR has no word for it. A socket that connected without having measured one begins with a retransmission
//! timeout of three seconds (RFC 6298, 5.7) and a probe for lost tails after one (RFC 8985), and what was put into its
//! send queue counts as sent twice, so that only timestamps tell its round trip (Karn): each loss right after a move
//! would be such a pause. So the kernel gets one byte more to its send queue, the last that the peer acknowledged, and
//! then its acknowledgment with the timestamp of a round trip ago, by the raw socket that passes packets on. Who may
//! not use raw sockets waits for the peer's answer to the probe that ends repair mode, which acknowledges the byte,
//! too.

use crate::lane::Inner;
use crate::object::Object;
use core::sync::atomic::Ordering;
use stack::Instant;
use stack::tcp::Handover;

/// The way to tell it; `None`: the peer will.
pub(super) struct Measured(Option<xdp::ByKernel>);

impl Measured {
    pub(super) fn of(inner: &Inner, object: &Object) -> Measured {
        // The packet comes by the loopback interface: a socket that is bound to another does not get it, and the
        // kernel would reset the connection in the name of nobody.
        let is_free = object.device.load(Ordering::Relaxed) == 0;
        Measured(is_free.then(|| inner.device.by_kernel().ok()).flatten())
    }

    /// The kernel's socket has the byte before `connection.send_seq` to send, and no other.
    pub(super) fn tell(&self, connection: &Handover) {
        let Some(way) = &self.0 else { return };
        let Some(packet) = connection.acknowledgment(Instant(sys::clock::now())) else { return };
        let _ = way.send(&packet, *connection.local.ip());
    }
}
