//! Another XDP program on the interface.

use super::{Check, Outcome, each};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::{Accelerated, XdpProgram};

pub(super) const CHECK: Check = Check {
    id: "foreign-xdp",
    title: "XDP programs on the interface",
    why: "an interface has one XDP program: where another one is, every socket is the kernel's",
    weight: [98, 98],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let owners = view.fact::<Accelerated>("").unwrap_or_default().pids;
    each(view, |interface| {
        let program: XdpProgram = view.fact(&interface.name)?;
        Ok(match program.id {
            None => Finding::good("none"),
            // A program under the library keeps statistics with the interface's name.
            Some(id) if !owners.is_empty() => Finding::good(format!(
                "program {id}; accelerated programs run (process {}), so it is likely theirs",
                owners.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
            )),
            Some(id) => Finding::bad(
                format!("program {id} is attached, and no accelerated program runs"),
                Mend::until_reboot(
                    format!("bpftool prog show id {id} says whose it is; ip link set dev {} xdp off", interface.name),
                    "whoever attaches it at the start (Cilium, xdp-filter, a DDoS filter) has to leave the interface",
                ),
            ),
        })
    })
}
