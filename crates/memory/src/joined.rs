//! A connection whose two sides have met. Each direction comes by the socket up to a byte, then from the segment, and
//! may go back to the socket at another one.
//!
//! Who calls here has the TCP socket in hand, and uses it where this module says so. The bell rings by itself.

use crate::attention;
use crate::connection::{Broken, Connection, Ring, Wants};
use crate::kept::Kept;
use crate::meeting::{Heard, begins, hear};
use crate::tcp;
use core::cell::Cell;
use sys::Fd;

/// Packets that are taken from the bell at once: a peer that rings without end must not hold the thread.
const PACKETS_MAX: usize = 64;
const RING: [u8; 1] = [b'r'];

/// Where the next bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The socket, and not more than so many bytes.
    Socket(u64),
    /// The segment.
    Segment,
}

/// How the stream of the peer ended, or this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All that the peer sent is read, and it sends no more.
    Eof,
    /// ECONNRESET.
    Reset,
}

/// One side of a connection that travels in a segment.
#[derive(Debug)]
pub struct Joined {
    bell: Fd,
    connection: Connection,
    /// Bytes that come by the socket still, before those of the segment; `None`: the peer has not begun.
    by_socket: Option<u64>,
    /// The peer's end of the bell is closed: it has ended, or does not use the segment any more.
    hung_up: bool,
    /// The number of the peer's process (`attention.rs`).
    peer: u64,
    /// Rings that this side sent, and heard.
    rings: Cell<u32>,
    broken: Option<&'static str>,
}

impl Joined {
    /// `peer`: the number of its process. `by_socket`: as in [`Joined`].
    pub(crate) fn new(bell: Fd, connection: Connection, peer: u64, by_socket: Option<u64>) -> Joined {
        Joined { bell, connection, by_socket, hung_up: false, peer, rings: Cell::new(0), broken: None }
    }

    /// Nothing more goes by the segment from here.
    pub(crate) fn give_up(&mut self) {
        self.broken = Some("the peer counts other bytes");
        let ring = self.connection.abort();
        self.ring(ring);
    }

    /// The descriptor that is readable when the peer has rung, or has ended: for those who sleep.
    pub fn descriptor(&self) -> i32 {
        self.bell.raw()
    }

