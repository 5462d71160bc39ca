//! Connection tracking: the kernel's table of everybody's connections.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "conntrack",
    title: "connection tracking",
    why: "when its table is full, new connections of sockets that stay with the kernel are dropped without a word; looking \
          there costs 100 ns and more for each packet",
    weight: [46, 56],
    look,
};

/// Fuller than so, the next burst of clients does not fit, percent.
const FULL: i64 = 80;

fn look(view: &View<'_>) -> Outcome {
    let name = "net.netfilter.nf_conntrack_max";
    let count = match view.sysctl_number("net.netfilter.nf_conntrack_count") {
        Err(unread) if unread.is_missing() => return one(Finding::good("not loaded")),
        other => other?,
    };
    let max = view.sysctl_number(name)?;
    let found = format!("{count} of {max} entries");
    one(if count * 100 <= max * FULL {
        Finding::good(format!("{found}; accelerated packets pass it by"))
    } else {
        Finding::bad(found, Mend::sysctl(name, &(max * 4).to_string()))
    })
}
