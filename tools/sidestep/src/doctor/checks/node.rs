//! The card's NUMA node.

use super::{Check, Outcome, each};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "node",
    title: "NUMA node of the card",
    why: "a program on the other node fetches every packet over the link between sockets: 100 ns per cache line and half of \
          the bandwidth",
    weight: [68, 68],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let nodes = view.host.list("/sys/devices/system/node").unwrap_or_default();
    let nodes = nodes.iter().filter(|name| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok())).count();
    each(view, |interface| {
        if nodes < 2 {
            return Ok(Finding::good("there is one node"));
        }
        if !interface.has_device {
            return Ok(Finding::not_applicable("no card"));
        }
        let Some(node) = interface.node else {
            return Ok(Finding::cannot_tell("the platform does not say at which node the card is"));
        };
        let own = view.read("/proc/self/status")?;
        let own = own.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:")).unwrap_or_default();
        let allowed = crate::host::cpus::Cpus::parse(own.trim()).unwrap_or_default();
        let near = view.read(&format!("/sys/devices/system/node/node{node}/cpulist")).unwrap_or_default();
        Ok(if allowed.is_empty() || allowed.contains(node) {
            Finding::good(format!("node {node}, processors {near}: run programs there (numactl -N {node} -m {node})"))
        } else {
            Finding::bad(
                format!("the card is at node {node}, and this session may not use its memory (nodes {allowed})"),
                Mend::by_hand(format!("numactl -N {node} -m {node} PROGRAM; or NUMAMask=, AllowedMemoryNodes= (systemd)")),
            )
        })
    })
}
