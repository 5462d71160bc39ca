//! The only source of chance in a world: a generator from one seed, split into independent streams by purpose, so
//! that one more draw in one place does not change another.

/// A stream of random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// The stream of `purpose` for `seed`.
    pub fn new(seed: u64, purpose: u64) -> Chance {
        Chance { state: mix(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ mix(purpose)) }
    }

    /// The next number.
    #[allow(clippy::should_implement_trait)] // an endless stream has no need of an iterator's end
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// True with probability `p`. Draws nothing for zero.
    pub fn hits(&mut self, p: f64) -> bool {
        p > 0.0 && ((self.next() >> 11) as f64) < p * (1u64 << 53) as f64
    }

    /// True once in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A number below `end`; zero if `end` is zero.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// A number from `low` to `high` whose magnitude is uniform: small ones are as likely as large ones.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let (from, to) = (64 - low.max(1).leading_zeros(), 64 - high.max(1).leading_zeros());
        let bits = self.within(u64::from(from), u64::from(to));
        let end = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        self.within(1u64 << (bits - 1), end).clamp(low, high)
    }

    /// One of `choices`.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// A bijection that scatters bits.
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
