//! Limits of a session: locked memory, open files and real-time priority.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::{Aim, View};
use sys::capability;

pub(super) const CHECK: Check = Check {
    id: "limits",
    title: "limits of locked memory, open files and real-time priority",
    why: "packet memory is locked: without CAP_IPC_LOCK, 8 MiB of memlock are not enough for one interface, and its sockets are \
          the kernel's; without rtprio, SCHED_FIFO is refused to who asks for it",
    weight: [65, 65],
    look,
};

/// The arena of one interface in its default size, and the maps beside it.
const MEMLOCK: u64 = 128 << 20;
const FILES: u64 = 4096;

fn look(view: &View<'_>) -> Outcome {
    let limits = view.read("/proc/self/limits")?;
    // A name of 26 columns, then the soft limit.
    let soft = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name))?;
        let value = line.get(26..)?.split_whitespace().next()?;
        Some(if value == "unlimited" { u64::MAX } else { value.parse().ok()? })
    };
    let status = view.read("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let mut short = Vec::new();
    match soft("Max locked memory") {
        Some(bytes) if bytes < MEMLOCK && effective & capability::IPC_LOCK == 0 => {
            short.push(format!("locked memory {} KiB, without CAP_IPC_LOCK", bytes >> 10));
        }
        _ => {}
    }
    match soft("Max open files") {
        Some(files) if files < FILES => short.push(format!("{files} open files")),
        _ => {}
    }
    if soft("Max realtime priority") == Some(0) && effective & capability::SYS_NICE == 0 && view.aim == Aim::Latency {
        short.push("rtprio 0 and no CAP_SYS_NICE".to_owned());
    }
    one(if short.is_empty() {
        Finding::good("enough")
    } else {
        let mend = Mend::by_hand(
            "LimitMEMLOCK=infinity, LimitNOFILE=1048576 and LimitRTPRIO=99 in the unit; or in \
             /etc/security/limits.d/90-sidestep.conf: USER - memlock unlimited, USER - nofile 1048576, USER - rtprio 99",
        );
        Finding::advice(short.join(", "), mend)
    })
}
