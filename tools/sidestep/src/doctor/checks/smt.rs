//! Simultaneous multithreading: two hardware threads that share one core.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "smt",
    title: "hardware threads that share a core",
    why: "what runs on the sibling of a polling thread takes half of its core: latency that comes and goes",
    weight: [50, 10],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let shared = view.per_cpu("topology/thread_siblings_list")?;
    let pairs = shared.keys().filter(|list| list.contains([',', '-'])).count();
    if pairs == 0 {
        return one(if view.is_virtual {
            Finding::cannot_tell("each processor is shown as a core of its own; they may be threads of the host's cores")
        } else {
            Finding::good("each processor is a core of its own")
        });
    }
    let isolated = view.isolated();
    let found = format!("{} processors are {pairs} cores", view.online.len());
    let mend = Mend::actions(
        vec![crate::doctor::action::Action::Write {
            path: "/sys/devices/system/cpu/smt/control".to_owned(),
            value: "off".to_owned(),
        }],
        "nosmt on the kernel's command line; or keep it, and leave the sibling of each polling thread idle",
    );
    if view.aim == crate::doctor::view::Aim::Throughput {
        return one(Finding::good(format!("{found}; for throughput that is no harm")));
    }
    let lists = shared.keys().filter_map(|list| crate::host::cpus::Cpus::parse(list));
    let mut touched = lists.filter(|list| list.overlaps(&isolated));
    let whole = !isolated.is_empty() && touched.all(|list| list.iter().all(|cpu| isolated.contains(cpu)));
    one(if whole {
        Finding::good(format!("{found}, and those isolated are isolated as whole cores"))
    } else {
        Finding::advice(found, mend)
    })
}
