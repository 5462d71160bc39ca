//! Huge pages: packet memory takes them where it is asked to, and others shall not be collapsed under load.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "huge-pages",
    title: "transparent and reserved huge pages",
    why: "`always` lets the kernel compact memory inside page faults: stalls of milliseconds; `never` costs packet \
          memory its huge pages, where VMA_MEM_ALLOC_TYPE=2 asks for them; reserved ones (hugetlbfs) are nobody else's, \
          and packet memory takes none",
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
    let mut findings = vec![match enabled.as_str() {
        "madvise" => Finding::good("for those who ask (madvise)"),
        other => Finding::advice(other, Mend::write(format!("{folder}/enabled"), "madvise")),
    }];
    findings.extend(idle_reserves(view));
    Ok(findings)
}

/// A larger part of memory that is reserved and that nobody has taken is missed elsewhere, percent.
const MISSED: i64 = 10;

/// Pages that are reserved for hugetlbfs, which no program has taken or been promised.
fn idle_reserves(view: &View<'_>) -> Vec<Finding> {
    let memory = view.read("/proc/meminfo").unwrap_or_default();
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok());
    let folder = "/sys/kernel/mm/hugepages";
    let sizes = view.host.list(folder).unwrap_or_default();
    let idle = |size: &String| {
        let kib: i64 = size.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let pages = |name: &str| view.number(&format!("{folder}/{size}/{name}")).ok();
        let all = pages("nr_hugepages")?;
        let idle = pages("free_hugepages")? - pages("resv_hugepages").unwrap_or(0);
        let share = idle.saturating_mul(kib).saturating_mul(100) / total.filter(|total: &i64| *total > 0)?;
        (share > MISSED).then(|| {
            let mend = Mend::until_reboot(
                format!("echo {} > {folder}/{size}/nr_hugepages, unless a program that is not running yet needs them", all - idle),
                "whoever reserves them: vm.nr_hugepages in /etc/sysctl.d, hugepages= on the kernel's command line",
            );
            Finding::advice(format!("{idle} of {all} reserved pages of {kib} KiB lie idle: {share} % of memory"), mend)
        })
    };
    sizes.iter().filter_map(idle).collect()
}
