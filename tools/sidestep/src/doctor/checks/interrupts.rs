//! The card's interrupts: of which kind, and to which processors.

use super::{Check, Outcome, each};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::cpus::Cpus;

pub(super) const CHECK: Check = Check {
    id: "interrupts",
    title: "interrupts of the card",
    why: "an interrupt on an isolated processor disturbs who polls there; one on another node than the card's costs cache \
          lines; legacy interrupts are shared and slow",
    weight: [60, 45],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let isolated = view.isolated();
    each(view, |interface| {
        if !interface.has_device {
            return Ok(Finding::not_applicable("no card that interrupts"));
        }
        let interrupts = match view.interrupts(interface) {
            Ok(interrupts) => interrupts,
            Err(unread) if unread.is_missing() => {
                let legacy = view.pci(interface).and_then(|pci| view.number(&format!("{pci}/irq")));
                return Ok(match legacy {
                    Ok(irq) if irq > 0 => Finding::bad(
                        format!("a legacy interrupt ({irq}), no MSI-X"),
                        Mend::by_hand("a kernel without pci=nomsi; the card's and the board's firmware"),
                    ),
                    _ => Finding::cannot_tell("its interrupts are not shown"),
                });
            }
            Err(unread) => return Err(unread),
        };
        let all: Cpus = interrupts.iter().flat_map(|(_, cpus)| cpus.iter()).collect();
        let found = format!("{} MSI interrupts, on processors {all}", interrupts.len());
        let move_to = |irqs: &[u32], cpus: &str| {
            Mend::until_reboot(
                format!(
                    "for irq in {}; do echo {cpus} > /proc/irq/$irq/smp_affinity_list; done",
                    irqs.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
                ),
                "irqaffinity= on the kernel's command line, or a unit that runs the same command",
            )
        };
        let disturbing: Vec<u32> =
            interrupts.iter().filter(|(_, cpus)| cpus.overlaps(&isolated)).map(|(irq, _)| *irq).collect();
        let others: Cpus = view.online.iter().filter(|cpu| !isolated.contains(*cpu)).collect();
        if !disturbing.is_empty() {
            return Ok(Finding::advice(
                format!("{found}; {} of them on isolated processors ({isolated})", disturbing.len()),
                move_to(&disturbing, &others.to_string()),
            ));
        }
        let near = interface.node.and_then(|node| view.read(&format!("/sys/devices/system/node/node{node}/cpulist")).ok());
        let near = near.and_then(|text| Cpus::parse(&text)).unwrap_or_else(|| view.online.clone());
        let far: Vec<u32> = interrupts.iter().filter(|(_, cpus)| !cpus.overlaps(&near)).map(|(irq, _)| *irq).collect();
        if !far.is_empty() {
            return Ok(Finding::advice(
                format!("{found}; {} of them far from the card ({near} are near)", far.len()),
                move_to(&far, &near.to_string()),
            ));
        }
        Ok(Finding::good(found))
    })
}
