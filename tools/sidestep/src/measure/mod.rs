//! What can only be known by trying: how long this host takes for things. Each takes a second or less, and nothing here
//! touches a real interface: packets go over loopback, or between namespaces that are made for it and vanish with it.

pub(crate) mod af_xdp;
pub(crate) mod jitter;
pub(crate) mod loopback;
pub(crate) mod namespaces;
pub(crate) mod ping_pong;
pub(crate) mod wakeup;

use std::time::Duration;

/// The value that so many percent do not exceed, microseconds. Sorts.
fn percentile(all: &mut [Duration], percent: f64) -> f64 {
    all.sort_unstable();
    let at = (all.len() as f64 * percent / 100.0) as usize;
    let value = all.get(at.min(all.len().saturating_sub(1))).copied().unwrap_or_default();
    (value.as_nanos() as f64 / 10.0).round() / 100.0
}

/// One digit behind the point.
fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_values() {
        let mut all: Vec<Duration> = (1..=100).rev().map(Duration::from_micros).collect();
        assert_eq!(percentile(&mut all, 50.0), 51.0);
        assert_eq!(percentile(&mut all, 99.0), 100.0);
        assert_eq!(percentile(&mut [], 50.0), 0.0);
    }
}
