//! The keeper of a network namespace (`tools/sidestepd`) does for programs what they have no privilege for, and so does
//! a process that forks for its children. Here are the protocol and both sides of it that are inside programs, which is
//! why this crate needs nothing but `sys`.
//!
//! Reading order: [`protocol`] (what is said), [`place`] (where a keeper is found), [`client`]; then [`session`] (how
//! it is answered) and [`repair`] (what is lent).

pub mod client;
pub mod mutation;
pub mod place;
pub mod protocol;
pub mod repair;
pub mod session;
