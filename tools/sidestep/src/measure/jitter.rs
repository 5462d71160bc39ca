//! How long a thread that only looks at the clock stands still: what a polling program suffers from interrupts, the
//! scheduler, the firmware and the hypervisor.

use super::rounded;
use crate::host::cpus::Cpus;
use crate::host::facts::{Core, Jitter};
use std::time::{Duration, Instant};

const LENGTH: Duration = Duration::from_secs(1);
/// Cores that are looked at, at most: a large host shall not stand still for its doctor.
const CORES: usize = 16;

/// Measures cores at the same time, the isolated ones first.
pub(crate) fn measure() -> std::io::Result<Jitter> {
    let list =
        |path: &str| Cpus::parse(&std::fs::read_to_string(path).unwrap_or_default()).unwrap_or_default();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let allowed = allowed.and_then(Cpus::parse).unwrap_or_default();
    let isolated = list("/sys/devices/system/cpu/isolated");
    let others = allowed.iter().filter(|cpu| !isolated.contains(*cpu));
    let chosen: Vec<usize> = isolated.iter().chain(others).take(CORES).collect();
    let threads: Vec<_> = chosen.into_iter().map(|cpu| std::thread::spawn(move || core(cpu))).collect();
    let cores = threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect();
    Ok(Jitter { seconds: LENGTH.as_secs_f64(), cores })
}

/// One core; `None` if this process may not run there.
fn core(cpu: usize) -> Option<Core> {
    sys::thread::pin(cpu).ok()?;
    let mut found = Core { cpu: cpu as u32, ..Core::default() };
    let mut longest = Duration::ZERO;
    let begun = Instant::now();
    let mut last = begun;
    while last - begun < LENGTH {
        let now = Instant::now();
        let gap = now - last;
        last = now;
        if gap < Duration::from_micros(5) {
            continue;
        }
        found.over_5_us += 1;
        found.over_50_us += u32::from(gap >= Duration::from_micros(50));
        found.over_500_us += u32::from(gap >= Duration::from_micros(500));
        longest = longest.max(gap);
    }
    found.longest_us = rounded(longest.as_nanos() as f64 / 1000.0);
    Some(found)
}
