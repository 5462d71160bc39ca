//! Ports for outgoing connections.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "ports",
    title: "ports for outgoing connections",
    why: "a client that opens many connections to one server runs out of ports: EADDRNOTAVAIL, or a long search for each",
    weight: [10, 22],
    look,
};

const ENOUGH: u32 = 10_000;

fn look(view: &View<'_>) -> Outcome {
    let range = view.sysctl("net.ipv4.ip_local_port_range")?;
    let mut numbers = range.split(' ').filter_map(|word| word.parse::<u32>().ok());
    let (first, last) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let count = (last + 1).saturating_sub(first);
    one(if count >= ENOUGH {
        Finding::good(format!("{count}, {first} to {last}"))
    } else {
        Finding::advice(
            format!("{count}, {first} to {last}"),
            Mend::sysctl("net.ipv4.ip_local_port_range", "32768 60999"),
        )
    })
}
