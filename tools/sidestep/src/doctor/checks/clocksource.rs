//! What clock_gettime costs.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "clocksource",
    title: "the kernel's clock source",
    why: "every reading of the time is a system call or worse unless the source is tsc (or kvm-clock): 25 ns become \
          1 us, several times per packet",
    weight: [85, 60],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let folder = "/sys/devices/system/clocksource/clocksource0";
    let current = view.read(&format!("{folder}/current_clocksource"))?;
    if matches!(current.as_str(), "tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page") {
        return one(Finding::good(format!("{current}, read without a system call")));
    }
    let available = view.read(&format!("{folder}/available_clocksource")).unwrap_or_default();
    let mend = if available.split_whitespace().any(|one| one == "tsc") {
        let mut mend = Mend::write(format!("{folder}/current_clocksource"), "tsc");
        mend.keep = Some("clocksource=tsc tsc=reliable on the kernel's command line".to_owned());
        mend
    } else {
        Mend::boot("clocksource=tsc tsc=reliable")
    };
    one(Finding::bad(format!("{current}; there are: {available}"), mend))
}
