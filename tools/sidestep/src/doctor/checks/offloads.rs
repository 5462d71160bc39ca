//! Offloads that the kernel's own path lives on.

use super::{Check, Outcome, each};
use crate::doctor::action::Action;
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::Features;

pub(super) const CHECK: Check = Check {
    id: "offloads",
    title: "segmentation offload and GRO of the kernel's path",
    why: "sockets that stay with the kernel send and receive bulk in large packets; without TSO and GRO that takes two to \
          four times the processor time",
    weight: [12, 58],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    each(view, |interface| {
        let features: Features = match view.fact(&interface.name) {
            Ok(features) => features,
            Err(unread) if unread.is_missing() => return Ok(Finding::not_applicable("the driver has no offloads")),
            Err(unread) => return Err(unread),
        };
        let is_off = |name: &&&str| features.all.get(**name).is_some_and(|one| !one.on && !one.fixed);
        let off: Vec<&str> = ["tx-tcp-segmentation", "rx-gro"].iter().filter(is_off).copied().collect();
        if off.is_empty() {
            return Ok(Finding::good("on, as far as the driver has them"));
        }
        let on = |name: &&str| Action::Feature { interface: interface.name.clone(), name: (*name).to_owned(), on: true };
        let mend = Mend::actions(off.iter().map(on).collect(), "the interface's configuration: the same by ethtool");
        Ok(Finding::advice(format!("{} off", off.join(" and ")), mend))
    })
}
