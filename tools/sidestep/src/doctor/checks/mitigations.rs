//! What system calls cost on this processor.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "mitigations",
    title: "mitigations of the processor's weaknesses",
    why: "page table isolation and IBRS add 0.2 to 1 us to each system call and interrupt of the kernel's path; accelerated \
          sockets that poll make few",
    weight: [16, 26],
    look,
};

/// Mitigations that are paid at each entry into the kernel.
const COSTLY: [(&str, &str); 4] =
    [("meltdown", "PTI"), ("retbleed", "IBRS"), ("spectre_v2", "IBRS"), ("mds", "Clear CPU buffers")];

fn look(view: &View<'_>) -> Outcome {
    let folder = "/sys/devices/system/cpu/vulnerabilities";
    // Without the folder there is nothing to say of a kernel this old.
    view.read(&format!("{folder}/meltdown"))?;
    let paid = COSTLY.iter().filter_map(|(name, mark)| {
        let text = view.read(&format!("{folder}/{name}")).ok()?;
        // What is paid comes first in the line; enhanced IBRS is switched on once and has another name.
        let way = text.strip_prefix("Mitigation: ")?;
        way.starts_with(mark).then(|| format!("{name}: {way}"))
    });
    let paid: Vec<String> = paid.collect();
    one(if paid.is_empty() {
        Finding::good("none that each system call pays much for")
    } else {
        Finding::advice(
            paid.join("; "),
            Mend::by_hand(
                "a newer processor needs them less. Turning them off (mitigations=off) is a decision about who else runs code \
                 here, not one of tuning",
            ),
        )
    })
}
