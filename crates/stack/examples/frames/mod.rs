//! For the measurements: frames that cost nothing themselves.

use core::ops::Range;
use stack::Frame;

/// A frame of an imaginary device: bytes that are always there.
pub(crate) struct Static(pub(crate) &'static [u8]);

impl Frame for Static {
    fn bytes(&self) -> &[u8] {
        self.0
    }
    fn detach(&mut self) {}
    fn is_attached(&self) -> bool {
        true
    }
    fn narrow(&mut self, keep: Range<usize>) {
        self.0 = &self.0[keep];
    }
    fn duplicate(&self) -> Static {
        Static(self.0)
    }
}
