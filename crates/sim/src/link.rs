//! A wire in one direction: decides a frame's fate at the moment it enters.

use crate::chance::Chance;

/// What a wire does to frames until it heals. The default is a perfect wire.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Delay of every frame, and a random addition that keeps order, ns. They stay when the wire heals.
    pub delay: u64,
    /// See `delay`.
    pub jitter: u64,
    /// From .0 (ns) on the delay is .1; ordered.
    pub longer: Vec<(u64, u64)>,
    /// Bits per second (zero: no limit) and bytes that may wait for it. They stay when the wire heals.
    pub rate_bps: u64,
    /// See `rate_bps`.
    pub queue_bytes: u64,
    /// Probability of loss.
    pub loss: f64,
    /// Bursts: probability to begin, to end, and of loss meanwhile.
    pub burst: Option<(f64, f64, f64)>,
    /// Probability that a frame is held back, and the longest time, ns.
    pub reorder: (f64, u64),
    /// Probability that a frame arrives twice, and the longest time between the two, ns.
    pub duplicate: (f64, u64),
    /// Probability that a bit flips.
    pub corrupt: f64,
    /// Probability that a packet whose ends speak ECN is marked.
    pub mark: f64,
    /// Nothing passes from .0 to .1, ns.
    pub outages: Vec<(u64, u64)>,
    /// From .0 (ns) on packets may have .1 bytes; ordered. Before the first: 65535. They stay when the wire heals.
    pub mtus: Vec<(u64, u32)>,
}

impl Faults {
    fn delay_at(&self, now: u64) -> u64 {
        self.longer.iter().rev().find(|(from, _)| *from <= now).map_or(self.delay, |(_, delay)| *delay)
    }

    /// The least delay that there ever is.
    pub fn delay_min(&self) -> u64 {
        self.longer.iter().map(|(_, delay)| *delay).min().unwrap_or(self.delay).min(self.delay)
    }
}

/// What becomes of a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// Lost, and why.
    Lost(&'static str),
    /// Arrives at this time, marked (ECN), with this bit flipped, and once more at another time.
    Arrives { at: u64, mark: bool, flip: Option<u64>, again: Option<u64> },
}

/// A wire.
pub struct Link {
    faults: Faults,
    heals_at: u64,
    chance: Chance,
    in_burst: bool,
    busy_until: u64,
    last_due: u64,
}

impl Link {
    /// A wire that is perfect from `heals_at` on, except for its delay, rate and MTU.
    pub fn new(faults: Faults, heals_at: u64, chance: Chance) -> Link {
        Link { faults, heals_at, chance, in_burst: false, busy_until: 0, last_due: 0 }
    }

    /// Largest IP packet at `now`.
    pub fn mtu(&self, now: u64) -> u32 {
        self.faults.mtus.iter().rev().find(|(from, _)| *from <= now).map_or(65535, |(_, mtu)| *mtu)
    }

    /// Whether frames queue here, so that they must enter in the order of their arrival.
    pub fn has_queue(&self) -> bool {
        self.faults.rate_bps != 0
    }

    /// A frame of `len` bytes enters at `now`.
    pub fn enter(&mut self, now: u64, len: usize) -> Fate {
        let faulty = now < self.heals_at;
        let f = &self.faults;
        let chance = &mut self.chance;
        if faulty {
            if f.outages.iter().any(|(from, to)| (*from..*to).contains(&now)) {
                return Fate::Lost("outage");
            }
            if let Some((begin, end, loss)) = f.burst {
                self.in_burst = if self.in_burst { !chance.hits(end) } else { chance.hits(begin) };
                if self.in_burst && chance.hits(loss) {
                    return Fate::Lost("burst");
                }
            }
            if chance.hits(f.loss) {
                return Fate::Lost("loss");
            }
        }
        let mut depart = now;
        if let Some(span) = (len as u64 * 8_000_000_000).checked_div(f.rate_bps) {
            let waiting = self.busy_until.saturating_sub(now);
            if waiting > f.queue_bytes * 8_000_000_000 / f.rate_bps {
                return Fate::Lost("queue");
            }
            depart = now.max(self.busy_until) + span;
            self.busy_until = depart;
        }
        let mark = faulty && chance.hits(f.mark);
        let due = (depart + f.delay_at(now) + chance.below(f.jitter + 1)).max(self.last_due);
        if faulty && chance.hits(f.reorder.0) {
            return Fate::Arrives { at: due + chance.below(f.reorder.1 + 1), mark, flip: None, again: None };
        }
        self.last_due = due;
        let flip = (faulty && chance.hits(f.corrupt)).then(|| chance.next());
        let again = (faulty && chance.hits(f.duplicate.0)).then(|| due + chance.below(f.duplicate.1 + 1));
        Fate::Arrives { at: due, mark, flip, again }
    }
}
