//! What this kernel's release can do for AF_XDP.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "kernel",
    title: "the kernel's release",
    why: "the library needs Linux 5.10; before 6.6 some packets make detours (/usr/share/doc/sidestep/design/af-xdp.md has what each release adds)",
    weight: [100, 100],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let (major, minor, release) = view.release()?;
    let newer = || {
        Mend::by_hand("install a newer kernel (Debian 12: apt install -t bookworm-backports linux-image-amd64)")
    };
    one(if (major, minor) < (5, 10) {
        Finding::bad(format!("{release}: older than 5.10, nothing is accelerated"), newer())
    } else if (major, minor) < (6, 6) {
        Finding::advice(format!("{release}: accelerated, with detours that 6.6 does without"), newer())
    } else {
        Finding::good(release)
    })
}
