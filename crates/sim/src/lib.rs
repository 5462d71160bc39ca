//! A deterministic world for the engine: clock, links, faults, hosts, checkers.
//!
//! One seed makes a whole network: hosts with their stacks and applications, wires that lose and delay, and what goes
//! wrong when. It runs in virtual time, thousands of worlds per second, and twice the same seed is twice the same
//! bytes. Read plan.rs (what can happen), world.rs (how it happens), ledger.rs and checker/ (what must not).
#![allow(missing_docs)] // a test tool: fields of plans and counters say themselves
#![forbid(unsafe_code)]

pub mod app;
pub mod attack;
pub mod chance;
pub mod checker;
pub mod content;
pub mod device;
pub mod host;
pub mod ledger;
pub mod link;
pub mod merge;
pub mod packet;
pub mod plan;
pub mod router;
pub mod swarm;
pub mod trace;
pub mod world;
