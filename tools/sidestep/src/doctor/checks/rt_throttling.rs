//! What the kernel takes away from real-time threads.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "rt-throttling",
    title: "throttling of real-time threads",
    why: "a thread that polls under SCHED_FIFO stands still for 50 ms of each second when others want its processor",
    weight: [30, 5],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let runtime = view.sysctl_number("kernel.sched_rt_runtime_us")?;
    let period = view.sysctl_number("kernel.sched_rt_period_us").unwrap_or(1_000_000);
    if runtime < 0 || runtime >= period {
        return one(Finding::good("off"));
    }
    let found = format!("real-time threads get {runtime} of {period} us; matters under SCHED_FIFO or SCHED_RR only");
    one(Finding::advice(found, Mend::sysctl("kernel.sched_rt_runtime_us", "-1")))
}
