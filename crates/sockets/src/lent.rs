//! Packets that the program has: taken out of receive queues, not copied, and given back by name.
//!
//! A name is checked before anything is done with it: packets of recvfrom_zcopy and of the callback have a number with
//! a generation in it, so that a name that was given back, or made up, finds nothing; buffers of completions have an
//! address in a table that is never freed. Numbers and addresses are used again as late as possible.
//!
//! The program may keep what it gets. What the device's memory can lose to it is a part of it, beyond which the lent is
//! copied first; and each who holds packets gets at most as many more as are left for all others.

use crate::abi::Buff;
use crate::frame::Frame;
use core::ptr::{null_mut, with_exposed_provenance_mut};
use stack::tcp::Piece;
use stack::{Frame as _, SocketId};
use std::collections::VecDeque;

/// Pieces of packets that are lent at a time, of one lane.
const PIECES_MAX: usize = 1 << 14;
/// Of the device's frames, this part may be lent.
const FRAMES_PART: u32 = 4;
/// Addresses come in blocks that are made when they are needed.
const BLOCK: usize = 256;
/// No piece follows.
const NONE: u32 = u32::MAX;

/// What a piece lies in.
pub(crate) enum Memory {
    /// A datagram's.
    Frame(Frame),
    /// A stream's.
    Piece(Piece<Frame>),
}

impl Memory {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Memory::Frame(frame) => frame.bytes(),
            Memory::Piece(piece) => piece.bytes(),
        }
    }

    fn is_attached(&self) -> bool {
        match self {
            Memory::Frame(frame) => frame.is_attached(),
            Memory::Piece(piece) => piece.is_attached(),
        }
    }

    fn detach(&mut self) {
        match self {
            Memory::Frame(frame) => frame.detach(),
            Memory::Piece(piece) => piece.detach(),
        }
    }
}

/// By which functions it comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loan {
    /// free_packets, by the socket with this token.
    Packet(u64),
    /// The socketxtreme functions, by address.
    Buffer,
}

struct Entry {
    memory: Option<Memory>,
    /// Who holds it; 0: nobody, the entry is free.
    holders: u32,
    generation: u32,
    next: u32,
    loan: Loan,
    socket: SocketId,
}

/// What came back of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Returned {
    pub socket: SocketId,
    pub bytes: u32,
}

/// See the module's page. One lane's, under its lock.
pub(crate) struct Lent {
    slot: usize,
    entries: Vec<Entry>,
    /// By address: its beginning, and the number of its first entry.
    blocks: Vec<(usize, u32)>,
    /// The longest free first.
    free: VecDeque<u32>,
    /// Frames of the device among the lent.
    attached: u32,
    attached_max: u32,
    /// Kept to allocate once.
    pub(super) taken: Vec<Piece<Frame>>,
}

impl Lent {
    /// Nothing is lent. `frames`: the device's.
    pub(crate) fn new(slot: usize, frames: u32) -> Lent {
        Lent {
            slot,
            entries: Vec::new(),
            blocks: Vec::new(),
            free: VecDeque::new(),
            attached: 0,
            attached_max: frames / FRAMES_PART,
            taken: Vec::new(),
        }
    }

    /// Whether one who holds `held` pieces may have `more`.
    pub(crate) fn has_room(&self, held: u32, more: usize) -> bool {
        let left = PIECES_MAX - (self.entries.len() - self.free.len());
        left >= more && held as usize <= left
    }

    fn entry(&mut self) -> u32 {
        if self.free.is_empty() {
            let first = self.entries.len() as u32;
            let empty = |_| Buff { next: null_mut(), payload: null_mut(), len: 0 };
            // Never freed, and from here on known by its address alone: the program writes there, too.
            let block = Box::into_raw(Box::new(core::array::from_fn::<Buff, BLOCK, _>(empty)));
            let place = (block.expose_provenance(), first);
            let at = self.blocks.partition_point(|known| known.0 < place.0);
            self.blocks.insert(at, place);
            self.entries.extend((0..BLOCK).map(|_| Entry {
                memory: None,
                holders: 0,
                generation: 1,
                next: NONE,
                loan: Loan::Buffer,
                socket: SocketId::from_bits(0),
            }));
            self.free.extend(first..first + BLOCK as u32);
        }
        self.free.pop_front().unwrap_or_default()
    }

