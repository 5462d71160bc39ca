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

#[test]
fn streams_survive_random_worlds() {
    let sum = run_many(0, 400, None, Scope::Both, 1);
    assert!(sum.failures.is_empty(), "{:?}", sum.failures);
    assert!(sum.bytes_read > 1_000_000 && sum.conversations_done > 300, "little happened");
}

/// The files of `tests/seeds` named `sim-N`: the options in the first line, then what went wrong.
#[test]
fn seeds_that_once_failed_stay_mended() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/seeds");
    let mut replayed = 0;
    for entry in std::fs::read_dir(folder).expect("tests/seeds") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(seed) = name.strip_prefix("sim-") else { continue };
        let seed = seed.parse().unwrap_or_else(|_| panic!("{name}: sim- and a number"));
        let text = std::fs::read_to_string(&path).expect("a seed");
        let scope = match text.lines().next().unwrap_or_default().trim() {
            "" => Scope::Both,
            options => options
                .strip_prefix("--only ")
                .and_then(Scope::named)
                .unwrap_or_else(|| panic!("{name}: begins with {options:?}, not with options")),
        };
        let (report, _) = run_seed(seed, scope, Trace::default());
        assert_eq!(report.violation, None, "{name}");
        assert!(report.frames > 0, "{name}: nothing happened");
        replayed += 1;
    }
    assert!(replayed > 0, "no seeds in {folder}");
}

/// The canary: a simulator that finds nothing here would find nothing anywhere.
#[test]
fn a_network_that_lies_is_found_out() {
    let mut plan = Plan::quiet(1, [500, 500]);
    plan.lies = true;
    let (report, _) = sim::world::run(plan, Trace::default());
    let what = report.violation.expect("must fail").what;
    assert!(what.contains("read is not the one sent"), "{what}");
}

#[test]
fn a_quiet_world_sends_no_byte_twice() {
    for seed in 0..50 {
        let (report, _) = sim::world::run(Plan::quiet(seed, [20_000, 50_000]), Trace::default());
        assert_eq!(report.violation, None, "seed {seed}");
        assert_eq!(report.bytes_resent, 0, "seed {seed}");
    }
}

/// Every packet of a connection is lost in turn, alone and together with each of the next ones: SYN, SYN-ACK, the
/// third ACK, data, FIN, the last ACK, and what is sent to repair the loss.
#[test]
fn every_packet_is_lost_in_turn_and_in_pairs() {
    let mut worlds = 0;
    for seed in 0..40 {
        let bytes = [[3000, 2000], [1, 0], [0, 9000], [0, 0], [20_000, 100]][seed as usize % 5];
        let run = |lose: Vec<u64>| {
            let mut plan = Plan::quiet(seed, bytes);
            plan.lose_frames = lose.clone();
            let (report, _) = sim::world::run(plan, Trace::default());
            assert_eq!(report.violation, None, "seed {seed}, lost {lose:?}");
            report.frames
        };
        let frames = run(Vec::new());
        if frames > 40 {
            // Writes of a few bytes each: many packets of one kind teach no more.
            continue;
        }
        worlds += 1;
        for first in 0..frames + 2 {
            run(vec![first]);
            (1..12).for_each(|distance| {
                run(vec![first, first + distance]);
            });
            run((first..first + 4).collect());
        }
    }
    assert!(worlds >= 8, "{worlds}");
}
