//! Interrupt coalescing: how long a card waits before it says that packets came.

use super::{Check, Outcome, each};
use crate::doctor::action::Action;
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::{Aim, View};
use crate::host::facts::Coalesce;

pub(super) const CHECK: Check = Check {
    id: "coalescing",
    title: "interrupt coalescing of the card",
    why: "whoever sleeps for a packet waits for the interrupt: rx-usecs is added to each round trip; for bulk, 50 to 100 us \
          save processor time",
    weight: [78, 50],
    look,
};

/// More is felt beside the rest of a round trip, microseconds.
const FELT_US: u32 = 10;
/// Below, bulk takes an interrupt for every few packets, microseconds.
const BULK_US: u32 = 30;

fn look(view: &View<'_>) -> Outcome {
    each(view, |interface| {
        let now: Coalesce = match view.fact(&interface.name) {
            Ok(now) => now,
            Err(unread) if unread.is_missing() => {
                return Ok(Finding::not_applicable("the driver has nothing to set"));
            }
            Err(unread) => return Err(unread),
        };
        let adaptive = if now.adaptive_rx { "on" } else { "off" };
        let found = format!("rx-usecs {}, rx-frames {}, adaptive-rx {adaptive}", now.rx_usecs, now.rx_frames);
        let mut to = now.clone();
        match view.aim {
            Aim::Latency if now.adaptive_rx || now.rx_usecs > FELT_US => {
                (to.adaptive_rx, to.rx_usecs) = (false, 0);
            }
            Aim::Throughput if !now.adaptive_rx && now.rx_usecs < BULK_US && interface.has_device => {
                to.adaptive_rx = true;
            }
            _ => return Ok(Finding::good(found)),
        }
        if view.is_virtual && view.aim == Aim::Throughput {
            return Ok(Finding::good(found));
        }
        let mend = Mend::actions(
            vec![Action::Coalesce { interface: interface.name.clone(), to }],
            "a udev rule or the interface's configuration that runs the same command",
        );
        Ok(Finding::advice(found, mend))
    })
}
