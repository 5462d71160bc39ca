//! What carries the bytes of a TCP connection, and how that is exchanged while it lives; and when a UDP socket moves.
//!
//! ```text
//!   carrier   the object is                  who has the connection
//!   kernel    `Kind::Carried`, no leg        the descriptor's socket
//!   wire      `Kind::Stream`, one leg        an engine; the descriptor's socket is its shadow
//! ```
//!
//! `to_wire.rs` reads a connection out of the kernel's socket (`read_out.rs`) and has the engine go on; `tcp/repair.rs`
//! is the way back. Who sleeps on the socket meanwhile is told by `wait/moves.rs`. `across.rs` has the calls that move
//! data, part by part if the connection moves under them, `carried.rs` their parts on what the kernel carries, and
//! `file.rs` those that send a file; `judge.rs` says when a connection moves, `datagrams.rs` when a UDP socket does,
//! and `demanded.rs` what does not wait for that. `straight.rs` has calls on what stays in the kernel. `forking.rs`
//! knows what several processes have, `same_port.rs` what several UDP sockets of one do.
//!
//! Below this room: what a part is (`part.rs`), who is in the kernel with a socket (`object/in_flight.rs`), which
//! carrier threads do better by (`threads.rs`), interfaces that open beside the program (`opening.rs`).

mod across;
mod carried;
mod datagrams;
mod demanded;
mod file;
mod forking;
mod judge;
mod read_out;
mod same_port;
mod straight;
mod to_wire;

pub(crate) use crate::object::holders::leave;
pub(crate) use crate::object::in_flight::{has_to_stay, looks, stays, waits_there};
pub(crate) use crate::udp_legs::waits;
pub(crate) use across::Call;
pub(crate) use carried::{Target, accepted, begin, enter, error_waits, send_file};
use carried::{brought, ends_here, receive, send};
pub(crate) use datagrams::{
    begin_datagrams, begins_late, datagram, datagram_on_wire, demand_datagrams, is_due_at_once,
    is_due_with_next, sleep_in_kernel,
};
pub(crate) use demanded::{connects_on_wire, listens_on_wire};
pub(crate) use file::copy_file;
pub(crate) use forking::{after_fork, before_fork, executes, is_listener};
pub(crate) use judge::{before_any_call, demand, on_wire};
pub use straight::{Settled, SettledPoll, polled, received, received_message, sent, sent_message};
