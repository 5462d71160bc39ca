//! What SDP on one host promises, against what was measured.

use super::{BLOCKING, Cell, Floors, SDP, SDP_ASLEEP, SPINNING, Way, What, floor};

/// One way of a segment alone, and no system call at all.
const RING: &str = "segment, spinning";

/// A line for each promise.
pub(super) fn judged(cells: &[Cell], floors: &Floors) -> Vec<String> {
    let cell = |what: What, size: u64, way: &Way| {
        cells.iter().find(|cell| (cell.what, cell.size) == (what, size) && cell.way == way)
    };
    let p50 = |way: &Way| cell(What::Sockperf, 64, way).map_or(f64::NAN, |cell| cell.one_way("p50"));
    let rate = |size, way: &Way| cell(What::Stream, size, way).map_or(f64::NAN, |cell| cell.median("/rate"));
    let demand = |size, way: &Way| cell(What::Stream, size, way).map_or(f64::NAN, Cell::demand);
    let large = 65_536;
    let (fast, ring) = (p50(&SDP), floor(floors, RING).0 / 1000.0);
    let at_least =
        |what: &str, value: f64, wanted: f64| line(what, value, value >= wanted, "at least", wanted);
    let at_most = |what: &str, value: f64, wanted: f64| line(what, value, value <= wanted, "at most", wanted);
    vec![
        at_most("sockperf, 64 bytes: p50 in µs", fast, 0.6),
        at_most("sockperf, 64 bytes: times the ring alone", fast / ring, 2.5),
        at_least("sockperf, 64 bytes: faster than blocking loopback", p50(&BLOCKING) / fast, 15.0),
        at_least("sockperf, 64 bytes: faster than spinning loopback", p50(&SPINNING) / fast, 4.0),
        at_least(
            "sockperf, 64 bytes, both asleep: faster than loopback",
            p50(&BLOCKING) / p50(&SDP_ASLEEP),
            1.0,
        ),
        at_least("stream of large sends: times loopback", rate(large, &SDP) / rate(large, &BLOCKING), 2.5),
        at_most("its processor time: times loopback's", demand(large, &SDP) / demand(large, &BLOCKING), 1.0),
        at_least("stream of 64-byte messages: times loopback", rate(64, &SDP) / rate(64, &BLOCKING), 8.0),
    ]
}

/// NaN (not measured) reaches nothing.
fn line(what: &str, value: f64, is_reached: bool, bound: &str, wanted: f64) -> String {
    let verdict = if is_reached { "reached" } else { "missed" };
    format!("goal {verdict}: {what} {value:.2}, wanted {bound} {wanted}")
}
