//! The monotonic clock, in nanoseconds: the same scale as CLOCK_MONOTONIC, for about 20 ns a look.
//!
//! Where the kernel itself keeps time by the TSC (it has checked that the counter is constant, does not stop and
//! agrees between processors), we read the counter and scale it. The scale is measured against CLOCK_MONOTONIC at
//! the first look and again every [`RESYNC_NS`]: a new scale starts at the value of the old one and is chosen so
//! that what was missed is caught up within the next interval. So the clock never steps, never runs backwards
//! (a thread that still uses the old scale is off by parts per million of the microsecond it takes to notice), and
//! stays within some microseconds of CLOCK_MONOTONIC. Anywhere else the vDSO is asked.
//!
//! ```text
//! now = base_ns + ((tsc - base_tsc) * scale >> SHIFT)          under a sequence counter
//! ```

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

/// Nanoseconds since an arbitrary moment (boot, usually); comparable between threads and processes to within
/// microseconds of CLOCK_MONOTONIC.
#[inline]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if SOURCE.load(Ordering::Relaxed) == TSC {
        return scaled(counter());
    }
    unscaled()
}

/// CLOCK_MONOTONIC by the vDSO: exact, about 30 ns.
pub fn monotonic() -> u64 {
    nanoseconds(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic))
}

/// CLOCK_REALTIME by the vDSO: for timestamps that leave the process.
pub fn realtime() -> u64 {
    nanoseconds(rustix::time::clock_gettime(rustix::time::ClockId::Realtime))
}

