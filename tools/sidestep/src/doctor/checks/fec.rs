//! Forward error correction of the link: whole blocks of bits are awaited before a packet is given on.

use super::{Check, Outcome, each};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::{Aim, View};
use crate::host::facts::Fec;

pub(super) const CHECK: Check = Check {
    id: "fec",
    title: "error correction of the link",
    why: "Reed-Solomon costs about a quarter of a microsecond at each receiver of 25 Gbit/s, Base-R (firecode) less than half \
          of that; without any, a poor cable loses packets, each of which costs a retransmission",
    weight: [32, 26],
    look,
};

/// Faster lanes do not work without Reed-Solomon, Mbit/s.
const FREE_TO_CHOOSE: i64 = 25_000;
/// More damaged packets than one of so many: the cable needs correction.
const ONE_IN: i64 = 10_000_000;

fn look(view: &View<'_>) -> Outcome {
    each(view, |interface| {
        let fec: Fec = match view.fact(&interface.name) {
            Ok(fec) => fec,
            Err(unread) if unread.is_missing() => {
                return Ok(Finding::not_applicable("the driver has nothing to set"));
            }
            Err(unread) => return Err(unread),
        };
        let active = fec.active.join("+");
        if active.is_empty() || active == "none" {
            return Ok(Finding::not_applicable("this link has none"));
        }
        let count = |name: &str| view.number(&interface.path(&format!("statistics/{name}"))).unwrap_or(0);
        let (received, damaged) = (count("rx_packets"), count("rx_crc_errors"));
        let speed = view.number(&interface.path("speed")).unwrap_or(-1);
        let set = |encoding: &str, where_else: &str| {
            Mend::until_reboot(
                format!("ethtool --set-fec {} encoding {encoding} (the link is down for a moment{where_else})", interface.name),
                "the interface's configuration: the same by ethtool; the port of the other end must have it, too",
            )
        };
        let is_slow_kind = |name: &String| name == "rs" || name == "llrs";
        Ok(if active == "off" && damaged > received / ONE_IN {
            Finding::advice(format!("off, and {damaged} packets of {received} came damaged"), set("auto", ""))
        } else if view.aim == Aim::Latency && (1..=FREE_TO_CHOOSE).contains(&speed) && fec.active.iter().any(is_slow_kind) {
            Finding::advice(format!("{active} at {speed} Mbit/s"), set("baser", "; off for copper of up to 3 m"))
        } else {
            Finding::good(active)
        })
    })
}
