//! Who steers packets to queues and processors before the library sees them.

use super::{Check, Outcome, each};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::cpus::Cpus;
use crate::host::facts::Steering;

pub(super) const CHECK: Check = Check {
    id: "steering",
    title: "flow rules, hash and software steering",
    why: "rules of the card may send flows to queues that nobody looks at; RPS and RFS move packets of the kernel's path to \
          another processor by an interrupt between processors",
    weight: [38, 40],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    // RFS has no effect while the table that all interfaces share is empty.
    let flows = view.sysctl_number("net.core.rps_sock_flow_entries").unwrap_or(0);
    each(view, |interface| {
        let queues = view.host.list(&interface.path("queues")).unwrap_or_default();
        let rps = |queue: &&String| {
            let mask = view.read(&interface.path(&format!("queues/{queue}/rps_cpus"))).unwrap_or_default();
            Cpus::parse_mask(&mask).is_some_and(|cpus| !cpus.is_empty())
        };
        let steered: Vec<&String> = queues.iter().filter(|name| name.starts_with("rx-")).filter(rps).collect();
        let rfs = |queue: &&String| {
            flows > 0 && view.number(&interface.path(&format!("queues/{queue}/rps_flow_cnt"))).is_ok_and(|flows| flows > 0)
        };
        let followed: Vec<&String> = queues.iter().filter(|name| name.starts_with("rx-")).filter(rfs).collect();
        let steering: Steering = view.fact(&interface.name).unwrap_or_default();
        let mut said = Vec::new();
        let mut commands = Vec::new();
        if steering.rules > 0 {
            said.push(format!("{} flow rules", steering.rules));
            commands.push(format!("ethtool -n {} shows them", interface.name));
        }
        if let Some(first) = steered.first() {
            said.push(format!("RPS on {} of its queues", steered.len()));
            commands.push(format!("echo 0 > {} (each rx-*)", interface.path(&format!("queues/{first}/rps_cpus"))));
        }
        if let Some(first) = followed.first() {
            said.push(format!("RFS on {} of its queues (net.core.rps_sock_flow_entries {flows})", followed.len()));
            commands.push(format!("echo 0 > {} (each rx-*)", interface.path(&format!("queues/{first}/rps_flow_cnt"))));
            commands.push("sysctl -w net.core.rps_sock_flow_entries=0 (for all interfaces)".to_owned());
        }
        Ok(if said.is_empty() {
            let hashed = steering.hashed_queues.len();
            let spread = if hashed > 0 { format!("; the hash spreads over {hashed} queues") } else { String::new() };
            Finding::good(format!("no flow rules, no RPS, no RFS{spread}"))
        } else {
            Finding::advice(
                said.join(", "),
                Mend::until_reboot(commands.join("; "), "remove it where it is set: a unit, a udev rule, tuned, a vendor's script"),
            )
        })
    })
}
