//! The monotonic clock, in nanoseconds: the same scale as CLOCK_MONOTONIC, for about 20 ns a look.
//!
//! Where the kernel itself keeps time by the TSC (it has checked that the counter is constant, does not stop and
//! agrees between processors), we read the counter and scale it. The scale is measured against CLOCK_MONOTONIC during
//! the first millisecond, in which the vDSO answers, and again every [`RESYNC_NS`]: a new scale starts at the value of
//! the old one and is chosen so that what was missed is caught up within the next interval. So the clock never runs
//! backwards (a thread that still uses the old scale is off by parts per million of the microsecond it takes
//! to notice), and stays within some microseconds of CLOCK_MONOTONIC. Anywhere else the vDSO is asked.
//!
//! A machine that slept, or was a snapshot meanwhile, may have a counter that went on while CLOCK_MONOTONIC stood, or
//! that began anew. The first look afterwards finds that they disagree, and goes on from CLOCK_MONOTONIC
//! ([`Line::renewed`]).
//!
//! ```text
//! now = base_ns + ((tsc - base_tsc) * scale >> SHIFT)          under a sequence counter
//! ```

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

/// Nanoseconds since an arbitrary moment (boot, usually); comparable between threads and processes to within
/// microseconds of CLOCK_MONOTONIC.
#[inline]
pub fn now() -> u64 {
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

/// Processor time that this process has used, all of its threads, in nanoseconds.
pub fn process_time() -> u64 {
    nanoseconds(rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime))
}

fn nanoseconds(time: rustix::time::Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nobody has looked yet.
const UNKNOWN: u8 = 0;
/// The counter is trustworthy, and its rate is being measured between looks; the vDSO answers meanwhile.
const MEASURING: u8 = 1;
const TSC: u8 = 2;
const VDSO: u8 = 3;

/// How the time is read; decided by the first looks.
static SOURCE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// So many looks the vDSO answers: to find out about the counter costs as much as hundreds, and a program that makes
/// few calls never needs it.
const FEW_LOOKS: u32 = 64;
static LOOKS: AtomicU32 = AtomicU32::new(0);

/// Finds out about the counter now, not when there were looks enough: that opens a file for a moment, whose number is
/// the lowest free one, so no thread beside the program's own may be the one that does.
pub fn prepare() {
    if SOURCE.load(Ordering::Acquire) == UNKNOWN {
        begin();
    }
}

#[cold]
fn unscaled() -> u64 {
    match SOURCE.load(Ordering::Acquire) {
        UNKNOWN if LOOKS.fetch_add(1, Ordering::Relaxed) >= FEW_LOOKS => begin(),
        MEASURING => measure(),
        _ => {}
    }
    monotonic()
}

/// Fraction bits of the scale.
const SHIFT: u32 = 32;
/// The first measurement takes at least this long: ten nanoseconds of error are then ten parts per million.
const MEASURING_NS: u64 = 1_000_000;
/// Nanoseconds between two measurements of the scale.
const RESYNC_NS: u64 = 1_000_000_000;

/// The most that is corrected, or that the rate changes, in one interval: 0.2 %, four times what NTP slews. What is
/// missed by more is stepped over.
const CORRECTION: i64 = 500;
/// A counter that was read so long before another thread moved the base (some milliseconds) is an old reading; a
/// larger difference is a counter that began anew.
const OLD_TICKS: u64 = 1 << 24;

/// Odd while the values below change.
static SEQUENCE: AtomicU32 = AtomicU32::new(0);
static BASE_TSC: AtomicU64 = AtomicU64::new(0);
static BASE_NS: AtomicU64 = AtomicU64::new(0);
/// CLOCK_MONOTONIC there.
static BASE_KERNEL_NS: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds per tick, with SHIFT fraction bits.
static SCALE: AtomicU64 = AtomicU64::new(0);
/// The same as it was measured last, right or wrong.
static MEASURED: AtomicU64 = AtomicU64::new(0);

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

#[inline]
fn scaled(mut tsc: u64) -> u64 {
    loop {
        let sequence = SEQUENCE.load(Ordering::Acquire);
        let (base_tsc, base_ns) = (BASE_TSC.load(Ordering::Relaxed), BASE_NS.load(Ordering::Relaxed));
        let scale = SCALE.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        if sequence.is_multiple_of(2) && SEQUENCE.load(Ordering::Relaxed) == sequence {
            let elapsed = extend(tsc.saturating_sub(base_tsc), scale);
            if elapsed <= RESYNC_NS && tsc >= base_tsc {
                return base_ns + elapsed;
            }
            if tsc < base_tsc && base_tsc - tsc < OLD_TICKS {
                // No time has passed since.
                return base_ns;
            }
            renew(sequence);
            tsc = counter();
        }
        core::hint::spin_loop();
    }
}

#[inline]
fn extend(ticks: u64, scale: u64) -> u64 {
    ((ticks as u128 * scale as u128) >> SHIFT) as u64
}

/// A counter value and the time, read together: the try with the least between the two counter reads counts.
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

/// The first look: is the counter trustworthy? If so, its rate is measured from here.
#[cold]
fn begin() {
    const CLOCK_SOURCE: &core::ffi::CStr =
        c"/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let mut source = [0; 16];
    let trusted =
        matches!(crate::file::read_to(CLOCK_SOURCE, &mut source), Ok(n) if source[..n].starts_with(b"tsc"));
    if !trusted {
        SOURCE.store(VDSO, Ordering::Relaxed);
        return;
    }
    // One thread is the first.
    if SEQUENCE.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    let (tsc, ns) = pair();
    BASE_TSC.store(tsc, Ordering::Relaxed);
    BASE_KERNEL_NS.store(ns, Ordering::Relaxed);
    SOURCE.store(MEASURING, Ordering::Release);
    SEQUENCE.store(2, Ordering::Release);
}

/// A look while the rate is measured: once that took long enough, the counter serves.
#[cold]
fn measure() {
    let (first_tsc, first_ns) = (BASE_TSC.load(Ordering::Relaxed), BASE_KERNEL_NS.load(Ordering::Relaxed));
    if monotonic() - first_ns < MEASURING_NS
        || SEQUENCE.compare_exchange(2, 3, Ordering::Acquire, Ordering::Relaxed).is_err()
    {
        return;
    }
    let (tsc, ns) = pair();
    let scale = rate(tsc.wrapping_sub(first_tsc), ns - first_ns);
    BASE_TSC.store(tsc, Ordering::Relaxed);
    BASE_KERNEL_NS.store(ns, Ordering::Relaxed);
    if !PLAUSIBLE.contains(&scale) {
        // The machine slept in between.
        return SEQUENCE.store(2, Ordering::Release);
    }
    BASE_NS.store(ns, Ordering::Relaxed);
    SCALE.store(scale, Ordering::Relaxed);
    MEASURED.store(scale, Ordering::Relaxed);
    SEQUENCE.store(4, Ordering::Release);
    SOURCE.store(TSC, Ordering::Release);
}

/// Counters of 100 MHz to 10 GHz.
const PLAUSIBLE: core::ops::RangeInclusive<u64> = (1 << SHIFT) / 10..=10 << SHIFT;

/// Nanoseconds per tick, with SHIFT fraction bits.
fn rate(ticks: u64, ns: u64) -> u64 {
    (((ns as u128) << SHIFT) / ticks.max(1) as u128) as u64
}

/// What time a counter value is: a line through a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    tsc: u64,
    ns: u64,
    /// CLOCK_MONOTONIC there.
    kernel_ns: u64,
    scale: u64,
    /// The rate as the last interval had it.
    measured: u64,
}

