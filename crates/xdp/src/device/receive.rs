//! Receiving: packets off the rings, memory back into them.

use super::{Device, Queue};
use crate::arena::{Arena, FRAME, LANES, POSTING_MAX, Posting};
use crate::if_xdp::{Desc, XDP_PKT_CONTD};
use crate::pool::{Pool, RxFrame};
use capture::Direction;

/// Frames to receive before a fill ring is filled again: the price of the rings' lock is shared by so many.
const FILL_BATCH: u32 = 64;
/// Frames taken from the arena at a time, and given back at a time, at most.
const PORTION_MAX: usize = 64;
/// Free frames that a lane keeps for itself, as a part of the arena; above it gives some back to the others.
const FREE_SHARE: usize = 16;
/// Chunks that one packet may have: 64 KiB are 18.
const CHUNKS_MAX: usize = 31;

impl Device {
    /// Cheap test: does any receive ring hold something, or wait for memory that came back?
    #[inline]
    pub fn has_received(&self) -> bool {
        self.queues.iter().any(|queue| {
            queue.socket.rx.has_filled() || queue.taken >= FILL_BATCH && self.pool.has_returned()
        })
    }

    /// Takes up to `budget` packets. Each goes to `take(head, tail)`; `tail` (reused between packets) holds the
    /// further chunks of a multi-buffer packet and is emptied after `take`. Refills before it returns.
    pub fn receive(&mut self, budget: usize, mut take: impl FnMut(RxFrame, &mut Vec<RxFrame>)) -> usize {
        if !self.has_received() {
            self.refill();
            return 0;
        }
        let mut tail = core::mem::take(&mut self.tail);
        let mut packets = 0;
        while packets < budget
            && let Some(head) = self.next_packet(&mut tail)
        {
            take(head, &mut tail);
            packets += 1;
        }
        self.tail = tail;
        self.refill();
        packets
    }

    /// The next packet, if there is one: its first chunk, and in `tail` (emptied first) its further ones. The queues
    /// take turns when one is empty. For a caller that sends while it receives; it must call [`Device::refill`]
    /// once per turn, also when nothing was received.
    #[inline]
    pub fn next_packet(&mut self, tail: &mut Vec<RxFrame>) -> Option<RxFrame> {
        for _ in 0..self.queues.len() {
            if let Some(head) = self.queues[self.next_queue].next_packet(self.pool, self.lane, tail) {
                if self.tap.is_some() {
                    self.show_received(&head, tail);
                }
                return Some(head);
            }
            self.next_queue = if self.next_queue + 1 < self.queues.len() { self.next_queue + 1 } else { 0 };
        }
        None
    }

    #[cold]
    fn show_received(&mut self, head: &RxFrame, tail: &[RxFrame]) {
        let Some(tap) = &mut self.tap else { return };
        tap.packet(Direction::In, core::iter::once(head).chain(tail).map(RxFrame::bytes));
    }

    /// Posts memory for what was received, once it is worth it, and wakes a driver that sleeps for want of it.
    #[inline]
    pub fn refill(&mut self) {
        for index in 0..self.queues.len() {
            if self.queues[index].taken >= FILL_BATCH.min(self.post_max) {
                self.fill(index);
            }
        }
    }

    /// Posts as much as may be posted on each queue: at the start.
    pub(super) fn fill_all(&mut self) {
        for index in 0..self.queues.len() {
            self.queues[index].taken = self.post_max;
            self.fill(index);
        }
    }

    /// Fills rings that hold little. Each lane posts for what it took itself, so what lanes took whose processes have
    /// ended nobody posts; and from an empty ring nobody takes what would bring a lane here.
    pub(super) fn fill_for_the_dead(&mut self) {
        for index in 0..self.queues.len() {
            if self.queues[index].fill.waiting() < self.post_max / 2 {
                self.fill(index);
            }
        }
    }

    /// The process ends: what this lane took is posted, and its free frames are everybody's. Of what it sent nothing
    /// is free before the grace of the dead is over.
    pub(super) fn leave_frames(&mut self) {
        for index in 0..self.queues.len() {
            if self.queues[index].taken > 0 {
                self.fill(index);
            }
        }
        self.pool.take_returned(&mut self.free);
        self.pool.arena.give(self.free.drain(..));
    }

