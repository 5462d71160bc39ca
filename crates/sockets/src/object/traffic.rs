//! Calls and bytes of a connection that may move, as its judge (carrier/judge.rs) counts them: one word.

use core::sync::atomic::{AtomicU64, Ordering};

/// Calls with little data before a connection moves to the wire: a single question is answered by then.
pub(crate) const CALLS: u32 = 16;
/// Bytes of a call, on average, up to which a connection moves to the wire.
const SMALL: u64 = 4096;
/// Bytes of a call, on average, from which a connection moves to the kernel.
const BULK: u64 = 8192;
/// Calls that moved data since the judge looked last, and their bytes: 24 bits above 40.
pub(crate) struct Traffic(AtomicU64);

const CALL: u64 = 1 << 40;

impl Traffic {
    pub(crate) const fn new() -> Traffic {
        Traffic(AtomicU64::new(0))
    }

    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// As after so many calls without data.
    pub(crate) fn begin(&self, calls: u32) {
        self.0.store(u64::from(calls) * CALL, Ordering::Relaxed);
    }

    /// Counts a call; returns the bytes so far. Of two threads at once one may not be counted.
    #[inline]
    pub(crate) fn add(&self, bytes: usize) -> u64 {
        let next = self.0.load(Ordering::Relaxed).wrapping_add(CALL + bytes as u64);
        self.0.store(next, Ordering::Relaxed);
        next % CALL
    }

    /// Calls and bytes.
    pub(crate) fn seen(&self) -> (u32, u64) {
        let seen = self.0.load(Ordering::Relaxed);
        ((seen / CALL) as u32, seen % CALL)
    }
}

/// Whether so many calls of so many bytes are bulk.
pub(crate) fn is_bulk(calls: u32, bytes: u64) -> bool {
    bytes >= u64::from(calls) * BULK
}

/// Whether they are small.
pub(crate) fn is_small(calls: u32, bytes: u64) -> bool {
    bytes <= u64::from(calls) * SMALL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_bytes_are_kept_apart() {
        let traffic = Traffic::new();
        assert_eq!(traffic.add(1), 1);
        assert_eq!(traffic.add(1 << 30), (1 << 30) + 1);
        assert_eq!(traffic.seen(), (2, (1 << 30) + 1));
        traffic.clear();
        assert_eq!(traffic.seen(), (0, 0));
    }
}
