//! Glue: the device's frame as the engine's `Frame`, the device's transmit side as its `Outlet`.

/// A received chunk: in the arena, or copied out of it.
pub enum Frame {
    /// In the device's memory.
    Device(xdp::RxFrame),
    /// In ours.
    Copy(Box<[u8]>),
}

impl stack::Frame for Frame {
    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Frame::Device(frame) => frame.bytes(),
            Frame::Copy(bytes) => bytes,
        }
    }

    fn detach(&mut self) {
        if let Frame::Device(frame) = self {
            *self = Frame::Copy(frame.bytes().into());
        }
    }

    #[inline]
    fn is_attached(&self) -> bool {
        matches!(self, Frame::Device(_))
    }
}

/// The transmit side of a device.
pub struct Tx<'a>(pub &'a mut xdp::Device);

impl stack::Outlet for Tx<'_> {
    #[inline]
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        self.0.reserve(len)
    }

    #[inline]
    fn commit(&mut self, len: usize) {
        self.0.commit(len);
    }
}
