//! The keeper of a network namespace (`tools/sidestepd`) does for programs what they have no privilege for. Here are
//! its protocol and the side of it that is inside programs, which is why this crate needs nothing but `sys`.
//!
//! Reading order: [`protocol`] (what is said), [`place`] (where a keeper is found), [`client`].

pub mod client;
pub mod mutation;
pub mod place;
pub mod protocol;
