//! Options of the kernel that find its mistakes and cost its users time.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::KernelConfig;

pub(super) const CHECK: Check = Check {
    id: "debug-kernel",
    title: "debugging options of the kernel",
    why: "checks of locks and memory in each system call and packet: two to ten times slower",
    weight: [86, 86],
    look,
};

const COSTLY: [&str; 11] = [
    "CONFIG_KASAN",
    "CONFIG_KCSAN",
    "CONFIG_KMSAN",
    "CONFIG_PROVE_LOCKING",
    "CONFIG_LOCK_STAT",
    "CONFIG_DEBUG_LOCK_ALLOC",
    "CONFIG_DEBUG_SLAB",
    "CONFIG_SLUB_DEBUG_ON",
    "CONFIG_DEBUG_PAGEALLOC_ENABLE_DEFAULT",
    "CONFIG_DEBUG_KMEMLEAK",
    "CONFIG_DEBUG_OBJECTS",
];

/// A check at each access to what a processor has of its own.
const CHEAPER: &str = "CONFIG_DEBUG_PREEMPT";

fn look(view: &View<'_>) -> Outcome {
    let config = view.fact::<KernelConfig>("");
    let mut on: Vec<&str> = Vec::new();
    if let Ok(config) = &config {
        on.extend(COSTLY.iter().filter(|option| config.on.iter().any(|set| set == *option)));
    }
    // Without a configuration to read, the running kernel still shows what its checks left in procfs.
    for (path, option) in
        [("/proc/lockdep_stats", "CONFIG_PROVE_LOCKING"), ("/proc/lock_stat", "CONFIG_LOCK_STAT")]
    {
        if view.read(path).is_ok() && !on.contains(&option) {
            on.push(option);
        }
    }
    if !on.is_empty() {
        let mend = Mend::by_hand("boot a kernel built without them; distributions name such kernels -debug");
        return one(Finding::bad(on.join(", "), mend));
    }
    one(match config {
        Ok(config) if config.on.iter().any(|option| option == CHEAPER) => Finding::advice(
            format!("{CHEAPER}: some percent of each system call and packet"),
            Mend::by_hand("a kernel built without it (distributions' have it only in those named -debug)"),
        ),
        Ok(_) => Finding::good(format!("none of {} costly options", COSTLY.len())),
        Err(unread) => Finding::cannot_tell(format!("{unread}; procfs shows no sign of lock checks")),
    })
}
