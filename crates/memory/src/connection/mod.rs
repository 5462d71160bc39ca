//! One side of a connection in a segment.
//!
//! Messages are numbered from 1 in each direction. Message `n` may be sent when the other side has granted it: its
//! credit,
//! `acknowledged + buffers`, is the number of the last one that it has room for. A grant travels in every message, and
//! stands in the segment (the empty message that SDP would send, always the latest); a slot is granted again when all
//! of its payload is read. The last [`RESERVE`] grants are for messages without payload of the stream: an end needs no
//! waiting.
//!
//! Grants are for messages, and a stream is bytes: so many short messages that the kernel's buffers would hold all of
//! them must fit, whether their reader attends or not. Where grants become scarce, a message therefore begins in a
//! body and grows as long as it is the last one: its sender adds to it, and moves its extent on, until its reader has
//! come to the end and closes it.
//!
//! Waking: who wants to sleep says what for ([`Connection::want`]), looks once more, and sleeps. Who sends or grants
//! says so first, then looks what is wanted. With a full fence between the two steps on each side, one of them sees
//! the other. The one who takes the wish away rings, so that there is one ring for each sleep at most.
//!
//! Back to the socket: a direction parts when its sender likes, as soon as the peer has read everything, or because its
//! reader needs the rest there (`leave.rs`).

#[cfg(test)]
#[path = "tests/hostile.rs"]
mod hostile;
mod leave;
mod receive;
mod send;
#[cfg(test)]
mod tests;
#[cfg(test)]
#[path = "tests/wakeups.rs"]
mod wakeups;

use crate::header::{Credit, Kind};
use crate::segment::{Segment, Side};
use crate::{PAYLOAD_MAX, SLOTS};
use core::sync::atomic::{Ordering, fence};
use std::collections::VecDeque;

/// Grants that payload of the stream leaves alone: for DisConn, for SuspComm or its answer, and for AbortConn.
const RESERVE: u64 = 3;
/// So many grants are scarce: with these alone short messages have a mebibyte.
const SCARCE: u64 = SLOTS as u64 / 2;
/// A sleeping writer is woken when this many messages have room: a quarter, as in SDP.
const ROOM: u64 = SLOTS as u64 / 4;

/// Whether the other side must be woken now.
#[must_use = "the other side sleeps until it is woken"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ring {
    /// Yes.
    Yes,
    /// It is awake, or waits for something else.
    No,
}

impl Ring {
    /// Either of two.
    pub fn or(self, other: Ring) -> Ring {
        if self == Ring::Yes { self } else { other }
    }
}

/// What a side wants to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wants(u32);

impl Wants {
    /// Something to receive: payload, an end.
    pub const DATA: Wants = Wants(1);
    /// Room to send.
    pub const ROOM: Wants = Wants(2);
    /// Both.
    pub const BOTH: Wants = Wants(3);
}

/// Why a connection is over before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The other side said so (AbortConn): ECONNRESET.
    Reset,
    /// What the other side wrote cannot be; what exactly.
    Peer(&'static str),
}

/// How far a direction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Open,
    /// DisConn is through.
    Ended,
    /// The rest goes by the socket.
    Left,
}

/// A message that has arrived and is not read to its end.
#[derive(Clone, Copy, Debug)]
struct Piece {
    number: u64,
    body: u32,
    len: u32,
    /// And is not closed.
    grows: bool,
}

/// One side of a connection.
#[derive(Debug)]
pub struct Connection {
    segment: Segment,
    side: Side,
    broken: Option<Broken>,

    /// Number of the last message that was sent.
    sent: u64,
    /// Number of the last message that the other side has room for.
    granted: u64,
    /// Number of the last message whose body is free again.
    freed: u64,
    /// Payload and body of each message on its way, by slot.
    on_the_way: Box<[(u32, u32); SLOTS as usize]>,
    /// Bodies to write to; the one used last is warm, and comes first.
    free: Vec<u32>,
    /// The last message can be added to, unless its reader has closed it.
    grows: bool,
    /// The last message with payload of the stream.
    last_data: u64,
    bytes_sent: u64,
    bytes_freed: u64,
    sending: Flow,

    /// Number of the last message that was taken in.
    seen: u64,
    arrived: VecDeque<Piece>,
    /// Bytes of the first piece that are read.
    offset: usize,
    unread: usize,
    bytes_read: u64,
    receiving: Flow,

    leaving: leave::Leaving,
}

