//! Packets that were lost in this host.

use super::{Check, Outcome, each};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::Losses;

pub(super) const CHECK: Check = Check {
    id: "losses",
    title: "packets lost at the card and behind it",
    why: "each lost packet costs a retransmission: a round trip at best, 200 ms at worst",
    weight: [66, 66],
    look,
};

/// Fewer than one in so many is noise.
const ONE_IN: u64 = 100_000;

fn look(view: &View<'_>) -> Outcome {
    let mut findings = each(view, |interface| {
        let count = |name: &str| view.number(&interface.path(&format!("statistics/{name}"))).unwrap_or(0).unsigned_abs();
        let received = count("rx_packets");
        let names = ["rx_dropped", "rx_missed_errors", "rx_fifo_errors", "rx_over_errors", "rx_crc_errors", "tx_dropped"];
        let lost: Vec<(&str, u64)> = names.iter().map(|name| (*name, count(name))).filter(|(_, n)| *n > 0).collect();
        let driver: Losses = view.fact(&interface.name).unwrap_or_default();
        let all = lost.iter().map(|(name, n)| format!("{name} {n}"));
        let all: Vec<String> = all.chain(driver.counters.iter().map(|(name, n)| format!("{name} {n}"))).collect();
        let worst = lost.iter().map(|(_, n)| *n).chain(driver.counters.values().copied()).max().unwrap_or(0);
        if all.is_empty() {
            return Ok(Finding::good(format!("none of {received} packets")));
        }
        const SHOWN: usize = 4;
        let more = if all.len() > SHOWN { format!(" and {} more counters", all.len() - SHOWN) } else { String::new() };
        let found = format!("{}{more}, of {received} packets", all.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", "));
        Ok(if worst > received / ONE_IN {
            Finding::advice(
                found,
                Mend::by_hand(format!(
                    "does it grow? ethtool -S {} twice. Then: larger rings (ethtool -G), a cable or module (crc), a program \
                     that reads sooner",
                    interface.name
                )),
            )
        } else {
            Finding::good(found)
        })
    })?;
    // Packets for each processor: handled, dropped as the backlog was full, times that the budget was used up.
    let softnet = view.read("/proc/net/softnet_stat").unwrap_or_default();
    let column = |line: &str, at| line.split_whitespace().nth(at).and_then(|word| u64::from_str_radix(word, 16).ok());
    let sum = |at| softnet.lines().filter_map(|line| column(line, at)).sum::<u64>();
    let (handled, dropped, squeezed) = (sum(0), sum(1), sum(2));
    if dropped > handled / ONE_IN {
        let found = format!("the kernel's backlog dropped {dropped} of {handled} packets ({squeezed} times out of budget)");
        findings.push(Finding::advice(
            found,
            Mend::sysctls(&[("net.core.netdev_max_backlog", "10000"), ("net.core.netdev_budget", "600")]),
        ));
    }
    Ok(findings)
}
