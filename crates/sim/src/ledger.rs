//! What the applications did, on which the checkers of streams and datagrams stand; and the first violation.

use crate::chance::mix;
use crate::content;
use stack::{Endpoint, SocketError};

/// Something that must not be.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// When, ns of the world.
    pub at: u64,
    /// At which host; `usize::MAX`: the world.
    pub host: usize,
    /// What.
    pub what: String,
}

/// One end's side of a conversation over TCP.
#[derive(Clone, Debug, Default)]
pub struct End {
    /// It has a socket: it connected, or was accepted.
    pub begun: bool,
    /// Bytes that the engine took from the application.
    pub accepted: u64,
    /// The application said that there is no more (after `accepted` bytes).
    pub finished: bool,
    /// Bytes that the application read.
    pub read: u64,
    /// It read the end of the stream.
    pub saw_end: bool,
    /// How often its connection went out of the engine: what TCP_REPAIR cannot say was forgotten then.
    pub moves: u32,
    /// It has no congestion control.
    pub unlimited: bool,
    /// It is done with its socket.
    pub done: bool,
    /// Offsets of the bytes that it said to be urgent.
    pub urgent: Vec<u64>,
    /// The error that it was told.
    pub error: Option<SocketError>,
}

/// A connection, as the two applications live it.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    /// Client and server.
    pub ends: [End; 2],
    /// Its plan makes errors and lost ends legitimate.
    pub rude: bool,
    /// What a round trip takes at least, ns.
    pub round_trip_min: u64,
    /// The listener's queue may overflow. SYN cookies then may lose the beginning and reset what follows.
    pub crowded: bool,
    /// Both sides have SO_KEEPALIVE: whatever happened, neither waits for ever.
    pub kept_alive: bool,
}

impl Conversation {
    /// Whether nobody can know that it hangs. The last ACK of a handshake by SYN cookie was lost: the server remembers
    /// nothing that it could repeat, and the client has nothing to say that would bring the proof again (RFC 4987,
    /// 3.6).
    pub fn is_lost_cookie(&self) -> bool {
        let [client, server] = &self.ends;
        self.crowded && !server.begun && client.begun && client.accepted == 0 && !client.finished
    }
}

/// A datagram that was sent.
#[derive(Clone, Copy, Debug)]
pub struct Letter {
    pub len: usize,
    pub copies: u32,
    pub from: Endpoint,
    pub to: Endpoint,
}

/// All that the applications of a world did.
#[derive(Default)]
pub struct Ledger {
    /// The world's time, ns.
    pub now: u64,
    /// The host whose turn it is.
    pub host: usize,
    pub violation: Option<Violation>,
    pub conversations: Vec<Conversation>,
    /// Datagrams by sender and number.
    pub letters: Vec<Vec<Letter>>,
    /// Whether the network may double datagrams.
    pub doubles: bool,
    /// Datagrams (sender, number) that nothing keeps from arriving.
    pub greetings: Vec<(usize, usize)>,
    pub letters_read: u64,
    pub bytes_read: u64,
    /// How often something happened to the network by which a sender's timeouts may be right: a loss, a path that
    /// becomes longer, a host that sleeps.
    pub disturbed: u64,
    /// No wire has a queue: how long a path is does not depend on how much is on it.
    pub is_steady: bool,
}

