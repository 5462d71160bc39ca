//! TCP time stamps, which old advice turns off.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "tcp-timestamps",
    title: "TCP time stamps",
    why: "they cost 12 bytes per segment, and give round trip times and protection from old segments (RFC 7323): keep them",
    weight: [8, 10],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    one(match view.sysctl_number("net.ipv4.tcp_timestamps")? {
        0 => Finding::advice("off", Mend::sysctl("net.ipv4.tcp_timestamps", "1")),
        _ => Finding::good("on"),
    })
}
