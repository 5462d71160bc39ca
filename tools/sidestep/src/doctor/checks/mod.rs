//! THE TABLE of checks. One check is one file, with a `CHECK` that says what it looks at and why it matters, and its
//! row here. A check only looks; what it would change stands in its finding's [`Mend`](super::finding::Mend).

use super::finding::Finding;
use super::view::{Interface, SYSFS_IS_ANOTHERS, View};
use crate::host::{Answer, Unread};

/// One check.
pub(crate) struct Check {
    /// Its name for `--only` and in the JSON.
    pub(crate) id: &'static str,
    /// What it looks at, in a few words.
    pub(crate) title: &'static str,
    /// Why it matters, with what may be gained, in one line.
    pub(crate) why: &'static str,
    /// How much it matters for latency and for throughput, 0 to 100: the order of the report.
    pub(crate) weight: [u8; 2],
    pub(crate) look: fn(&View<'_>) -> Outcome,
}

/// What a look gives: what could not be read becomes "cannot tell".
pub(crate) type Outcome = Result<Vec<Finding>, Unread>;

impl Check {
    /// All findings of the check on a host.
    pub(crate) fn findings(&self, view: &View<'_>) -> Vec<Finding> {
        (self.look)(view).unwrap_or_else(|unread| vec![unread.into()])
    }
}

/// One finding for the host.
fn one(finding: Finding) -> Outcome {
    Ok(vec![finding])
}

/// A finding for each interface; one whose question cannot be answered does not hide the others.
fn each(view: &View<'_>, look: impl Fn(&Interface) -> Answer<Finding>) -> Outcome {
    if view.sysfs_is_anothers {
        return one(Finding::cannot_tell(SYSFS_IS_ANOTHERS));
    }
    if view.interfaces.is_empty() {
        return one(Finding::not_applicable("no interface here could carry accelerated packets"));
    }
    let about = |interface: &Interface| look(interface).unwrap_or_else(Finding::from).about(&interface.name);
    Ok(view.interfaces.iter().map(about).collect())
}

macro_rules! checks {
    ($($(#[$doc:meta])* $table:ident { $($name:ident),* $(,)? })*) => {
        $($(mod $name;)*)*
        $($(#[$doc])* pub(crate) const $table: &[Check] = &[$($name::CHECK),*];)*
    };
}

checks! {
    /// What is looked at.
    LOOKS {
    aspm, audit, bpf_jit, busy_poll, clock_sync, clocksource, coalescing, conntrack, dca, debug_kernel, fec, firewall, foreign_xdp, frequency, governor, housekeeping, huge_pages, idle_states, interrupts, iommu, irqbalance, isolation, kernel, ksm, library, limits, link, losses, lro, lsm, mitigations, mtu, napi_defer, napi_threads, node, numa_balancing, offloads, pcie, pcie_requests, ports, preemption, pressure, privilege, queues, quota, rings, rt_throttling, smt, steal, steering, swap, tcp_buffers, tcp_timestamps, tcp_values, watchdog, write_combining, xps, zero_copy,
}
    /// What is measured, which takes time.
    MEASUREMENTS { measured_af_xdp, measured_jitter, measured_loopback, measured_ping_pong, measured_wakeup }
    /// What is asked of a running program.
    OF_PROGRAMS { program_acceleration, program_library, program_memory, program_quota, program_threads }
}

/// Every check.
pub(crate) fn all() -> impl Iterator<Item = &'static Check> {
    LOOKS.iter().chain(MEASUREMENTS).chain(OF_PROGRAMS)
}
