//! How far the kernel's TCP buffers, and with them those of accelerated sockets, may grow.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::Answer;

pub(super) const CHECK: Check = Check {
    id: "tcp-buffers",
    title: "largest socket buffers",
    why: "a connection carries at most one buffer per round trip: 4 MiB is 3 Gbit/s at 10 ms. The largest is what matters; \
          buffers grow to it by themselves unless a program sets SO_RCVBUF",
    weight: [15, 65],
    look,
};

/// 16 MiB: 10 Gbit/s at 13 ms, as card vendors recommend.
const WANTED: i64 = 16 << 20;

fn look(view: &View<'_>) -> Outcome {
    // What a program may ask for by SO_RCVBUF; and what TCP grows to by itself. The first two belong to the first
    // network namespace: they are a finding of their own, as they may be somebody else's to change.
    let asked = small(view, &["net.core.rmem_max", "net.core.wmem_max"]).unwrap_or_default();
    let grown = small(view, &["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"])?;
    let mut findings = Vec::new();
    for values in [grown, asked] {
        if values.is_empty() {
            continue;
        }
        let found = values.iter().map(|(name, now, _)| format!("{name} {now}")).collect::<Vec<_>>().join(", ");
        let to: Vec<(&str, &str)> = values.iter().map(|(name, _, wanted)| (*name, wanted.as_str())).collect();
        findings.push(Finding::advice(found, Mend::sysctls(&to)));
    }
    if findings.is_empty() {
        return one(Finding::good("16 MiB or more"));
    }
    Ok(findings)
}

/// Those whose last number is too small: name, what there is, what there should be.
fn small<'n>(view: &View<'_>, names: &[&'n str]) -> Answer<Vec<(&'n str, String, String)>> {
    let mut small = Vec::new();
    for name in names {
        let value = view.sysctl(name)?;
        let mut words: Vec<&str> = value.split(' ').collect();
        let wanted = WANTED.to_string();
        if let Some(last) = words.last_mut()
            && last.parse::<i64>().is_ok_and(|last| last < WANTED)
        {
            *last = &wanted;
            small.push((*name, value.clone(), words.join(" ")));
        }
    }
    Ok(small)
}
