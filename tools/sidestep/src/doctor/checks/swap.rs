//! Swap.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "swap",
    title: "swap, and how readily it is used",
    why: "a page of the program that was swapped out costs its next user milliseconds (packet memory itself is locked)",
    weight: [22, 14],
    look,
};

/// Up to here the kernel prefers to give cached files up, as long as there are any.
const RELUCTANT: i64 = 10;

fn look(view: &View<'_>) -> Outcome {
    let swaps = view.read("/proc/swaps")?;
    let used: u64 = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok()).sum();
    let areas = swaps.lines().skip(1).count();
    one(match (areas, used) {
        (0, _) => Finding::good("none"),
        (_, 0) => match view.sysctl_number("vm.swappiness") {
            Ok(swappiness) if swappiness > RELUCTANT => Finding::advice(
                format!("there is some, nothing is in it yet, and vm.swappiness is {swappiness}"),
                Mend::sysctl("vm.swappiness", &RELUCTANT.to_string()),
            ),
            _ => Finding::good("there is some, and nothing is in it"),
        },
        _ => Finding::advice(
            format!("{} MiB are in it", used >> 10),
            Mend::until_reboot("swapoff -a (if memory suffices)", "its line in /etc/fstab; or mlockall() in the program"),
        ),
    })
}
