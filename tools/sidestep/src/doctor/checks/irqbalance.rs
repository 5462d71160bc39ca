//! A daemon that moves interrupts.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::Processes;

pub(super) const CHECK: Check = Check {
    id: "irqbalance",
    title: "the daemon that moves interrupts",
    why: "it moves a card's interrupts onto the program's processor without saying so: jumps of some microseconds",
    weight: [55, 15],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    if view.is_container {
        return one(Finding::cannot_tell("a container does not see the host's daemons"));
    }
    one(match view.fact::<Processes>("irqbalance")?.pids.first() {
        None => Finding::good("does not run"),
        Some(pid) => Finding::advice(
            format!("runs (process {pid})"),
            Mend::by_hand("systemctl disable --now irqbalance; or IRQBALANCE_BANNED_CPULIST= in /etc/default/irqbalance"),
        ),
    })
}
