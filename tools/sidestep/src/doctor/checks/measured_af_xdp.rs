//! Does AF_XDP work here?

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::AfXdp;

pub(super) const CHECK: Check = Check {
    id: "af-xdp",
    title: "tried: AF_XDP on a pair of interfaces of our own",
    why: "kernel, privileges and memory limits together decide; this tries them on veth, without touching a real interface",
    weight: [97, 97],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let seen: AfXdp = match view.fact("") {
        Ok(seen) => seen,
        Err(unread) if unread.cause == crate::host::Cause::Denied => {
            return one(Finding::cannot_tell("namespaces of its own need root"));
        }
        Err(unread) if unread.is_missing() => {
            return one(Finding::cannot_tell("this kernel makes no veth pair to try it on (modprobe veth)"));
        }
        Err(unread) => return Err(unread),
    };
    let shown = |refused: &Option<String>| refused.clone().unwrap_or_else(|| "works".to_owned());
    let found = format!("generic hook: {}; driver's hook: {}", shown(&seen.generic), shown(&seen.native));
    let finding = match (&seen.generic, &seen.native) {
        (None, None) => Finding::good(found),
        (Some(_), Some(_)) => Finding::bad(found, Mend::by_hand("privilege, limits, kernel and lsm on this page")),
        _ => Finding::advice(found, Mend::by_hand("a newer kernel; SIDESTEP_XDP_MODE chooses the hook that works")),
    };
    one(finding.with(&seen))
}
