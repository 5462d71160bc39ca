//! Packets into the cache: DCA, and DDIO after it.

use super::{Check, Outcome, one};
use crate::doctor::finding::Finding;
use crate::doctor::view::View;
use crate::host::facts::Cpu;

pub(super) const CHECK: Check = Check {
    id: "dca",
    title: "packets into the cache (DCA, DDIO)",
    why: "a card that writes into the cache saves a miss of 100 ns for each packet; Xeons have done so for all cards since 2012 \
          (DDIO), without a setting",
    weight: [5, 5],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let cpu: Cpu = view.fact("")?;
    one(if cpu.model.contains("Xeon") && !view.is_virtual {
        let dca = if cpu.dca { ", and shows DCA" } else { "" };
        Finding::good(format!("{}{dca}: it is on unless the firmware turns it off", cpu.model))
    } else if view.is_virtual {
        Finding::cannot_tell("it is the host's, and a hypervisor copies packets anyway")
    } else {
        Finding::not_applicable(format!("{}: no DDIO", cpu.model))
    })
}
