//! Kernel samepage merging.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "ksm",
    title: "merging of equal pages (KSM)",
    why: "a daemon scans memory, and the first write to a merged page copies it: page faults of microseconds where none were",
    weight: [24, 18],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    match view.number("/sys/kernel/mm/ksm/run") {
        Err(unread) if unread.is_missing() => one(Finding::good("the kernel has none")),
        Err(unread) => Err(unread),
        Ok(1) => one(Finding::advice("runs", Mend::write("/sys/kernel/mm/ksm/run", "0"))),
        Ok(_) => one(Finding::good("off")),
    }
}
