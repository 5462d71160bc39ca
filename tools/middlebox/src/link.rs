//! One direction of the wire: decides each frame's fate and holds it until it is due. Knows no sockets and no clock.

use crate::chance::{Chance, mix};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What one direction does to frames. The default does nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Faults {
    /// Constant delay, nanoseconds.
    pub(crate) delay_ns: u64,
    /// Additional delay, uniform in 0..=jitter, that keeps order, nanoseconds.
    pub(crate) jitter_ns: u64,
    /// Bits per second; zero: no limit.
    pub(crate) rate_bps: u64,
    /// Bytes that may wait for the rate limiter; zero: 256 KiB.
    pub(crate) queue_bytes: u64,
    /// Probability that a frame is lost.
    pub(crate) loss: f64,
    /// Gilbert-Elliott bursts: probability per frame to begin one, to end it, and to lose a frame in it.
    pub(crate) burst: Option<(f64, f64, f64)>,
    /// Every n-th frame is lost; zero: none.
    pub(crate) lose_every: u64,
    /// These frames are lost, counted from 1 in this direction.
    pub(crate) lose_frames: Vec<u64>,
    /// Probability that a frame is held back by `reorder_by_ns`, so that others overtake it.
    pub(crate) reorder: f64,
    /// See `reorder`, nanoseconds.
    pub(crate) reorder_by_ns: u64,
    /// Probability that a frame is delivered twice.
    pub(crate) duplicate: f64,
    /// Probability that one bit of a frame is flipped, anywhere behind the Ethernet header.
    pub(crate) corrupt: f64,
}

/// What happened in one direction, in frames unless the name says bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counters {
    pub(crate) in_frames: u64,
    pub(crate) in_bytes: u64,
    pub(crate) out_frames: u64,
    pub(crate) out_bytes: u64,
    pub(crate) lost_random: u64,
    pub(crate) lost_burst: u64,
    pub(crate) lost_counted: u64,
    pub(crate) lost_queue: u64,
    pub(crate) reordered: u64,
    pub(crate) duplicated: u64,
    pub(crate) corrupted: u64,
    pub(crate) queue_bytes_max: u64,
}

/// One direction.
pub(crate) struct Link {
    faults: Faults,
    seed: u64,
    index: u64,
    in_burst: bool,
    /// When the rate limiter has sent what it accepted, nanoseconds.
    busy_until: u64,
    /// When the last frame that kept its place is due.
    last_due: u64,
    order: u64,
    held: BinaryHeap<Reverse<(u64, u64, usize)>>,
    slots: Vec<Vec<u8>>,
    free: Vec<usize>,
    pub(crate) counters: Counters,
}

