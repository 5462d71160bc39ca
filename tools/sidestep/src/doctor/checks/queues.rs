//! Queues of the card.

use super::{Check, Outcome, each};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::{Aim, View};
use crate::host::facts::Channels;

pub(super) const CHECK: Check = Check {
    id: "queues",
    title: "queues of the card",
    why: "one lane of the library serves all queues of an interface: more queues than processors that poll are looked at in \
          vain; a single queue is one interrupt and one processor for the kernel's part",
    weight: [35, 55],
    look,
};

/// Looking at so many rings in each turn is felt.
const MANY: u32 = 16;

fn look(view: &View<'_>) -> Outcome {
    each(view, |interface| {
        if !interface.has_device {
            return Ok(Finding::not_applicable("no card with queues"));
        }
        let channels: Channels = match view.fact(&interface.name) {
            Ok(channels) => channels,
            Err(unread) if unread.is_missing() => return Ok(Finding::not_applicable("the driver has nothing to set")),
            Err(unread) => return Err(unread),
        };
        let (now, max) = (channels.combined.max(channels.rx), channels.combined_max.max(channels.rx_max));
        let found = format!("{now} of {max}");
        let wanted = (view.online.len() as u32).min(max);
        let command = |count: u32| {
            Mend::until_reboot(
                format!("ethtool -L {} combined {count}", interface.name),
                "a udev rule or the interface's configuration that runs the same command",
            )
        };
        Ok(if now > MANY && view.aim == Aim::Latency {
            Finding::advice(format!("{found}: each turn of the library looks at them all"), command(MANY / 2))
        } else if now < 2 && wanted > 1 {
            Finding::advice(format!("{found}, and {} processors", view.online.len()), command(wanted.min(MANY / 2)))
        } else {
            Finding::good(found)
        })
    })
}