impl Connection {
    /// A connection in a new segment.
    pub fn new(segment: Segment, side: Side) -> Connection {
        let connection = Connection {
            segment,
            side,
            broken: None,
            sent: 0,
            granted: u64::from(SLOTS),
            freed: 0,
            on_the_way: Box::new([(0, 0); SLOTS as usize]),
            free: (0..SLOTS).rev().collect(),
            grows: false,
            last_data: 0,
            bytes_sent: 0,
            bytes_freed: 0,
            sending: Flow::Open,
            seen: 0,
            arrived: VecDeque::with_capacity(SLOTS as usize),
            offset: 0,
            unread: 0,
            bytes_read: 0,
            receiving: Flow::Open,
            leaving: leave::Leaving::default(),
        };
        connection.segment.grant(side, connection.credit());
        connection
    }

    /// Why it is over, if it is. Bytes that arrived before can be read still.
    pub fn broken(&self) -> Option<Broken> {
        self.broken
    }

    /// The segment, for those who play a peer that means harm.
    #[cfg(any(test, feature = "testing"))]
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Messages that were taken in.
    #[cfg(any(test, feature = "testing"))]
    pub fn arrived(&self) -> u64 {
        self.seen
    }

    /// Bytes that [`Connection::receive`] would give now.
    pub fn unread(&self) -> usize {
        self.unread
    }

    /// Whether a receive would not wait: bytes, an end, or the connection is broken.
    pub fn is_readable(&self) -> bool {
        self.unread > 0 || self.receiving != Flow::Open || self.broken.is_some()
    }

    /// Whether the peer has sent all, and all of it is read.
    pub fn is_at_end(&self) -> bool {
        self.unread == 0 && self.receiving == Flow::Ended
    }

    /// Whether the peer sends no more, whatever of it is unread.
    pub fn is_ended(&self) -> bool {
        self.receiving == Flow::Ended || self.broken.is_some()
    }

    /// Whether the peer has read all of the stream that was sent.
    pub fn is_read_by_peer(&mut self) -> bool {
        self.look_for_grants();
        self.freed >= self.last_data
    }

    /// The same, for when the peer says nothing more: what it granted last counts. One that died before it came has
    /// granted nothing.
    pub fn was_read_by_peer(&self) -> bool {
        if self.last_data == 0 {
            return true;
        }
        let credit = self.segment.credit(self.side.other());
        let read = credit.acknowledged.wrapping_add(u32::from(credit.buffers)).wrapping_sub(SLOTS);
        (self.sent as u32).wrapping_sub(read) <= (self.sent - self.last_data) as u32
    }

    /// Says what to be woken for. The caller then looks once more ([`Connection::take_in`]), and sleeps if nothing is
    /// there.
    pub fn want(&self, wants: Wants) {
        self.segment.wants(self.side).fetch_or(wants.0, Ordering::SeqCst);
        // Before the last look: see the top of this file.
        fence(Ordering::SeqCst);
    }

    /// Takes the wish back: something was found without being woken.
    pub fn want_no_more(&self, wants: Wants) {
        self.segment.wants(self.side).fetch_and(!wants.0, Ordering::SeqCst);
    }

    /// Whether the other side sleeps for what just became so, and is to be woken by this side.
    #[inline]
    fn ring_for(&self, what: Wants) -> Ring {
        // Behind what was published: see the top of this file.
        fence(Ordering::SeqCst);
        let wants = self.segment.wants(self.side.other());
        if wants.load(Ordering::Relaxed) & what.0 != 0
            && wants.fetch_and(!what.0, Ordering::SeqCst) & what.0 != 0
        {
            return Ring::Yes;
        }
        Ring::No
    }

    /// The last message whose payload is read.
    fn consumed(&self) -> u64 {
        if let Some(frozen) = self.leaving.frozen {
            return frozen;
        }
        self.arrived.front().map_or(self.seen, |first| first.number - 1)
    }

    fn credit(&self) -> Credit {
        Credit {
            acknowledged: self.seen as u32,
            buffers: (u64::from(SLOTS) - (self.seen - self.consumed())) as u16,
        }
    }

    /// The other side broke the rules. It may sleep, and is to find the end when it wakes.
    fn give_up(&mut self, what: &'static str) {
        if self.broken.is_none() {
            self.broken = Some(Broken::Peer(what));
        }
    }

    /// The length of a message with payload of the stream.
    fn is_payload(len: u32) -> bool {
        (1..=PAYLOAD_MAX as u32).contains(&len)
    }

    /// Whether the reserve may be used for it.
    fn is_control(kind: Kind) -> bool {
        kind != Kind::Data
    }
}
