//! The machine without its card.

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;
use crate::host::facts::Loopback;

pub(super) const CHECK: Check = Check {
    id: "loopback-test",
    title: "measured: TCP over loopback, and memory",
    why: "where the machine itself is slow (memory, processors, mitigations), no card and no library will be fast",
    weight: [61, 73],
    look,
};

/// Less is a machine with something wrong, not a slow one: those of 2008 had 8 Gbit/s.
const SLOW_GBIT: f64 = 8.0;
const SLOW_GIB: f64 = 3.0;
const SLOW_US: f64 = 100.0;

fn look(view: &View<'_>) -> Outcome {
    let seen: Loopback = view.fact("")?;
    let found = format!(
        "round trip {} us (99 %: {} us), {} Gbit/s in one stream, memory {} GiB/s",
        seen.round_trip_us, seen.round_trip_99_us, seen.stream_gbit, seen.memory_gib
    );
    let slow = seen.stream_gbit < SLOW_GBIT || seen.memory_gib < SLOW_GIB || seen.round_trip_us > SLOW_US;
    let finding = if slow {
        Finding::advice(
            found,
            Mend::by_hand("first what this page says of processors and memory; then the board: are all memory channels filled?"),
        )
    } else {
        Finding::good(found)
    };
    one(finding.with(&seen))
}
