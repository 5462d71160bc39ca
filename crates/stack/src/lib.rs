//! The engine: TCP, UDP and ICMP over IPv4 as a pure state machine.
//!
//! No I/O, no clock, no threads, no unsafe. Frames go in, frames and events come out, time is an argument.
//! The real device, the simulator and the fuzzers drive it alike.
//!
//! # The contract of [`Stack`]
//!
//! One `Stack` serves one interface. It has four kinds of methods:
//!
//! - **`on_*`: what arrives.** [`Stack::on_frame`] (a packet), [`Stack::on_time`] (timers that are due).
//! - **Commands of the application**, named by protocol: `tcp_connect`, `tcp_send`, `udp_recv`, ... They never
//!   block: what cannot be done now answers `WouldBlock` and an event follows when it can.
//! - **What the world is like**: `set_addresses`, `set_mtu`, `set_path`, `set_neighbour`. The engine does not route
//!   and does not speak ARP; it asks by [`Request`] and the owner answers with one of these.
//! - **Outputs to drain**: [`Stack::take_event`] (which sockets changed), [`Stack::take_request`],
//!   [`Stack::take_for_kernel`] (packets whose way is another interface's), and frames,
//!   which are written to the [`Outlet`] that every sending method is handed.
//!
//! Order of a turn, for the owner: `on_frame` for each packet, `on_time`, `flush`, then drain requests and events,
//! then sleep until [`Stack::next_timer`] at the latest.
//!
//! Time must not go backwards between calls; it may stand still. Nothing here allocates in the steady state of a
//! connection: receive queues hold the frames themselves, send buffers come from a pool of blocks.
//!
//! Every [`SocketId`] carries a generation: a method called with the id of a socket that is gone answers
//! `Closed`/`None`, never touches its successor.
//!
//! # Reading order
//!
//! stack.rs (the parts), ingress.rs (from a frame to a transport), udp/ (the simpler transport, whole), net/ (paths,
//! neighbours, and the one way out), tcp/. Beside them: demux.rs (which socket), event_queue.rs (what the owner
//! drains), budget.rs (whose frames may wait), reassembly.rs, unrouted.rs (whose
//! sender is not known to be reachable yet), icmp.rs, timers.rs, linux.rs (errnos and state numbers).
#![forbid(unsafe_code)]

pub mod census;
pub mod error;
pub mod event;
pub mod frame;
#[doc(hidden)]
pub mod mutation;
pub mod tcp;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod time;
pub mod udp;

mod budget;
mod demux;
mod event_queue;
mod icmp;
mod ingress;
mod linux;
mod net;
mod reassembly;
mod slab;
mod stack;
mod timers;
mod unrouted;

pub use error::{RecvError, SendError, SocketError};
pub use event::{Event, Ready, Request};
pub use frame::{Frame, Large, Outlet, Sink, Source};
pub use ingress::Dropped;
pub use stack::{Config, Path, Query, SocketId, Stack};
pub use time::{Duration, Instant};
pub use unrouted::ReversePath;
pub use wire::addr::{Endpoint, MacAddr};
