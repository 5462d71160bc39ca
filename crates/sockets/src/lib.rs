//! Descriptor table, socket objects, lanes and waiting: POSIX over the engine.
//!
//! `interpose` calls [`calls`], one function per intercepted libc call with the same arguments, and gets a three-way
//! [`Answer`]: done, an errno, or "the kernel, because". What must reach the real libc goes through [`os::Os`].

pub mod answer;
pub mod calls;
pub mod os;

pub use answer::{Answer, Stop, Why};
