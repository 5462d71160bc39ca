//! The timer wheel: one deadline per socket, any number of sockets, constant work for each change.
//!
//! A socket has several timers (retransmission, delayed acknowledgment, keepalive, ...); it keeps those moments
//! itself and the wheel knows only the earliest. A deadline that moves later need not be told: the socket looks when
//! the wheel fires and arms it again, so a timer that every segment restarts costs nothing on most of them.
//!
//! ```text
//! level 0   64 slots of 2^16 ns (66 us)      4.2 ms in all
//! level 1   64 slots of 2^22 ns (4.2 ms)     268 ms
//! ...       each slot as wide as the whole level below
//! level 6   64 slots of 2^52 ns (52 days)    9 years
//! ```
//! An entry of an upper level falls to lower ones when the clock reaches its slot. A bit mask per level says which
//! slots hold entries, so the next moment is found in seven steps and empty time is skipped.

use crate::{Instant, SocketId};

const LEVELS: usize = 7;
const SLOTS: usize = 64;
/// log2 of the finest slot in nanoseconds: fine enough for a tail loss probe between two machines on a switch.
const TICK_SHIFT: u32 = 16;
/// Ticks ahead that count as for ever (four years): half of what the coarsest level spans.
const FAR: u64 = 1 << 41;
const NONE: u32 = u32::MAX;
/// Entries that may fire for nothing.
const FEW: u32 = 64;

/// Deadlines of sockets, by their index.
pub(crate) struct Timers {
    nodes: Vec<Node>,
    heads: [[u32; SLOTS]; LEVELS],
    occupied: [u64; LEVELS],
    /// Ticks up to and including this one were fired.
    tick: u64,
    /// Entries in all slots.
    linked: u32,
}

#[derive(Clone, Copy)]
struct Node {
    /// Tick at which it fires; meaningless if `slot` is `NONE`.
    due: u64,
    next: u32,
    prev: u32,
    /// level * SLOTS + slot, or `NONE` if not armed.
    slot: u32,
    generation: u32,
}

const IDLE: Node = Node { due: 0, next: NONE, prev: NONE, slot: NONE, generation: 0 };

impl Timers {
    pub(crate) fn new(now: Instant) -> Timers {
        Timers {
            nodes: Vec::new(),
            heads: [[NONE; SLOTS]; LEVELS],
            occupied: [0; LEVELS],
            tick: now.0 >> TICK_SHIFT,
            linked: 0,
        }
    }

    /// Makes a socket fire at `at`, rounded up to a tick, instead of what was armed before.
    pub(crate) fn arm(&mut self, id: SocketId, at: Instant) {
        let key = id.index;
        let due = due_tick(at).clamp(self.tick + 1, self.tick + FAR);
        let index = key as usize;
        if index >= self.nodes.len() {
            self.nodes.resize(index + 1, IDLE);
        }
        if self.nodes[index].slot != NONE {
            if self.nodes[index].due == due {
                return;
            }
            self.unlink(key);
        }
        self.nodes[index].due = due;
        self.nodes[index].generation = id.generation;
        self.link(key);
    }

    /// Sets, moves or removes the deadline of a socket.
    pub(crate) fn set(&mut self, id: SocketId, at: Option<Instant>) {
        match at {
            Some(at) => self.arm(id, at),
            None => self.disarm(id),
        }
    }

    /// Makes a socket fire at `at` unless it fires earlier anyway.
    #[inline]
    pub(crate) fn arm_by(&mut self, id: SocketId, at: Instant) {
        if let Some(node) = self.nodes.get(id.index as usize)
            && node.slot != NONE
            && node.generation == id.generation
            && node.due <= due_tick(at)
        {
            return;
        }
        self.arm(id, at);
    }

    /// Whether so many are armed that a deadline without a purpose is worth the work of taking it out.
    #[inline]
    pub(crate) fn are_many(&self) -> bool {
        self.linked > FEW
    }

    fn disarm(&mut self, id: SocketId) {
        if self.nodes.get(id.index as usize).is_some_and(|n| n.slot != NONE) {
            self.unlink(id.index);
        }
    }

    /// The moment at which `expire` has something to do, at the latest.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next_slot().map(|(_, _, tick)| Instant(tick << TICK_SHIFT))
    }

    /// A socket that is due, disarmed; `None` when all that are due were taken.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<SocketId> {
        let limit = now.0 >> TICK_SHIFT;
        loop {
            let Some((level, slot, at)) = self.next_slot() else {
                self.tick = self.tick.max(limit);
                return None;
            };
            if at > limit {
                self.tick = self.tick.max(limit);
                return None;
            }
            let key = self.heads[level][slot];
            if self.nodes[key as usize].due <= limit {
                self.unlink(key);
                return Some(SocketId { index: key, generation: self.nodes[key as usize].generation });
            }
            // Not due yet: its slot has begun, so all that are in it belong to finer ones.
            self.tick = self.tick.max(at);
            while self.heads[level][slot] != NONE {
                let key = self.heads[level][slot];
                self.unlink(key);
                self.link(key);
            }
        }
    }

    /// The earliest slot with entries: level, slot, and the tick at which it begins (at least `tick + 0`). It is on the
    /// lowest level that has any: an entry is on the level of the highest digit in which it differs from `tick`, so
    /// those on a level above come after all that share that digit with `tick`.
    #[inline]
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        let level = self.occupied.iter().position(|slots| *slots != 0)?;
        let shift = 6 * level as u32;
        let position = self.tick >> shift;
        let ahead = self.occupied[level].rotate_right((position % 64) as u32).trailing_zeros();
        let slot_number = position + u64::from(ahead);
        Some((level, (slot_number % 64) as usize, slot_number << shift))
    }

    fn link(&mut self, key: u32) {
        let due = self.nodes[key as usize].due;
        // The level is that of the highest group of six bits in which `due` differs from the present tick.
        let differs = (due ^ self.tick) | 1;
        let level = (((63 - differs.leading_zeros()) / 6) as usize).min(LEVELS - 1);
        let slot = ((due >> (6 * level as u32)) % 64) as usize;
        let head = self.heads[level][slot];
        if head != NONE {
            self.nodes[head as usize].prev = key;
        }
        let node = &mut self.nodes[key as usize];
        node.next = head;
        node.prev = NONE;
        node.slot = (level * SLOTS + slot) as u32;
        self.heads[level][slot] = key;
        self.linked += 1;
        self.occupied[level] |= 1 << slot;
    }

    fn unlink(&mut self, key: u32) {
        let Node { next, prev, slot, .. } = self.nodes[key as usize];
        let (level, slot) = (slot as usize / SLOTS, slot as usize % SLOTS);
        if prev == NONE {
            self.heads[level][slot] = next;
            if next == NONE {
                self.occupied[level] &= !(1 << slot);
            }
        } else {
            self.nodes[prev as usize].next = next;
        }
        if next != NONE {
            self.nodes[next as usize].prev = prev;
        }
        self.nodes[key as usize].slot = NONE;
        self.linked -= 1;
    }
}

#[inline]
fn due_tick(at: Instant) -> u64 {
    at.0.div_ceil(1 << TICK_SHIFT)
}

#[cfg(test)]
#[path = "timers/tests.rs"]
mod tests;
