//! Glue: the device's frame as the engine's `Frame`, the device's transmit side as its `Outlet`.

/// A received chunk: in the arena, or copied out of it.
///
/// `start` and `end` bound what the engine keeps of it.
pub(crate) struct Frame {
    memory: Memory,
    start: u32,
    end: u32,
}

enum Memory {
    /// The device's.
    Device(xdp::RxFrame),
    /// Ours.
    Copy(Box<[u8]>),
}

impl Frame {
    /// A frame as the device delivered it.
    #[inline]
    pub(crate) fn new(frame: xdp::RxFrame) -> Frame {
        let end = frame.bytes().len() as u32;
        Frame { memory: Memory::Device(frame), start: 0, end }
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Frame {
        Frame { memory: Memory::Copy(bytes.into()), start: 0, end: bytes.len() as u32 }
    }
}

impl stack::Frame for Frame {
    #[inline]
    fn bytes(&self) -> &[u8] {
        let whole = match &self.memory {
            Memory::Device(frame) => frame.bytes(),
            Memory::Copy(bytes) => bytes,
        };
        &whole[self.start as usize..self.end as usize]
    }

    fn detach(&mut self) {
        if self.is_attached() {
            *self = Frame::of_bytes(self.bytes());
        }
    }

    #[inline]
    fn is_attached(&self) -> bool {
        matches!(self.memory, Memory::Device(_))
    }

    #[inline]
    fn narrow(&mut self, keep: core::ops::Range<usize>) {
        debug_assert!(keep.start <= keep.end && keep.end <= self.bytes().len());
        self.end = self.start + keep.end as u32;
        self.start += keep.start as u32;
    }

    fn duplicate(&self) -> Frame {
        Frame::of_bytes(self.bytes())
    }
}

/// The transmit side of a device.
pub(crate) struct Tx<'a>(pub &'a mut xdp::Device);

impl stack::Outlet for Tx<'_> {
    #[inline]
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        self.0.reserve(len)
    }

    #[inline]
    fn commit(&mut self, len: usize) {
        self.0.commit(len);
    }

    #[inline]
    fn large_max(&self) -> usize {
        self.0.large_max()
    }

    fn send_large(&mut self, packet: &stack::Large<'_>) -> bool {
        self.0.send_large(packet.headers, packet.transport, packet.payload, packet.mss)
    }
}
