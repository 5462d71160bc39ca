//! How the kernel was built to share processors.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::KernelConfig;

pub(super) const CHECK: Check = Check {
    id: "preemption",
    title: "preemption and tick of the kernel",
    why: "without preemption, a thread that a packet woke waits until the kernel is done with another's system call: up to \
          milliseconds",
    weight: [18, 3],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let config: KernelConfig = view.fact("")?;
    let has = |name: &str| config.on.iter().any(|option| option == name);
    let hz = config.on.iter().find_map(|option| option.strip_prefix("CONFIG_HZ_")).filter(|hz| hz.parse::<u32>().is_ok());
    let hz = hz.map_or(String::new(), |hz| format!(", {hz} ticks per second"));
    // What is in force, in parentheses: `none voluntary (full)`.
    let shown = view.read("/sys/kernel/debug/sched/preempt").unwrap_or_default();
    let shown = shown.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(word, _)| word.to_owned());
    let chosen = shown.or_else(|| view.boot_word("preempt"));
    let model = match &chosen {
        Some(word) => word.as_str(),
        None if has("CONFIG_PREEMPT_RT") => "real-time",
        None if has("CONFIG_PREEMPT") => "full",
        None if has("CONFIG_PREEMPT_LAZY") => "lazy",
        None if has("CONFIG_PREEMPT_VOLUNTARY") => "voluntary",
        None => "none",
    };
    let found = format!("{model}{hz}");
    one(if matches!(model, "voluntary" | "none") {
        let mend = match has("CONFIG_PREEMPT_DYNAMIC") {
            true => Mend::boot("preempt=full"),
            false => Mend::by_hand("a kernel built with CONFIG_PREEMPT_DYNAMIC (Debian, Ubuntu and Fedora have it) and preempt=full"),
        };
        Finding::advice(found, mend)
    } else {
        Finding::good(found)
    })
}
