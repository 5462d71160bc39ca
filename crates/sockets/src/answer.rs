//! The three-way answer of every call: done, an errno, or "the kernel, because".

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

/// Why the kernel does it. `NotOurs` is the ordinary case of a descriptor that was never a candidate, and is not
/// counted; the others are counted, and told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Not a socket of ours.
    NotOurs,
}
