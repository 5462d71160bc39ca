//! What arrived: the in-order queue that the application reads, and the out-of-order store behind it.
//!
//! Both hold the frames themselves, so nothing is copied before the application's buffer. Three exceptions keep a
//! slow reader or a peer with tiny segments from pinning the device's memory: past its share of frames a socket's
//! data is copied into pooled blocks; tiny segments behind a queue that grows are packed into blocks too; tiny
//! out-of-order segments are copied at once. What is held is then close to the payload's size.
//!
//! Positions are offsets in the stream (64 bits, the first byte is 0), so nothing wraps. Of two segments with differing
//! bytes for one position the first one counts.

mod store;

use super::send_buffer::{BLOCK, Block, Pool};
use crate::budget::Budget;
use crate::mutation::planted;
use crate::{Frame, Sink};
use std::collections::VecDeque;
use store::Later;

/// Payload up to this many bytes is "tiny": copying it is cheaper than holding its frame.
const TINY: usize = 512;
/// Pieces in the queue from which tiny ones are packed: below it the reader keeps up.
const BEHIND: usize = 8;
/// Ranges reported in SACK options at most (the option's room).
pub(crate) const SACK_BLOCKS: usize = 4;

/// What receive queues take from the stack while they work.
pub(crate) struct Hold<'a> {
    pub(crate) budget: &'a mut Budget,
    pub(crate) pool: &'a mut Pool,
}

enum Data<F> {
    Frame(F),
    Block(Block),
    Bytes(Vec<u8>),
}

/// Payload of one frame, or of several that were packed.
pub struct Piece<F> {
    data: Data<F>,
    start: u32,
    end: u32,
}

impl<F: Frame> Piece<F> {
    /// Who keeps it for long gives the device its memory back.
    pub fn detach(&mut self) {
        if let Data::Frame(frame) = &mut self.data
            && frame.is_attached()
        {
            frame.detach();
        }
    }
    #[inline]
    fn len(&self) -> usize {
        (self.end - self.start) as usize
    }
    /// Whether it occupies memory of the device.
    pub fn is_attached(&self) -> bool {
        matches!(&self.data, Data::Frame(frame) if frame.is_attached())
    }
    /// The payload.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let whole = match &self.data {
            Data::Frame(frame) => frame.bytes(),
            Data::Block(block) => &block[..],
            Data::Bytes(bytes) => bytes,
        };
        whole.get(self.start as usize..self.end as usize).unwrap_or(&[])
    }
}

/// See the module's page.
pub(crate) struct ReceiveQueue<F> {
    ready: VecDeque<Piece<F>>,
    /// Bytes in `ready`.
    ready_len: usize,
    /// What arrived beyond a hole; `None` while there is no hole, which is nearly always.
    later: Option<Box<Later<F>>>,
    /// Frames of the device held by this queue.
    frames: u32,
    /// Offset of the next byte in order: `rcv_nxt`.
    next: u64,
}

/// What became of a segment's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Bytes that joined the in-order queue, stored ones included.
    pub(crate) in_order: u64,
    /// Something was stored out of order, or a hole was filled: acknowledge at once (RFC 5681, 4.2).
    pub(crate) disorder: bool,
    /// A range that had arrived before (RFC 2883).
    pub(crate) duplicate: Option<(u64, u64)>,
}

impl<F: Frame> ReceiveQueue<F> {
    pub(crate) fn new() -> Self {
        ReceiveQueue { ready: VecDeque::new(), ready_len: 0, later: None, frames: 0, next: 0 }
    }

