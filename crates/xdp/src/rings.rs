//! One cursor for the four rings: a position of ours and the last known position of the other side.
//!
//! ```text
//!              consumer           producer
//!                 v                  v
//!   ... free ...  | filled, to take  |  ... free, to fill ...        indices run freely, masked on access
//! ```
//!
//! On receive and completion rings we consume, on fill and transmit rings we produce. Positions are published with
//! release and read with acquire, as the kernel does on its side.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use sys::memory::Mapping;

use crate::if_xdp::{RingOffset, XDP_RING_NEED_WAKEUP};

/// One ring, from one side.
pub(crate) struct Ring<T> {
    /// Keeps the memory mapped that all pointers below point into.
    _mapping: Arc<Mapping>,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// Our position: of the next entry to take or to fill.
    own: u32,
    /// The other side's position when we last looked.
    seen: u32,
}

// SAFETY: the pointers belong to the mapping, which moves along; entries are plain values.
unsafe impl<T: Copy + Send> Send for Ring<T> {}
// SAFETY: shared access only reads atomics.
unsafe impl<T: Copy + Send> Sync for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// A ring of `size` entries (a power of two) in memory that the kernel laid out.
    ///
    /// # Safety
    /// `mapping` must be a ring mapping of an AF_XDP socket with these offsets, entries of type `T`, and `size`.
    pub(crate) unsafe fn new(mapping: Arc<Mapping>, offset: &RingOffset, size: u32) -> Ring<T> {
        debug_assert!(size.is_power_of_two());
        let start = mapping.start();
        // SAFETY: the kernel's offsets lie inside its mapping and are aligned.
        unsafe {
            Ring {
                producer: start.add(offset.producer as usize).cast(),
                consumer: start.add(offset.consumer as usize).cast(),
                flags: start.add(offset.flags as usize).cast(),
                entries: start.add(offset.desc as usize).cast(),
                _mapping: mapping,
                size,
                own: 0,
                seen: 0,
            }
        }
    }

    fn word(&self, pointer: NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: it points into the mapping that lives as long as self.
        unsafe { pointer.as_ref() }
    }

    /// Must the kernel be woken by a system call?
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.word(self.flags).load(Ordering::Relaxed) & XDP_RING_NEED_WAKEUP != 0
    }

    /// Takes both positions from the ring again: for rings that several processes use in turn, under their lock.
    #[inline]
    pub(crate) fn reload(&mut self, consuming: bool) {
        let positions = (self.word(self.producer), self.word(self.consumer));
        (self.own, self.seen) = if consuming {
            (positions.1.load(Ordering::Relaxed), positions.0.load(Ordering::Acquire))
        } else {
            (positions.0.load(Ordering::Relaxed), positions.1.load(Ordering::Acquire))
        };
    }

    // the consuming side

    /// Is there something to take? For a look without taking.
    #[inline]
    pub(crate) fn has_filled(&self) -> bool {
        self.word(self.producer).load(Ordering::Relaxed) != self.own
    }

    /// Entries to take; looks at the ring only when those known are taken.
    #[inline]
    pub(crate) fn filled(&mut self) -> u32 {
        if self.seen == self.own {
            self.seen = self.word(self.producer).load(Ordering::Acquire);
        }
        self.seen.wrapping_sub(self.own)
    }

    /// Has everything known been taken?
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.seen == self.own
    }

    /// Entries that wait to be taken according to the ring itself.
    pub(crate) fn waiting(&self) -> u32 {
        let (producer, consumer) = (self.word(self.producer), self.word(self.consumer));
        producer.load(Ordering::Acquire).wrapping_sub(consumer.load(Ordering::Acquire))
    }

    /// Takes one entry. Must be preceded by `filled` saying so; becomes the producer's after `release`.
    #[inline]
    pub(crate) fn take(&mut self) -> T {
        // SAFETY: the masked index is inside the ring; the acquire load of `filled` made the entry visible.
        let entry = unsafe { self.entries.add((self.own & (self.size - 1)) as usize).read() };
        self.own = self.own.wrapping_add(1);
        entry
    }

    /// Gives what was taken back to the producer.
    #[inline]
    pub(crate) fn release(&mut self) {
        self.word(self.consumer).store(self.own, Ordering::Release);
    }

    // the producing side

    /// Entries that can be filled; looks at the ring only when fewer than `wanted` are known.
    #[inline]
    pub(crate) fn room(&mut self, wanted: u32) -> u32 {
        let known = self.size - self.own.wrapping_sub(self.seen);
        if known >= wanted {
            return known;
        }
        self.seen = self.word(self.consumer).load(Ordering::Acquire);
        self.size - self.own.wrapping_sub(self.seen)
    }

    /// Fills one entry. Must be preceded by `room` saying so; seen by the consumer after `publish`.
    #[inline]
    pub(crate) fn put(&mut self, entry: T) {
        // SAFETY: the masked index is inside the ring, and room said that the consumer is done with it.
        unsafe { self.entries.add((self.own & (self.size - 1)) as usize).write(entry) };
        self.own = self.own.wrapping_add(1);
    }

    /// Where the next entry goes.
    pub(crate) fn position(&self) -> u32 {
        self.own
    }

    /// What was put at a position, whether it was published or not.
    pub(crate) fn entry(&self, position: u32) -> T {
        // SAFETY: the masked index is inside the ring; where nothing was put, there is a value of no meaning.
        unsafe { self.entries.add((position & (self.size - 1)) as usize).read() }
    }

    /// Shows the consumer what was put.
    #[inline]
    pub(crate) fn publish(&mut self) {
        self.word(self.producer).store(self.own, Ordering::Release);
    }
}
