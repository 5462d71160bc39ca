//! Watchdogs that interrupt each processor.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "watchdog",
    title: "watchdogs of the kernel",
    why: "the watchdogs wake a thread on each processor every four seconds and take a performance counter: 5 to 20 us each time",
    weight: [26, 6],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let names = ["kernel.watchdog", "kernel.nmi_watchdog"];
    let on: Vec<&str> =
        names.iter().filter(|name| view.sysctl_number(name).is_ok_and(|value| value != 0)).copied().collect();
    if on.is_empty() {
        return one(Finding::good("off"));
    }
    let to: Vec<(&str, &str)> = on.iter().map(|name| (*name, "0")).collect();
    one(Finding::advice(format!("{} on", on.join(" and ")), Mend::sysctls(&to)))
}
