//! Round-trip times and the retransmission timeout (RFC 6298), in nanoseconds.

use crate::{Duration, Instant};

/// Linux's TCP_RTO_MIN: RFC 6298 asks for a second, which is five orders above the round trip in a data centre.
const RTO_MIN: u64 = 200_000_000;
const RTO_MAX: u64 = 120_000_000_000;
/// RFC 6298, 2.1.
const RTO_INITIAL: u64 = 1_000_000_000;
/// How long the least round trip is believed (Linux: tcp_min_rtt_wlen).
const MIN_RTT_WINDOW: u64 = 300_000_000_000;

/// The estimate of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    /// Smoothed round trip, ns; 0 before the first sample.
    srtt: u64,
    /// Mean deviation, ns.
    rttvar: u64,
    /// Least round trip lately, ns, and when it was seen; `u64::MAX` before the first sample.
    min: u64,
    min_seen: Instant,
}

impl Rtt {
    pub(crate) fn new() -> Rtt {
        Rtt { srtt: 0, rttvar: 0, min: u64::MAX, min_seen: Instant::ZERO }
    }

    /// A measured round trip of a segment that was sent once (Karn), or by timestamps.
    pub(crate) fn sample(&mut self, now: Instant, rtt: Duration) {
        self.sample_ns(now, rtt.as_nanos() as u64);
    }

    #[inline]
    pub(crate) fn sample_ns(&mut self, now: Instant, rtt: u64) {
        let rtt = rtt.clamp(1, RTO_MAX);
        if self.srtt == 0 {
            self.srtt = rtt;
            self.rttvar = rtt / 2;
        } else {
            let deviation = self.srtt.abs_diff(rtt);
            self.rttvar = self.rttvar - self.rttvar / 4 + deviation / 4;
            self.srtt = self.srtt - self.srtt / 8 + rtt / 8;
        }
        if rtt <= self.min || now.nanos_since(self.min_seen) > MIN_RTT_WINDOW {
            self.min = rtt;
            self.min_seen = now;
        }
    }

    /// Goes on with what somebody else measured.
    pub(crate) fn resume(&mut self, now: Instant, srtt: Duration, rttvar: Duration, least: Duration) {
        let ns = |span: Duration| (span.as_nanos() as u64).min(RTO_MAX);
        let min = ns(least.min(srtt)).max(1);
        *self = Rtt { srtt: ns(srtt), rttvar: ns(rttvar), min, min_seen: now };
    }

    /// Whether a sample was ever taken.
    #[inline]
    pub(crate) fn known(&self) -> bool {
        self.srtt != 0
    }

    /// Timeout without backoff.
    pub(crate) fn rto(&self) -> Duration {
        Duration::from_nanos(self.rto_ns())
    }

    #[inline]
    pub(crate) fn rto_ns(&self) -> u64 {
        if self.srtt == 0 { RTO_INITIAL } else { (self.srtt + (4 * self.rttvar).max(RTO_MIN)).min(RTO_MAX) }
    }

    /// Timeout after `backoff` expiries in a row (RFC 6298, 5.5).
    pub(crate) fn rto_backed_off(&self, backoff: u8) -> Duration {
        Duration::from_nanos(self.rto_backed_off_ns(backoff))
    }

    #[inline]
    pub(crate) fn rto_backed_off_ns(&self, backoff: u8) -> u64 {
        self.rto_ns().saturating_mul(1 << backoff.min(20)).min(RTO_MAX)
    }

    pub(crate) fn srtt(&self) -> Duration {
        Duration::from_nanos(self.srtt)
    }

    pub(crate) fn rttvar(&self) -> Duration {
        Duration::from_nanos(self.rttvar)
    }

    /// Least round trip lately; zero before the first sample.
    pub(crate) fn min(&self) -> Duration {
        Duration::from_nanos(self.min_ns())
    }

    #[inline]
    pub(crate) fn srtt_ns(&self) -> u64 {
        self.srtt
    }

    #[inline]
    pub(crate) fn min_ns(&self) -> u64 {
        if self.min == u64::MAX { 0 } else { self.min }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_first_timeout_is_a_second() {
        assert_eq!(Rtt::new().rto(), 1000 * MS);
        assert_eq!(Rtt::new().rto_backed_off(3), 8000 * MS);
    }

    #[test]
    fn a_short_round_trip_still_waits_200_ms_beyond_it() {
        let mut rtt = Rtt::new();
        for _ in 0..50 {
            rtt.sample(Instant(1), MS / 10);
        }
        assert!(rtt.rto() >= 200 * MS && rtt.rto() < 202 * MS);
    }

    #[test]
    fn the_timeout_follows_variance_and_never_exceeds_two_minutes() {
        let mut rtt = Rtt::new();
        for i in 0..200u32 {
            rtt.sample(Instant(1), MS * if i % 2 == 0 { 100 } else { 900 });
        }
        assert!(rtt.rto() > 1500 * MS);
        assert_eq!(rtt.rto_backed_off(200), Duration::from_secs(120));
    }

    #[test]
    fn the_least_round_trip_is_forgotten_after_five_minutes() {
        let mut rtt = Rtt::new();
        rtt.sample(Instant(0), MS);
        rtt.sample(Instant(1_000_000_000), 5 * MS);
        assert_eq!(rtt.min(), MS);
        rtt.sample(Instant(400_000_000_000), 5 * MS);
        assert_eq!(rtt.min(), 5 * MS);
    }
}
