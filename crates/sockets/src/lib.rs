//! Descriptor table, socket objects, lanes and waiting: POSIX over the engine.
//!
//! `interpose` calls [`calls`], one function per intercepted libc call with the same arguments, and gets a three-way
//! [`Answer`]: done, an errno, or "the kernel, because". What must reach the real libc goes through [`os::Os`].
//!
//! Which room (module) may use which is a table in ARCHITECTURE.md, which `cargo x check` asserts.
//!
//! # The story of one `recv`
//!
//! `calls/receive.rs` finds the [`object`] behind the descriptor (`fd_table.rs`, one load). `tcp/recv.rs` locks the
//! lane of its leg and asks the engine. Nothing there: one turn (`turn/mod.rs`: frames in, timers, frames out,
//! events), and the question again. Still nothing, and the call may block: `wait/block.rs` repeats that until it
//! succeeds, the budget is spent and the thread sleeps, a signal arrives or the time is up.
//!
//! # The story of one `send`
//!
//! The same first steps; `tcp/send.rs` hands the bytes to the engine, which writes frames into the device's transmit
//! ring; `turn/mod.rs` decides whether they are handed to the kernel now or gather for a few microseconds.

pub mod abi;
pub mod answer;
pub mod calls;
pub mod extra;
pub mod os;

mod address;
mod arguments;
mod astray;
mod background;
mod carrier;
mod closing;
mod counts;
mod describe;
mod device;
mod ending;
mod errno;
mod expel;
mod family;
mod fd_table;
mod filter;
mod frame;
mod genuine;
mod half_open;
mod ipsec;
mod keeper;
mod kind;
mod lane;
mod lanes;
mod lent;
mod locks;
mod lookup;
mod memory;
mod message;
mod object;
mod offload;
mod opening;
mod options;
mod part;
mod parting;
mod peek;
mod policies;
mod runtime;
mod sdp;
mod sdp_rules;
mod settings;
mod spin;
mod tcp;
mod tcp_info;
mod threads;
mod turn;
mod udp;
mod udp_legs;
mod wait;
mod worker;

pub use answer::{Answer, Stop, Why};
