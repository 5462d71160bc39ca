//! Every committed input, and a fixed number of mutations of each from fixed seeds: the same on every run. Also that
//! every target has a corpus and every corpus a target.

use fuzz::TARGETS;

mod inputs;

/// Replays a corpus and `mutations` mutations of its inputs.
fn replay(name: &str, mutations: usize) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target");
    let corpus = inputs::corpus(name);
    assert!(!corpus.is_empty(), "no corpus of {name}");
    for (path, bytes) in &corpus {
        println!("{path}");
        (target.run)(bytes);
    }
    for seed in 1..=mutations as u64 {
        let bytes = inputs::mutation(&corpus, seed);
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
    replay("wire", 100_000);
}

#[test]
fn connections_survive_their_corpus_and_mutations_of_it() {
    replay("tcp", 10_000);
}

#[test]
fn listeners_survive_their_corpus_and_mutations_of_it() {
    replay("listener", 2_000);
}

#[test]
fn reassembly_survives_its_corpus_and_mutations_of_it() {
    replay("reassembly", 2_000);
}

#[test]
fn icmp_survives_its_corpus_and_mutations_of_it() {
    replay("icmp", 10_000);
}

#[test]
fn udp_survives_its_corpus_and_mutations_of_it() {
    replay("udp", 10_000);
}

#[test]
fn configuration_survives_its_corpus_and_mutations_of_it() {
    replay("config", 20_000);
}

#[test]
fn kernel_messages_survive_their_corpus_and_mutations_of_it() {
    replay("netlink", 100_000);
}

#[test]
fn shared_memory_survives_its_corpus_and_mutations_of_it() {
    replay("ring", 5_000);
}

#[test]
fn the_keepers_protocol_survives_its_corpus_and_mutations_of_it() {
    replay("keeper", 20_000);
}

#[test]
fn every_target_has_a_corpus_and_every_corpus_a_target() {
    let mut folders: Vec<String> = std::fs::read_dir(inputs::folder(""))
        .expect("the corpora")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    folders.sort();
    let mut names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    assert_eq!(folders, names);
}
