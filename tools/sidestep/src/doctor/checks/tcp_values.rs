//! Settings of TCP that accelerated sockets follow, too.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "tcp-values",
    title: "settings of TCP",
    why: "without SACK and window scaling a long path carries a tenth; slow start after a pause makes each burst begin anew; a \
          short accept queue turns bursts of clients away",
    weight: [36, 64],
    look,
};

/// Name, what a host should have, and whether it has to be exactly that or at least.
const WANTED: [(&str, i64, bool); 6] = [
    ("net.ipv4.tcp_sack", 1, true),
    ("net.ipv4.tcp_window_scaling", 1, true),
    ("net.ipv4.tcp_slow_start_after_idle", 0, true),
    ("net.ipv4.tcp_syncookies", 1, false),
    ("net.ipv4.tcp_max_syn_backlog", 512, false),
    ("net.core.somaxconn", 1024, false),
];

fn look(view: &View<'_>) -> Outcome {
    let mut said = Vec::new();
    let mut to: Vec<(&str, String)> = Vec::new();
    for (name, wanted, exactly) in WANTED {
        // Some belong to the first network namespace alone.
        let Ok(now) = view.sysctl_number(name) else { continue };
        if (exactly && now != wanted) || now < wanted {
            said.push(format!("{} {now}", name.rsplit('.').next().unwrap_or(name)));
            to.push((name, wanted.to_string()));
        }
    }
    let control = view.sysctl("net.ipv4.tcp_congestion_control")?;
    if said.is_empty() {
        let own = if matches!(control.as_str(), "cubic" | "reno") { "" } else { " (accelerated sockets use cubic)" };
        return one(Finding::good(format!("as they should be; congestion control {control}{own}")));
    }
    let to: Vec<(&str, &str)> = to.iter().map(|(name, value)| (*name, value.as_str())).collect();
    one(Finding::advice(said.join(", "), Mend::sysctls(&to)))
}
