//! Receiving: messages are checked once, when they are taken in, and read when the application asks.

use super::{Broken, Connection, Flow, Piece, ROOM, Ring, Wants};
use crate::header::{Header, Kind};
use crate::segment::{CLOSED, IN_SLOT, INLINE};
use crate::{PAYLOAD_MAX, SLOTS};
use core::sync::atomic::Ordering;

impl Connection {
    /// Takes in what has arrived. True: something did.
    #[inline]
    pub fn take_in(&mut self) -> (bool, Ring) {
        let has_grown = self.look_at_last();
        if self.segment.stamped(self.side.other(), self.seen + 1) == Self::before(self.seen + 1) {
            return (has_grown, Ring::No);
        }
        let (any, ring) = self.take_in_messages();
        (any || has_grown, ring)
    }

    /// Takes in what was added to the last message. True: something was.
    #[inline]
    fn look_at_last(&mut self) -> bool {
        let Some(Piece { number, len, grows: true, .. }) = self.arrived.back().copied() else { return false };
        let extent = self.segment.extent(self.side.other(), number).load(Ordering::Acquire);
        if extent == len {
            return false;
        }
        self.grow(self.arrived.len() - 1, extent)
    }

    /// A message that has arrived has this extent by now. True: it is longer than it was.
    fn grow(&mut self, at: usize, extent: u32) -> bool {
        let Some(piece) = self.arrived.get_mut(at) else { return false };
        if !(piece.len..=PAYLOAD_MAX as u32).contains(&extent) {
            piece.grows = false;
            self.give_up("a message that shrinks, or grows beyond its body");
            return false;
        }
        self.unread += (extent - piece.len) as usize;
        core::mem::replace(&mut piece.len, extent) != extent
    }

    /// What stands in the slot of message `number` as long as it has not arrived.
    fn before(number: u64) -> u32 {
        number.saturating_sub(u64::from(SLOTS)) as u32
    }

    #[inline(never)]
    fn take_in_messages(&mut self) -> (bool, Ring) {
        let (first, answers) = (self.seen, self.sent);
        // So many at once: a peer that never stops sending must not hold the thread.
        for _ in 0..SLOTS {
            let number = self.seen + 1;
            if self.broken.is_some() {
                break;
            }
            let stamp = self.segment.stamped(self.side.other(), number);
            if stamp == Self::before(number) {
                break;
            }
            if stamp != number as u32 {
                self.give_up("a message has the number of another");
                break;
            }
            if number - self.consumed() > u64::from(SLOTS) {
                self.give_up("sends without a grant");
                break;
            }
            // Nothing is added to the one before it any more.
            self.look_at_last();
            let (header, body) = self.segment.header(self.side.other(), number);
            self.seen = number;
            match header {
                Some(header) => self.message(number, header, body),
                None => self.give_up("a message of no known kind"),
            }
        }
        self.segment.grant(self.side, self.credit());
        let ring = if self.sent != answers { self.ring_for(Wants::DATA) } else { Ring::No };
        (self.seen != first || self.broken.is_some(), ring)
    }

    fn message(&mut self, number: u64, header: Header, body: u32) {
        self.accept(header.credit);
        let len = header.payload;
        match header.kind {
            Kind::AbortConn => self.broken = Some(self.broken.unwrap_or(Broken::Reset)),
            _ if self.receiving != Flow::Open && !self.leaving.may_still_come(header.kind) => {
                self.give_up("sends behind its end");
            }
            Kind::Data if !Self::is_payload(len) => self.give_up("a payload that is empty or too long"),
            Kind::Data if (header.grows || len as usize > INLINE) && body >= SLOTS => {
                self.give_up("a body that does not exist")
            }
            // It comes again, by the socket.
            Kind::Data if self.leaving.frozen.is_some() => {}
            Kind::Data => {
                debug_assert!(len as usize <= PAYLOAD_MAX);
                let body = if header.grows || len as usize > INLINE { body } else { IN_SLOT };
                self.arrived.push_back(Piece { number, body, len, grows: header.grows });
                self.unread += len as usize;
                self.look_at_last();
            }
            Kind::DisConn if len == 0 => self.receiving = Flow::Ended,
            Kind::SuspComm if len == 8 => self.peer_leaves(number),
            Kind::SuspCommAck if len == 0 => self.peer_answers(),
            Kind::Parts if len == 0 => self.receiving = Flow::Left,
            _ => self.give_up("a message of the wrong length"),
        }
    }

    /// Bytes of the stream that have come, read or not.
    pub fn came(&self) -> u64 {
        self.bytes_read + self.unread as u64
    }

    /// Reads bytes of the stream into `into`; how many.
    pub fn receive(&mut self, into: &mut [u8]) -> (usize, Ring) {
        let mut done = 0;
        while done < into.len() {
            let Some(piece) = self.arrived.front().copied() else { break };
            let len = (piece.len as usize - self.offset).min(into.len() - done);
            let target = &mut into[done..done + len];
            self.segment.read(self.side.other(), piece.number, piece.body, self.offset, target);
            done += len;
            self.pass(len);
        }
        (done, if done > 0 { self.tell() } else { Ring::No })
    }

    /// Bytes that come `skip` bytes later, without taking them.
    pub fn peek(&self, mut skip: usize, into: &mut [u8]) -> usize {
        let (mut done, mut from) = (0, self.offset);
        for piece in &self.arrived {
            let left = piece.len as usize - from;
            if skip >= left {
                skip -= left;
            } else {
                let len = (left - skip).min(into.len() - done);
                let target = &mut into[done..done + len];
                self.segment.read(self.side.other(), piece.number, piece.body, from + skip, target);
                done += len;
                skip = 0;
            }
            from = 0;
            if done == into.len() {
                break;
            }
        }
        done
    }

    /// Drops the next bytes, as many as there are, at most `count`; how many that were.
    pub fn discard(&mut self, count: usize) -> (usize, Ring) {
        let all = count.min(self.unread);
        let mut left = all;
        while left > 0 {
            let Some(piece) = self.arrived.front() else { break };
            let len = (piece.len as usize - self.offset).min(left);
            self.pass(len);
            left -= len;
        }
        (all, if all > 0 { self.tell() } else { Ring::No })
    }

    /// Goes on by `len` bytes within the first piece.
    fn pass(&mut self, len: usize) {
        self.offset += len;
        self.unread -= len;
        self.bytes_read += len as u64;
        let Some(piece) = self.arrived.front_mut().filter(|piece| piece.len as usize == self.offset) else {
            return;
        };
        if core::mem::take(&mut piece.grows) {
            // The bytes up to there are the last ones of this message.
            let extent = self.segment.extent(self.side.other(), piece.number);
            let extent = extent.fetch_or(CLOSED, Ordering::AcqRel) & !CLOSED;
            if self.grow(0, extent) {
                return;
            }
        }
        self.arrived.pop_front();
        self.offset = 0;
    }

    /// Grants the other side what was read, and wakes it where that is much.
    fn tell(&mut self) -> Ring {
        let credit = self.credit();
        self.segment.grant(self.side, credit);
        // As `granted - sent` on the other side, as far as this one knows what was sent.
        if u64::from(credit.buffers) < ROOM { Ring::No } else { self.ring_for(Wants::ROOM) }
    }
}
