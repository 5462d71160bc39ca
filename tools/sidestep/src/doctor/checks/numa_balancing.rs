//! Memory that the kernel moves or merges while programs run.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "numa-balancing",
    title: "automatic NUMA balancing",
    why: "the kernel takes pages away for a moment to see who uses them: page faults of 10 to 100 us in polling threads",
    weight: [52, 20],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let nodes = view.host.list("/sys/devices/system/node").unwrap_or_default();
    let nodes = nodes.iter().filter(|name| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok())).count();
    match view.sysctl_number("kernel.numa_balancing") {
        Err(unread) if unread.is_missing() => one(Finding::good("the kernel has none")),
        Err(unread) => Err(unread),
        Ok(0) => one(Finding::good("off")),
        Ok(_) if nodes < 2 => one(Finding::good("on, without effect: there is one node")),
        Ok(_) => one(Finding::advice(format!("on, with {nodes} nodes"), Mend::sysctl("kernel.numa_balancing", "0"))),
    }
}
