//! A cgroup's processor time: a quota stops a polling program when it is used up.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "quota",
    title: "processor quota of the control group",
    why: "a thread that polls uses its quota up and then stands still for the rest of the period: up to 100 ms at a time",
    weight: [84, 80],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let own = view.read("/proc/self/cgroup")?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/").trim_end_matches('/');
    // The own group and all above it: the tightest counts.
    let mut group = own.to_owned();
    let mut seen = false;
    loop {
        let path = format!("/sys/fs/cgroup{group}");
        seen |= view.read(&format!("{path}/cgroup.controllers")).is_ok() || view.read(&format!("{path}/cpu.stat")).is_ok();
        if let Ok(limit) = view.read(&format!("{path}/cpu.max"))
            && !limit.starts_with("max")
        {
            let stat = view.read(&format!("{path}/cpu.stat")).unwrap_or_default();
            let throttled = stat.lines().find_map(|line| line.strip_prefix("nr_throttled ")).unwrap_or("?");
            let shown = if group.is_empty() { "/" } else { &group };
            let found = format!("{shown} has {limit} us of each period; it was stopped {throttled} times");
            let mend = Mend::by_hand("CPUQuota= (systemd), resources.limits.cpu (Kubernetes: whole processors and the static \
                                      CPU manager), --cpuset-cpus instead of --cpus (Docker)");
            return one(Finding::bad(found, mend));
        }
        match group.rsplit_once('/') {
            Some((above, _)) => group = above.to_owned(),
            None => break,
        }
    }
    one(if seen { Finding::good("none") } else { Finding::cannot_tell("no control groups of version 2 here") })
}
