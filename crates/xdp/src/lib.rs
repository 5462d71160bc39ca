//! The AF_XDP device: arena, rings, program and steering maps.
//!
//! Knows nothing of TCP or sockets: it moves frames and steers flows. One [`Device`] is one interface with all its
//! queues, used under one lock by its owner, the lane.
//!
//! ```text
//!              the interface's receive queues                          the application
//!                |  program (bpf/steer.bpf.c): flow -> slot                  ^ bytes
//!                v                                                           |
//!   fill ring -> kernel copies or DMAs -> receive ring --> RxFrame --- lane --+-- drop: Pool (any thread)
//!       ^                                                                         |
//!       +----------------------- free frames of the lane <------------------------+
//!                                        |   ^
//!                            reserve, commit  reap
//!                                        v   |
//!                             transmit ring -> kernel -> completion ring
//! ```
//!
//! Reading order: [`arena`] (the memory and who owns what of it), `rings` (the one cursor), `socket`, `device` with
//! `device/receive` and `device/transmit`, then `program`, `steering` and `flood`. `docs/design/af-xdp.md` has what was
//! measured.

mod arena;
mod bpf;
pub mod caps;
mod device;
mod flood;
mod if_xdp;
mod interface;
mod locking;
mod moderation;
mod offloads;
mod owner;
mod pool;
mod privilege;
mod program;
pub mod query;
mod refusal;
mod rings;
mod socket;
mod statistics;
mod steering;

pub use arena::Locked;
pub use device::{
    Bell, ByKernel, Census, Change, Device, HalfOpen, HandOver, Handout, Hook, Inherited, Kept, Leftovers,
    Options, Passed, Sent, interface_name,
};
pub use moderation::{Moderation, Pace, Unmoderated};
pub use pool::RxFrame;
pub use privilege::Missing;
pub use refusal::Refusal;
pub use statistics::Statistics;
pub use steering::Flow;

/// How the program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The best that the interface can do; as an answer, never given.
    Auto,
    /// In the driver.
    Native,
    /// In the kernel's generic hook, for any driver.
    Generic,
}
