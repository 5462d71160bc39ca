//! The way back to the socket, at an exact byte of each direction.
//!
//! By choice, a direction at a time (Parts): its sender says that the rest comes by the socket, once the peer has read
//! all that came here. So nothing is owed, whatever the peer says at the same time, nobody waits for an answer, and the
//! other direction is not concerned.
//!
//! By need, both at once (SuspComm): who leaves reads nothing from the segment any more, and tells how many bytes it
//! has read. The other side sends what is behind those by the socket, before anything newer, and answers; it reads the
//! segment until there, then the socket. Who left sends by the socket when the answer is there. If both leave at once,
//! each message is the answer to the other.

use super::{Connection, Flow, Ring, Wants};
use crate::SLOTS;
use crate::header::Kind;
use crate::segment::IN_SLOT;

/// How far a side is on its way out.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// This side's direction has parted.
    parted: bool,
    /// The message of ours that said that both leave.
    asked: Option<u64>,
    answered: bool,
    /// The last message that was read, when this side asked: from then on nothing more is granted, as the peer needs
    /// the rest.
    pub(super) frozen: Option<u64>,
    /// The peer leaves, and has read so many bytes.
    peer_has_read: Option<u64>,
}

impl Leaving {
    /// The message of ours whose payload is none of the stream.
    pub(super) fn is_own_message(&self, number: u64) -> bool {
        self.asked == Some(number)
    }

    /// The peer reads nothing here any more.
    pub(super) fn is_peer_gone(&self) -> bool {
        self.peer_has_read.is_some()
    }

    /// What a peer may send after it has ended its stream.
    pub(super) fn may_still_come(&self, kind: Kind) -> bool {
        match kind {
            Kind::SuspComm => self.peer_has_read.is_none(),
            Kind::SuspCommAck => true,
            _ => false,
        }
    }
}

impl Connection {
    /// Sends by the socket from now on ([`Connection::has_left`]), if the peer has read all that was sent here, and
    /// that was something: as long as it may not have heard where this stream came here, it may read anything there.
    pub fn part(&mut self) -> Ring {
        let has_sent = self.sending == Flow::Open && self.last_data > 0;
        let may = has_sent && self.is_read_by_peer() && self.broken.is_none();
        if !may || !self.put(Kind::Parts, &[]) {
            return Ring::No;
        }
        self.leaving.parted = true;
        self.stop_sending();
        self.ring_for(Wants::DATA)
    }

    /// Whether this side's stream goes by the socket because of [`Connection::part`].
    pub fn has_parted(&self) -> bool {
        self.leaving.parted
    }

    /// Whether one of the two asked for the socket, for both directions.
    pub fn is_needed_there(&self) -> bool {
        self.leaving.asked.is_some() || self.leaving.peer_has_read.is_some()
    }

    /// Whether the peer's stream comes by the socket from some byte on, be it that this is not reached yet.
    pub fn has_peer_parted(&self) -> bool {
        self.receiving == Flow::Left
    }

    /// Takes this end back to the socket. Before the answer ([`Connection::has_left`]) nothing may be sent there.
    pub fn leave(&mut self) -> Ring {
        if self.leaving.asked.is_some() || self.leaving.peer_has_read.is_some() || self.broken.is_some() {
            return Ring::No;
        }
        self.leaving.frozen = Some(self.consumed());
        self.leaving.asked = Some(self.sent + 1);
        if !self.put(Kind::SuspComm, &self.bytes_read.to_be_bytes()) {
            // The reserve keeps a grant for it.
            self.give_up("grants less than it did");
            return Ring::No;
        }
        self.stop_sending();
        // What is unread comes by the socket.
        self.arrived.clear();
        (self.unread, self.offset) = (0, 0);
        self.ring_for(Wants::BOTH)
    }

    /// Whether this side asked to leave, and has no answer yet.
    pub fn is_leaving(&self) -> bool {
        self.leaving.asked.is_some() && !self.has_left()
    }

    /// Whether what is sent from now on goes by the socket, behind [`Connection::owed`].
    pub fn has_left(&self) -> bool {
        self.leaving.parted || self.leaving.peer_has_read.is_some() || self.leaving.answered
    }

    /// Whether what is received from now on comes by the socket.
    pub fn receives_by_socket(&self) -> bool {
        self.unread == 0 && !self.receives_here()
    }

    /// Whether the peer's stream, or its end, comes by the segment.
    pub fn receives_here(&self) -> bool {
        match self.receiving {
            _ if self.leaving.asked.is_some() => false,
            Flow::Open => true,
            Flow::Ended => self.leaving.peer_has_read.is_none(),
            Flow::Left => false,
        }
    }

    fn stop_sending(&mut self) {
        if self.sending == Flow::Open {
            self.sending = Flow::Left;
        }
    }

    /// SuspComm has come.
    pub(super) fn peer_leaves(&mut self, number: u64) {
        let mut bytes = [0; 8];
        self.segment.read(self.side.other(), number, IN_SLOT, 0, &mut bytes);
        let read = u64::from_be_bytes(bytes);
        self.look_for_grants();
        if self.leaving.peer_has_read.is_some() || !(self.bytes_freed..=self.bytes_sent).contains(&read) {
            return self.give_up("has read what was not sent, or less than it said");
        }
        self.leaving.peer_has_read = Some(read);
        if self.receiving == Flow::Open {
            self.receiving = Flow::Left;
        }
        if self.leaving.asked.is_none() {
            let _ = self.put(Kind::SuspCommAck, &[]);
        }
        self.stop_sending();
    }

    /// SuspCommAck has come.
    pub(super) fn peer_answers(&mut self) {
        if self.leaving.asked.is_none() || self.leaving.answered {
            return self.give_up("answers what was not asked");
        }
        self.leaving.answered = true;
        if self.receiving == Flow::Open {
            self.receiving = Flow::Left;
        }
    }

    /// Bytes that the peer did not read and gets by the socket, from the `skip`th on; how many were copied.
    pub fn owed(&self, mut skip: u64, into: &mut [u8]) -> usize {
        let Some(read) = self.leaving.peer_has_read else { return 0 };
        skip += read - self.bytes_freed.min(read);
        let mut done = 0;
        for number in self.freed + 1..=self.sent {
            let (len, body) = self.on_the_way[(number % u64::from(SLOTS)) as usize];
            let stream = self.stream_bytes(number, len);
            if skip >= stream {
                skip -= stream;
                continue;
            }
            let from = skip as usize;
            let count = (len as usize - from).min(into.len() - done);
            self.segment.read(self.side, number, body, from, &mut into[done..done + count]);
            done += count;
            skip = 0;
            if done == into.len() {
                break;
            }
        }
        done
    }
}
