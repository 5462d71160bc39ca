//! Huge pages: the arena of packet frames takes them where it may, and others shall not be collapsed under load.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "huge-pages",
    title: "transparent huge pages",
    why: "`always` lets the kernel compact memory inside page faults: stalls of milliseconds; `never` costs the packet \
          memory its huge pages, and opening an interface ten times the time",
    weight: [48, 30],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let folder = "/sys/kernel/mm/transparent_hugepage";
    let enabled = match view.setting(&format!("{folder}/enabled")) {
        Ok(enabled) => enabled,
        Err(unread) if unread.is_missing() => {
            return one(Finding::advice(
                "the kernel has none",
                Mend::by_hand("a kernel with CONFIG_TRANSPARENT_HUGEPAGE (all distributions' have it)"),
            ));
        }
        Err(unread) => return Err(unread),
    };
    one(match enabled.as_str() {
        "madvise" => Finding::good("for those who ask (madvise)"),
        other => Finding::advice(other, Mend::write(format!("{folder}/enabled"), "madvise")),
    })
}
