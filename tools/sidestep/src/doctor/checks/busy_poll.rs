//! Busy polling of the kernel's own sockets: for those that are not accelerated.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::{Aim, View};

pub(super) const CHECK: Check = Check {
    id: "busy-poll",
    title: "busy polling of the kernel's sockets",
    why: "sockets that stay with the kernel answer some microseconds earlier when their reader polls the card",
    weight: [25, 5],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let (poll, read) = (view.sysctl_number("net.core.busy_poll")?, view.sysctl_number("net.core.busy_read")?);
    let found = format!("busy_poll {poll} us, busy_read {read} us");
    one(if poll > 0 && read > 0 || view.aim == Aim::Throughput {
        Finding::good(found)
    } else {
        Finding::advice(found, Mend::sysctls(&[("net.core.busy_poll", "50"), ("net.core.busy_read", "50")]))
    })
}
