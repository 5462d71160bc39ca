//! Is the clock right?

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::{Clock, TimeStamps};

pub(super) const CHECK: Check = Check {
    id: "clock-sync",
    title: "synchronised clock",
    why: "one-way latencies and time stamps of packets compare two clocks: without PTP or NTP they say nothing",
    weight: [14, 8],
    look,
};

fn look(view: &View<'_>) -> Outcome {
    let clock: Clock = view.fact("")?;
    let with_hardware = view.interfaces.iter().find_map(|interface| {
        let stamps: TimeStamps = view.fact(&interface.name).ok()?;
        Some((interface.name.as_str(), stamps.clock?))
    });
    let hardware = with_hardware.map_or(String::new(), |(name, clock)| format!("; {name} has a clock, /dev/ptp{clock}"));
    one(if clock.synchronised {
        Finding::good(format!("synchronised, at most {} us wrong{hardware}", clock.max_error_us))
    } else {
        Finding::advice(
            format!("not synchronised{hardware}"),
            Mend::by_hand(match with_hardware {
                Some((name, _)) => format!("ptp4l -i {name} and phc2sys -s {name} -w (linuxptp), or chronyd"),
                None => "apt install chrony".to_owned(),
            }),
        )
    })
}
