//! Time that the hypervisor gave to others.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "steal",
    title: "processor time that the hypervisor gave to others",
    why: "while another machine has the processor nothing is answered: milliseconds in the tail that no setting here mends",
    weight: [82, 60],
    look,
};

/// More than so much of all time since the start is felt, per mille.
const FELT: u64 = 5;

fn look(view: &View<'_>) -> Outcome {
    if !view.is_virtual {
        return one(Finding::not_applicable("no hypervisor"));
    }
    let stat = view.read("/proc/stat")?;
    let line = stat.lines().find(|line| line.starts_with("cpu ")).unwrap_or_default();
    let times: Vec<u64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    let (all, steal) = (times.iter().take(8).sum::<u64>().max(1), times.get(7).copied().unwrap_or(0));
    let per_mille = steal * 1000 / all;
    let found = format!("{}.{} % of all time since the start", per_mille / 10, per_mille % 10);
    one(if per_mille > FELT {
        Finding::bad(found, Mend::by_hand("a machine with processors of its own (dedicated or pinned), or fewer neighbours"))
    } else if steal == 0 {
        Finding::good("none was reported (some hypervisors do not report it: see the jitter that is measured)")
    } else {
        Finding::good(found)
    })
}