    /// Bytes that can be read.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ready_len
    }

    /// Whether holes exist.
    #[inline]
    pub(crate) fn has_holes(&self) -> bool {
        self.later.is_some()
    }

    /// Offset behind the last byte in order.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Ranges beyond the holes, the latest first.
    #[inline]
    pub(crate) fn ranges(&self) -> &[(u64, u64)] {
        self.later.as_deref().map_or(&[], Later::ranges)
    }

    /// The whole payload of one frame, next in order, nothing stored: the fast path.
    #[inline]
    pub(crate) fn push_next(&mut self, hold: &mut Hold<'_>, frame: F, start: u32, end: u32) {
        self.next += u64::from(end - start);
        self.push(hold, Piece { data: Data::Frame(frame), start, end });
    }

    /// A segment's payload, which begins at `offset`: `range` of `head`, then all of `tail` as far as `len` goes.
    /// Nothing from `limit` on is taken. `memory`: what the store may be charged, bytes.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn segment(
        &mut self,
        hold: &mut Hold<'_>,
        offset: u64,
        head: F,
        range: (u32, u32),
        tail: &mut Vec<F>,
        len: u32,
        limit: u64,
        memory: u64,
    ) -> Taken {
        let mut taken = Taken::default();
        let before = self.next;
        let holes = self.has_holes();
        if offset < before {
            taken.duplicate = Some((offset, (offset + u64::from(len)).min(before)));
        }
        let mut at = offset;
        let mut left = len;
        let first = core::iter::once((head, range.0, range.1));
        let rest = tail.drain(..).map(|f| {
            let end = f.bytes().len() as u32;
            (f, 0, end)
        });
        for (frame, start, end) in first.chain(rest) {
            let n = (end - start).min(left);
            self.chunk(
                hold,
                at,
                Piece { data: Data::Frame(frame), start, end: start + n },
                limit,
                memory,
                &mut taken,
            );
            at += u64::from(n);
            left -= n;
        }
        self.join(hold);
        taken.in_order = self.next - before;
        taken.disorder |= holes;
        taken
    }

    fn chunk(
        &mut self,
        hold: &mut Hold<'_>,
        at: u64,
        mut piece: Piece<F>,
        limit: u64,
        memory: u64,
        taken: &mut Taken,
    ) {
        let end = (at + piece.len() as u64).min(limit);
        let start = at.max(self.next);
        if start >= end {
            return;
        }
        piece.end = piece.start + (end - at) as u32;
        if !planted!(OverlapShifted) {
            piece.start += (start - at) as u32;
        }
        if start == self.next && self.later.as_ref().is_none_or(|later| later.begins_at(end)) {
            self.next = end;
            self.push(hold, piece);
        } else {
            taken.disorder = true;
            let later = self.later.get_or_insert_with(Box::default);
            // What is next in order leaves the store at once. Refused for want of room, it would be refused for ever.
            let memory = if start == self.next { u64::MAX } else { memory };
            later.store(start, end, piece, memory, taken);
            if later.is_empty() {
                // There was no room for it.
                self.later = None;
            }
        }
    }

    /// Moves what became next in order from the store to the queue.
    fn join(&mut self, hold: &mut Hold<'_>) {
        let Some(mut later) = self.later.take() else { return };
        while let Some((at, mut piece)) = later.take_up_to(self.next) {
            let end = at + piece.len() as u64;
            if end > self.next {
                piece.start += (self.next - at) as u32;
                self.next = end;
                self.push(hold, piece);
            }
        }
        if !later.is_empty() {
            later.forget_ranges_before(self.next);
            self.later = Some(later);
        }
    }

    fn push(&mut self, hold: &mut Hold<'_>, mut piece: Piece<F>) {
        let n = piece.len();
        self.ready_len += n;
        if let Data::Frame(frame) = &mut piece.data {
            let full = frame.is_attached() && !hold.budget.has_room(self.frames);
            let behind = n <= TINY && !self.ready.is_empty();
            if full || (behind && (self.ready.len() >= BEHIND || self.last_block_has_room(n))) {
                return self.pack(hold.pool, piece.bytes());
            }
            hold.budget.admit(frame, &mut self.frames);
        }
        if self.ready.capacity() == 0 {
            // What a connection of requests and answers needs, and keeps.
            self.ready.reserve_exact(1);
        }
        self.ready.push_back(piece);
    }

    /// Bytes in order that came before this queue was there: copied, as they belong to no frame.
    pub(crate) fn restore(&mut self, hold: &mut Hold<'_>, bytes: &[u8]) {
        self.next += bytes.len() as u64;
        self.ready_len += bytes.len();
        self.pack(hold.pool, bytes);
    }

    fn last_block_has_room(&self, n: usize) -> bool {
        matches!(self.ready.back(), Some(Piece { data: Data::Block(_), end, .. }) if *end as usize + n <= BLOCK)
    }

    /// Copies bytes behind what is queued, into blocks.
    fn pack(&mut self, pool: &mut Pool, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if !self.last_block_has_room(1) {
                let block = Data::Block(pool.take());
                self.ready.push_back(Piece { data: block, start: 0, end: 0 });
            }
            let Some(Piece { data: Data::Block(block), end, .. }) = self.ready.back_mut() else { return };
            let n = bytes.len().min(BLOCK - *end as usize);
            block[*end as usize..*end as usize + n].copy_from_slice(&bytes[..n]);
            *end += n as u32;
            bytes = &bytes[n..];
        }
    }

    /// Gives bytes to the application; they leave the queue.
    pub(crate) fn read(&mut self, hold: &mut Hold<'_>, into: &mut impl Sink, max: usize) -> usize {
        let mut left = into.room().min(max);
        let mut done = 0;
        while left > 0 {
            let Some(piece) = self.ready.front_mut() else { break };
            let n = piece.len().min(left);
            if !into.put(&piece.bytes()[..n]) {
                break;
            }
            piece.start += n as u32;
            done += n;
            left -= n;
            if piece.start == piece.end {
                self.pop(hold);
            }
        }
        self.ready_len -= done;
        done
    }

    /// Shows bytes from the front, skipping `skip`.
    pub(crate) fn peek(&self, into: &mut impl Sink, mut skip: usize, max: usize) -> usize {
        let mut left = into.room().min(max);
        let mut done = 0;
        for piece in &self.ready {
            if left == 0 {
                break;
            }
            let bytes = piece.bytes();
            if skip >= bytes.len() {
                skip -= bytes.len();
                continue;
            }
            let n = (bytes.len() - skip).min(left);
            if !into.put(&bytes[skip..skip + n]) {
                break;
            }
            skip = 0;
            done += n;
            left -= n;
        }
        done
    }

    /// Throws away up to `n` bytes from the front.
    pub(crate) fn skip(&mut self, hold: &mut Hold<'_>, n: usize) -> usize {
        let mut left = n;
        while left > 0 {
            let Some(piece) = self.ready.front_mut() else { break };
            let now = piece.len().min(left);
            piece.start += now as u32;
            left -= now;
            if piece.start == piece.end {
                self.pop(hold);
            }
        }
        self.ready_len -= n - left;
        n - left
    }

    /// Takes the first piece out whole, if it has at most `max` bytes.
    pub(crate) fn take_front(&mut self, hold: &mut Hold<'_>, max: usize) -> Option<Piece<F>> {
        if self.ready.front()?.len() > max {
            return None;
        }
        let piece = self.ready.pop_front()?;
        self.ready_len -= piece.len();
        if let Data::Frame(frame) = &piece.data {
            hold.budget.release(frame, &mut self.frames);
        }
        Some(piece)
    }

    /// Puts a piece back to the front.
    pub(crate) fn put_front(&mut self, hold: &mut Hold<'_>, mut piece: Piece<F>) {
        self.ready_len += piece.len();
        if let Data::Frame(frame) = &mut piece.data {
            hold.budget.admit(frame, &mut self.frames);
        }
        self.ready.push_front(piece);
    }

    fn pop(&mut self, hold: &mut Hold<'_>) {
        let Some(piece) = self.ready.pop_front() else { return };
        match piece.data {
            Data::Frame(_) if planted!(BudgetLeak) => {}
            Data::Frame(frame) => hold.budget.release(&frame, &mut self.frames),
            Data::Block(block) => hold.pool.give(block),
            Data::Bytes(_) => {}
        }
        if self.ready.is_empty() && self.ready.capacity() > 64 {
            self.ready = VecDeque::new();
        }
    }

    /// Lets go of everything.
    pub(crate) fn clear(&mut self, hold: &mut Hold<'_>) {
        while !self.ready.is_empty() {
            self.pop(hold);
        }
        self.ready_len = 0;
        self.end();
    }

    /// The stream ends here: lets go of what lies beyond.
    pub(crate) fn end(&mut self) {
        self.later = None;
    }
}

#[cfg(test)]
#[path = "receive/tests.rs"]
mod tests;
