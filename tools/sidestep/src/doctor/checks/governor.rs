//! Frequency scaling: the governor, and the preference that hardware takes instead of one.

use super::{Check, Outcome, one};
use crate::doctor::action::Action;
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "governor",
    title: "frequency scaling of the processors",
    why: "a processor that clocks down between packets answers the next one slowly: up to half of a round trip",
    weight: [90, 70],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let governors = match view.per_cpu("cpufreq/scaling_governor") {
        Ok(governors) => governors,
        Err(unread) if unread.is_missing() && view.is_virtual => {
            return one(Finding::cannot_tell("the hypervisor sets the frequency, and hides how"));
        }
        Err(unread) if unread.is_missing() => {
            return one(Finding::good("the kernel does not scale (no cpufreq driver); the firmware may"));
        }
        Err(unread) => return Err(unread),
    };
    let preferences = view.per_cpu("cpufreq/energy_performance_preference").unwrap_or_default();
    let shown = |what: &str, values: &std::collections::BTreeMap<String, _>, cpus: &dyn Fn(&str) -> String| {
        let all = values.keys().map(|value| format!("{value} ({})", cpus(value)));
        format!("{what} {}", all.collect::<Vec<_>>().join(", "))
    };
    let slow: Vec<usize> = governors
        .iter()
        .filter(|(governor, _)| *governor != "performance")
        .flat_map(|(_, cpus)| cpus.iter())
        .collect();
    let found = shown("governor", &governors, &|value| governors[value].to_string());
    if !slow.is_empty() {
        let write = |cpu| Action::Write {
            path: format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"),
            value: "performance".to_owned(),
        };
        let mend = Mend::actions(slow.into_iter().map(write).collect(), "tuned-adm profile network-latency");
        return one(Finding::bad(found, mend.shown_as("cpupower frequency-set -g performance")));
    }
    let saving: Vec<usize> = preferences
        .iter()
        .filter(|(preference, _)| preference.contains("power"))
        .flat_map(|(_, cpus)| cpus.iter())
        .collect();
    if saving.is_empty() {
        return one(Finding::good(found));
    }
    let write = |cpu| Action::Write {
        path: format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/energy_performance_preference"),
        value: "performance".to_owned(),
    };
    let mend = Mend::actions(saving.into_iter().map(write).collect(), "tuned-adm profile network-latency");
    let found = shown("energy preference", &preferences, &|value| preferences[value].to_string());
    one(Finding::advice(found, mend.shown_as("x86_energy_perf_policy performance")))
}
