//! A running program: are its sockets accelerated, and if not, why?

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::Acceleration;

pub(super) const CHECK: Check = Check {
    id: "program-sockets",
    title: "the program: are its sockets accelerated?",
    why: "a socket that is left to the kernel is as fast as without the library, and no faster",
    weight: [93, 93],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let seen: Acceleration = match view.fact(&view.program()) {
        Ok(seen) => seen,
        Err(unread) if unread.is_missing() => {
            return one(Finding::cannot_tell(
                "it keeps no statistics: it runs without the library, has had no socket yet, or keeps them elsewhere \
                 (VMA_STATS_SHMEM_DIR)",
            ));
        }
        Err(unread) => return Err(unread),
    };
    let mut findings = Vec::new();
    let on = if seen.interfaces.is_empty() { String::new() } else { format!(" on {}", seen.interfaces.join(", ")) };
    let accelerated = format!("{} accelerated so far{on}", seen.accelerated);
    let mut left = seen.left.clone();
    left.sort_by_key(|left| (left.ordinary, u64::MAX - left.count));
    for left in left.iter().filter(|left| !left.remedy.is_empty()) {
        let found = format!("{accelerated}; {} left to the kernel: {}", left.count, left.why);
        findings.push(Finding::advice(found, Mend::by_hand(&left.remedy)));
    }
    if seen.losses > 0 {
        findings.push(Finding::advice(
            format!("{} packets were lost in its rings", seen.losses),
            Mend::by_hand("SIDESTEP_FRAMES, SIDESTEP_RX_RING; vma_stats -v 3 tells which; does it read often enough?"),
        ));
    }
    if findings.is_empty() {
        let rest: u64 = left.iter().map(|left| left.count).sum();
        findings.push(Finding::good(format!("{accelerated}, {rest} left to the kernel")));
    }
    Ok(findings)
}
