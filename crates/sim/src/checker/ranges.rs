//! A set of sequence numbers as ordered, disjoint ranges.

/// The set.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    ranges: Vec<(u64, u64)>,
}

impl Ranges {
    /// Adds `from..to`.
    pub fn add(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let first = self.ranges.partition_point(|(_, end)| *end < from);
        let last = self.ranges.partition_point(|(start, _)| *start <= to);
        if first == last {
            self.ranges.insert(first, (from, to));
            return;
        }
        let merged = (from.min(self.ranges[first].0), to.max(self.ranges[last - 1].1));
        self.ranges.splice(first..last, [merged]);
    }

    /// Whether all of `from..to` is in the set.
    pub fn contains(&self, from: u64, to: u64) -> bool {
        let at = self.ranges.partition_point(|(_, end)| *end < to);
        self.ranges.get(at).is_some_and(|(start, end)| *start <= from && to <= *end)
    }

    /// Where the ranges end.
    pub fn ends(&self) -> impl Iterator<Item = u64> {
        self.ranges.iter().map(|(_, end)| *end)
    }

    /// Where the part that begins at zero ends.
    pub fn prefix(&self) -> u64 {
        match self.ranges.first() {
            Some((0, end)) => *end,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_set_of_numbers() {
        let mut chance = crate::chance::Chance::new(1, 1);
        for _ in 0..200 {
            let (mut ranges, mut set) = (Ranges::default(), [false; 64]);
            for _ in 0..12 {
                let from = chance.below(60);
                let to = from + chance.below(5);
                ranges.add(from, to);
                (from..to).for_each(|n| set[n as usize] = true);
                let (a, b) = (chance.below(60), chance.below(4) + 1);
                assert_eq!(ranges.contains(a, a + b), (a..a + b).all(|n| set[n as usize]));
                assert_eq!(ranges.prefix(), set.iter().take_while(|in_it| **in_it).count() as u64);
            }
        }
    }
}
