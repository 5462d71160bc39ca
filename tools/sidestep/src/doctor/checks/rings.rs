//! The card's rings.

use super::{Check, Outcome, each};
use crate::doctor::action::Action;
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::{Aim, View};
use crate::host::facts::Rings;

pub(super) const CHECK: Check = Check {
    id: "rings",
    title: "receive and transmit rings of the card",
    why: "a ring that is too small drops bursts; one that is far too large spreads packets over more memory than caches hold",
    weight: [40, 60],
    look,
};

/// A burst of 10 Gbit/s small packets for 70 us, and caches still hold it.
const ENOUGH: u32 = 1024;
const BULK: u32 = 2048;

fn look(view: &View<'_>) -> Outcome {
    let wanted = if view.aim == Aim::Latency { ENOUGH } else { BULK };
    each(view, |interface| {
        let rings: Rings = match view.fact(&interface.name) {
            Ok(rings) => rings,
            Err(unread) if unread.is_missing() => return Ok(Finding::not_applicable("the driver has no rings to set")),
            Err(unread) => return Err(unread),
        };
        let found = format!("rx {} of {}, tx {} of {}", rings.rx, rings.rx_max, rings.tx, rings.tx_max);
        if rings.rx_max == 0 {
            return Ok(Finding::not_applicable("the driver does not say"));
        }
        let to = |now: u32, max: u32| if now < wanted { wanted.min(max) } else { now };
        let (rx, tx) = (to(rings.rx, rings.rx_max), to(rings.tx, rings.tx_max));
        if (rx, tx) == (rings.rx, rings.tx) {
            return Ok(Finding::good(found));
        }
        let mend = Mend::actions(
            vec![Action::Rings { interface: interface.name.clone(), rx, tx }],
            "a udev rule or the interface's configuration that runs the same command",
        );
        Ok(Finding::advice(found, mend))
    })
}
