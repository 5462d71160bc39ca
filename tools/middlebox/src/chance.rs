//! Random numbers by frame: what befalls frame n of a direction depends on the seed and on n alone, never on time
//! or on which faults are switched on.

/// A stream of numbers for one frame.
pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    /// The numbers of frame `index` of the direction that `seed` names.
    pub(crate) fn of_frame(seed: u64, index: u64) -> Chance {
        Chance { state: mix(seed ^ mix(index.wrapping_add(0x9e37_79b9_7f4a_7c15))) }
    }

    /// The next number (splitmix64).
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// True with probability `p` (0 to 1). Always takes one number.
    pub(crate) fn hits(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// A number in 0..1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number below `end`; zero if `end` is zero.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }
}

/// The finalizer of splitmix64: a bijection that scatters bits.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
