//! The wheel against a naive model.

use super::*;
use crate::testing::Random;
use std::collections::BTreeMap;

const TICK: u64 = 1 << TICK_SHIFT;

fn id(index: u32) -> SocketId {
    SocketId { index, generation: 1 }
}

fn at(ns: u64) -> Instant {
    Instant(ns)
}

fn drain(wheel: &mut Timers, now: u64) -> Vec<u32> {
    let mut fired: Vec<u32> = core::iter::from_fn(|| wheel.expire(at(now)).map(|id| id.index)).collect();
    fired.sort_unstable();
    fired
}

/// A small generator, so that a failure is the same on every run.
#[test]
fn a_deadline_fires_at_its_time_and_not_before() {
    let mut wheel = Timers::new(at(5));
    wheel.arm(id(3), at(200_000_000));
    assert!(drain(&mut wheel, 199_999_999).is_empty());
    assert_eq!(drain(&mut wheel, 200_000_000 + TICK), [3]);
    assert_eq!(wheel.next(), None);
}

#[test]
fn arm_by_keeps_an_earlier_deadline_and_arm_replaces_it() {
    let mut wheel = Timers::new(at(0));
    wheel.arm(id(0), at(10 * TICK));
    wheel.arm_by(id(0), at(20 * TICK));
    assert_eq!(wheel.next(), Some(at(10 * TICK)));
    wheel.arm(id(0), at(20 * TICK));
    assert_eq!(drain(&mut wheel, 19 * TICK), []);
    assert_eq!(drain(&mut wheel, 20 * TICK), [0]);
}

#[test]
fn a_thousand_timers_on_one_tick_all_fire_once() {
    let mut wheel = Timers::new(at(0));
    for key in 0..1000 {
        wheel.arm(id(key), at(777 * TICK));
    }
    assert_eq!(drain(&mut wheel, 777 * TICK), (0..1000).collect::<Vec<_>>());
    assert_eq!(drain(&mut wheel, 10_000 * TICK), []);
}

#[test]
fn the_wheel_agrees_with_a_sorted_map_over_random_histories() {
    for seed in 1..40 {
        let mut random = Random(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        let mut now = random.below(1 << 50);
        let mut wheel = Timers::new(at(now));
        let mut model: BTreeMap<u32, u64> = BTreeMap::new();
        for _ in 0..2000 {
            let key = random.below(50) as u32;
            match random.below(4) {
                0 | 1 => {
                    let bits = random.below(45);
                    let when = now + random.below(1 << bits.max(1));
                    wheel.arm(id(key), at(when));
                    model.insert(key, due_tick(at(when)).max((now >> TICK_SHIFT) + 1));
                }
                2 => {
                    wheel.set(id(key), None);
                    model.remove(&key);
                }
                _ => {
                    let bits = random.below(44);
                    now += random.below(1 << bits.max(1));
                    let due: Vec<u32> =
                        model.iter().filter(|(_, t)| **t <= now >> TICK_SHIFT).map(|(k, _)| *k).collect();
                    assert_eq!(drain(&mut wheel, now), due, "seed {seed}");
                    model.retain(|k, _| !due.contains(k));
                }
            }
            let earliest = model.values().min().map(|t| t << TICK_SHIFT);
            match (wheel.next(), earliest) {
                (Some(next), Some(earliest)) => assert!(next.0 <= earliest && next.0 + TICK > now),
                (next, earliest) => assert_eq!(next.is_some(), earliest.is_some()),
            }
        }
    }
}

#[test]
fn stepping_from_one_next_moment_to_the_following_reaches_every_deadline() {
    let mut wheel = Timers::new(at(1));
    let deadlines = [TICK, 3_600_000_000_000, 7_200_000_000_000, 50_000_000, 60_000_000_000];
    for (key, ns) in deadlines.iter().enumerate() {
        wheel.arm(id(key as u32), at(*ns));
    }
    let (mut fired, mut steps) = (0, 0);
    while let Some(next) = wheel.next() {
        fired += drain(&mut wheel, next.0).len();
        steps += 1;
    }
    assert_eq!(fired, deadlines.len());
    assert!(steps < 40, "{steps} wake-ups");
}
