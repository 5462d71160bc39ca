//! Offloads that join packets before XDP sees them.

use super::{Check, Outcome, each};
use crate::doctor::action::Action;
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::Features;

pub(super) const CHECK: Check = Check {
    id: "lro",
    title: "packets joined by the card (LRO, hardware GRO)",
    why: "joined packets do not fit frames: most drivers refuse the XDP program while it is on",
    weight: [72, 72],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    each(view, |interface| {
        let features: Features = match view.fact(&interface.name) {
            Ok(features) => features,
            Err(unread) if unread.is_missing() => return Ok(Finding::not_applicable("the driver has no offloads")),
            Err(unread) => return Err(unread),
        };
        let is_on = |name: &&&str| features.all.get(**name).is_some_and(|feature| feature.on);
        let on: Vec<&str> = ["rx-lro", "rx-gro-hw"].iter().filter(is_on).copied().collect();
        if on.is_empty() {
            return Ok(Finding::good("off"));
        }
        let found = format!("{} on", on.join(" and "));
        if on.iter().all(|name| features.all[*name].fixed) {
            return Ok(Finding::advice(
                format!("{found}, and the driver does not let it be turned off"),
                Mend::by_hand("nothing here; the generic hook copes with it, the driver's hook may be refused"),
            ));
        }
        let off = |name: &&str| Action::Feature { interface: interface.name.clone(), name: (*name).to_owned(), on: false };
        let mend = Mend::actions(on.iter().map(off).collect(), "the interface's configuration: the same by ethtool");
        Ok(Finding::bad(found, mend))
    })
}