impl Line {
    /// The line from here on, where the counter is `tsc` and CLOCK_MONOTONIC `kernel_ns`.
    fn renewed(self, tsc: u64, kernel_ns: u64) -> Line {
        // As much as it is known to be ahead, having said so, it stays ahead.
        let step = Line { tsc, ns: kernel_ns + self.ns.saturating_sub(self.kernel_ns), kernel_ns, ..self };
        if tsc <= self.tsc {
            return step;
        }
        let ticks = tsc - self.tsc;
        let elapsed = extend(ticks, self.scale);
        let measured = rate(ticks, kernel_ns - self.kernel_ns);
        // A machine that slept measures nonsense, but not twice the same. (The scale has a correction in it.)
        let near = 2 * self.scale / CORRECTION as u64;
        let believable = measured.abs_diff(self.scale) <= near || measured.abs_diff(self.measured) <= near;
        let scale = if believable { measured } else { self.scale };
        let error = kernel_ns.wrapping_sub(self.ns + elapsed) as i64;
        let most = RESYNC_NS as i64 / CORRECTION;
        // A jump ahead of less than the interval may have been told to somebody before anybody came here.
        if error > most || error < -most && elapsed > 2 * RESYNC_NS {
            return Line { scale, measured, ..step };
        }
        let correction = scale as i128 * i128::from(error.clamp(-most, most)) / i128::from(RESYNC_NS);
        Line {
            tsc,
            ns: self.ns + elapsed,
            kernel_ns,
            scale: scale.saturating_add_signed(correction as i64),
            measured,
        }
    }
}

