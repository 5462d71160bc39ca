//! What the engine asks of the memory that packets live in: a received frame, a place to write frames to, and the
//! application's buffers on both sides.

/// A received chunk of a packet, owned. Dropping it gives its memory back to the device.
///
/// A packet is one head frame and, where the device delivers packets larger than a frame (a local peer with
/// segmentation offload), a tail of further frames that hold payload only: all headers are in the head.
pub trait Frame {
    /// The bytes of this chunk.
    fn bytes(&self) -> &[u8];

    /// Copies the chunk to ordinary memory and gives the device's memory back; later calls do nothing.
    /// The engine calls it when data waits for too long or in too many frames (a slow reader must not
    /// pin the NIC's memory).
    fn detach(&mut self);

    /// Whether this chunk still occupies memory of the device.
    fn is_attached(&self) -> bool;

    /// Keeps these bytes of the chunk only: from now on `bytes()` begins and ends with them. The caller asks for a
    /// range within `bytes()`.
    fn narrow(&mut self, keep: core::ops::Range<usize>);

    /// A copy in ordinary memory: a multicast datagram has several receivers.
    fn duplicate(&self) -> Self
    where
        Self: Sized;
}

/// Where frames are written for transmission.
pub trait Outlet {
    /// Memory for one frame of at most `len` bytes, or `None` when the transmit side is full. A reserved frame that
    /// is not committed is reused by the next call.
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]>;

    /// Sends the first `len` bytes of the frame that was reserved last.
    fn commit(&mut self, len: usize);

    /// Payload bytes that [`Outlet::send_large`] takes at most; 0: it is not there.
    #[inline]
    fn large_max(&self) -> usize {
        0
    }

    /// Sends a TCP packet that is cut on its way out into segments of `mss` bytes of payload (TSO). `false`: not now,
    /// or, if `large_max` says 0 from now on, never again.
    fn send_large(&mut self, packet: &Large<'_>) -> bool {
        let _ = packet;
        false
    }
}

/// A packet for [`Outlet::send_large`].
#[derive(Clone, Copy, Debug)]
pub struct Large<'a> {
    /// Ethernet, IPv4 and TCP headers, with the lengths of the whole; TCP's checksum field holds the folded sum of the
    /// pseudo header only.
    pub headers: &'a [u8],
    /// Where the TCP header begins in them.
    pub transport: usize,
    /// The payload, in pieces.
    pub payload: &'a [&'a [u8]],
    /// Bytes of payload of each segment but the last.
    pub mss: usize,
}

/// Bytes that the application sends: a cursor over its buffers.
pub trait Source {
    /// Bytes left.
    fn remaining(&self) -> usize;

    /// Copies the next `into.len()` bytes; the caller asks for no more than `remaining()`.
    fn copy_to(&mut self, into: &mut [u8]);
}

/// Room for bytes that the application receives: a cursor over its buffers.
pub trait Sink {
    /// Bytes of room left.
    fn room(&self) -> usize;

    /// Takes bytes, at most `room()` of them. False: it cannot take all of them, nor any after them.
    fn put(&mut self, bytes: &[u8]) -> bool;
}

impl Source for &[u8] {
    fn remaining(&self) -> usize {
        self.len()
    }
    fn copy_to(&mut self, into: &mut [u8]) {
        let (now, rest) = self.split_at(into.len());
        into.copy_from_slice(now);
        *self = rest;
    }
}

impl Sink for &mut [u8] {
    fn room(&self) -> usize {
        self.len()
    }
    fn put(&mut self, bytes: &[u8]) -> bool {
        let (now, rest) = core::mem::take(self).split_at_mut(bytes.len());
        now.copy_from_slice(bytes);
        *self = rest;
        true
    }
}
