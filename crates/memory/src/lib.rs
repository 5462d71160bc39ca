//! The carrier `memory`: the bytes of a TCP connection between two processes of one host, through memory that both
//! share.
//!
//! A connection is made by the kernel's TCP, and can then travel here: messages with the headers of the Sockets Direct
//! Protocol, in a segment of two rings. Nothing in this crate waits: it says when the other side is to be woken, and
//! what to look at before falling asleep.
//!
//! ```text
//!   header.rs      the 16 bytes in front of each message (BSDH)
//!   segment.rs     the memory: where what lies; unsafe code is here and in kept.rs alone
//!   connection/    one side of a connection: send, receive, credits, ends, the way back to the socket
//!   tcp.rs         what the kernel says of a TCP socket: its ends, how much went through it
//!   attention.rs   by which a process is asked to look at its connections
//!   meeting.rs     how the two processes of a connection find each other, and prove that they are those
//!   sign.rs        by which a process shows that it listens for connections that may meet
//!   joined.rs      a connection whose sides have met: which bytes come by the socket, which from the segment
//!   kept.rs        what a side that goes back had not read, should its peer end before it has sent it again
//! ```
//!
//! # Trust
//!
//! The other side can write to all of the segment at any time. Each side knows by itself how far it has written and
//! read; what the other one says is read once, checked, and used from a copy. Whatever cannot be ends the connection
//! ([`Broken::Peer`]). The segment is sealed: it cannot shrink under a reader.

pub mod attention;
pub mod connection;
mod header;
mod joined;
mod kept;
mod meeting;
mod segment;
pub mod sign;
mod tcp;

pub use connection::{Broken, Connection, Ring, Wants};
pub use joined::{End, Joined, Source};
pub use kept::{Kept, Missing};
pub use meeting::{Apart, Meeting, Progress};
pub use segment::{Segment, Side};

/// Messages that one direction holds at most: the receive buffers that are always posted.
pub const SLOTS: u32 = 256;
/// Payload of the largest message.
pub const PAYLOAD_MAX: usize = segment::BODY;
