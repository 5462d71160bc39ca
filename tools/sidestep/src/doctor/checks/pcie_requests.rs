//! How much the card moves over PCI Express at once.

use super::{Check, Outcome, each};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::Cause;
use crate::host::facts::PcieRequests;

pub(super) const CHECK: Check = Check {
    id: "pcie-requests",
    title: "sizes of the card's requests on PCI Express",
    why: "small requests waste the link on headers: with payloads of 128 bytes a sixth of it, and reads below 512 bytes wait for \
          memory more often",
    weight: [21, 51],
    look,
};

/// Beyond, nothing is gained that would be felt, bytes.
const PAYLOAD: u32 = 256;
const READ: u32 = 512;

fn look(view: &View<'_>) -> Outcome {
    each(view, |interface| {
        if !interface.has_device {
            return Ok(Finding::not_applicable("no card"));
        }
        let now: PcieRequests = match view.fact(&interface.name) {
            Ok(now) => now,
            Err(unread) if unread.cause == Cause::Missing && view.is_virtual => {
                return Ok(Finding::cannot_tell("the hypervisor shows no link behind the card"));
            }
            Err(unread) => return Err(unread),
        };
        let ordering = if now.relaxed { "may" } else { "may not" };
        let found = format!(
            "payload {} bytes of {}, reads of {}; writes {ordering} overtake each other (relaxed ordering)",
            now.payload, now.payload_max, now.read
        );
        Ok(if now.payload < now.payload_max.min(PAYLOAD) || now.read < READ {
            Finding::advice(found, Mend::boot("pci=pcie_bus_perf"))
        } else {
            Finding::good(found)
        })
    })
}
