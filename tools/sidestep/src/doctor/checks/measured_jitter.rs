//! How long polling threads stand still.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::{Aim, View};
use crate::host::cpus::Cpus;
use crate::host::facts::Jitter;

pub(super) const CHECK: Check = Check {
    id: "jitter",
    title: "measured: how long a polling thread stands still",
    why: "while it stands still, no packet is answered: this is the tail of the latency, whatever the network does",
    weight: [87, 30],
    look,
};

/// One gap of so long in a second is felt by who cares for latency, microseconds.
const FELT_US: f64 = 100.0;
const BAD_US: f64 = 1000.0;

fn look(view: &View<'_>) -> Outcome {
    let seen: Jitter = view.fact("")?;
    let Some(worst) = seen.cores.iter().max_by(|one, other| one.longest_us.total_cmp(&other.longest_us)) else {
        return one(Finding::cannot_tell("no processor could be measured"));
    };
    let quiet: Cpus = seen.cores.iter().filter(|core| core.longest_us < FELT_US).map(|core| core.cpu as usize).collect();
    let sum = |of: fn(&crate::host::facts::Core) -> u32| seen.cores.iter().map(of).sum::<u32>();
    let found = format!(
        "{} processors for {} s: {} gaps over 5 us, {} over 50, {} over 500; the longest {} us, on processor {}{}",
        seen.cores.len(),
        seen.seconds,
        sum(|core| core.over_5_us),
        sum(|core| core.over_50_us),
        sum(|core| core.over_500_us),
        worst.longest_us,
        worst.cpu,
        if quiet.is_empty() { String::new() } else { format!("; quiet: {quiet}") }
    );
    let mend = Mend::by_hand(if view.is_virtual {
        "what else runs here, and at the same time on the hypervisor (steal); processors of its own; isolation"
    } else {
        "isolation, interrupts, idle-states and watchdog on this page; what is left is the firmware (SMI)"
    });
    let finding = match (worst.longest_us, view.aim) {
        (longest, Aim::Latency) if longest >= BAD_US && quiet.is_empty() => Finding::bad(found, mend),
        (longest, Aim::Latency) if longest >= FELT_US && quiet.len() < seen.cores.len() => Finding::advice(found, mend),
        _ => Finding::good(found),
    };
    one(finding.with(&seen))
}