    /// Lends a packet of these pieces; the number of the first. The caller asked `has_room`.
    pub(crate) fn lend(
        &mut self,
        loan: Loan,
        socket: SocketId,
        pieces: impl DoubleEndedIterator<Item = Memory>,
    ) -> u32 {
        let mut next = NONE;
        for mut memory in pieces.rev() {
            self.admit(&mut memory);
            let index = self.entry();
            let entry = &mut self.entries[index as usize];
            (entry.holders, entry.next, entry.loan, entry.socket) = (1, next, loan, socket);
            entry.memory = Some(memory);
            next = index;
        }
        next
    }

    /// A name for a packet that `fill` may lend, and that can be given back before. The caller asked `has_room`.
    pub(crate) fn reserve(&mut self, loan: Loan, socket: SocketId) -> u64 {
        let index = self.entry();
        let entry = &mut self.entries[index as usize];
        (entry.holders, entry.next, entry.loan, entry.socket) = (1, NONE, loan, socket);
        self.name(index)
    }

    /// Lends what was reserved. False: it was given back meanwhile.
    pub(crate) fn fill(&mut self, name: u64, memory: Vec<Memory>) -> bool {
        let first = (name & 0xff_ffff) as u32;
        let Some(entry) = self.entries.get(first as usize) else { return false };
        if entry.holders == 0 || entry.memory.is_some() || self.name(first) != name {
            return false;
        }
        let (loan, socket) = (entry.loan, entry.socket);
        let mut memory = memory.into_iter();
        let Some(mut own) = memory.next() else { return false };
        let next = if memory.len() > 0 { self.lend(loan, socket, memory) } else { NONE };
        self.admit(&mut own);
        let entry = &mut self.entries[first as usize];
        (entry.memory, entry.next) = (Some(own), next);
        true
    }

    /// Beyond its part of the device's frames, what is lent is copied.
    fn admit(&mut self, memory: &mut Memory) {
        if memory.is_attached() && self.attached >= self.attached_max {
            memory.detach();
        }
        self.attached += u32::from(memory.is_attached());
    }

    /// The bytes of a packet, piece by piece.
    pub(crate) fn pieces(&self, first: u32) -> impl Iterator<Item = (u32, &[u8])> {
        let mut at = first;
        core::iter::from_fn(move || {
            let entry = self.entries.get(at as usize)?;
            let index = core::mem::replace(&mut at, entry.next);
            Some((index, entry.memory.as_ref().map_or(&[][..], Memory::bytes)))
        })
    }

    /// The program's name for a packet: never 0.
    pub(crate) fn name(&self, first: u32) -> u64 {
        let generation = u64::from(self.entries[first as usize].generation);
        (self.slot as u64 + 1) << 56 | generation << 24 | u64::from(first)
    }

    /// The slot of the lane that a name is of, if it is one.
    pub(crate) fn slot_of(name: u64) -> Option<usize> {
        (name >> 56).checked_sub(1).map(|slot| slot as usize)
    }

    /// Takes back what the socket `token` was lent under this name. `None`: nothing.
    pub(crate) fn give_back(&mut self, name: u64, token: u64) -> Option<(Returned, u32)> {
        let first = (name & 0xff_ffff) as u32;
        let entry = self.entries.get(first as usize)?;
        let is_it = entry.holders > 0 && entry.loan == Loan::Packet(token) && self.name(first) == name;
        if !is_it {
            return None;
        }
        let mut returned = Returned { socket: entry.socket, bytes: 0 };
        let (mut at, mut pieces) = (first, 0);
        while at != NONE {
            let next = self.entries[at as usize].next;
            returned.bytes += self.end(at);
            pieces += 1;
            at = next;
        }
        Some((returned, pieces))
    }

