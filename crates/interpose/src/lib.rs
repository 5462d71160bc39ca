//! Everything C can see: the exported names, the genuine functions behind them, and the guard between the program
//! and our own code. A cdylib over this crate (`preload`) is the product.
//!
//! One call, in reading order: [`hooks`] holds a row per libc function; the macro in `table` makes of a row the
//! exported symbol, the genuine function, and an entry of [`symbols`]; `guard` runs the row's body and stops panics;
//! `outcome` turns its answer into libc's return value; `genuine` finds what the next library in line defines.
//! Around them: `start` (constructor, first socket, fork, exit), `handlers`, `inside`, `farewell`, `crash`
//! and `thread` (signals), `os` (what is handed down), `unwind` (the unwinder, when it is needed).
//! docs/design/interposition.md tells the story and the traps.

// The tests' own binary exports no hooks: it would intercept itself.
#![cfg_attr(test, allow(dead_code))]

mod crash;
mod extra;
mod farewell;
mod genuine;
mod guard;
mod handlers;
pub mod hooks;
mod inside;
mod os;
mod outcome;
pub mod start;
mod table;
mod thread;
mod unwind;

pub use hooks::symbols;
