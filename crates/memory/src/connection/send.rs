//! Sending: messages into slots and bodies, as far as the other side grants them.

use super::{Broken, Connection, Flow, RESERVE, ROOM, Ring, SCARCE, Wants};
use crate::header::{Credit, Header, Kind};
use crate::segment::{IN_SLOT, INLINE};
use crate::{PAYLOAD_MAX, SLOTS};

impl Connection {
    /// Sends as much of `data` as there is room for; how much that was. Nothing after an end.
    pub fn send(&mut self, data: &[u8]) -> (usize, Ring) {
        let mut done = self.add_to_last(data);
        while done < data.len() && self.may_send() {
            let len = (data.len() - done).min(PAYLOAD_MAX);
            if !self.put(Kind::Data, &data[done..done + len]) {
                break;
            }
            self.bytes_sent += len as u64;
            self.last_data = self.sent;
            done += len;
        }
        let ring = if done > 0 { self.ring_for(Wants::DATA) } else { Ring::No };
        (done, ring)
    }

    /// Adds the first bytes of `data` to the last message, if that grows; how many.
    #[inline]
    fn add_to_last(&mut self, data: &[u8]) -> usize {
        if !self.grows || self.sending != Flow::Open || self.broken.is_some() {
            return 0;
        }
        let slot = (self.sent % u64::from(SLOTS)) as usize;
        let (len, body) = self.on_the_way[slot];
        let count = data.len().min(PAYLOAD_MAX - len as usize);
        self.grows =
            count > 0 && self.segment.extend(self.side, self.sent, body, len as usize, &data[..count]);
        if !self.grows {
            return 0;
        }
        self.on_the_way[slot].0 += count as u32;
        self.bytes_sent += count as u64;
        count
    }

    /// Whether [`Connection::send`] would take something.
    fn may_send(&mut self) -> bool {
        if self.sending != Flow::Open || self.broken.is_some() {
            return false;
        }
        if self.granted - self.sent <= SCARCE {
            self.look_for_grants();
        }
        self.granted - self.sent > RESERVE && self.broken.is_none()
    }

    /// Whether a poller is told that it can send: there is so much room that it pays to wake up for it, or sending
    /// would fail.
    pub fn is_writable(&mut self) -> bool {
        if self.granted - self.sent < ROOM {
            self.look_for_grants();
        }
        self.granted - self.sent >= ROOM || self.sending != Flow::Open || self.broken.is_some()
    }

    /// Whether the stream was ended from here, or goes on by the socket.
    pub fn is_sending_over(&self) -> bool {
        self.sending != Flow::Open
    }

    /// Sends no more: DisConn, as a FIN.
    pub fn shut(&mut self) -> Ring {
        if self.sending != Flow::Open || self.broken.is_some() || !self.put(Kind::DisConn, &[]) {
            return Ring::No;
        }
        self.sending = Flow::Ended;
        self.ring_for(Wants::DATA)
    }

    /// Ends both directions: AbortConn, as a RST.
    pub fn abort(&mut self) -> Ring {
        if self.broken.is_some() || !self.put(Kind::AbortConn, &[]) {
            return Ring::No;
        }
        self.broken = Some(Broken::Reset);
        self.ring_for(Wants::BOTH)
    }

    /// Writes the next message. False: there is no grant for it.
    pub(super) fn put(&mut self, kind: Kind, payload: &[u8]) -> bool {
        let kept = if Self::is_control(kind) { 0 } else { RESERVE };
        if self.granted - self.sent <= kept {
            return false;
        }
        self.free_what_was_read();
        let number = self.sent + 1;
        self.grows = kind == Kind::Data && self.granted - self.sent <= SCARCE && payload.len() < PAYLOAD_MAX;
        let needs_body = payload.len() > INLINE || self.grows;
        // There is one for each message that may be on its way.
        let Some(body) = (if needs_body { self.free.pop() } else { Some(IN_SLOT) }) else { return false };
        let header = Header { kind, grows: self.grows, payload: payload.len() as u32, credit: self.credit() };
        self.on_the_way[(number % u64::from(SLOTS)) as usize] = (payload.len() as u32, body);
        self.segment.publish(self.side, number, header, body, payload);
        self.sent = number;
        true
    }

    /// Looks what the other side grants by now.
    #[cold]
    pub(super) fn look_for_grants(&mut self) {
        let credit = self.segment.credit(self.side.other());
        self.accept(credit);
        self.free_what_was_read();
    }

    /// A grant of the other side: one that is older than what is known says nothing, one that is beyond what it has
    /// buffers for cannot be.
    pub(super) fn accept(&mut self, credit: Credit) {
        if self.leaving.is_peer_gone() {
            // What it did not read is owed, and kept for that.
            return;
        }
        let limit = credit.acknowledged.wrapping_add(u32::from(credit.buffers));
        let more = limit.wrapping_sub(self.granted as u32) as i32;
        if more <= 0 {
            return;
        }
        let granted = self.granted + more as u64;
        if granted > self.sent + u64::from(SLOTS) {
            return self.give_up("grants more than it has room for");
        }
        self.granted = granted;
    }

    /// The other side has room for SLOTS messages: those that many before the last one granted are read.
    fn free_what_was_read(&mut self) {
        let read = self.granted - u64::from(SLOTS);
        while self.freed < read {
            self.freed += 1;
            let (len, body) = self.on_the_way[(self.freed % u64::from(SLOTS)) as usize];
            if body != IN_SLOT {
                self.free.push(body);
            }
            self.bytes_freed += self.stream_bytes(self.freed, len);
        }
    }

    /// Bytes of the stream in a message of ours: the payload of SuspComm is none.
    pub(super) fn stream_bytes(&self, number: u64, len: u32) -> u64 {
        if self.leaving.is_own_message(number) { 0 } else { u64::from(len) }
    }
}
