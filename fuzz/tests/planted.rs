//! Faults that are planted in the engine (stack/src/mutation.rs) and in the keeper's protocol (keeper/src/mutation.rs)
//! are noticed by the targets: what must hold is looked at. Those that cost only time are the simulator's to notice.
//!
//! `cargo test --features planted --test planted -- --nocapture`
#![cfg(feature = "planted")]

use fuzz::TARGETS;
use stack::mutation::{ALL, Mutation, plant};
use std::panic::catch_unwind;

mod inputs;

/// What breaks a promise that the targets check.
const NOTICED: &[Mutation] = &[
    Mutation::WindowFromNext,
    Mutation::WindowShrinks,
    Mutation::SackTooLong,
    Mutation::NoRetransmissionTimer,
    Mutation::NoPersistTimer,
    Mutation::NoTimeWaitTimer,
    Mutation::NoHalfOpenTimer,
    Mutation::NoReassemblyTimer,
    Mutation::RstInWindow,
    Mutation::SynInWindow,
    Mutation::AckOfUnsent,
    Mutation::AnyCookie,
    Mutation::OverlapShifted,
    Mutation::EarlyFin,
    Mutation::ResendShifted,
    Mutation::BudgetLeak,
    Mutation::NoChecksum,
    Mutation::FinAckLost,
];

/// Mutations of a corpus, at most.
const TRIES: u64 = 10_000;

/// Which of the targets notices what is planted just now, and by which of its inputs.
fn noticed(targets: &[&'static str]) -> Option<(&'static str, usize)> {
    targets.iter().find_map(|name| {
        let target = TARGETS.iter().find(|target| target.name == *name)?;
        let corpus = inputs::corpus(name);
        let committed = corpus.iter().map(|(_, bytes)| bytes.clone());
        let mut all = committed.chain((1..=TRIES).map(|seed| inputs::mutation(&corpus, seed)));
        all.position(|bytes| catch_unwind(|| (target.run)(&bytes)).is_err()).map(|tries| (*name, tries))
    })
}

// One test, as what is planted is planted in the whole process.
#[test]
fn planted_faults_are_noticed() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut alive = Vec::new();
    let mut judge = |fault: String, found: Option<(&str, usize)>| {
        println!("{fault}: {found:?}");
        if found.is_none() {
            alive.push(fault);
        }
    };
    for &fault in ALL.iter().filter(|fault| NOTICED.contains(fault)) {
        plant(Some(fault));
        let found = noticed(&["tcp", "listener", "reassembly", "icmp", "udp"]);
        plant(None);
        judge(format!("{fault:?}"), found);
    }
    for &fault in keeper::mutation::ALL {
        keeper::mutation::plant(Some(fault));
        let found = noticed(&["keeper"]);
        keeper::mutation::plant(None);
        judge(format!("the keeper's {fault:?}"), found);
    }
    let _ = std::panic::take_hook();
    assert!(alive.is_empty(), "nobody noticed {alive:?}");
}
