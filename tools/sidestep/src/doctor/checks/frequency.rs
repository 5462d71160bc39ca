//! The frequency that processors could run at, against what they may.

use super::{Check, Outcome, one};
use crate::doctor::action::Action;
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "frequency",
    title: "frequency of the processors",
    why: "what runs at two thirds of its frequency takes half as long again for each packet; turbo is worth 20 to 60 percent",
    weight: [62, 62],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let current = match view.per_cpu("cpufreq/scaling_cur_freq") {
        Ok(current) => current,
        Err(unread) if unread.is_missing() && view.is_virtual => {
            return one(Finding::cannot_tell("the hypervisor sets the frequency, and hides how"));
        }
        Err(unread) if unread.is_missing() => return one(Finding::cannot_tell("there is no cpufreq driver")),
        Err(unread) => return Err(unread),
    };
    let mhz = |kilohertz: i64| kilohertz / 1000;
    let numbers = current.keys().filter_map(|value| value.trim().parse::<i64>().ok());
    let now = numbers.min().unwrap_or(0);
    let cpu = view.online.iter().next().unwrap_or(0);
    let of = |name: &str| view.number(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/{name}")).ok();
    let (max, base) = (of("cpuinfo_max_freq").unwrap_or(now), of("base_frequency"));
    let turbo = [("intel_pstate/no_turbo", 1, "0"), ("cpufreq/boost", 0, "1")];
    for (file, off, on) in turbo {
        let path = format!("/sys/devices/system/cpu/{file}");
        if view.number(&path) == Ok(off) {
            let mend = Mend::actions(
                vec![Action::Write { path, value: on.to_owned() }],
                "tuned-adm profile network-latency, or the firmware's setting",
            );
            return one(Finding::advice(format!("turbo is off: at most {} MHz are used of {}", mhz(base.unwrap_or(now)), mhz(max)), mend));
        }
    }
    let wanted = base.unwrap_or(max * 2 / 3);
    let found = format!("{} MHz now, of {}", mhz(now), mhz(max));
    one(if now >= wanted {
        Finding::good(found)
    } else {
        Finding::advice(
            format!("{found}; idle processors clock down"),
            Mend::until_reboot("cpupower frequency-set -g performance", "tuned-adm profile network-latency"),
        )
    })
}
