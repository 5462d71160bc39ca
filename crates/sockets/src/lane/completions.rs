//! Sockets of a lane that socketxtreme is to tell of (`extra/completions.rs`).

use std::collections::VecDeque;

/// Sockets of a lane with something to tell, under its lock. Empty and idle unless VMA_SOCKETXTREME says otherwise.
#[derive(Default)]
pub(crate) struct Completions {
    pub is_on: bool,
    /// Tokens.
    pub waiting: VecDeque<u64>,
}

impl Completions {
    pub(crate) fn new(is_on: bool) -> Completions {
        Completions { is_on, waiting: VecDeque::new() }
    }
}
