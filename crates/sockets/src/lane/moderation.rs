//! Moderation of interrupts, where the user asks for it (VMA_CQ_MODERATION_*, VMA_CQ_AIM_*): one pace, or one that
//! follows the traffic as libvma's does. What it cannot have is told once. Or the program asks (vma_modify_ring).

use super::Lane;
use crate::runtime::Runtime;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use libc::c_int;
use netlink::Link;
use xdp::{Moderation, Pace, Unmoderated};

/// Of one interface. Adapted by the worker alone.
pub(crate) struct Moderator {
    moderation: Moderation,
    /// The program said the pace: it follows nothing.
    is_fixed: AtomicBool,
    adapted_at: AtomicU64,
    packets: AtomicU64,
    bytes: AtomicU64,
}

fn fixed(parameters: &config::Parameters) -> Pace {
    match parameters.cq_moderation_enable {
        config::Moderation::On => {
            Pace { period_usec: parameters.cq_moderation_period_usec, count: parameters.cq_moderation_count }
        }
        config::Moderation::Off | config::Moderation::Driver => Pace::default(),
    }
}

fn show(counts: &stats::Lane, pace: Pace) {
    counts.moderation_count.set(u64::from(pace.count));
    counts.moderation_usec.set(u64::from(pace.period_usec));
}

/// What came in an interval.
struct Traffic {
    packets: u64,
    bytes: u64,
    elapsed_ns: u64,
}

/// libvma's rule: interrupts as often as is asked for, but at once for small packets that are not many.
fn adapted(parameters: &config::Parameters, traffic: &Traffic) -> Pace {
    const SMALL: u64 = 1024;
    const MANY_PER_SECOND: u64 = 450_000;
    const SECOND_USEC: u64 = 1_000_000;
    if traffic.packets == 0 {
        return fixed(parameters);
    }
    let rate = (u128::from(traffic.packets) * 1_000_000_000 / u128::from(traffic.elapsed_ns.max(1)))
        .min(u128::from(u32::MAX)) as u64;
    if traffic.bytes / traffic.packets < SMALL && rate < MANY_PER_SECOND {
        return Pace::default();
    }
    let wanted = u64::from(parameters.cq_aim_interrupts_rate_per_sec.max(1));
    let period = SECOND_USEC / wanted - SECOND_USEC / rate.max(wanted);
    Pace {
        period_usec: period.min(u64::from(parameters.cq_aim_max_period_usec)) as u32,
        count: (rate / wanted).min(u64::from(parameters.cq_aim_max_count)) as u32,
    }
}

impl Moderator {
    /// For the first lane of an interface. `None`: nobody asks for it, it cannot be had, or this is the child of who
    /// does it.
    pub(crate) fn begin(
        runtime: &Runtime,
        link: &Link,
        device: &xdp::Device,
        counts: &stats::Lane,
    ) -> Option<Moderator> {
        let asked = runtime.parameters.cq_moderation_enable;
        let is_child = device.is_attached() && !device.is_kept();
        if asked == config::Moderation::Driver || is_child {
            return None;
        }
        match Moderator::new(link.index, &link.name, counts, fixed(&runtime.parameters)) {
            Ok(moderator) => Some(moderator),
            Err(because) if asked == config::Moderation::On => {
                logger::warning!("VMA_CQ_MODERATION_ENABLE: {} interrupts as ever: {because}", link.name);
                None
            }
            Err(because) => {
                logger::debug!("{} interrupts as ever: {because}", link.name);
                None
            }
        }
    }

    fn new(index: u32, name: &str, counts: &stats::Lane, pace: Pace) -> Result<Moderator, Unmoderated> {
        let moderation = Moderation::begin(index, pace)?;
        let (number, by) = if moderation.is_by_driver() { (2, "driver") } else { (1, "kernel's deferral") };
        logger::debug!("{name}: interrupts are moderated by the {by}: {pace:?}");
        counts.moderation.set(number);
        show(counts, pace);
        let zero = || AtomicU64::new(0);
        let is_fixed = AtomicBool::new(false);
        Ok(Moderator { moderation, is_fixed, adapted_at: zero(), packets: zero(), bytes: zero() })
    }

    /// The program says the pace of an interface, by its first lane; from now on it follows no traffic. Else the errno.
    pub(crate) fn say(lane: &Lane, pace: Pace) -> Result<(), c_int> {
        if lane.moderator.get().is_none() {
            let inner = lane.lock();
            let is_child = inner.device.is_attached() && !inner.device.is_kept();
            drop(inner);
            if is_child {
                return Err(libc::EBUSY);
            }
            let made = sys::thread::with_room(|| Moderator::new(lane.link, &lane.name, lane.counts, pace));
            let _ = lane.moderator.set(made.map_err(|because| match because {
                Unmoderated::NoSysfs => libc::ENODEV,
                Unmoderated::Taken => libc::EBUSY,
                Unmoderated::System(errno) => errno,
            })?);
        }
        let Some(moderator) = lane.moderator.get() else { return Err(libc::EBUSY) };
        moderator.is_fixed.store(true, Ordering::Relaxed);
        moderator.moderation.set(pace)?;
        show(lane.counts, pace);
        Ok(())
    }

    /// Now and then.
    pub(crate) fn adapt(&self, lane: &Lane, parameters: &config::Parameters, now: u64) {
        let interval = u64::from(parameters.cq_aim_interval_msec) * 1_000_000;
        let elapsed_ns = now.saturating_sub(self.adapted_at.load(Ordering::Relaxed));
        if interval == 0 || elapsed_ns < interval || self.is_fixed.load(Ordering::Relaxed) {
            return;
        }
        self.adapted_at.store(now, Ordering::Relaxed);
        let (packets, bytes) = (lane.counts.rx_frames.value(), lane.counts.rx_bytes.value());
        let traffic = Traffic {
            packets: packets.saturating_sub(self.packets.swap(packets, Ordering::Relaxed)),
            bytes: bytes.saturating_sub(self.bytes.swap(bytes, Ordering::Relaxed)),
            elapsed_ns,
        };
        let pace = adapted(parameters, &traffic);
        match self.moderation.set(pace) {
            Ok(()) => show(lane.counts, pace),
            Err(errno) => {
                logger::debug!(
                    "{}: its interrupts do not follow the traffic ({why})",
                    lane.name,
                    why = sys::Errno(errno)
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_follows_the_traffic_as_libvmas_does() {
        let on = config::Parameters { cq_moderation_enable: config::Moderation::On, ..Default::default() };
        let pace = |packets: u64, size: u64| {
            adapted(&on, &Traffic { packets, bytes: packets * size, elapsed_ns: 1_000_000_000 })
        };
        let of = |period_usec, count| Pace { period_usec, count };
        assert_eq!(pace(0, 0), of(50, 48), "as set, while nothing comes");
        assert_eq!(pace(100_000, 100), of(0, 0), "small ones at once");
        assert_eq!(pace(500_000, 100), of(198, 100), "unless they are many");
        assert_eq!(pace(10_000, 1400), of(100, 2));
        assert_eq!(pace(1000, 1400), of(0, 0), "they interrupt less often than is wanted anyway");
        assert_eq!(pace(100_000_000, 1400), of(200, 560), "bounded");
    }
}
