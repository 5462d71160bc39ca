//! The real world for tests: namespaces, veth pairs, processes under the preload.
//!
//! Everything here runs outside the product: ordinary programs, ordinary files, the kernel's own tools (`ip`, `nft`,
//! `ethtool`). Names on the machine begin with `rig-<pid>-`, so that what a killed run left behind is recognised and
//! removed by the next one. Nothing outside such a namespace is ever reconfigured.
//!
//! Reading order: [`two_hosts`] builds the world, [`Program`] starts something in it, [`Running`] is the process,
//! [`KernelCounters`] and [`KernelFlows`] say what the kernel saw, [`sockperf`] and [`apps`] put these together.
//! [`requirements`] comes before all.

pub mod apps;
mod bad_wire;
mod bpf;
mod chance;
mod cleanup;
mod counters;
mod error;
mod kernel_flows;
mod marked;
mod namespace;
mod packages;
mod patience;
mod ports;
mod process;
mod requirements;
pub mod skip;
pub mod sockperf;
mod syn_flood;
mod two_hosts;

pub use bad_wire::BadWire;
pub use bpf::{ForeignProgram, attach_foreign_program};
pub use chance::Chance;
pub use cleanup::{on_signals, remove_leftovers};
pub use counters::KernelCounters;
pub use error::{Context, Error, Result};
pub use kernel_flows::{KernelFlows, LoopbackBytes};
pub use marked::{Mark, Marked};
pub use namespace::{Namespace, run_tool};
pub use packages::{Package, TOOLS, install};
pub use patience::{PATIENCE, eventually, eventually_some};
pub use process::{Finished, Program, Running};
pub use requirements::{Missing, Requirements, is_root, requirements};
pub use syn_flood::syn_flood;
pub use two_hosts::{Host, Options, Protocol, Router, TwoHosts, one_host, two_hosts};

/// Programs started by the rig look for their port, their output or their end at this interval when the kernel has
/// no event to offer (a port in `/proc/net/tcp` changes silently).
pub(crate) const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(2);
