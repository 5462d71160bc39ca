//! Committed inputs, and mutations of them from seeds: the same on every run.

use std::path::{Path, PathBuf};

/// Where a target's inputs are.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name)
}

/// Committed inputs of a target, in the order of their names.
pub fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder(name))
        .expect("a corpus")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    let read = |path: PathBuf| (path.display().to_string(), std::fs::read(&path).expect("an input"));
    files.into_iter().map(read).collect()
}

/// xorshift64*.
pub struct Random(pub u64);

impl Random {
    /// Below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    /// Changes some bytes, with pieces of another input.
    pub fn mutate(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        for _ in 0..1 + self.below(8) {
            let at = self.below(bytes.len().max(1)).min(bytes.len());
            match self.below(6) {
                0 | 1 if at < bytes.len() => bytes[at] = self.below(256) as u8,
                2 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                3 => bytes.insert(at, self.below(256) as u8),
                4 if at < bytes.len() => drop(bytes.drain(at..(at + 1 + self.below(6)).min(bytes.len()))),
                _ => {
                    let from = self.below(other.len());
                    let piece = &other[from..(from + 1 + self.below(64)).min(other.len())];
                    bytes.splice(at..at, piece.iter().copied());
                }
            }
        }
    }
}

/// The mutation of a corpus that belongs to a seed.
pub fn mutation(corpus: &[(String, Vec<u8>)], seed: u64) -> Vec<u8> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut bytes = corpus[random.below(corpus.len())].1.clone();
    let other = &corpus[random.below(corpus.len())].1;
    random.mutate(&mut bytes, other);
    bytes.truncate(fuzz::LEN_MAX);
    bytes
}
