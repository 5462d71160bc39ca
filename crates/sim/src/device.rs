//! A host's network card: frames that are counted from their reception to their end, and a transmit ring that can be
//! full.

use stack::testing::cut;
use stack::{Frame, Large, Outlet};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

/// Counts the frames that a host's stack holds.
#[derive(Default)]
pub struct Device {
    attached: Cell<usize>,
    living: Cell<usize>,
    living_bytes: Cell<usize>,
    free: RefCell<Vec<Vec<u8>>>,
}

impl Device {
    /// Frames that occupy the card's memory.
    pub fn attached(&self) -> usize {
        self.attached.get()
    }

    /// Frames that exist, attached or not.
    pub fn living(&self) -> usize {
        self.living.get()
    }

    /// Bytes of the frames that exist.
    pub fn living_bytes(&self) -> usize {
        self.living_bytes.get()
    }

    /// An empty buffer.
    pub fn buffer(&self) -> Vec<u8> {
        self.free.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes a buffer back. What someone reads from it later is wrong, and seen to be.
    pub fn recycle(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut free = self.free.borrow_mut();
        if free.len() < 64 {
            free.push(buffer);
        }
    }

    /// Bytes as a received frame.
    pub fn receive(self: &Rc<Device>, bytes: Vec<u8>) -> SimFrame {
        SimFrame::new(self, bytes, true)
    }
}

/// A received frame of a simulated host.
pub struct SimFrame {
    bytes: Vec<u8>,
    range: Range<usize>,
    attached: bool,
    device: Rc<Device>,
}

impl SimFrame {
    fn new(device: &Rc<Device>, bytes: Vec<u8>, attached: bool) -> SimFrame {
        device.living.set(device.living.get() + 1);
        device.living_bytes.set(device.living_bytes.get() + bytes.len());
        device.attached.set(device.attached.get() + usize::from(attached));
        SimFrame { range: 0..bytes.len(), bytes, attached, device: device.clone() }
    }
}

impl Frame for SimFrame {
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }

    fn detach(&mut self) {
        if self.attached {
            self.attached = false;
            self.device.attached.set(self.device.attached.get() - 1);
        }
    }

    fn is_attached(&self) -> bool {
        self.attached
    }

    fn narrow(&mut self, keep: Range<usize>) {
        assert!(
            keep.start <= keep.end && keep.end <= self.range.len(),
            "narrow({keep:?}) of {:?}",
            self.range
        );
        self.range = self.range.start + keep.start..self.range.start + keep.end;
    }

    fn duplicate(&self) -> Self {
        SimFrame::new(&self.device, self.bytes().to_vec(), false)
    }
}

impl Drop for SimFrame {
    fn drop(&mut self) {
        self.detach();
        self.device.living.set(self.device.living.get() - 1);
        self.device.living_bytes.set(self.device.living_bytes.get() - self.bytes.len());
        self.device.recycle(std::mem::take(&mut self.bytes));
    }
}

/// The transmit side: room for `size` frames until the world takes them.
pub struct TxRing {
    device: Rc<Device>,
    size: usize,
    scratch: Vec<u8>,
    reserved: bool,
    /// It takes packets that it cuts.
    cuts: bool,
    /// Frames committed since the world last looked.
    pub sent: Vec<Vec<u8>>,
    /// Frames committed since the ring was last emptied.
    pub in_flight: usize,
    /// A reservation was refused since the ring was last emptied.
    pub was_full: bool,
    draining: bool,
}

impl TxRing {
    /// An empty ring.
    pub fn new(device: &Rc<Device>, size: usize, cuts: bool) -> TxRing {
        TxRing {
            device: device.clone(),
            size,
            scratch: Vec::new(),
            reserved: false,
            cuts,
            sent: Vec::new(),
            in_flight: 0,
            was_full: false,
            draining: false,
        }
    }

    /// The card has sent everything.
    pub fn empty(&mut self) {
        self.in_flight = 0;
        self.was_full = false;
        self.draining = false;
    }

    /// Whether the card is at work and `empty` will follow.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// The card begins to send.
    pub fn start_draining(&mut self) {
        self.draining = true;
    }
}

impl Outlet for TxRing {
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.in_flight >= self.size {
            self.was_full = true;
            return None;
        }
        self.reserved = true;
        self.scratch.clear();
        // What the engine does not write must not look like anything.
        self.scratch.resize(len, 0xa5);
        Some(&mut self.scratch)
    }

    fn commit(&mut self, len: usize) {
        assert!(self.reserved, "commit without reserve");
        assert!(len <= self.scratch.len(), "commit of {len} bytes of {} reserved", self.scratch.len());
        self.reserved = false;
        self.scratch.truncate(len);
        let next = self.device.buffer();
        self.sent.push(std::mem::replace(&mut self.scratch, next));
        self.in_flight += 1;
    }

    fn large_max(&self) -> usize {
        if self.cuts { 65_455 } else { 0 }
    }

    fn send_large(&mut self, packet: &Large<'_>) -> bool {
        if self.in_flight >= self.size {
            self.was_full = true;
            return false;
        }
        let frames = cut(packet);
        self.in_flight += frames.len();
        self.sent.extend(frames);
        true
    }
}
