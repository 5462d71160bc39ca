//! What the kernel counts for our sockets.

use sys::Fd;

use crate::if_xdp::{SOL_XDP, XDP_STATISTICS};

/// struct xdp_statistics, summed over the queues.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Dropped for other reasons than those below.
    pub rx_dropped: u64,
    /// Entries of the fill ring that named no frame.
    pub rx_invalid_descs: u64,
    /// Entries of the transmit ring that named no frame.
    pub tx_invalid_descs: u64,
    /// Dropped because we did not empty the receive ring in time.
    pub rx_ring_full: u64,
    /// Packets that found no posted frame: the arena is too small, or the application holds it.
    pub rx_fill_ring_empty_descs: u64,
    /// Calls to transmit that found nothing to do.
    pub tx_ring_empty_descs: u64,
}

// SAFETY: integers of one size.
unsafe impl sys::socket::Plain for Statistics {}

impl Statistics {
    /// Adds the counters of one socket.
    pub(crate) fn add(&mut self, socket: &Fd) {
        let Ok(one) = sys::socket::option(socket.raw(), SOL_XDP, XDP_STATISTICS, Statistics::default())
        else {
            return;
        };
        self.rx_dropped += one.rx_dropped;
        self.rx_invalid_descs += one.rx_invalid_descs;
        self.tx_invalid_descs += one.tx_invalid_descs;
        self.rx_ring_full += one.rx_ring_full;
        self.rx_fill_ring_empty_descs += one.rx_fill_ring_empty_descs;
        self.tx_ring_empty_descs += one.tx_ring_empty_descs;
    }
}
