//! May a program of this user be accelerated at all?

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::Privilege;

pub(super) const CHECK: Check = Check {
    id: "privilege",
    title: "the right to open AF_XDP sockets and to load the program",
    why: "without it every socket is the kernel's",
    weight: [99, 99],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let privilege: Privilege = view.fact("")?;
    one(match privilege.refused {
        None => Finding::good("this user may"),
        Some(refused) => Finding::bad(
            refused,
            Mend::by_hand(
                "root; or CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF, CAP_PERFMON and CAP_IPC_LOCK as ambient capabilities \
                 (systemd: AmbientCapabilities=, LimitMEMLOCK=infinity; Docker: --cap-add; see /usr/share/doc/sidestep/install.md)",
            ),
        ),
    })
}
