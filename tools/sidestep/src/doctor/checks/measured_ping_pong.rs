//! What acceleration gives here.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::PingPong;

pub(super) const CHECK: Check = Check {
    id: "ping-pong",
    title: "measured: TCP between two namespaces, without and with the library",
    why: "the same program on the kernel and under the library: what can be had on this host, before cards and switches",
    weight: [77, 40],
    look,
};

/// Processors: each end polls on one. A little of both goes to what every host does beside.
const NEEDED: f64 = 1.8;

fn look(view: &View<'_>) -> Outcome {
    let seen: PingPong = match view.fact("") {
        Ok(seen) => seen,
        Err(unread) if unread.is_missing() => {
            return one(Finding::not_applicable("libvma.so is neither in the system's folders nor beside this program"));
        }
        Err(unread) if unread.cause == crate::host::Cause::Denied => {
            return one(Finding::cannot_tell("namespaces of its own need root"));
        }
        Err(unread) => return Err(unread),
    };
    let found = format!(
        "round trip {} us on the kernel (99 %: {} us), {} us accelerated (99 %: {} us), faster in {} of {} turns; others used {} of \
         {} processors",
        seen.kernel_us,
        seen.kernel_99_us,
        seen.accelerated_us,
        seen.accelerated_99_us,
        seen.faster,
        seen.turns,
        seen.others_used,
        view.online.len()
    );
    let finding = if seen.faster == seen.turns {
        Finding::good(found)
    } else if view.online.len() as f64 - seen.others_used < NEEDED || seen.faster > 0 {
        Finding::cannot_tell(format!("{found}: again when the host is quiet"))
    } else {
        Finding::advice(found, Mend::by_hand("two ends that poll need two processors near each other; /usr/share/doc/sidestep/troubleshooting.md"))
    };
    one(finding.with(&seen))
}
