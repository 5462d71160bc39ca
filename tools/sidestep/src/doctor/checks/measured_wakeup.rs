//! How late threads wake.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::Wakeup;

pub(super) const CHECK: Check = Check {
    id: "wakeup",
    title: "measured: how late a sleeping thread wakes",
    why: "a program that sleeps for packets adds this to each; one that polls does not",
    weight: [67, 24],
    look,
};

/// Idle states, a busy host or a hypervisor are felt beyond, microseconds.
const FELT_US: f64 = 50.0;

fn look(view: &View<'_>) -> Outcome {
    let seen: Wakeup = view.fact("")?;
    let found = format!(
        "a timer {} us late (99 %: {} us); woken by another thread after {} us (99 %: {} us)",
        seen.timer_us, seen.timer_99_us, seen.thread_us, seen.thread_99_us
    );
    let finding = if seen.timer_us > FELT_US || seen.thread_us > FELT_US {
        Finding::advice(
            found,
            Mend::until_reboot(
                "sidestep hold -- PROGRAM, and polling: VMA_RX_POLL=-1 VMA_SELECT_POLL=-1",
                "idle-states and governor on this page; in a virtual machine, the hypervisor's settings",
            ),
        )
    } else {
        Finding::good(found)
    };
    one(finding.with(&seen))
}
