//! A differential test of TCP: one script of packets and socket calls, run against Linux and against the engine.
//!
//! A script (`tests/drill/<area>/<behaviour>.drill`) says what a peer sends, what the application calls, and which
//! packets and results must follow. [`kernel`] plays it with real system calls in a network namespace whose only
//! device is a TUN on which the peer is played; [`engine`] plays it in virtual time. What both do as written is the
//! same behaviour; where the engine means to behave otherwise the script has lines for each side, and says why.
//!
//! Reading order: [`script`] (the language), [`packet`] (patterns and bytes), [`world`] (what a side can do), [`play`]
//! (a script on a side), [`kernel`], [`engine`], [`report`].

pub mod engine;
pub mod kernel;
pub mod packet;
pub mod play;
pub mod report;
pub mod script;
pub mod world;
