//! How many frames of the device may wait in receive queues (a slow reader must not pin the NIC's memory).

use crate::Frame;

/// Counts attached frames over all receive queues of a stack.
pub(crate) struct Budget {
    attached: u32,
    attached_max: u32,
}

impl Budget {
    pub(crate) fn new(attached_max: u32) -> Self {
        Budget { attached: 0, attached_max }
    }

    /// Whether a queue that holds `held` attached frames may keep one more.
    #[inline]
    pub(crate) fn has_room(&self, held: u32) -> bool {
        self.attached < self.attached_max && held < self.attached_max.div_ceil(2)
    }

    /// A frame is about to wait in a queue that holds `held` attached frames already. Past the stack's share, or past
    /// half of it in one queue, the frame is copied out instead. Counts it in `held` if it stays attached.
    #[inline]
    pub(crate) fn admit<F: Frame>(&mut self, frame: &mut F, held: &mut u32) {
        if !frame.is_attached() {
            return;
        }
        if !self.has_room(*held) {
            frame.detach();
        }
        if frame.is_attached() {
            self.attached += 1;
            *held += 1;
        }
    }

    /// A frame that was admitted leaves its queue. To be called before it is dropped or detached.
    #[inline]
    pub(crate) fn release<F: Frame>(&mut self, frame: &F, held: &mut u32) {
        if frame.is_attached() {
            self.attached = self.attached.saturating_sub(1);
            *held = held.saturating_sub(1);
        }
    }

    /// Frames that were admitted and not released.
    pub(crate) fn attached(&self) -> usize {
        self.attached as usize
    }
}
