//! The kernel's housekeeping on processors that programs poll on.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "housekeeping",
    title: "the kernel's housekeeping on every processor",
    why: "statistics of memory are folded once a second on each processor, and timers of idle ones move to busy ones: some \
          microseconds each",
    weight: [20, 4],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let interval = view.sysctl_number("vm.stat_interval")?;
    let migration = view.sysctl_number("kernel.timer_migration").unwrap_or(0);
    let mut to = Vec::new();
    let mut said = Vec::new();
    if interval < 10 {
        to.push(("vm.stat_interval", "120"));
        said.push(format!("vm.stat_interval {interval} s"));
    }
    if migration != 0 {
        to.push(("kernel.timer_migration", "0"));
        said.push("kernel.timer_migration 1".to_owned());
    }
    one(if to.is_empty() { Finding::good("rare") } else { Finding::advice(said.join(", "), Mend::sysctls(&to)) })
}
