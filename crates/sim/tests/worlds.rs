//! Worlds as tests: a small number of seeds, the seeds that once failed, and that the simulator itself can fail.

use sim::plan::{Plan, Scope};
use sim::swarm::{run_many, run_seed};
use sim::trace::Trace;

#[test]
fn datagrams_survive_random_worlds() {
    let sum = run_many(0, 500, None, Scope::Udp, 1);
    assert!(sum.failures.is_empty(), "{:?}", sum.failures);
    assert!(sum.letters_read > 1000, "only {} datagrams arrived", sum.letters_read);
}

#[test]
fn the_same_seed_replays_byte_for_byte() {
    for seed in 0..50 {
        let (first, _) = run_seed(seed, Scope::Udp, Trace::default());
        let (second, trace) = run_seed(seed, Scope::Udp, Trace::recording());
        assert_eq!(first, second, "seed {seed}");
        assert!(!trace.text().is_empty());
    }
}

#[test]
fn different_seeds_are_different_worlds() {
    let digests: std::collections::HashSet<u64> =
        (0..50).map(|seed| run_seed(seed, Scope::Udp, Trace::default()).0.digest).collect();
    assert!(digests.len() > 45);
}

#[test]
fn a_lost_frame_changes_what_arrives() {
    let quiet = |lose: Vec<u64>| {
        let mut plan = Plan::from_seed(3, Scope::Udp);
        plan.lose_frames = lose;
        sim::world::run(plan, Trace::default()).0
    };
    let whole = quiet(Vec::new());
    assert!(whole.violation.is_none() && whole.letters_read > 2);
    assert!(quiet((0..whole.frames).collect()).letters_read == 0);
}
