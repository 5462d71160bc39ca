//! Planted faults, for testing the tests: each is one thing done wrong on purpose, and some test must notice it. A
//! crate declares its own by [`faults!`] in a module `mutation`, and asks at the place by [`planted!`]. Unless it is
//! built with its feature `mutations` the answer is a constant, and nothing of them is left.

/// The faults of a crate: `Mutation`, all of them as `ALL`, and with the feature `mutations` what plants them.
#[macro_export]
macro_rules! faults {
    ($($(#[doc = $what:literal])+ $name:ident,)*) => {
        /// A fault that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutation {
            $($(#[doc = $what])+ $name,)*
        }

        /// All of them.
        pub const ALL: &[Mutation] = &[$(Mutation::$name),*];

        #[cfg(feature = "mutations")]
        static PLANTED: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(usize::MAX);

        /// Plants one fault in the whole process, or none.
        #[cfg(feature = "mutations")]
        pub fn plant(mutation: Option<Mutation>) {
            let number = mutation.map_or(usize::MAX, |mutation| mutation as usize);
            PLANTED.store(number, core::sync::atomic::Ordering::Relaxed);
        }

        #[cfg(feature = "mutations")]
        #[inline]
        pub(crate) fn is_planted(mutation: Mutation) -> bool {
            PLANTED.load(core::sync::atomic::Ordering::Relaxed) == mutation as usize
        }

        #[cfg(not(feature = "mutations"))]
        #[inline(always)]
        pub(crate) const fn is_planted(_: Mutation) -> bool {
            false
        }
    };
}

/// Whether a fault of the crate that asks is planted.
#[macro_export]
#[allow(clippy::crate_in_macro_def)] // its module `mutation`
macro_rules! planted {
    ($name:ident) => {
        crate::mutation::is_planted(crate::mutation::Mutation::$name)
    };
}
