//! A cgroup's processor time: a quota stops a polling program when it is used up.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::Answer;

pub(super) const CHECK: Check = Check {
    id: "quota",
    title: "processor quota of the control group",
    why: "a thread that polls uses its quota up and then stands still for the rest of the period: up to 100 ms at a time",
    weight: [84, 80],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    one(of(view, "self")?)
}

/// The quota that the processes of the group of process `pid` share.
pub(super) fn of(view: &View<'_>, pid: &str) -> Answer<Finding> {
    let groups = view.read(&format!("/proc/{pid}/cgroup"))?;
    // `ip netns exec` mounts /sys anew, without control groups: the first process still has them.
    let mounted = view.host.list("/sys/fs/cgroup").is_ok_and(|names| !names.is_empty());
    let root = if mounted { "" } else { "/proc/1/root" };
    let mut seen = false;
    for Hierarchy { folder, group, limit } in hierarchies(&groups) {
        let folder = format!("{root}{folder}");
        // The own group and all above it: the tightest counts.
        for group in itself_and_above(group) {
            let path = format!("{folder}{group}");
            seen |= ["cgroup.controllers", "cpu.stat"].iter().any(|name| view.read(&format!("{path}/{name}")).is_ok());
            let Some(limit) = limit(view, &path) else { continue };
            let stat = view.read(&format!("{path}/cpu.stat")).unwrap_or_default();
            let throttled = stat.lines().find_map(|line| line.strip_prefix("nr_throttled ")).unwrap_or("?");
            let shown = if group.is_empty() { "/" } else { group };
            let found = format!("{shown} has {limit} us of each period; it was stopped {throttled} times");
            let mend = Mend::by_hand("CPUQuota= (systemd), resources.limits.cpu (Kubernetes: whole processors and the static \
                                      CPU manager), --cpuset-cpus instead of --cpus (Docker)");
            return Ok(Finding::bad(found, mend));
        }
    }
    Ok(if seen { Finding::good("none") } else { Finding::cannot_tell("no control groups with processor time are shown here") })
}

/// A tree of control groups that may limit processor time.
struct Hierarchy<'a> {
    folder: String,
    group: &'a str,
    /// The quota and the period of the group in a folder, if it has a quota.
    limit: fn(&View<'_>, &str) -> Option<String>,
}

/// Of /proc/PID/cgroup: version 2 has the number 0; one of version 1 names the controller.
fn hierarchies(groups: &str) -> Vec<Hierarchy<'_>> {
    let all = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        let group = group.trim_end_matches('/');
        if controllers.is_empty() {
            return Some(Hierarchy { folder: "/sys/fs/cgroup".to_owned(), group, limit: second_version });
        }
        let cpu = controllers.split(',').any(|name| name == "cpu");
        cpu.then(|| Hierarchy { folder: format!("/sys/fs/cgroup/{controllers}"), group, limit: first_version })
    });
    all.collect()
}

fn second_version(view: &View<'_>, path: &str) -> Option<String> {
    view.read(&format!("{path}/cpu.max")).ok().filter(|limit| !limit.starts_with("max"))
}

fn first_version(view: &View<'_>, path: &str) -> Option<String> {
    let number = |name: &str| view.number(&format!("{path}/cpu.cfs_{name}_us")).ok();
    let quota = number("quota").filter(|quota| *quota > 0)?;
    Some(format!("{quota} {}", number("period")?))
}

/// `/a/b`, `/a` and the root.
fn itself_and_above(group: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(group), |group| group.rsplit_once('/').map(|(above, _)| above))
}