    /// The connection was given up because of what the peer wrote; what that was.
    pub fn distrust(&self) -> Option<&'static str> {
        match self.connection.broken() {
            Some(Broken::Peer(what)) => Some(what),
            _ => self.broken,
        }
    }

    fn ring(&self, ring: Ring) {
        if ring == Ring::Yes {
            self.rings.set(self.rings.get().wrapping_add(1));
            // No room: it is rung already. Nobody there: the end is heard elsewhere.
            let _ = sys::socket::send(self.bell.raw(), &RING, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
        }
    }

    /// How often this side has rung, and heard a ring: each is a system call at both ends.
    pub fn rings(&self) -> u32 {
        self.rings.get()
    }

    /// Hears what the bell says: after each sleep. Nobody may read the TCP socket meanwhile, and [`Joined::take_in`]
    /// comes next. True: it said something. Who rang has taken the wish out of the segment ([`Joined::want`]): whoever
    /// sleeps for it from now on must say it again.
    pub fn hear(&mut self, tcp: i32) -> bool {
        let mut any = false;
        for _ in 0..if self.hung_up { 0 } else { PACKETS_MAX } {
            let heard = hear(&self.bell);
            any |= !matches!(heard, Heard::Nothing);
            match heard {
                Heard::Nothing => break,
                Heard::Ring => self.rings.set(self.rings.get().wrapping_add(1)),
                Heard::News(said, _) => self.news(tcp, said),
                Heard::Nonsense => self.broken = Some("rings with nonsense"),
                Heard::End => {
                    self.hung_up = true;
                    break;
                }
            }
        }
        any
    }

    fn news(&mut self, tcp: i32, said: (u8, u64)) {
        let left = begins(said).and_then(|written| written.checked_sub(tcp::read(tcp).ok()?));
        match (left, self.by_socket) {
            (Some(_), None) => self.by_socket = left,
            _ => self.broken = Some("begins where it cannot"),
        }
    }

    /// Takes in what is in the segment. True: something was.
    pub fn take_in(&mut self) -> bool {
        if self.by_socket.is_none() {
            // Where these bytes belong is still on its way; a peer that leaves must not have its answer before that.
            return false;
        }
        let (any, ring) = self.connection.take_in();
        self.ring(ring);
        any
    }

    /// Whether the peer sends by the segment.
    pub fn has_begun(&self) -> bool {
        self.by_socket.is_some()
    }

    /// Where bytes are to be received from.
    pub fn source(&self) -> Source {
        match self.by_socket {
            None => Source::Socket(u64::MAX),
            Some(left @ 1..) => Source::Socket(left),
            Some(0) if self.connection.receives_by_socket() => Source::Socket(u64::MAX),
            Some(0) => Source::Segment,
        }
    }

    /// The caller has read so many bytes from the socket.
    pub fn received_by_socket(&mut self, count: u64) {
        if let Some(left) = &mut self.by_socket {
            *left = left.saturating_sub(count);
        }
    }

    /// Receives from the segment; 0: see [`Joined::ended`].
    pub fn receive(&mut self, into: &mut [u8]) -> usize {
        let (count, ring) = self.connection.receive(into);
        self.ring(ring);
        count
    }

    /// The bytes of the segment that come `skip` bytes later, without taking them.
    pub fn peek(&self, skip: usize, into: &mut [u8]) -> usize {
        self.connection.peek(skip, into)
    }

    /// Drops the next bytes of the segment; how many that were.
    pub fn discard(&mut self, count: usize) -> usize {
        let (count, ring) = self.connection.discard(count);
        self.ring(ring);
        count
    }

    /// Bytes of the segment that can be received now.
    pub fn unread(&self) -> usize {
        self.connection.unread()
    }

    /// Bytes that have come by the segment, read or not.
    pub fn came(&self) -> u64 {
        self.connection.came()
    }

    /// Sends by the segment, as much as there is room for. Only while [`Joined::sends_by_segment`].
    pub fn send(&mut self, data: &[u8]) -> usize {
        let (count, ring) = self.connection.send(data);
        self.ring(ring);
        count
    }

    /// Whether what is sent goes by the segment; else it is over, or goes by the socket ([`Joined::has_left`]).
    pub fn sends_by_segment(&self) -> bool {
        !self.connection.is_sending_over() && self.connection.broken().is_none() && !self.hung_up
    }

    /// Whether the peer's end of the bell is closed: it will not read anything any more.
    pub fn has_peer_hung_up(&self) -> bool {
        self.hung_up
    }

    /// Whether the peer sends no more by the segment, whatever of it is unread.
    pub fn peer_has_ended(&self) -> bool {
        self.by_socket == Some(0)
            && self.connection.receives_here()
            && (self.connection.is_ended() || self.hung_up || self.distrust().is_some())
    }

    /// Whether there is room to send, or sending would fail.
    pub fn is_writable(&mut self) -> bool {
        self.connection.is_writable() || self.hung_up
    }

    /// Whether receiving would not wait, as far as the segment tells.
    pub fn is_readable(&self) -> bool {
        self.connection.unread() > 0 || self.ended().is_some()
    }

    /// The end, when everything before it was received. A peer that was killed has ended its stream, as the kernel
    /// does for it; and where it had not read everything, the kernel resets the connection.
    pub fn ended(&self) -> Option<End> {
        if self.connection.unread() > 0 || self.source() != Source::Segment {
            return None;
        }
        if self.distrust().is_some() || self.connection.broken().is_some() {
            return Some(End::Reset);
        }
        if self.connection.is_at_end() {
            return Some(End::Eof);
        }
        self.hung_up.then(|| if self.connection.was_read_by_peer() { End::Eof } else { End::Reset })
    }

    /// Whether the peer is gone and has not read all that went by the segment: the kernel would say ECONNRESET, also
    /// where the peer had not begun to send by the segment itself.
    pub fn was_left_unread(&self) -> bool {
        self.hung_up && !self.connection.was_read_by_peer()
    }

    /// Sends no more, as a FIN.
    pub fn shut(&mut self) {
        let ring = self.connection.shut();
        self.ring(ring);
    }

    /// Ends both directions, as a RST.
    pub fn abort(&mut self) {
        let ring = self.connection.abort();
        self.ring(ring);
    }

    /// Says what to be woken for. The caller looks once more ([`Joined::take_in`]), then sleeps on
    /// [`Joined::descriptor`].
    pub fn want(&self, wants: Wants) {
        self.connection.want(wants);
    }

    /// Takes that back.
    pub fn want_no_more(&self, wants: Wants) {
        self.connection.want_no_more(wants);
    }

    /// Sends by the socket from now on ([`Joined::has_left`]), if the peer has read all that went by the segment.
    pub fn part(&mut self) {
        if self.sends_by_segment() {
            let ring = self.connection.part();
            self.ring(ring);
        }
    }

    /// Whether the peer's stream goes back to the socket.
    pub fn has_peer_parted(&self) -> bool {
        self.connection.has_peer_parted()
    }

    /// Takes this end back to the socket. What is unread comes by the socket; before [`Joined::has_left`] nothing may
    /// be sent. The peer's process is asked to look, whatever it is about.
    pub fn leave(&mut self) {
        let ring = self.connection.leave();
        self.ring(ring);
        if self.is_leaving() {
            attention::call(self.peer);
        }
    }

    /// A copy of what is unread, before [`Joined::leave`]. `None`: nothing is that the peer would send again, or there
    /// is no memory.
    pub fn keep(&self, tcp: i32) -> Option<Kept> {
        let unread = self.connection.unread();
        let by_socket = self.by_socket.filter(|_| unread > 0 && !self.connection.is_needed_there())?;
        let before = tcp::read(tcp).ok()? + by_socket;
        Kept::new(unread, before, |into| self.connection.peek(0, into))
    }

    /// Whether this side is on its way back, and waits for the peer's answer.
    pub fn is_leaving(&self) -> bool {
        self.connection.is_leaving()
    }

    /// Whether everything that is sent from now on goes by the socket, behind [`Joined::owed`].
    pub fn has_left(&self) -> bool {
        self.connection.has_left()
    }

    /// Whether the peer's bytes come by the socket again, all that went by the segment being read.
    pub fn receives_by_socket(&self) -> bool {
        self.by_socket == Some(0) && self.connection.receives_by_socket()
    }

    /// Whether this side's go there, too.
    pub fn is_back(&self) -> bool {
        self.receives_by_socket() && self.has_left()
    }

    /// Whether a direction went back without need.
    pub fn is_back_by_choice(&self) -> bool {
        self.connection.has_parted() && !self.connection.is_needed_there()
    }

    /// Bytes that the peer did not read, to be sent by the socket first, from the `skip`th on.
    pub fn owed(&self, skip: u64, into: &mut [u8]) -> usize {
        self.connection.owed(skip, into)
    }
}