impl Link {
    /// A link without frames. `direction` makes the two directions of one seed differ.
    pub(crate) fn new(faults: Faults, seed: u64, direction: u64) -> Link {
        Link {
            faults,
            seed: mix(seed ^ mix(direction + 1)),
            index: 0,
            in_burst: false,
            busy_until: 0,
            last_due: 0,
            order: 0,
            held: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// A frame enters at `now`. Faults befall IP only: ARP and the like are delayed with the rest but never lost,
    /// as a test of TCP gains nothing from the kernel's neighbour timeouts.
    pub(crate) fn enter(&mut self, now: u64, frame: &[u8]) {
        self.counters.in_frames += 1;
        self.counters.in_bytes += frame.len() as u64;
        if !is_ip(frame) {
            self.enqueue(now, frame, 0, None);
            return;
        }
        self.index += 1;
        let mut chance = Chance::of_frame(self.seed, self.index);
        if self.loses(&mut chance) {
            return;
        }
        let flip = chance.hits(self.faults.corrupt).then(|| chance.next());
        let mut chance = Chance::of_frame(!self.seed, self.index);
        let twice = chance.hits(self.faults.duplicate);
        let held_back = chance.hits(self.faults.reorder);
        let late = if held_back { self.faults.reorder_by_ns.max(1) } else { 0 };
        if self.enqueue(now, frame, late, flip) {
            self.counters.reordered += u64::from(held_back);
            self.counters.corrupted += u64::from(flip.is_some());
            if twice && self.enqueue(now, frame, 0, None) {
                self.counters.duplicated += 1;
            }
        }
    }

    fn loses(&mut self, chance: &mut Chance) -> bool {
        let random = chance.hits(self.faults.loss);
        let (turn, hit) = (chance.unit(), chance.unit());
        let mut burst = false;
        if let Some((begin, end, loss)) = self.faults.burst {
            self.in_burst = if self.in_burst { turn >= end } else { turn < begin };
            burst = self.in_burst && hit < loss;
        }
        let every = self.faults.lose_every;
        let counted =
            every != 0 && self.index.is_multiple_of(every) || self.faults.lose_frames.contains(&self.index);
        self.counters.lost_counted += u64::from(counted);
        self.counters.lost_burst += u64::from(burst && !counted);
        self.counters.lost_random += u64::from(random && !burst && !counted);
        random || burst || counted
    }

    /// Gives a frame its place and time; false if the rate limiter's queue is full.
    fn enqueue(&mut self, now: u64, frame: &[u8], late: u64, flip: Option<u64>) -> bool {
        let mut depart = now;
        if self.faults.rate_bps != 0 {
            let waiting_ns = self.busy_until.saturating_sub(now);
            let waiting = bytes_in(waiting_ns, self.faults.rate_bps);
            let limit = if self.faults.queue_bytes == 0 { QUEUE_BYTES } else { self.faults.queue_bytes };
            if waiting + frame.len() as u64 > limit {
                self.counters.lost_queue += 1;
                return false;
            }
            self.counters.queue_bytes_max = self.counters.queue_bytes_max.max(waiting + frame.len() as u64);
            depart = now.max(self.busy_until) + span_of(frame.len() as u64, self.faults.rate_bps);
            self.busy_until = depart;
        }
        let jitter = if self.faults.jitter_ns == 0 {
            0
        } else {
            Chance::of_frame(self.seed ^ JITTER, self.order).below(self.faults.jitter_ns + 1)
        };
        let in_order = (depart + self.faults.delay_ns + jitter).max(self.last_due);
        let due = in_order + late;
        if late == 0 {
            self.last_due = in_order;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Vec::with_capacity(2048));
            self.slots.len() - 1
        });
        let copy = &mut self.slots[slot];
        copy.clear();
        copy.extend_from_slice(frame);
        if let Some(word) = flip {
            let bits = (frame.len().saturating_sub(ETHERNET) * 8) as u64;
            let bit = ((u128::from(word) * u128::from(bits)) >> 64) as usize;
            if bits != 0 {
                copy[ETHERNET + bit / 8] ^= 1 << (bit % 8);
            }
        }
        self.order += 1;
        self.held.push(Reverse((due, self.order, slot)));
        true
    }

    /// When the next frame leaves.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.held.peek().map(|Reverse((due, ..))| *due)
    }

    /// Takes the next frame that is due at `now`. The slot's bytes stay valid until `release`.
    pub(crate) fn leave(&mut self, now: u64) -> Option<usize> {
        let Reverse((due, _, slot)) = *self.held.peek()?;
        if due > now {
            return None;
        }
        self.held.pop();
        self.counters.out_frames += 1;
        self.counters.out_bytes += self.slots[slot].len() as u64;
        Some(slot)
    }

    /// The bytes of a frame that left.
    pub(crate) fn bytes(&self, slot: usize) -> &[u8] {
        &self.slots[slot]
    }

    /// The frame is sent; its memory serves again.
    pub(crate) fn release(&mut self, slot: usize) {
        self.free.push(slot);
    }

    /// Frames inside.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }
}

fn is_ip(frame: &[u8]) -> bool {
    matches!(frame.get(12..14), Some([0x08, 0x00] | [0x86, 0xdd]))
}

fn span_of(bytes: u64, rate_bps: u64) -> u64 {
    (u128::from(bytes) * 8_000_000_000 / u128::from(rate_bps)) as u64
}

fn bytes_in(span_ns: u64, rate_bps: u64) -> u64 {
    (u128::from(span_ns) * u128::from(rate_bps) / 8_000_000_000) as u64
}