fn nanoseconds(time: rustix::time::Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

const UNKNOWN: u8 = 0;
const TSC: u8 = 1;
const VDSO: u8 = 2;

/// How the time is read; decided at the first look.
static SOURCE: AtomicU8 = AtomicU8::new(UNKNOWN);

#[cold]
fn unscaled() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if SOURCE.load(Ordering::Relaxed) == UNKNOWN {
        start();
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (UNKNOWN, TSC, VDSO, &SOURCE);
    monotonic()
}

/// Fraction bits of the scale.
const SHIFT: u32 = 32;
/// Nanoseconds between two measurements of the scale.
const RESYNC_NS: u64 = 1_000_000_000;

/// Odd while the three values below change.
static SEQUENCE: AtomicU32 = AtomicU32::new(0);
static BASE_TSC: AtomicU64 = AtomicU64::new(0);
static BASE_NS: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds per tick, with SHIFT fraction bits.
static SCALE: AtomicU64 = AtomicU64::new(0);
/// The first pair: the longest base for measuring the rate.
static FIRST_TSC: AtomicU64 = AtomicU64::new(0);
static FIRST_NS: AtomicU64 = AtomicU64::new(0);

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86_64 processor has the counter; a kernel that forbids it (PR_TSC_SIGV) does not say "tsc".
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// For the child of a fork: the thread that was just moving the base may not exist here.
pub fn after_fork() {
    if !SEQUENCE.load(Ordering::Relaxed).is_multiple_of(2) {
        // The values may be half changed: measure anew.
        SOURCE.store(UNKNOWN, Ordering::Relaxed);
        SEQUENCE.store(0, Ordering::Relaxed);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn scaled(tsc: u64) -> u64 {
    loop {
        let sequence = SEQUENCE.load(Ordering::Acquire);
        let (base_tsc, base_ns) = (BASE_TSC.load(Ordering::Relaxed), BASE_NS.load(Ordering::Relaxed));
        let scale = SCALE.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        if sequence.is_multiple_of(2) && SEQUENCE.load(Ordering::Relaxed) == sequence {
            // A counter read before another thread moved the base: no time has passed since.
            let elapsed = extend(tsc.saturating_sub(base_tsc), scale);
            if elapsed > RESYNC_NS {
                resync(sequence);
            }
            return base_ns + elapsed;
        }
        core::hint::spin_loop();
    }
}

#[inline]
fn extend(ticks: u64, scale: u64) -> u64 {
    ((ticks as u128 * scale as u128) >> SHIFT) as u64
}

/// A counter value and the time, read together: the try with the least between the two counter reads counts.
#[cfg(target_arch = "x86_64")]
fn pair() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..5 {
        let before = counter();
        let ns = monotonic();
        let after = counter();
        let width = after.wrapping_sub(before);
        if width < best.0 {
            best = (width, before + width / 2, ns);
        }
    }
    (best.1, best.2)
}

/// The first look: is the counter trustworthy, and how fast is it? Takes a millisecond.
#[cfg(target_arch = "x86_64")]
#[cold]
fn start() {
    const CLOCK_SOURCE: &core::ffi::CStr =
        c"/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let mut source = [0; 16];
    let trusted =
        matches!(crate::file::read_to(CLOCK_SOURCE, &mut source), Ok(n) if source[..n].starts_with(b"tsc"));
    if !trusted {
        SOURCE.store(VDSO, Ordering::Relaxed);
        return;
    }
    // One thread measures, others use the vDSO meanwhile.
    if SEQUENCE.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    let (first_tsc, first_ns) = pair();
    let (mut tsc, mut ns) = pair();
    while ns - first_ns < 1_000_000 {
        (tsc, ns) = pair();
    }
    FIRST_TSC.store(first_tsc, Ordering::Relaxed);
    FIRST_NS.store(first_ns, Ordering::Relaxed);
    BASE_TSC.store(tsc, Ordering::Relaxed);
    BASE_NS.store(ns, Ordering::Relaxed);
    SCALE.store(rate(tsc - first_tsc, ns - first_ns), Ordering::Relaxed);
    SEQUENCE.store(2, Ordering::Release);
    SOURCE.store(TSC, Ordering::Release);
}

/// Nanoseconds per tick, with SHIFT fraction bits.
#[cfg(target_arch = "x86_64")]
fn rate(ticks: u64, ns: u64) -> u64 {
    (((ns as u128) << SHIFT) / ticks.max(1) as u128) as u64
}

/// Moves the base to now and corrects the scale; whoever comes second goes on with the old values.
#[cfg(target_arch = "x86_64")]
#[cold]
fn resync(sequence: u32) {
    let (tsc, ns) = pair();
    if SEQUENCE.compare_exchange(sequence, sequence + 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    let base_tsc = BASE_TSC.load(Ordering::Relaxed);
    let (interval_ticks, interval_ns) = (tsc - base_tsc, RESYNC_NS);
    let ours = BASE_NS.load(Ordering::Relaxed) + extend(interval_ticks, SCALE.load(Ordering::Relaxed));
    let measured = rate(tsc - FIRST_TSC.load(Ordering::Relaxed), ns - FIRST_NS.load(Ordering::Relaxed));
    // A system that slept (CLOCK_MONOTONIC stops, the counter may not) measures nonsense: at most 0.2 % of change.
    let error = (ns as i64 - ours as i64).clamp(-(interval_ns as i64) / 500, interval_ns as i64 / 500);
    let correction = (measured as i128 * error as i128 / interval_ns as i128) as i64;
    // Start the next measurement of the rate from here: CLOCK_MONOTONIC's own rate is adjusted by NTP.
    FIRST_TSC.store(tsc, Ordering::Relaxed);
    FIRST_NS.store(ns, Ordering::Relaxed);
    BASE_TSC.store(tsc, Ordering::Relaxed);
    BASE_NS.store(ours, Ordering::Relaxed);
    SCALE.store(measured.saturating_add_signed(correction), Ordering::Relaxed);
    SEQUENCE.store(sequence + 2, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counter is read when the processor likes, which may be before a load that takes long.
    fn wait_for_loads() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86_64 processor has it.
        unsafe {
            core::arch::x86_64::_mm_lfence()
        }
    }

    #[test]
    fn the_clock_never_runs_backwards_within_or_between_threads() {
        let latest = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    for _ in 0..200_000 {
                        let floor = latest.load(Ordering::SeqCst);
                        wait_for_loads();
                        let time = now();
                        assert!(time >= last, "{time} after {last}");
                        // The first looks are the kernel's; ours begin as near to them as five tries come.
                        assert!(time + 1_000 >= floor, "{time} but another thread saw {floor}");
                        last = time;
                        latest.fetch_max(time, Ordering::SeqCst);
                    }
                });
            }
        });
    }

    #[test]
    fn the_clock_stays_with_the_kernels_over_several_corrections() {
        let start = monotonic();
        let mut worst = 0;
        while monotonic() - start < 2_500_000_000 {
            let (before, ours, after) = (monotonic(), now(), monotonic());
            if after - before < 10_000 {
                worst = worst.max(before.saturating_sub(ours)).max(ours.saturating_sub(after));
            }
            crate::thread::sleep(1_000_000);
        }
        assert!(worst < 100_000, "{worst} ns apart");
    }
}
