//! The distribution of round trips: counts in steps of less than one percent, so that a measurement of any length takes
//! the same memory, and nothing is allocated while it runs.

/// Steps between two powers of two.
const STEPS: u64 = 128;
const OCTAVES: usize = 41;

pub(super) struct Times {
    counts: Box<[u64]>,
    total: u64,
}

impl Times {
    pub(super) fn new() -> Times {
        Times { counts: vec![0; OCTAVES * STEPS as usize].into_boxed_slice(), total: 0 }
    }

    #[inline]
    pub(super) fn add(&mut self, ns: u64) {
        let last = self.counts.len() - 1;
        self.counts[index(ns).min(last)] += 1;
        self.total += 1;
    }

    pub(super) fn count(&self) -> u64 {
        self.total
    }

    /// Microseconds that so many in a thousand do not exceed.
    pub(super) fn permille(&self, permille: u64) -> f64 {
        let mut left = (self.total * permille / 1000).min(self.total.saturating_sub(1));
        for (index, count) in self.counts.iter().enumerate() {
            if left < *count {
                return middle(index) / 1000.0;
            }
            left -= count;
        }
        0.0
    }
}

/// Below [`STEPS`] one step for each nanosecond, above as many for each doubling.
fn index(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let octave = u64::from(ns.ilog2() - STEPS.ilog2());
    (octave * STEPS + (ns >> octave)) as usize
}

fn middle(index: usize) -> f64 {
    let index = index as u64;
    if index < STEPS {
        return index as f64;
    }
    let octave = index / STEPS - 1;
    let least = (index - octave * STEPS) << octave;
    least as f64 + ((1u64 << octave) - 1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_told_within_a_percent() {
        for ns in [0, 1, 127, 128, 129, 255, 256, 1000, 54_321, 1_000_000_007, 1 << 40] {
            let mut times = Times::new();
            times.add(ns);
            let told = times.permille(500) * 1000.0;
            assert!((told - ns as f64).abs() <= ns as f64 / 100.0, "{ns} is told as {told}");
        }
        let mut times = Times::new();
        times.add(u64::MAX);
        assert!(times.permille(500) > 0.0, "what is beyond the last step counts there");
    }

    #[test]
    fn permilles_are_those_of_the_sorted_times() {
        let mut times = Times::new();
        (1..=100).for_each(|ns| times.add(ns));
        assert_eq!((times.permille(500), times.permille(990), times.permille(999)), (0.051, 0.1, 0.1));
        assert_eq!((times.count(), Times::new().permille(500)), (100, 0.0));
    }
}
