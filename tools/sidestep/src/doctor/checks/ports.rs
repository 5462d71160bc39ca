//! Ports for outgoing connections.

use super::{Check, Outcome};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::cpus::Cpus;
use crate::host::facts::Listeners;

pub(super) const CHECK: Check = Check {
    id: "ports",
    title: "ports for outgoing connections",
    why: "a client that opens many connections to one server runs out of ports (EADDRNOTAVAIL); a server whose port is taken by \
          one does not start again (EADDRINUSE)",
    weight: [10, 22],
    look,
};

const ENOUGH: u32 = 10_000;

fn look(view: &View<'_>) -> Outcome {
    let range = view.sysctl("net.ipv4.ip_local_port_range")?;
    let mut numbers = range.split(' ').filter_map(|word| word.parse::<u32>().ok());
    let (first, last) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let count = (last + 1).saturating_sub(first);
    let mut findings = Vec::new();
    if count < ENOUGH {
        findings.push(Finding::advice(
            format!("{count}, {first} to {last}"),
            Mend::sysctl("net.ipv4.ip_local_port_range", "32768 60999"),
        ));
    }
    let reserved = view.sysctl("net.ipv4.ip_local_reserved_ports").unwrap_or_default();
    let kept = Cpus::parse(&reserved).unwrap_or_default();
    let listeners: Listeners = view.fact("").unwrap_or_default();
    let inside = listeners.ports.iter().map(|port| usize::from(*port));
    let inside: Cpus = inside.filter(|port| (first as usize..=last as usize).contains(port) && !kept.contains(*port)).collect();
    if !inside.is_empty() {
        let all: Cpus = kept.iter().chain(inside.iter()).collect();
        findings.push(Finding::advice(
            format!("somebody listens on {inside}, within {first} to {last}: once it has stopped, an outgoing connection may take the port"),
            Mend::sysctl("net.ipv4.ip_local_reserved_ports", &all.to_string()),
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::good(format!("{count}, {first} to {last}")));
    }
    Ok(findings)
}
