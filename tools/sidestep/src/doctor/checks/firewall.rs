//! Rules that accelerated packets will not meet.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::Firewall;

pub(super) const CHECK: Check = Check {
    id: "firewall",
    title: "firewall rules",
    why: "packets of accelerated sockets pass before the firewall: a rule that shall keep somebody out of such a port does \
          not hold",
    weight: [75, 75],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let mut chains = match view.fact::<Firewall>("") {
        Ok(firewall) => firewall.chains,
        Err(unread) if unread.is_missing() || unread.cause == crate::host::Cause::Failed(libc::EPROTONOSUPPORT) => {
            Vec::new()
        }
        Err(unread) => return Err(unread),
    };
    chains.retain(|chain| !chain.ends_with("(0 rules)"));
    let old = view.read("/proc/net/ip_tables_names").unwrap_or_default();
    chains.extend(old.lines().filter(|line| !line.is_empty()).map(|table| format!("iptables {table}")));
    if chains.is_empty() {
        return one(Finding::good("no rules"));
    }
    const SHOWN: usize = 4;
    let more = chains.len().saturating_sub(SHOWN);
    let mut found = chains.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 {
        found += &format!(" and {more} more");
    }
    let mend = Mend::by_hand(
        "leave protected ports to the kernel by a line of /etc/libvma.conf (use os tcp_server PROGRAM *:PORT), or filter \
         before this host; /usr/share/doc/sidestep/security.md",
    );
    one(Finding::advice(found, mend))
}