    fn fill(&mut self, index: usize) {
        // A portion is never posted, so that a flood cannot stop us from sending.
        let portion = self.portion();
        self.gather(self.queues[index].taken as usize + portion);
        let arena = &self.pool.arena;
        let guard = arena.lock_rings();
        if let Some(left) = arena.left_posting() {
            take_back(arena, &mut self.queues, left);
        }
        let queue = &mut self.queues[index];
        let ring = &mut queue.fill;
        ring.reload(false);
        let missing = self.post_max.saturating_sub(ring.waiting());
        let posted = missing.min(POSTING_MAX).min(self.free.len().saturating_sub(portion) as u32);
        let stay = self.free.len() - posted as usize;
        let posting = Posting { queue: index as u32, start: ring.position(), count: posted };
        for &frame in &self.free[stay..] {
            ring.put(u64::from(frame) * FRAME as u64);
        }
        arena.begin_posting(posting, &self.free[stay..]);
        self.free.truncate(stay);
        ring.publish();
        arena.end_posting();
        drop(guard);
        // What could not be posted is still missing: the next turn tries again.
        queue.taken = missing - posted;
        if ring.needs_wakeup() {
            let _ = sys::socket::receive(queue.socket.fd.raw(), &mut [], libc::MSG_DONTWAIT);
        }
        self.share();
    }

    /// Has `wanted` free frames at hand, if there are so many.
    pub(super) fn gather(&mut self, wanted: usize) {
        if self.free.len() < wanted {
            self.pool.take_returned(&mut self.free);
        }
        if self.free.len() < wanted {
            let missing = (wanted - self.free.len()).max(self.portion());
            self.pool.arena.take(self.lane, missing, &mut self.free);
        }
    }

    /// Gives surplus frames back for other lanes of the arena: all but a portion or two where that has none left.
    pub(super) fn share(&mut self) {
        let (arena, portion) = (&self.pool.arena, self.portion());
        let part = if arena.has_free() { arena.frames() as usize / FREE_SHARE } else { 0 };
        let most = part.max(2 * portion);
        if self.free.len() > most {
            arena.give(self.free.drain(most - portion..));
        }
    }

    /// Frames that a lane takes from the arena at a time. All lanes that there may be can have two such portions of the
    /// half that is not posted.
    fn portion(&self) -> usize {
        (self.pool.arena.frames() as usize / (4 * LANES)).clamp(1, PORTION_MAX)
    }
}

impl Queue {
    /// The next whole packet of this queue.
    #[inline]
    fn next_packet(&mut self, pool: &'static Pool, lane: u32, tail: &mut Vec<RxFrame>) -> Option<RxFrame> {
        tail.clear();
        while self.socket.rx.filled() != 0 {
            let desc = self.socket.rx.take();
            self.taken += 1;
            let chunk = receive_chunk(pool, lane, &desc);
            // Ours before it leaves the ring: who finds us dead has it from the one or from the other.
            if self.socket.rx.is_drained() {
                self.socket.rx.release();
            }
            let goes_on = desc.options & XDP_PKT_CONTD != 0;
            if self.head.is_none() {
                if !goes_on && chunk.is_some() {
                    return chunk;
                }
                self.head = chunk;
            } else if let Some(chunk) = chunk
                && self.tail.len() < CHUNKS_MAX
            {
                self.tail.push(chunk);
            }
            if !goes_on {
                tail.append(&mut self.tail);
                return self.head.take();
            }
        }
        None
    }
}

/// Frees what a killed process was about to post, unless the kernel sees it. Callers hold the rings' lock.
#[cold]
fn take_back(arena: &Arena, queues: &mut [Queue], left: Posting) {
    if let Some(Queue { fill, .. }) = queues.get_mut(left.queue as usize) {
        fill.reload(false);
        if fill.position() == left.start {
            let frame = |at| (fill.entry(left.start.wrapping_add(at)) / FRAME as u64) as u32;
            arena.take_back((0..left.count).map(frame));
        }
    }
    arena.end_posting();
}

#[inline]
fn receive_chunk(pool: &'static Pool, lane: u32, desc: &Desc) -> Option<RxFrame> {
    let arena: &Arena = &pool.arena;
    arena.received((desc.addr / FRAME as u64) as u32, lane);
    RxFrame::new(pool, desc.addr, desc.len)
}