const ETHERNET: usize = 14;
/// The queue of the rate limiter if none is named: 2 ms at 1 Gbit/s, as a small switch has.
const QUEUE_BYTES: u64 = 256 * 1024;
const JITTER: u64 = 0x6a09_e667_f3bc_c908;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(tag: u32) -> Vec<u8> {
        let mut f = vec![0u8; 60];
        f[12] = 8;
        f[14..18].copy_from_slice(&tag.to_be_bytes());
        f
    }

    fn run(faults: Faults, seed: u64, frames: u32, spacing: u64) -> (Vec<(u64, u32)>, Counters) {
        let mut link = Link::new(faults, seed, 0);
        let mut out = Vec::new();
        for i in 0..frames {
            link.enter(u64::from(i) * spacing, &frame(i));
        }
        while let Some(due) = link.next_due() {
            let slot = link.leave(due).unwrap();
            out.push((due, u32::from_be_bytes(link.bytes(slot)[14..18].try_into().unwrap())));
            link.release(slot);
        }
        (out, link.counters)
    }

    #[test]
    fn delay_and_jitter_keep_order() {
        let (out, _) = run(Faults { delay_ns: 1000, jitter_ns: 500, ..Faults::default() }, 1, 1000, 10);
        assert!(out.windows(2).all(|w| w[0].1 < w[1].1 && w[0].0 <= w[1].0));
        assert!(out.iter().all(|(due, i)| (1000..=1500).contains(&(due - u64::from(*i) * 10)) || *i > 0));
        assert_eq!(out.len(), 1000);
    }

    #[test]
    fn loss_is_near_its_probability_and_the_same_for_the_same_seed() {
        let faults = Faults { loss: 0.05, ..Faults::default() };
        let (a, counters) = run(faults.clone(), 7, 20_000, 10);
        assert!((800..1200).contains(&counters.lost_random), "{counters:?}");
        assert_eq!(a, run(faults.clone(), 7, 20_000, 10).0);
        assert_ne!(a, run(faults, 8, 20_000, 10).0);
    }

    #[test]
    fn a_second_fault_does_not_change_which_frames_are_lost() {
        let survivors = |faults| run(faults, 3, 5000, 10).0.into_iter().map(|(_, i)| i).collect::<Vec<_>>();
        let plain = survivors(Faults { loss: 0.1, ..Faults::default() });
        let mut both = survivors(Faults { loss: 0.1, duplicate: 0.5, delay_ns: 7, ..Faults::default() });
        both.dedup();
        assert_eq!(plain, both);
    }

    #[test]
    fn bursts_lose_neighbours() {
        let faults = Faults { burst: Some((0.01, 0.25, 1.0)), ..Faults::default() };
        let (out, counters) = run(faults, 5, 50_000, 10);
        let gaps: Vec<u32> = out.windows(2).map(|w| w[1].1 - w[0].1 - 1).filter(|gap| *gap > 0).collect();
        let mean = gaps.iter().sum::<u32>() as f64 / gaps.len() as f64;
        assert!((3.0..5.0).contains(&mean), "mean burst {mean}");
        assert_eq!(counters.lost_burst + out.len() as u64, 50_000);
    }

    #[test]
    fn the_rate_limits_and_its_queue_is_bounded() {
        // 60 bytes each 10 ns is 48 Gbit/s into 480 Mbit/s: one frame per microsecond leaves.
        let faults = Faults { rate_bps: 480_000_000, queue_bytes: 600, ..Faults::default() };
        let (out, counters) = run(faults, 5, 10_000, 10);
        assert!((100..=112).contains(&out.len()), "{}", out.len());
        assert!(out.windows(2).all(|w| w[1].0 - w[0].0 >= 1000));
        assert_eq!(counters.lost_queue + counters.out_frames, 10_000);
        assert!(counters.queue_bytes_max <= 600);
    }

    #[test]
    fn held_back_frames_are_overtaken_and_none_is_lost() {
        let faults = Faults { delay_ns: 100, reorder: 0.1, reorder_by_ns: 55, ..Faults::default() };
        let (mut out, counters) = run(faults, 5, 1000, 10);
        assert!(counters.reordered > 50 && out.windows(2).any(|w| w[0].1 > w[1].1));
        out.sort_by_key(|(_, i)| *i);
        assert!(out.iter().enumerate().all(|(n, (_, i))| n as u32 == *i));
    }

    #[test]
    fn counted_losses_and_duplicates_and_corruption_are_exact() {
        let faults = Faults { lose_every: 4, lose_frames: vec![1, 2], duplicate: 1.0, ..Faults::default() };
        let (out, counters) = run(faults, 5, 8, 10);
        assert_eq!(out.iter().map(|(_, i)| i + 1).collect::<Vec<_>>(), [3, 3, 5, 5, 6, 6, 7, 7]);
        assert_eq!((counters.lost_counted, counters.duplicated), (4, 4));

        let mut link = Link::new(Faults { corrupt: 1.0, ..Faults::default() }, 9, 0);
        link.enter(0, &frame(0));
        let slot = link.leave(0).unwrap();
        let flipped: u32 = link.bytes(slot).iter().zip(frame(0)).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!(flipped, 1);
        assert_eq!(link.bytes(slot)[..14], frame(0)[..14]);
    }

    #[test]
    fn arp_is_never_lost() {
        let mut link = Link::new(Faults { loss: 1.0, lose_every: 1, ..Faults::default() }, 9, 0);
        let mut arp = frame(0);
        arp[13] = 6;
        link.enter(0, &arp);
        assert_eq!((link.held(), link.counters.lost_random), (1, 0));
    }
}