    /// Nobody holds this piece any more; how many bytes it had.
    fn end(&mut self, index: u32) -> u32 {
        let entry = &mut self.entries[index as usize];
        let memory = entry.memory.take();
        // 32 bits of the name: none is found again before four thousand million others.
        entry.generation = entry.generation.wrapping_add(1);
        entry.holders = 0;
        entry.next = NONE;
        self.free.push_back(index);
        let Some(memory) = memory else { return 0 };
        self.attached -= u32::from(memory.is_attached());
        memory.bytes().len() as u32
    }

    /// The socket is closed: its packets are taken back. (Buffers are not: they outlive sockets.)
    pub(crate) fn take_all_back(&mut self, token: u64) {
        for index in 0..self.entries.len() {
            let entry = &self.entries[index];
            if entry.holders > 0 && entry.loan == Loan::Packet(token) {
                self.end(index as u32);
            }
        }
    }

    // ---- buffers, by address ----------------------------------------------------------------------------------

    /// Tells the program of a lent packet: writes its list, and gives the first address, how many there are, and bytes.
    pub(crate) fn describe(&mut self, first: u32) -> (*mut Buff, usize, usize) {
        let (mut count, mut bytes) = (0, 0);
        let mut at = first;
        while at != NONE {
            let entry = &self.entries[at as usize];
            let (next, payload) = (entry.next, entry.memory.as_ref().map_or(&[][..], Memory::bytes));
            let (len, payload) = (payload.len(), payload.as_ptr().cast_mut().cast());
            let following = if next == NONE { null_mut() } else { self.address(next) };
            // SAFETY: an entry's place in a block that is never freed. The program does not have it yet.
            unsafe { *self.address(at) = Buff { next: following, payload, len: len as u16 } };
            (count, bytes, at) = (count + 1, bytes + len, next);
        }
        (self.address(first), count, bytes)
    }

    fn address(&self, index: u32) -> *mut Buff {
        let first = index - index % BLOCK as u32;
        let block = self.blocks.iter().find(|(_, known)| *known == first).map_or(0, |(start, _)| *start);
        with_exposed_provenance_mut::<Buff>(block).wrapping_add(index as usize % BLOCK)
    }

    /// The lent buffer at an address, which may be anything.
    fn at(&self, address: usize) -> Option<u32> {
        let block = self.blocks.partition_point(|(start, _)| *start <= address).checked_sub(1)?;
        let (start, first) = self.blocks[block];
        let offset = address - start;
        if !offset.is_multiple_of(size_of::<Buff>()) || offset / size_of::<Buff>() >= BLOCK {
            return None;
        }
        let index = first + (offset / size_of::<Buff>()) as u32;
        let entry = &self.entries[index as usize];
        (entry.holders > 0 && entry.loan == Loan::Buffer).then_some(index)
    }

    /// One more holds a buffer; how many do.
    pub(crate) fn hold(&mut self, address: usize) -> Option<u32> {
        let entry = self.at(address).map(|index| &mut self.entries[index as usize])?;
        entry.holders = entry.holders.checked_add(1)?;
        Some(entry.holders)
    }

    /// One less holds a buffer; how many do, and what came back if nobody does.
    pub(crate) fn let_go(&mut self, address: usize) -> Option<(u32, Option<Returned>)> {
        let index = self.at(address)?;
        let entry = &mut self.entries[index as usize];
        if entry.holders > 1 {
            entry.holders -= 1;
            return Some((entry.holders, None));
        }
        let socket = entry.socket;
        Some((0, Some(Returned { socket, bytes: self.end(index) })))
    }

    /// The address behind a buffer in its packet; `None`: it is not lent.
    pub(crate) fn following(&self, address: usize) -> Option<Option<usize>> {
        let next = self.entries[self.at(address)? as usize].next;
        Some((next != NONE).then(|| self.address(next).addr()))
    }
}

#[cfg(test)]
#[path = "lent/tests.rs"]
mod tests;
