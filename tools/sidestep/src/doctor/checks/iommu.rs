//! The IOMMU: what each packet's DMA costs.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "iommu",
    title: "IOMMU",
    why: "in strict mode each packet's buffer is mapped and unmapped: some hundred ns each, and a third of the rate at 100 \
          Gbit/s",
    weight: [28, 54],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let groups = view.host.list("/sys/kernel/iommu_groups").unwrap_or_default();
    if groups.is_empty() {
        return one(if view.is_virtual {
            Finding::cannot_tell("none is shown; the hypervisor may use one")
        } else {
            Finding::good("off")
        });
    }
    if view.boot_word("iommu").is_some_and(|value| value.split(',').any(|word| word == "pt")) {
        return one(Finding::good("drivers of the host pass it by (iommu=pt)"));
    }
    let found = match view.boot_word("iommu.strict") {
        Some(value) if value == "1" => "on, in strict mode",
        _ => "on, and translates for the host's own drivers",
    };
    one(Finding::advice(found, Mend::boot("iommu=pt")))
}
