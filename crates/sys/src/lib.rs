//! Our own system calls, made directly so that our hooks never see them.
//!
//! A library that is preloaded and calls libc's `read` for itself walks into its own hook. Everything that this
//! product does for itself (AF_XDP, netlink, shared memory, logs) goes through this crate; the application's calls
//! go through the genuine libc functions, elsewhere. `libc` is used for types and constants only,
//! and for `exit`, which runs the handlers of others.
//!
//! Errors are errno values (`Err(libc::EAGAIN)`); `EINTR` is reported, never hidden, unless a function says so.
//!
//! Reading order: [`raw`] (the one instruction), [`fd`] (owned descriptors, hidden from the application by
//! [`own_fd`]), [`clock`], [`futex`] and [`Mutex`], then the rest by need.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")))]
compile_error!(
    "Sidestep is for Linux on x86-64 with glibc: its system calls and hooks are written for these only"
);

pub mod afterwards;
pub mod capability;
pub mod clock;
mod copying;
pub mod daemon;
mod errno;
pub mod fd;
mod few;
pub mod file;
pub mod foreign;
pub mod futex;
pub mod identity;
pub mod linux;
pub mod memory;
mod mutex;
mod order;
pub mod own_fd;
pub mod pipe;
pub mod poll;
pub mod process;
pub mod raw;
pub mod socket;
pub mod thread;

pub use copying::Copying;
pub use errno::Errno;
pub use fd::Fd;
pub use few::Few;
pub use mutex::{InChild, Mutex, MutexGuard, never_spin, tore};

/// The outcome of a system call: a value, or errno.
pub type Result<T> = core::result::Result<T, i32>;