/// Moves the base to now and corrects the scale. Whoever comes second finds it done.
#[cold]
fn renew(sequence: u32) {
    let (tsc, kernel_ns) = pair();
    if SEQUENCE.compare_exchange(sequence, sequence + 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    let before = Line {
        tsc: BASE_TSC.load(Ordering::Relaxed),
        ns: BASE_NS.load(Ordering::Relaxed),
        kernel_ns: BASE_KERNEL_NS.load(Ordering::Relaxed),
        scale: SCALE.load(Ordering::Relaxed),
        measured: MEASURED.load(Ordering::Relaxed),
    };
    let line = before.renewed(tsc, kernel_ns);
    BASE_TSC.store(line.tsc, Ordering::Relaxed);
    BASE_NS.store(line.ns, Ordering::Relaxed);
    BASE_KERNEL_NS.store(line.kernel_ns, Ordering::Relaxed);
    SCALE.store(line.scale, Ordering::Relaxed);
    MEASURED.store(line.measured, Ordering::Relaxed);
    SEQUENCE.store(sequence.wrapping_add(2), Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counter is read when the processor likes, which may be before a load that takes long.
    fn wait_for_loads() {
        // SAFETY: every x86_64 processor has it.
        unsafe { core::arch::x86_64::_mm_lfence() }
    }

    #[test]
    fn the_clock_never_runs_backwards_within_or_between_threads() {
        let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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
        let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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

    /// The tests of the process' clock, some of which put it wrong.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

    /// Makes the counter seem to jump by `ns`, once it serves.
    fn jump(ns: i64) {
        while !matches!(SOURCE.load(Ordering::Acquire), TSC | VDSO) {
            now();
        }
        let ticks = (i128::from(ns) << SHIFT) / i128::from(SCALE.load(Ordering::Relaxed).max(1));
        BASE_TSC.fetch_sub(ticks as i64 as u64, Ordering::Relaxed);
    }

    #[test]
    fn a_machine_that_slept_or_began_anew_has_the_right_time_at_the_next_look() {
        let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for seconds in [60, 86_400, -60, -86_400] {
            let told = now();
            jump(seconds * 1_000_000_000);
            let (before, ours, after) = (monotonic(), now(), monotonic());
            assert!(ours >= told, "{seconds} s: {ours} after {told}");
            assert!(
                ours + 3_000_000 >= before && ours <= after + 3_000_000,
                "{seconds} s: {ours} in {before}..{after}"
            );
            // And it goes on at the right pace.
            crate::thread::sleep(20_000_000);
            let (before, ours, after) = (monotonic(), now(), monotonic());
            assert!(
                ours + 3_000_000 >= before && ours <= after + 3_000_000,
                "{seconds} s: {ours} in {before}..{after}"
            );
        }
    }

    /// As in a fresh process.
    fn begin_anew() {
        SOURCE.store(UNKNOWN, Ordering::Relaxed);
        SEQUENCE.store(0, Ordering::Relaxed);
        LOOKS.store(0, Ordering::Relaxed);
    }

    #[test]
    fn no_look_waits_until_the_counter_is_measured() {
        let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // The longest of the first looks, and the best of as many beginnings as it takes: it may lose its processor.
        let longest = || {
            begin_anew();
            let took = |_| {
                let before = monotonic();
                now();
                monotonic() - before
            };
            (0..2 * FEW_LOOKS).map(took).max().unwrap_or(0)
        };
        assert!((0..1000).any(|_| longest() < MEASURING_NS / 2));
        assert!(SOURCE.load(Ordering::Relaxed) != UNKNOWN);
    }

    /// A counter of 2 GHz.
    const LINE: Line = Line {
        tsc: 1 << 40,
        ns: 7_000_000_000_000,
        kernel_ns: 7_000_000_000_000,
        scale: 1 << (SHIFT - 1),
        measured: 1 << (SHIFT - 1),
    };

    fn after(counted_ns: i64, passed_ns: u64) -> Line {
        LINE.renewed(LINE.tsc.wrapping_add_signed(2 * counted_ns), LINE.kernel_ns + passed_ns)
    }

    #[test]
    fn small_errors_are_caught_up_with_and_large_ones_stepped_over() {
        const SECOND: u64 = 1_000_000_000;
        let exact = after(SECOND as i64, SECOND);
        assert_eq!((exact.ns, exact.scale), (LINE.ns + SECOND, LINE.scale));
        let slow = after(SECOND as i64, SECOND + 50_000);
        assert!(slow.ns == LINE.ns + SECOND && slow.scale > LINE.scale, "{slow:?}");
        // Asleep for an hour, behind or in front of CLOCK_MONOTONIC: from its time on, at the old pace.
        for line in
            [after(3600 * SECOND as i64, SECOND), after(1, SECOND), after(-3600 * SECOND as i64, SECOND)]
        {
            assert_eq!(line.ns, LINE.ns + SECOND);
            assert!(line.scale.abs_diff(LINE.scale) <= LINE.scale / 500, "{line:?}");
        }
        // Half a second ahead may have been told: that is given up slowly, and never stepped back.
        let ahead = after(3 * SECOND as i64 / 2, SECOND);
        assert_eq!(ahead.ns, LINE.ns + 3 * SECOND / 2);
        assert!(ahead.scale < LINE.scale && ahead.scale > LINE.scale - LINE.scale / 100, "{ahead:?}");
        // A rate that is another one twice is believed: someone sets the kernel's clock (adjtimex).
        let faster = after(SECOND as i64, SECOND * 21 / 20);
        let faster = faster.renewed(faster.tsc + 2 * SECOND, faster.kernel_ns + SECOND * 21 / 20);
        assert!(faster.scale.abs_diff(LINE.scale / 20 * 21) <= LINE.scale / 100, "{faster:?}");
        let later = ahead.renewed(ahead.tsc + 2 * 3600 * 2 * SECOND, ahead.kernel_ns + SECOND);
        assert_eq!(later.ns, ahead.ns + SECOND);
    }
}
