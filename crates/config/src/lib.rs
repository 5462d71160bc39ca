//! Parameters, rules and profiles: text in, values and messages out. No I/O: the environment and the files' contents
//! are handed in, so that all of it can run in tests and inside someone else's process.
//!
//! Reading order: [`parameters`] is the table, `table` its macro, `value` and [`choice`] the types of its fields;
//! [`env`](mod@env) reads the environment over a [`profile`]; [`rules`] is `libvma.conf`, [`sdp`] `libsdp.conf`,
//! [`interfaces`] which interfaces are ours; [`banner`] and [`manual`] print what the table knows.
#![forbid(unsafe_code)]

pub mod banner;
pub mod choice;
pub mod env;
pub mod glob;
pub mod interfaces;
pub mod manual;
pub mod notice;
pub mod parameters;
pub mod profile;
pub mod rules;
pub mod sdp;
mod table;
#[cfg(test)]
mod tests;
mod value;

/// Bytes of a file of rules (`libvma.conf`, `libsdp.conf`) at the most: a larger one is not read.
pub const FILE_MAX: usize = 1 << 20;

pub use choice::*;
pub use interfaces::Interfaces;
pub use notice::Notice;
pub use parameters::{Parameters, ROWS};
pub use rules::{ProcessRules, Role, Rules, Transport};
pub use table::Row;
pub use value::Affinity;
