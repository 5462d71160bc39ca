//! Idle states: how long a processor that slept takes to answer.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::LatencyLimit;

pub(super) const CHECK: Check = Check {
    id: "idle-states",
    title: "idle states of the processors",
    why: "waking from a deep state delays each packet that finds the processor idle: a vendor measured 38 us of round \
          trip with C1E and C6, 19 us without",
    weight: [88, 20],
    look,
};

/// Leaving a state that takes so long is not felt beside an interrupt's own cost, microseconds.
const FELT_US: i64 = 2;

/// What a processor may take to wake by its own limit (PM QoS), microseconds: `n/a` is no time at all, 0 no limit.
fn allowed(view: &View<'_>, cpu: usize) -> i64 {
    let limit = view.read(&format!("/sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us"));
    match limit.unwrap_or_default().trim() {
        "n/a" => 0,
        limit => limit.parse().ok().filter(|limit| *limit > 0).unwrap_or(i64::MAX),
    }
}

fn look(view: &View<'_>) -> Outcome {
    let folder = |cpu: usize| format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
    let first = view.online.iter().next().unwrap_or(0);
    let states = match view.host.list(&folder(first)) {
        Ok(states) => states,
        Err(unread) if unread.is_missing() => {
            return one(if view.is_virtual {
                Finding::cannot_tell("the hypervisor puts processors to sleep, and hides how deep")
            } else {
                Finding::good("no idle states (cpuidle is off)")
            });
        }
        Err(unread) => return Err(unread),
    };
    let mut deepest = (0, String::new());
    for cpu in view.online.iter() {
        let allowed = allowed(view, cpu);
        for state in states.iter().filter(|name| name.starts_with("state")) {
            let path = |what: &str| format!("{}/{state}/{what}", folder(cpu));
            let Ok(latency) = view.number(&path("latency")) else { continue };
            let disabled = view.number(&path("disable")).unwrap_or(0) != 0;
            if !disabled && latency <= allowed && latency > deepest.0 {
                deepest = (latency, view.read(&path("name")).unwrap_or_default());
            }
        }
    }
    let (latency, name) = deepest;
    if latency <= FELT_US {
        return one(if view.is_virtual {
            Finding::cannot_tell("no deep state is shown, but the hypervisor decides how deep processors sleep")
        } else {
            Finding::good(format!("no state takes longer than {latency} us to leave"))
        });
    }
    if let Ok(LatencyLimit { us }) = view.fact("")
        && i64::from(us) <= FELT_US
    {
        return one(Finding::good(format!("{name} takes {latency} us to leave, but somebody holds /dev/cpu_dma_latency at {us} us")));
    }
    let found = format!("processors may sleep in {name}, which takes {latency} us to leave");
    let mend = Mend::until_reboot(
        "sidestep hold -- PROGRAM (holds /dev/cpu_dma_latency at 0 while it runs)",
        "processor.max_cstate=1 intel_idle.max_cstate=1 on the kernel's command line, or C1E and C6 off in the firmware; for \
         some processors N alone, /etc/tmpfiles.d/sidestep.conf: w /sys/devices/system/cpu/cpuN/power/pm_qos_resume_latency_us - \
         - - - n/a",
    );
    one(Finding::bad(found, mend))
}
