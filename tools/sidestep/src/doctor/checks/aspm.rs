//! Power saving of the PCI Express link.

use super::{Check, Outcome, each};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "aspm",
    title: "power saving of the card's link (ASPM)",
    why: "a link that sleeps wakes in 1 to 60 us for the first packet after a pause",
    weight: [56, 12],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let policy = view.setting("/sys/module/pcie_aspm/parameters/policy").unwrap_or_default();
    each(view, |interface| {
        if !interface.has_device {
            return Ok(Finding::not_applicable("no card"));
        }
        let folder = format!("{}/link", view.pci(interface)?);
        let states = ["l0s_aspm", "l1_aspm", "l1_1_aspm", "l1_2_aspm"];
        let known: Vec<(&str, bool)> = states
            .iter()
            .filter_map(|state| Some((*state, view.number(&format!("{folder}/{state}")).ok()? != 0)))
            .collect();
        let on: Vec<&str> = known.iter().filter(|(_, on)| *on).map(|(state, _)| *state).collect();
        if known.is_empty() {
            return Ok(if view.is_virtual {
                Finding::cannot_tell("the hypervisor hides the link")
            } else {
                Finding::good("the link has none that could be on")
            });
        }
        Ok(if on.is_empty() {
            Finding::good("off")
        } else {
            let mut mend = Mend::write("/sys/module/pcie_aspm/parameters/policy", "performance");
            mend.keep = Some("pcie_aspm.policy=performance on the kernel's command line".to_owned());
            Finding::advice(format!("{} on (policy {policy})", on.join(", ")), mend)
        })
    })
}
