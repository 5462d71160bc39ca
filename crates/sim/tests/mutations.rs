//! Every fault that is planted in the engine (stack/src/mutation.rs) is noticed by the simulator. A mutation that lives
//! is a hole in the checkers or in the worlds.
//!
//! `cargo test -p sim --profile sim --features mutations --test mutations -- --nocapture` prints how many seeds each
//! took.
#![cfg(feature = "mutations")]

use sim::plan::{Plan, Scope};
use sim::swarm::run_many;
use sim::trace::Trace;
use stack::mutation::{ALL, Mutation, plant};

/// Seeds after which a mutation counts as alive.
const SEEDS_MAX: u64 = 40_000;

// One test, as what is planted is planted in the whole process.
#[test]
fn every_planted_mutation_is_caught() {
    std::panic::set_hook(Box::new(|_| {}));
    let only = std::env::var("MUTATION").ok();
    let clean = run_many(0, 2000, None, Scope::Both, 1);
    assert!(clean.failures.is_empty(), "with nothing planted: {:?}", clean.failures);
    let mut alive = Vec::new();
    for &mutation in ALL.iter().filter(|m| only.as_ref().is_none_or(|only| format!("{m:?}") == *only)) {
        plant(Some(mutation));
        let found = caught_in_quiet_worlds(mutation).or_else(|| caught_in_random_worlds(mutation));
        plant(None);
        match found {
            Some(how) => println!("{mutation:?}: {how}"),
            None => {
                println!("{mutation:?}: ALIVE");
                alive.push(mutation);
            }
        }
    }
    let _ = std::panic::take_hook();
    assert!(alive.is_empty(), "nobody noticed {alive:?}");
}

fn caught_in_quiet_worlds(mutation: Mutation) -> Option<String> {
    // What costs only time and bandwidth shows where nothing else does.
    if !matches!(mutation, Mutation::NoDelayedAckTimer) {
        return None;
    }
    (0..200).find_map(|seed| {
        let (report, _) = sim::world::run(Plan::quiet(seed, [20_000, 5000]), Trace::default());
        (report.bytes_resent > 0 || report.violation.is_some())
            .then(|| format!("quiet world {seed}: {} bytes sent twice", report.bytes_resent))
    })
}

fn caught_in_random_worlds(_: Mutation) -> Option<String> {
    let sum = run_many(0, SEEDS_MAX, None, Scope::Both, 1);
    sum.failures.first().map(|(seed, violation)| {
        let what: String = violation.what.chars().take(140).collect();
        format!("{} seeds, seed {seed}: {what}", sum.seeds)
    })
}
