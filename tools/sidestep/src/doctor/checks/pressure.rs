//! Do others want the processors?

use super::{Check, Outcome, one};
use crate::doctor::finding::{Finding, Mend};
use crate::doctor::view::View;

pub(super) const CHECK: Check = Check {
    id: "pressure",
    title: "waiting for processors",
    why: "where threads wait for processors, one that a packet wakes waits, too: a scheduler's slice of some milliseconds",
    weight: [76, 72],
    look,
};

/// Percent of the last minute in which somebody waited.
const FELT: f64 = 10.0;

fn look(view: &View<'_>) -> Outcome {
    let line = view.read("/proc/pressure/cpu")?;
    let minute = line.split_whitespace().find_map(|word| word.strip_prefix("avg60=")?.parse::<f64>().ok()).unwrap_or(0.0);
    let load = view.read("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?");
    let found = format!("{minute} % of the last minute; load {load} on {} processors", view.online.len());
    one(if minute > FELT {
        Finding::advice(found, Mend::by_hand("fewer other programs here, or processors of its own for this one (isolation)"))
    } else {
        Finding::good(found)
    })
}
