//! The program's side of a ring. One writer at a time: who holds the lane's lock.

use crate::{DATA, Direction, MAGIC, PACKET, Stage, Wish, Word};
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use sys::memory::Mapping;

/// A ring in memory that is shared with a reader, who may write anything anywhere in it at any time.
#[derive(Debug)]
pub struct Ring {
    memory: Mapping,
    wish: Wish,
}

// SAFETY: words are accessed atomically, data only by the one `Writer`, and the mapping is the ring's own.
unsafe impl Send for Ring {}
// SAFETY: likewise.
unsafe impl Sync for Ring {}

impl Ring {
    /// Lays a ring out in a file that was made for it: zeroed, and as long as the wish says.
    pub fn create(file: i32, wish: Wish, interface: u32, name: &str) -> sys::Result<Arc<Ring>> {
        let memory = Mapping::shared(file, wish.file_length(), 0, true)?;
        let ring = Ring { memory, wish };
        let mut letters = [0; 16];
        for (to, byte) in letters.iter_mut().take(15).zip(name.bytes()) {
            *to = byte;
        }
        let number = u128::from_ne_bytes(letters).to_ne_bytes();
        for half in 0..2 {
            let mut word = [0; 8];
            word.copy_from_slice(&number[half * 8..][..8]);
            ring.at(Word::Name as usize + half).store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        ring.at(Word::Interface as usize).store(u64::from(interface), Ordering::Relaxed);
        ring.at(Word::Wish as usize).store(wish.word(), Ordering::Relaxed);
        // Last: who finds the mark finds the rest.
        ring.at(Word::Magic as usize).store(MAGIC, Ordering::Release);
        Ok(Arc::new(ring))
    }

    /// What it was made for.
    pub fn wish(&self) -> Wish {
        self.wish
    }

    /// Says how far it is.
    pub fn reached(&self, stage: Stage) {
        self.word(Word::Stage).store(stage as u64, Ordering::Release);
    }

    /// Goes on counting while a reader is there.
    pub fn pulse(&self) -> u64 {
        self.word(Word::Pulse).load(Ordering::Relaxed)
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        self.at(word as usize)
    }

    fn at(&self, place: usize) -> &AtomicU64 {
        debug_assert!(place * 8 < DATA);
        // SAFETY: within the first page of the mapping, which is aligned and lives as long as `self`.
        unsafe { &*self.memory.start().as_ptr().cast::<AtomicU64>().add(place) }
    }

    /// Copies bytes to a place of the data, around its end.
    fn put(&self, at: u64, bytes: &[u8]) {
        let size = self.wish.size();
        let at = (at % size as u64) as usize;
        let first = bytes.len().min(size - at);
        let data = self.memory.start().as_ptr();
        // SAFETY: `at` + `first` is at most the data's size, and the rest is less than that; nothing of this process
        // refers to the data.
        unsafe {
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), data.add(DATA + at), first);
            core::ptr::copy_nonoverlapping(bytes.as_ptr().add(first), data.add(DATA), bytes.len() - first);
        }
    }
}

/// Writes packets into a ring; the lane has it.
#[derive(Debug)]
pub struct Writer {
    ring: Arc<Ring>,
    /// Bytes ever written.
    head: u64,
    /// How far the reader was when it was looked at last.
    tail: u64,
    dropped: u64,
}

impl Writer {
    /// The only one of its ring.
    pub fn new(ring: Arc<Ring>) -> Writer {
        Writer { ring, head: 0, tail: 0, dropped: 0 }
    }

    /// Copies a packet that is in several pieces, or drops it. Neither allocates nor waits.
    pub fn packet<'a>(&mut self, direction: Direction, pieces: impl Iterator<Item = &'a [u8]> + Clone) {
        let original: usize = pieces.clone().map(<[u8]>::len).sum();
        let captured = original.min(self.ring.wish.snap as usize);
        let room = (PACKET + captured).next_multiple_of(8);
        if !self.has_room(room) {
            self.dropped += 1;
            self.ring.word(Word::Dropped).store(self.dropped, Ordering::Relaxed);
            return;
        }
        let lengths = captured as u64 | (original as u64) << 32;
        for (place, word) in [lengths, sys::clock::realtime(), direction as u64].into_iter().enumerate() {
            self.ring.put(self.head + place as u64 * 8, &word.to_ne_bytes());
        }
        let (mut at, mut left) = (self.head + PACKET as u64, captured);
        for piece in pieces {
            let part = &piece[..piece.len().min(left)];
            self.ring.put(at, part);
            at += part.len() as u64;
            left -= part.len();
        }
        self.head += room as u64;
        self.ring.word(Word::Head).store(self.head, Ordering::Release);
    }

    /// Whatever the reader's word says, nothing beyond the ring is written; a wrong one spoils its own packets.
    fn has_room(&mut self, room: usize) -> bool {
        let size = self.ring.wish.size();
        let free = |tail: u64| {
            let unread = self.head.wrapping_sub(tail);
            unread <= size as u64 && room as u64 <= size as u64 - unread
        };
        if free(self.tail) {
            return true;
        }
        let tail = self.ring.word(Word::Tail).load(Ordering::Acquire);
        let fits = free(tail);
        self.tail = tail;
        fits
    }
}
