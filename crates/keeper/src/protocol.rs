//! What programs and the keeper say to each other: packets over a Unix socket of type SOCK_SEQPACKET, descriptors
//! beside them (SCM_RIGHTS). Questions have one length; behind Restore and some answers there is more. A program
//! asks, the keeper answers each question once, in order.
//!
//! ```text
//!   question   descriptor         answer
//!   Hello                         the keeper's version, and its network namespace
//!   Repair     a TCP socket       done, or errno
//!   Deafen     a TCP socket       done, or errno
//!   Bind       two TCP sockets    done, or errno
//!   Attach     any socket         the interface, as `xdp::Handout` describes it, or in words why not; its descriptors
//!   Resolve    none               done, or errno
//!   Status                        the keeper's state as JSON, in a file in memory
//!   Restore    those of Attach    done, or errno
//!   Join       one end of a pair  none: the other end is a connection of its own from then on, with the same rights
//! ```
//!
//! Status is answered to everybody, also to those who are told with Hello that they are not admitted. Join is for the
//! child of a fork, which has its parent's connection and could take its parent's answers from it.

use crate::mutation::planted;

/// Both sides have the same, or part.
pub const VERSION: u16 = 1;
/// Length of a question, and of an answer without what is behind it.
pub const LEN: usize = 24;
/// What can be behind an answer.
pub const MORE_MAX: usize = 256;
/// Attach is answered within some ten milliseconds; where a driver takes its link down, in seconds. Who asks waits as
/// long, nanoseconds, and who is asked need not try for longer.
pub const OPENING_NS: u64 = 15_000_000_000;
/// The first word of every packet.
const MAGIC: u32 = u32::from_ne_bytes(*b"SdKp");
/// Marks answers.
const ANSWER: u16 = 0x8000;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// Who is there? The first question on every connection.
    Hello = 1,
    /// Sets TCP_REPAIR of the socket that is passed to [`Packet::value`].
    Repair = 2,
    /// The socket that is passed is a connection of another process of the program.
    Join = 3,
    /// Attaches a filter to the socket that is passed, by which no packet comes in.
    Deafen = 4,
    /// Wants a lane on the interface whose index is [`Packet::value`], in the network namespace of the socket that is
    /// passed.
    Attach = 5,
    /// Has the kernel look for a neighbour (ARP): IPv4 address [`Packet::detail`] on interface [`Packet::value`].
    Resolve = 6,
    /// What does the keeper hold, for whom, and whom did it refuse?
    Status = 7,
    /// An interface that another keeper had handed out, which is gone: what it said is behind the question, and what it
    /// passed is beside it.
    Restore = 8,
    /// Binds the first socket that is passed, which is in repair mode by the same client, to the port [`Packet::value`]
    /// of IPv4 address [`Packet::detail`], where the second one listens.
    Bind = 9,
}

impl Kind {
    /// All that there are.
    pub const ALL: [Kind; 9] = [
        Kind::Hello,
        Kind::Repair,
        Kind::Join,
        Kind::Deafen,
        Kind::Attach,
        Kind::Resolve,
        Kind::Status,
        Kind::Restore,
        Kind::Bind,
    ];

    fn of(number: u16) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u16 == number)
    }
}

/// A question or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What is asked, or was.
    pub kind: Kind,
    /// Whether this is the answer.
    pub is_answer: bool,
    /// The sender's version.
    pub version: u16,
    /// The question's number, and so its answer's.
    pub number: u32,
    /// Of a question: what it is about. Of an answer: 0, or errno.
    pub value: i32,
    /// Of the answer to Hello: the keeper's network namespace, as SO_NETNS_COOKIE has it. Of that to Attach: 1, if
    /// there are IPsec policies.
    pub detail: u64,
}

impl Packet {
    /// A question.
    pub fn question(kind: Kind, number: u32, value: i32) -> Packet {
        Packet { kind, is_answer: false, version: VERSION, number, value, detail: 0 }
    }

    /// The answer to a question: 0, or errno.
    pub fn answered(&self, errno: i32) -> Packet {
        Packet { is_answer: true, version: VERSION, value: errno, detail: 0, ..*self }
    }

    /// As it travels.
    pub fn bytes(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        let kind = self.kind as u16 | if self.is_answer { ANSWER } else { 0 };
        bytes[..4].copy_from_slice(&MAGIC.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.version.to_ne_bytes());
        bytes[6..8].copy_from_slice(&kind.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.number.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.value.to_ne_bytes());
        bytes[16..].copy_from_slice(&self.detail.to_ne_bytes());
        bytes
    }

    /// `None`: that is no packet of this protocol. The version may be any.
    pub fn read(bytes: &[u8]) -> Option<Packet> {
        let bytes = if planted!(AnyLength) { &bytes[..bytes.len().min(LEN)] } else { bytes };
        let bytes: &[u8; LEN] = bytes.try_into().ok()?;
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let detail = u64::from(word(16)) | u64::from(word(20)) << 32;
        (word(0) == MAGIC).then_some(())?;
        Some(Packet {
            kind: Kind::of(half(6) & !ANSWER)?,
            is_answer: half(6) & ANSWER != 0,
            version: half(4),
            number: word(8),
            value: word(12) as i32,
            detail,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_as_they_were_written_and_nothing_else_is() {
        for kind in Kind::ALL {
            let question = Packet::question(kind, 0xfeed_beef, -1);
            assert_eq!(Packet::read(&question.bytes()), Some(question));
            let answer = Packet { detail: 0x0123_4567_89ab_cdef, ..question.answered(libc::EPERM) };
            assert_eq!(Packet::read(&answer.bytes()), Some(answer));
        }
        let bytes = Packet::question(Kind::Hello, 1, 0).bytes();
        for length in 0..LEN {
            assert_eq!(Packet::read(&bytes[..length]), None, "{length}");
        }
        assert_eq!(Packet::read(&[bytes.as_slice(), &[0]].concat()), None);
        for (at, value) in [(0, 0), (6, 0), (6, 77)] {
            let mut other = bytes;
            other[at] = value;
            assert_eq!(Packet::read(&other), None, "{at} {value}");
        }
    }
}
