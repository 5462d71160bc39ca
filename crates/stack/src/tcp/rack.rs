//! RACK: which segment that arrived was sent last, and how much reordering to forgive (RFC 8985, 6).

use super::rtt::Rtt;
use super::scoreboard::{Delivered, sent_after};
use super::seq::Seq;
use crate::Instant;

/// Recoveries for which a wider reordering window is kept.
const PERSIST: u8 = 16;
const DUP_THRESHOLD: u32 = 3;

/// The RFC's RACK.* variables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rack {
    /// Last sent of the segments that arrived: when, its end, its round trip.
    newest: Option<(Instant, Seq)>,
    rtt: u64,
    pub(crate) reordering_seen: bool,
    /// Quarters of the least round trip in the reordering window.
    quarters: u8,
    persist: u8,
    dsack_round: Option<Seq>,
}

impl Default for Rack {
    fn default() -> Rack {
        Rack {
            newest: None,
            rtt: 0,
            reordering_seen: false,
            quarters: 1,
            persist: PERSIST,
            dsack_round: None,
        }
    }
}

impl Rack {
    /// RACK_update: takes in what an acknowledgment delivered.
    pub(crate) fn update(&mut self, now: Instant, delivered: &Delivered, rtt: &Rtt) {
        self.reordering_seen |= delivered.reordered > 0;
        let Some((at, end, ambiguous)) = delivered.newest else { return };
        let sample = now.nanos_since(at);
        if ambiguous && sample < rtt.min_ns() {
            // The acknowledgment is of the first transmission: too early for the second.
            return;
        }
        self.rtt = sample;
        if self.newest.is_none_or(|(t, e)| sent_after(at, end, t, e)) {
            self.newest = Some((at, end));
        }
    }

    #[inline]
    pub(crate) fn newest(&self) -> Option<(Instant, Seq)> {
        self.newest
    }

    /// How long after its transmission a segment is lost, if a later one arrived: round trip and reordering window.
    pub(crate) fn patience(&self, sacked_count: u32, in_recovery: bool, rtt: &Rtt) -> u64 {
        let strict = !self.reordering_seen && (in_recovery || sacked_count >= DUP_THRESHOLD);
        if strict {
            return self.rtt;
        }
        let window = u64::from(self.quarters) * (rtt.min_ns() / 4);
        self.rtt + window.min(rtt.srtt_ns())
    }

    /// A DSACK arrived: the window was too small. It grows once per round trip.
    pub(crate) fn on_dsack(&mut self, snd_una: Seq, snd_nxt: Seq) {
        if self.dsack_round.is_none_or(|round| !snd_una.before(round)) {
            self.dsack_round = Some(snd_nxt);
            self.quarters = self.quarters.saturating_add(1);
            self.persist = PERSIST;
        }
    }

    /// A recovery ended.
    pub(crate) fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }
}
