//! Received frames in the hands of the application, and their way back.
//!
//! A frame may be dropped on any thread, with or without the lane's lock, so it goes onto a stack that many push and
//! one (the lane, under its lock) takes as a whole: one exchange each, no lock, no ABA. The stack lies in memory of
//! this process alone: what the child of a fork drops changes its own copy, not the parent's.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use crate::arena::{Arena, FRAME};

/// The memory behind the frames of one device. Never freed: frames may outlive the device.
pub(crate) struct Pool {
    pub(crate) arena: Arc<Arena>,
    /// Index + 1 of the frame that was returned last, or 0.
    returned: AtomicU32,
    /// For each returned frame the one that was returned before it.
    before: Box<[AtomicU32]>,
}

impl Pool {
    pub(crate) fn leak(arena: Arc<Arena>) -> &'static Pool {
        let before = (0..arena.frames()).map(|_| AtomicU32::new(0)).collect();
        Box::leak(Box::new(Pool { arena, returned: AtomicU32::new(0), before }))
    }

    /// Is there something to take back?
    #[inline]
    pub(crate) fn has_returned(&self) -> bool {
        self.returned.load(Ordering::Relaxed) != 0
    }

    /// Takes back all that was returned.
    #[inline]
    pub(crate) fn take_returned(&self, into: &mut Vec<u32>) {
        if !self.has_returned() {
            return;
        }
        let mut next = self.returned.swap(0, Ordering::Acquire);
        while let Some(frame) = next.checked_sub(1) {
            into.push(frame);
            next = self.before[frame as usize].load(Ordering::Relaxed);
        }
    }

    #[inline]
    fn put_back(&self, frame: u32) {
        let mut last = self.returned.load(Ordering::Relaxed);
        loop {
            self.before[frame as usize].store(last, Ordering::Relaxed);
            match self.returned.compare_exchange_weak(last, frame + 1, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => last = now,
            }
        }
    }
}

/// A received chunk: 16 bytes, `Send`. Dropping it returns its memory to the device, from any thread.
pub struct RxFrame {
    pool: &'static Pool,
    frame: u32,
    offset: u16,
    length: u16,
}

impl RxFrame {
    /// `None` if the descriptor names memory outside of one frame.
    #[inline]
    pub(crate) fn new(pool: &'static Pool, address: u64, length: u32) -> Option<RxFrame> {
        let (frame, offset) = (address / FRAME as u64, address as usize % FRAME);
        if frame >= u64::from(pool.arena.frames()) || offset + length as usize > FRAME {
            return None;
        }
        Some(RxFrame { pool, frame: frame as u32, offset: offset as u16, length: length as u16 })
    }

    /// The bytes of this chunk.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let start = self.frame as usize * FRAME + self.offset as usize;
        // SAFETY: `new` checked that the chunk lies inside its frame; the frame is ours until drop, and the arena
        // is never unmapped.
        unsafe { core::slice::from_raw_parts(self.pool.arena.umem().add(start), self.length as usize) }
    }
}

impl Drop for RxFrame {
    #[inline]
    fn drop(&mut self) {
        self.pool.put_back(self.frame);
    }
}

impl fmt::Debug for RxFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RxFrame({}, {} bytes)", self.frame, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_dropped_on_several_threads_all_come_back_once() {
        const FRAMES: u32 = 512;
        let pool = Pool::leak(Arc::new(Arena::create(FRAMES).unwrap()));
        let address = |frame: u32| u64::from(frame) * FRAME as u64 + 256;
        let mut back = Vec::new();
        std::thread::scope(|scope| {
            for part in 0..4 {
                scope.spawn(move || {
                    for frame in (0..FRAMES).filter(|frame| frame % 4 == part) {
                        drop(RxFrame::new(pool, address(frame), 60).unwrap());
                    }
                });
            }
            while back.len() < FRAMES as usize {
                pool.take_returned(&mut back);
            }
        });
        back.sort_unstable();
        assert_eq!(back, (0..FRAMES).collect::<Vec<_>>());
        assert!(!pool.has_returned());
    }

    #[test]
    fn a_descriptor_outside_of_the_arena_or_of_one_frame_is_refused() {
        let pool = Pool::leak(Arc::new(Arena::create(2).unwrap()));
        assert!(RxFrame::new(pool, 2 * FRAME as u64, 1).is_none());
        assert!(RxFrame::new(pool, 4000, 97).is_none());
        assert_eq!(core::mem::ManuallyDrop::new(RxFrame::new(pool, 4000, 96).unwrap()).bytes().len(), 96);
        assert!(size_of::<RxFrame>() <= 24);
    }
}