impl Ledger {
    /// Reports a violation; the first one counts.
    pub fn alarm(&mut self, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { at: self.now, host: self.host, what: what() });
        }
    }

    /// `side` of a conversation read these bytes.
    pub fn on_read(&mut self, conversation: usize, side: usize, bytes: &[u8]) {
        let c = &self.conversations[conversation];
        let (offset, accepted) = (c.ends[side].read, c.ends[1 - side].accepted);
        if let Some(at) = content::first_difference(stream_of(conversation, 1 - side), offset, bytes) {
            self.alarm(|| {
                format!("conversation {conversation}: byte {} read is not the one sent", offset + at as u64)
            });
        }
        let end = &mut self.conversations[conversation].ends[side];
        end.read += bytes.len() as u64;
        self.bytes_read += bytes.len() as u64;
        let read = end.read;
        if read > accepted {
            self.alarm(|| format!("conversation {conversation}: {read} bytes read of {accepted} sent"));
        }
    }

    /// `side` read the end of the stream.
    pub fn on_end(&mut self, conversation: usize, side: usize) {
        let c = &mut self.conversations[conversation];
        c.ends[side].saw_end = true;
        let (read, other) = (c.ends[side].read, &c.ends[1 - side]);
        let (accepted, finished) = (other.accepted, other.finished);
        if !finished || read != accepted {
            self.alarm(|| {
                format!(
                    "conversation {conversation}: end of stream after {read} bytes; the other side sent {accepted}, \
                     closed {finished}"
                )
            });
        }
    }

    /// `side` stands before a byte that it was told to be urgent.
    pub fn on_mark(&mut self, conversation: usize, side: usize) {
        let ends = &self.conversations[conversation].ends;
        let at = ends[side].read;
        if !ends[1 - side].urgent.contains(&at) {
            self.alarm(|| format!("conversation {conversation}: the mark at {at} is at no urgent byte"));
        }
    }

    /// The engine has gone on to `position` of the stream without giving `side` what is between: only urgent bytes,
    /// which are read apart.
    pub fn on_skipped_to(&mut self, conversation: usize, side: usize, position: u64, inline: bool) {
        let ends = &self.conversations[conversation].ends;
        let read = ends[side].read;
        let fair = |at: u64| !inline && ends[1 - side].urgent.contains(&at);
        if position < read || !(read..position).all(fair) {
            self.alarm(|| {
                format!("conversation {conversation}: {read} bytes read, the engine is at {position}")
            });
        }
        self.conversations[conversation].ends[side].read = position;
    }

    /// `side` read an urgent byte apart.
    pub fn on_urgent(&mut self, conversation: usize, side: usize, byte: u8) {
        let (stream, said) =
            (stream_of(conversation, 1 - side), &self.conversations[conversation].ends[1 - side].urgent);
        if !said.iter().any(|at| content::first_difference(stream, *at, &[byte]).is_none()) {
            self.alarm(|| format!("conversation {conversation}: {byte:#x} was not urgent"));
        }
    }

    /// What `side` measured of its round trips, ns.
    pub fn on_round_trip(&mut self, conversation: usize, side: usize, measured: u64) {
        let least = self.conversations[conversation].round_trip_min;
        // Timestamps count milliseconds.
        if measured != 0 && measured + 1_000_000 < least {
            self.alarm(|| {
                format!("conversation {conversation}: side {side} measured {measured} ns for a round trip of {least}")
            });
        }
    }

    /// Whether the server's connection may begin anew with the numbers of one that it gave up: a segment of long ago
    /// proves the same SYN cookie once more (RFC 4987, 3.6).
    pub fn may_begin_again(&self, conversation: usize) -> bool {
        let c = &self.conversations[conversation];
        c.crowded && c.rude && c.ends[1].done
    }

    /// `side` was told an error.
    pub fn on_error(&mut self, conversation: usize, side: usize, error: SocketError) {
        let c = &mut self.conversations[conversation];
        c.ends[side].error = Some(error);
        if c.crowded && side == 0 && c.ends[1].accepted == 0 && c.ends[1].read == 0 {
            c.rude = true;
        }
        if !c.rude {
            self.alarm(|| format!("conversation {conversation}: side {side} got {error:?} without a cause"));
        }
    }

    /// `sender` sends a datagram of `len` bytes `from` an endpoint `to` another: its bytes into `into`.
    pub fn write_letter(&mut self, sender: usize, [from, to]: [Endpoint; 2], len: usize, into: &mut Vec<u8>) {
        let number = self.letters[sender].len();
        self.letters[sender].push(Letter { len, copies: 0, from, to });
        into.clear();
        into.resize(len, 0);
        content::fill(letter_stream(sender, number), 0, into);
        if len >= 8 {
            into[..4].copy_from_slice(&(sender as u32).to_be_bytes());
            into[4..8].copy_from_slice(&(number as u32).to_be_bytes());
        }
    }

    /// The engine refused the last datagram.
    pub fn unwrite_letter(&mut self, sender: usize) {
        self.letters[sender].pop();
    }

    /// Every datagram that was sent after the network calmed down was read.
    pub fn check_greetings(&mut self) {
        for (sender, number) in std::mem::take(&mut self.greetings) {
            if self.letters[sender].get(number).is_none_or(|letter| letter.copies == 0) {
                self.alarm(|| format!("datagram {sender}/{number} did not arrive though the network healed"));
            }
        }
    }

    /// A datagram was read by `reader`, who was told that it is from `from`.
    pub fn on_letter(&mut self, from: Endpoint, reader: Endpoint, bytes: &[u8]) {
        self.letters_read += 1;
        if bytes.len() < 8 {
            return;
        }
        let word =
            |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
        let (sender, number) = (word(0), word(4));
        let doubles = self.doubles;
        let Some(letter) = self.letters.get_mut(sender).and_then(|l| l.get_mut(number)) else {
            return self.alarm(|| format!("a datagram that nobody sent: {sender}/{number}"));
        };
        letter.copies += 1;
        let Letter { len, copies, .. } = *letter;
        if (letter.from, letter.to) != (from, reader) {
            let Letter { from: source, to, .. } = *letter;
            self.alarm(|| {
                format!(
                    "datagram {sender}/{number} from {source} to {to} was read by {reader} as from {from}"
                )
            });
        }
        if len != bytes.len()
            || content::first_difference(letter_stream(sender, number), 8, &bytes[8..]).is_some()
        {
            self.alarm(|| {
                format!("datagram {sender}/{number}: {} bytes read, {len} sent, or others", bytes.len())
            });
        }
        if copies > 1 && !doubles {
            self.alarm(|| format!("datagram {sender}/{number} was delivered {copies} times"));
        }
    }
}

/// The content of what `side` says in a conversation.
pub fn stream_of(conversation: usize, side: usize) -> u64 {
    mix((conversation * 2 + side) as u64 + 1)
}

fn letter_stream(sender: usize, number: usize) -> u64 {
    mix((sender as u64) << 32 | number as u64) ^ 0x5544_5000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_silent_client_of_a_crowded_listener_may_hang() {
        let silent = End { begun: true, ..End::default() };
        let lost = Conversation { ends: [silent, End::default()], crowded: true, ..Conversation::default() };
        assert!(lost.is_lost_cookie());
        let change = |change: fn(&mut Conversation)| {
            let mut other = lost.clone();
            change(&mut other);
            other.is_lost_cookie()
        };
        assert!(!change(|c| c.crowded = false), "no cookies: the SYN-ACK comes again");
        assert!(!change(|c| c.ends[1].begun = true));
        assert!(!change(|c| c.ends[0].accepted = 1), "its data brings the proof again");
        assert!(!change(|c| c.ends[0].finished = true), "as does its FIN");
    }
}
