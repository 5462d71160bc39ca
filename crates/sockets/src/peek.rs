//! SO_PEEK_OFF: MSG_PEEK goes on where it ended, and what is read moves its place back (Linux's sk_peek_offset, and
//! what moves it). The place is ours to keep: the shadow's own knows nothing of what passes by it.

use core::sync::atomic::{AtomicI32, Ordering};
use libc::c_int;

/// Where MSG_PEEK looks, bytes behind what is read next; negative, as at first: always at the beginning.
pub(crate) struct Place(AtomicI32);

impl Place {
    /// At the beginning.
    pub(crate) const fn new() -> Place {
        Place(AtomicI32::new(-1))
    }

    /// As getsockopt tells it.
    pub(crate) fn get(&self) -> c_int {
        self.0.load(Ordering::Relaxed)
    }

    /// As setsockopt sets it. The kernel takes any value.
    pub(crate) fn set(&self, value: c_int) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Where to look; `None`: at the beginning, and not further the next time.
    pub(crate) fn behind(&self) -> Option<usize> {
        usize::try_from(self.get()).ok()
    }

    /// So many bytes were shown.
    pub(crate) fn showed(&self, count: usize) {
        self.move_by(i32::try_from(count).unwrap_or(i32::MAX));
    }

    /// So many bytes were read.
    #[inline]
    pub(crate) fn read(&self, count: usize) {
        if self.get() > 0 {
            self.move_by(-i32::try_from(count).unwrap_or(i32::MAX));
        }
    }

    fn move_by(&self, count: i32) {
        let place = self.get();
        if place >= 0 {
            self.set(place.saturating_add(count).max(0));
        }
    }
}
