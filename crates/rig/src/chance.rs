//! Numbers that look random, the same in each run, for tests that try many things.

/// Of xorshift, from a seed that is not zero.
#[derive(Debug)]
pub struct Chance(pub u64);

impl Chance {
    /// The next number, less than `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
