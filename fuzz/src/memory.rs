//! Frames that are counted: how many of the device's are out, and how many bytes of any kind are held.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// The counts of one device.
#[derive(Default)]
pub(crate) struct Books {
    /// Frames of the device that the engine holds.
    pub(crate) attached: Cell<usize>,
    /// Bytes in frames, attached or not.
    pub(crate) bytes: Cell<usize>,
}

/// A frame that keeps the books.
pub(crate) struct Counted {
    bytes: Vec<u8>,
    attached: bool,
    books: Rc<Books>,
}

impl Counted {
    /// A frame of the device.
    pub(crate) fn new(bytes: &[u8], books: &Rc<Books>) -> Counted {
        books.attached.set(books.attached.get() + 1);
        Counted::with(bytes.to_vec(), true, books)
    }

    fn with(bytes: Vec<u8>, attached: bool, books: &Rc<Books>) -> Counted {
        books.bytes.set(books.bytes.get() + bytes.len());
        Counted { bytes, attached, books: books.clone() }
    }
}

impl stack::Frame for Counted {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn detach(&mut self) {
        if self.attached {
            self.attached = false;
            self.books.attached.set(self.books.attached.get() - 1);
        }
    }

    fn is_attached(&self) -> bool {
        self.attached
    }

    fn narrow(&mut self, keep: Range<usize>) {
        self.books.bytes.set(self.books.bytes.get() - self.bytes.len() + keep.len());
        self.bytes.truncate(keep.end);
        self.bytes.drain(..keep.start);
    }

    fn duplicate(&self) -> Counted {
        Counted::with(self.bytes.clone(), false, &self.books)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        stack::Frame::detach(self);
        self.books.bytes.set(self.books.bytes.get() - self.bytes.len());
    }
}
