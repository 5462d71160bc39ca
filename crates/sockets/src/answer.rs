//! The three-way answer of every call: done, an errno, or "the kernel, because".

/// Why the kernel does it. `NotOurs` is not counted; the others are counted once per socket, and told.
pub use stats::Why;

/// The only control-flow type above the engine.
pub type Answer<T> = Result<T, Stop>;

/// Why a call was not carried out here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Fail with this errno.
    Errno(i32),
    /// Call the genuine function with the same arguments.
    Kernel(Why),
}

/// How a call on a descriptor is made.
pub enum Straight<C> {
    /// The descriptor is the kernel's alone.
    Foreign,
    /// By the kernel, and told when it is over.
    Kernel(C),
    /// By the socket layer.
    Ours,
}
