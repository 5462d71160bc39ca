//! Sets of processors as the kernel writes them: `0-3,8`.

use std::fmt;

/// Processors, by number; ports are written alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cpus(Vec<usize>);

/// Numbers beyond are no processors: Linux has at most 8192.
const MAX: usize = 1 << 16;

impl Cpus {
    /// Reads the kernel's list. `None` if it is none.
    pub(crate) fn parse(text: &str) -> Option<Cpus> {
        let mut all = Vec::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            if first > last || last >= MAX {
                return None;
            }
            all.extend(first..=last);
        }
        Some(all.into_iter().collect())
    }

    /// Reads the kernel's mask of hexadecimal words, highest first: `ff,00000001`.
    pub(crate) fn parse_mask(text: &str) -> Option<Cpus> {
        let digits: String = text.trim().chars().filter(|c| *c != ',').collect();
        let mut all = Vec::new();
        for (place, digit) in digits.chars().rev().enumerate() {
            let bits = digit.to_digit(16)?;
            all.extend((0..4).filter(|bit| bits >> bit & 1 == 1).map(|bit| place * 4 + bit));
        }
        Some(all.into_iter().collect())
    }

    /// As [`Cpus::parse_mask`] reads it.
    pub(crate) fn mask(&self) -> String {
        let words = self.0.last().map_or(1, |last| last / 32 + 1);
        let word = |at: usize| {
            self.iter().filter(|cpu| cpu / 32 == at).fold(0u32, |word, cpu| word | 1 << (cpu % 32))
        };
        (0..words).rev().map(|at| format!("{:08x}", word(at))).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, cpu: usize) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }

    pub(crate) fn overlaps(&self, other: &Cpus) -> bool {
        self.iter().any(|cpu| other.contains(cpu))
    }
}

impl FromIterator<usize> for Cpus {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Cpus {
        let mut all: Vec<usize> = cpus.into_iter().collect();
        all.sort_unstable();
        all.dedup();
        Cpus(all)
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_slice();
        let mut first = true;
        while let Some(&start) = rest.first() {
            let length = rest.iter().enumerate().take_while(|(at, cpu)| start + at == **cpu).count();
            let comma = if first { "" } else { "," };
            match length {
                1 => write!(f, "{comma}{start}")?,
                _ => write!(f, "{comma}{start}-{}", start + length - 1)?,
            }
            first = false;
            rest = &rest[length..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        for text in ["0", "0-3", "0-1,4,8-999", ""] {
            assert_eq!(Cpus::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Cpus::parse("3,1-2\n").unwrap().to_string(), "1-3");
        for wrong in ["a", "3-1", "0-99999999"] {
            assert_eq!(Cpus::parse(wrong), None);
        }
    }

    #[test]
    fn masks_count_from_their_end() {
        assert_eq!(Cpus::parse_mask("00000001,80000003").unwrap().to_string(), "0-1,31-32");
        assert_eq!(Cpus::parse_mask("x"), None);
        for mask in ["00000000", "00000001,80000003", "00000001,00000000,00000000"] {
            assert_eq!(Cpus::parse_mask(mask).unwrap().mask(), mask);
        }
    }
}
