//! The send buffer: bytes of the application from `snd_una` on, kept until acknowledged.
//!
//! A chain of blocks from a pool that all connections share: an idle connection holds none, a busy one takes and
//! gives back without allocation.
//!
//! ```text
//!        start            len
//!   |....XXXXXXXXXXX|XXXXXXXXXXXXXXX|XXXXXXX........|
//!        ^ snd_una                          ^ next byte written
//! ```

use crate::Source;
use std::collections::VecDeque;

/// Bytes of a block: a compromise between what 10 000 slow connections hold and how often a bulk sender changes
/// block.
pub(crate) const BLOCK: usize = 4096;

/// Pieces of the largest packet, 64 KiB, wherever it begins in a block.
pub(crate) const PIECES: usize = 65_536 / BLOCK + 1;

pub(crate) type Block = Box<[u8; BLOCK]>;

/// Free blocks that the pool keeps at most (16 MiB); beyond it they go back to the allocator.
const POOL_MAX: usize = 4096;

/// Blocks that nobody uses.
#[derive(Default)]
pub(crate) struct Pool {
    free: Vec<Block>,
}

impl Pool {
    #[inline]
    pub(crate) fn take(&mut self) -> Block {
        self.free.pop().unwrap_or_else(|| Box::new([0; BLOCK]))
    }

    #[inline]
    pub(crate) fn give(&mut self, block: Block) {
        if self.free.len() < POOL_MAX {
            self.free.push(block);
        }
    }
}

/// See the module's page.
#[derive(Default)]
pub(crate) struct SendBuffer {
    blocks: VecDeque<Block>,
    /// Offset of the first byte in the first block.
    start: u32,
    len: u32,
}

impl SendBuffer {
    /// Bytes held.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Takes `n` bytes from `data`, which has that many.
    #[inline(always)]
    pub(crate) fn append(&mut self, data: &mut impl Source, n: usize, pool: &mut Pool) {
        let mut left = n;
        while left > 0 {
            let end = (self.start + self.len) as usize;
            let (index, offset) = (end / BLOCK, end % BLOCK);
            if index == self.blocks.len() {
                if index == 0 {
                    self.blocks.reserve_exact(1);
                }
                self.blocks.push_back(pool.take());
            }
            let now = left.min(BLOCK - offset);
            data.copy_to(&mut self.blocks[index][offset..offset + now]);
            self.len += now as u32;
            left -= now;
        }
    }

    /// Copies the bytes from `offset` (after `snd_una`) on; `offset + into.len()` is at most `len`.
    #[inline]
    pub(crate) fn copy_out(&self, offset: usize, into: &mut [u8]) {
        let from = self.start as usize + offset;
        if let Some(block) = self.blocks.front()
            && let Some(bytes) = block.get(from..from + into.len())
        {
            return into.copy_from_slice(bytes);
        }
        self.copy_out_of_blocks(offset, into);
    }

    fn copy_out_of_blocks(&self, offset: usize, into: &mut [u8]) {
        let mut from = self.start as usize + offset;
        let mut done = 0;
        while done < into.len() {
            let (index, at) = (from / BLOCK, from % BLOCK);
            let now = (into.len() - done).min(BLOCK - at);
            into[done..done + now].copy_from_slice(&self.blocks[index][at..at + now]);
            done += now;
            from += now;
        }
    }

    /// The bytes from `offset` on as they lie; how many pieces they are. At most [`PIECES`] pieces are given.
    pub(crate) fn pieces<'a>(&'a self, offset: usize, len: usize, into: &mut [&'a [u8]; PIECES]) -> usize {
        let mut from = self.start as usize + offset;
        let end = from + len;
        let mut count = 0;
        while from < end && count < PIECES {
            let (index, at) = (from / BLOCK, from % BLOCK);
            let now = (end - from).min(BLOCK - at);
            into[count] = &self.blocks[index][at..at + now];
            count += 1;
            from += now;
        }
        count
    }

    /// The first `n` bytes were acknowledged.
    pub(crate) fn discard(&mut self, n: usize, pool: &mut Pool) {
        let n = n.min(self.len());
        self.len -= n as u32;
        let mut start = self.start as usize + n;
        while start >= BLOCK {
            if let Some(block) = self.blocks.pop_front() {
                pool.give(block);
            }
            start -= BLOCK;
        }
        self.start = start as u32;
        if self.len == 0 {
            self.clear(pool);
        }
    }

    /// Gives everything back.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        while let Some(block) = self.blocks.pop_front() {
            pool.give(block);
        }
        if self.blocks.capacity() > 16 {
            self.blocks = VecDeque::new();
        }
        self.start = 0;
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_across_blocks_and_discards() {
        let (mut buffer, mut pool) = (SendBuffer::default(), Pool::default());
        let bytes: Vec<u8> = (0..50_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
        let (mut written, mut acked) = (0, 0);
        let mut step = 1;
        while acked < bytes.len() {
            step = (step * 31 + 17) % 9001 + 1;
            let n = step.min(bytes.len() - written);
            buffer.append(&mut &bytes[written..], n, &mut pool);
            written += n;
            let mut out = vec![0; buffer.len()];
            buffer.copy_out(0, &mut out);
            assert_eq!(out, bytes[acked..written]);
            let mut pieces = [&[][..]; PIECES];
            let (from, len) = (buffer.len() / 3, (buffer.len() / 2).min(65_536));
            let count = buffer.pieces(from, len, &mut pieces);
            assert_eq!(pieces[..count].concat(), bytes[acked + from..acked + from + len]);
            let drop = (step / 2 + 1).min(buffer.len());
            buffer.discard(drop, &mut pool);
            acked += drop;
        }
        assert!(buffer.len() == 0 && buffer.blocks.is_empty());
    }

    #[test]
    fn an_empty_buffer_holds_no_block() {
        let (mut buffer, mut pool) = (SendBuffer::default(), Pool::default());
        buffer.append(&mut &[1u8; 64][..], 64, &mut pool);
        buffer.discard(64, &mut pool);
        assert!(buffer.blocks.is_empty());
        assert_eq!(pool.free.len(), 1);
    }
}
