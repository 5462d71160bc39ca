//! The link: speed, duplex, flow control.

use super::{Check, Outcome, each};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::{Aim, View};
use crate::host::facts::Pause;

pub(super) const CHECK: Check = Check {
    id: "link",
    title: "speed, duplex and flow control of the link",
    why: "a link that negotiated half duplex or a tenth of its speed looks like a slow program; pause frames stop the sender \
          for others' sake",
    weight: [64, 76],
    look,
};

/// Slower than so, and the link is what limits, Mbit/s.
const SLOW: i64 = 1000;

fn look(view: &View<'_>) -> Outcome {
    each(view, |interface| {
        if !interface.has_device {
            return Ok(Finding::not_applicable("no cable"));
        }
        let state = view.read(&interface.path("operstate")).unwrap_or_default();
        if state == "down" {
            return Ok(Finding::bad("no link", Mend::by_hand("the cable, the module, the other end's port")));
        }
        let speed = view.number(&interface.path("speed")).unwrap_or(-1);
        let duplex = view.read(&interface.path("duplex")).unwrap_or_default();
        if speed <= 0 {
            return Ok(Finding::cannot_tell("the driver does not say how fast the link is"));
        }
        let found = format!("{speed} Mbit/s, {duplex} duplex");
        let renegotiate = || {
            Mend::by_hand(format!("ethtool -s {} autoneg on; the other end's port; the cable", interface.name))
        };
        if duplex == "half" {
            return Ok(Finding::bad(found, renegotiate()));
        }
        if speed < SLOW {
            return Ok(Finding::advice(found, renegotiate()));
        }
        let pause: Pause = view.fact(&interface.name).unwrap_or_default();
        Ok(if pause.rx && view.aim == Aim::Latency {
            Finding::advice(
                format!("{found}; it obeys pause frames"),
                Mend::until_reboot(
                    format!("ethtool -A {} rx off tx off", interface.name),
                    "the interface's configuration; leave it on where the network needs it (RoCE, storage)",
                ),
            )
        } else {
            Finding::good(found)
        })
    })
}
