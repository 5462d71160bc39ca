//! How much of a processor waits spend polling (VMA_CPU_USAGE_STATS).

use super::segment;
use crate::runtime::Runtime;
use core::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds spent polling since the worker looked last, with VMA_CPU_USAGE_STATS; and when it looked.
static POLLED: AtomicU64 = AtomicU64::new(0);
static POLLED_FROM: AtomicU64 = AtomicU64::new(0);

/// A wait polled for so long before it found something or slept.
#[inline]
pub(crate) fn polled(runtime: &Runtime, ns: u64) {
    if runtime.parameters.cpu_usage_stats {
        POLLED.fetch_add(ns, Ordering::Relaxed);
    }
}

/// The share of one processor's time, over a second and more.
pub(crate) fn publish_polled(now: u64) {
    let from = POLLED_FROM.load(Ordering::Relaxed);
    if now.saturating_sub(from) >= 1_000_000_000 {
        POLLED_FROM.store(now, Ordering::Relaxed);
        let share = POLLED.swap(0, Ordering::Relaxed).saturating_mul(100) / (now - from);
        segment().process().polling_cpu_percent.set(share);
    }
}
