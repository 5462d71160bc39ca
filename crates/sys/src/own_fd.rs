//! Which descriptors are ours. The hooks ask, to hide them from programs that close everything they did not open.
//!
//! A bit per descriptor number, so asking is one load and safe in a signal handler.

use core::sync::atomic::{AtomicU64, Ordering};

/// Descriptor numbers that can be recorded; [`crate::fd`] never moves one beyond.
pub(crate) const CAPACITY: usize = 1 << 16;

static OWN: [AtomicU64; CAPACITY / 64] = [const { AtomicU64::new(0) }; CAPACITY / 64];

/// Is this descriptor one of ours?
#[inline]
pub fn is_own(fd: i32) -> bool {
    match OWN.get(fd as u32 as usize / 64) {
        Some(word) => word.load(Ordering::Relaxed) & (1 << (fd % 64)) != 0,
        None => false,
    }
}

/// The lowest descriptor of ours that is at least `from`: walks the registry for `close_range` and the like.
pub fn next_own(from: i32) -> Option<i32> {
    let from = from.max(0) as usize;
    let mut mask = !0u64 << (from % 64);
    for (index, word) in OWN.iter().enumerate().skip(from / 64) {
        let word = word.load(Ordering::Relaxed) & mask;
        if word != 0 {
            return Some((index * 64) as i32 + word.trailing_zeros() as i32);
        }
        mask = !0;
    }
    None
}

pub(crate) fn record(fd: i32) {
    if let Some(word) = OWN.get(fd as u32 as usize / 64) {
        word.fetch_or(1 << (fd % 64), Ordering::Relaxed);
    }
}

pub(crate) fn forget(fd: i32) {
    if let Some(word) = OWN.get(fd as u32 as usize / 64) {
        word.fetch_and(!(1 << (fd % 64)), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_descriptors_are_found_in_order_and_forgotten() {
        record(60_001);
        record(60_200);
        assert!(is_own(60_001) && !is_own(60_002) && !is_own(-1) && !is_own(i32::MAX));
        assert_eq!(next_own(60_001), Some(60_001));
        assert_eq!(next_own(60_002), Some(60_200));
        forget(60_001);
        forget(60_200);
        assert!(!is_own(60_001));
        assert_eq!(next_own(60_000), None);
    }
}
