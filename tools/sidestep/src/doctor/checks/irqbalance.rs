//! A daemon that moves interrupts.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::cpus::Cpus;
use crate::host::facts::{Banned, Processes};

pub(super) const CHECK: Check = Check {
    id: "irqbalance",
    title: "the daemon that moves interrupts",
    why: "it moves a card's interrupts onto the program's processor without saying so: jumps of some microseconds",
    weight: [55, 15],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    if view.is_container {
        return one(Finding::cannot_tell("a container does not see the host's daemons"));
    }
    let Some(pid) = view.fact::<Processes>("irqbalance")?.pids.first().copied() else {
        return one(Finding::good("does not run"));
    };
    let isolated = view.isolated();
    if isolated.is_empty() {
        return one(Finding::advice(
            format!("runs (process {pid}), and may use every processor"),
            Mend::by_hand("systemctl disable --now irqbalance; or isolate processors (isolation on this page), which it leaves alone"),
        ));
    }
    let banned = banned(view, &view.fact(&pid.to_string())?);
    let left: Cpus = isolated.iter().filter(|cpu| !banned.contains(*cpu)).collect();
    one(if left.is_empty() {
        Finding::good(format!("runs (process {pid}), and leaves {isolated} alone"))
    } else {
        Finding::advice(
            format!("runs (process {pid}), and may use {left} of the isolated processors {isolated}"),
            Mend::by_hand(format!(
                "IRQBALANCE_BANNED_CPULIST={isolated} in /etc/default/irqbalance (Red Hat: /etc/sysconfig/irqbalance), then \
                 systemctl restart irqbalance; or systemctl disable --now irqbalance"
            )),
        )
    })
}

/// Processors that it does not use: those that it was told, or else those that the kernel was started to isolate. The
/// list is asked for before the mask.
fn banned(view: &View<'_>, told: &Banned) -> Cpus {
    if let Some(list) = &told.list {
        return Cpus::parse(list).unwrap_or_default();
    }
    if let Some(mask) = &told.mask {
        return Cpus::parse_mask(mask).unwrap_or_default();
    }
    let places = ["/sys/devices/system/cpu/isolated", "/sys/devices/system/cpu/nohz_full"];
    let lists = places.iter().filter_map(|path| Cpus::parse(&view.read(path).ok()?));
    lists.flat_map(|list| list.iter().collect::<Vec<_>>()).collect()
}
