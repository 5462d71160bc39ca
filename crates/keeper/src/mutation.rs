//! Planted faults, for testing the tests: each is one thing done wrong on purpose, and the fuzzing target of the
//! protocol must notice it (`fuzz/tests/planted.rs`). Without the feature `mutations` nothing of it is compiled:
//! `planted!` is `false`.

/// Whether a fault is planted.
#[cfg(not(feature = "mutations"))]
macro_rules! planted {
    ($name:ident) => {
        false
    };
}

#[cfg(feature = "mutations")]
macro_rules! planted {
    ($name:ident) => {
        crate::mutation::is_planted(crate::mutation::Mutation::$name)
    };
}

pub(crate) use planted;

#[cfg(feature = "mutations")]
pub use on::*;

#[cfg(feature = "mutations")]
mod on {
    use core::sync::atomic::{AtomicUsize, Ordering};

    /// A fault that can be planted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Mutation {
        /// The answer to another question is taken for that to this one.
        AnyNumber,
        /// What is longer than a packet is read as one.
        AnyLength,
        /// Descriptors beside an answer that is not this question's are kept.
        KeepsDescriptors,
        /// Another version of the protocol is taken for ours.
        AnyVersion,
    }

    /// All of them.
    pub const ALL: &[Mutation] =
        &[Mutation::AnyNumber, Mutation::AnyLength, Mutation::KeepsDescriptors, Mutation::AnyVersion];

    static PLANTED: AtomicUsize = AtomicUsize::new(usize::MAX);

    /// Plants one fault, or none, in the whole process.
    pub fn plant(mutation: Option<Mutation>) {
        PLANTED.store(mutation.map_or(usize::MAX, |mutation| mutation as usize), Ordering::Relaxed);
    }

    pub(crate) fn is_planted(mutation: Mutation) -> bool {
        PLANTED.load(Ordering::Relaxed) == mutation as usize
    }
}
