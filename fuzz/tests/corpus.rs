//! Every committed input, and a fixed number of mutations of each from fixed seeds: the same on every run. Also that
//! every target has a corpus and every corpus a target.

use fuzz::{LEN_MAX, TARGETS};
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name)
}

/// Committed inputs of a target, in the order of their names.
fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder(name))
        .expect("a corpus")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    let read = |path: PathBuf| (path.display().to_string(), std::fs::read(&path).expect("an input"));
    files.into_iter().map(read).collect()
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
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

/// Replays a corpus and `mutations` mutations of its inputs.
fn replay(name: &str, mutations: usize) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target");
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "no corpus of {name}");
    for (path, bytes) in &corpus {
        println!("{path}");
        (target.run)(bytes);
    }
    for seed in 1..=mutations as u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut bytes = corpus[random.below(corpus.len())].1.clone();
        let other = &corpus[random.below(corpus.len())].1;
        random.mutate(&mut bytes, other);
        bytes.truncate(LEN_MAX);
        let outcome = std::panic::catch_unwind(|| (target.run)(&bytes));
        if let Err(panic) = outcome {
            let kept = std::env::temp_dir().join(format!("fuzz-{name}-{seed}"));
            let _ = std::fs::write(&kept, &bytes);
            println!("seed {seed}; the input is in {}", kept.display());
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn header_views_survive_their_corpus_and_mutations_of_it() {
    replay("wire", 20_000);
}

#[test]
fn connections_survive_their_corpus_and_mutations_of_it() {
    replay("tcp", 2_000);
}

#[test]
fn listeners_survive_their_corpus_and_mutations_of_it() {
    replay("listener", 500);
}

#[test]
fn reassembly_survives_its_corpus_and_mutations_of_it() {
    replay("reassembly", 500);
}

#[test]
fn icmp_survives_its_corpus_and_mutations_of_it() {
    replay("icmp", 2_000);
}

#[test]
fn udp_survives_its_corpus_and_mutations_of_it() {
    replay("udp", 2_000);
}

#[test]
fn configuration_survives_its_corpus_and_mutations_of_it() {
    replay("config", 5_000);
}

#[test]
fn kernel_messages_survive_their_corpus_and_mutations_of_it() {
    replay("netlink", 20_000);
}

#[test]
fn every_target_has_a_corpus_and_every_corpus_a_target() {
    let mut folders: Vec<String> = std::fs::read_dir(folder(""))
        .expect("the corpora")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    folders.sort();
    let mut names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    assert_eq!(folders, names);
}
