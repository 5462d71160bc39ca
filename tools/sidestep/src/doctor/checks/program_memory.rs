//! A running program: is its memory at the card's node, and in memory at all?

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::Memory;

pub(super) const CHECK: Check = Check {
    id: "program-memory",
    title: "the program: is its memory near the card, and none of it in swap?",
    why: "each packet that is copied into memory of another node crosses the link between sockets: 100 ns per cache line; a page \
          in swap costs its next user milliseconds",
    weight: [59, 62],
    look,
};

/// More than so much elsewhere is felt, percent.
const FELT: u64 = 20;

fn look(view: &View<'_>) -> Outcome {
    let mut findings = placed(view)?;
    findings.extend(swapped(view));
    Ok(findings)
}

/// What of it is in swap.
fn swapped(view: &View<'_>) -> Option<Finding> {
    let status = view.read(&format!("/proc/{}/status", view.program())).ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmSwap:")?.split_whitespace().next()?.parse::<u64>().ok());
    let kib = kib.filter(|kib| *kib > 0)?;
    let mend = Mend::until_reboot(
        "swapoff -a (if memory suffices), which brings it back",
        "MemorySwapMax=0 in its unit; or mlockall() in the program",
    );
    Some(Finding::advice(format!("{kib} KiB of it are in swap"), mend))
}

/// Where its pages are.
fn placed(view: &View<'_>) -> Outcome {
    let pid = view.program();
    let memory: Memory = view.fact(&pid)?;
    let all = memory.pages.values().sum::<u64>();
    if all == 0 {
        return one(Finding::cannot_tell("the kernel does not say where its pages are (no NUMA)"));
    }
    let shown: Vec<String> =
        memory.pages.iter().map(|(node, pages)| format!("{} % at node {node}", pages * 100 / all)).collect();
    let shown = shown.join(", ");
    let far = view.interfaces.iter().filter_map(|interface| {
        let node = interface.node?;
        let there = memory.pages.get(&node).copied().unwrap_or(0);
        let elsewhere = (all - there) * 100 / all;
        (elsewhere > FELT).then(|| {
            let mend = Mend::until_reboot(
                format!("migratepages {pid} all {node}"),
                format!("numactl -N {node} -m {node} before its command; NUMAPolicy= and NUMAMask= in its unit"),
            );
            Finding::advice(format!("{shown}; the card is at node {node}"), mend).about(&interface.name)
        })
    });
    let far: Vec<Finding> = far.collect();
    if far.is_empty() { one(Finding::good(shown)) } else { Ok(far) }
}
