//! Counters: what is counted (a table), where (a segment in memory that the caller mapped, one block per process, lane
//! and socket), and how another process reads them. Reading never writes into what is read.
//!
//! Reading order: [`counters`] is THE TABLE, `table` its macro, [`why`] the reasons why a socket is left to the kernel,
//! [`verdict`] the judge's, [`cell`] how one number is kept, [`segment`] the layout and the writer's side, [`reader`]
//! the other side, [`report`] a socket in words.
#![deny(unsafe_code)]

pub mod cell;
pub mod counters;
pub mod layout;
pub mod manual;
pub mod reader;
pub mod report;
#[allow(unsafe_code)] // refers to memory that the caller mapped
pub mod segment;
mod table;
#[cfg(test)]
#[allow(unsafe_code)]
mod tests;
pub mod verdict;
pub mod why;

pub use cell::{Count, Level, Peak, Shared, State};
pub use counters::{Lane, Process, Socket};
pub use reader::{Snapshot, Unreadable, Wish};
pub use segment::{About, Control, Segment, flag};
pub use table::{Column, Kind};
pub use verdict::{Carrier, Verdict};
pub use why::Why;
