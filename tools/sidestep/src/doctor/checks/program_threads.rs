//! A running program: where do its busiest threads run?

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::{Aim, View};
use crate::host::cpus::Cpus;
use crate::host::facts::Threads;

pub(super) const CHECK: Check = Check {
    id: "program-threads",
    title: "the program: are its threads pinned, near the card, apart from its interrupts?",
    why: "a thread that moves leaves its caches behind; on the card's other node each packet crosses the link; on the \
          interrupt's processor both wait for each other",
    weight: [83, 57],
    look,
};

/// Threads that have used less of the program's time are not its busy ones, percent.
const BUSY: u32 = 20;

fn look(view: &View<'_>) -> Outcome {
    let pid = view.program();
    let threads: Threads = view.fact(&pid)?;
    let busy: Vec<_> = threads.all.iter().filter(|thread| thread.share >= BUSY).collect();
    if busy.is_empty() {
        return one(Finding::cannot_tell("no thread has worked enough to tell"));
    }
    let named = |thread: &crate::host::facts::Thread| format!("{} ({}, {} % of its time)", thread.name, thread.id, thread.share);
    let mut findings = Vec::new();
    let allowed = |thread: &crate::host::facts::Thread| Cpus::parse(&thread.allowed).unwrap_or_default();
    let loose: Vec<_> = busy.iter().filter(|thread| allowed(thread).len() > 1).collect();
    if let Some(first) = loose.first()
        && view.aim == Aim::Latency
    {
        findings.push(Finding::advice(
            format!("{} may run on {}: not pinned", named(first), first.allowed),
            Mend::until_reboot(
                format!("taskset -pc CPU {}", first.id),
                "CPUAffinity= in its unit, taskset or numactl before its command",
            ),
        ));
    }
    for interface in &view.interfaces {
        let near = interface.node.and_then(|node| view.read(&format!("/sys/devices/system/node/node{node}/cpulist")).ok());
        let near = near.and_then(|text| Cpus::parse(&text)).unwrap_or_else(|| view.online.clone());
        if let Some(far) = busy.iter().find(|thread| !allowed(thread).overlaps(&near)) {
            findings.push(
                Finding::advice(
                    format!("{} runs on {}, the card is near {near}", named(far), far.allowed),
                    Mend::until_reboot(format!("taskset -pc {near} {}", far.id), "CPUAffinity= and NUMAMask= in its unit"),
                )
                .about(&interface.name),
            );
        }
        let interrupted: Cpus =
            view.interrupts(interface).unwrap_or_default().iter().flat_map(|(_, cpus)| cpus.iter()).collect();
        let pinned = |thread: &&&crate::host::facts::Thread| allowed(thread).len() == 1;
        if let Some(shares) = busy.iter().filter(pinned).find(|thread| interrupted.contains(thread.last as usize)) {
            findings.push(
                Finding::advice(
                    format!("{} shares processor {} with the card's interrupts", named(shares), shares.last),
                    Mend::until_reboot(
                        format!("taskset -pc CPU {} (another one of {near})", shares.id),
                        "CPUAffinity= in its unit; or move the interrupts (interrupts on this page)",
                    ),
                )
                .about(&interface.name),
            );
        }
    }
    if findings.is_empty() {
        findings.push(Finding::good(busy.iter().map(|thread| format!("{} on {}", named(thread), thread.allowed)).collect::<Vec<_>>().join(", ")));
    }
    Ok(findings)
}
