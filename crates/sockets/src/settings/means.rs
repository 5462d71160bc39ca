//! What the host can spare: nobody's parameters take more memory than is there, and no interface the descriptors that a
//! program needs itself. What was cut is told.

use std::ffi::CStr;

/// Descriptors that a process may have at least where we open interfaces: a quarter of them is ours (`sys::fd`), and an
/// interface takes some twenty.
const DESCRIPTORS_LEAST: u64 = 128;

/// The part of the memory that is free which packets may take: it is locked, and nobody gets it back.
const PART_OF_MEMORY: u64 = 8;

const FRAME: u64 = 4096;

/// Packet buffers that no memory is looked at for: it is little.
const FEW: u32 = 16_384;

/// Whether the process may open too few files for an interface beside its own.
pub(super) fn has_few_descriptors() -> bool {
    sys::process::limit(libc::RLIMIT_NOFILE as i32).is_ok_and(|limit| limit.soft < DESCRIPTORS_LEAST)
}

/// As many packet buffers as were asked for, or as there is memory for.
pub(super) fn frames(asked: u32) -> u32 {
    let Some(free) = (asked > FEW).then(free_memory).flatten() else { return asked };
    let frames = affordable(asked, FEW, free);
    if frames < asked {
        logger::warning!(
            "SIDESTEP_FRAMES, VMA_RX_BUFS, VMA_TX_BUFS: {asked} packet buffers are {} MiB, more than an eighth of the \
             {} MiB that are free; using {frames}",
            (u64::from(asked) * FRAME) >> 20,
            free >> 20
        );
    }
    frames
}

fn affordable(asked: u32, least: u32, free: u64) -> u32 {
    let most = u32::try_from(free / PART_OF_MEMORY / FRAME).unwrap_or(u32::MAX);
    asked.min(most.max(least))
}

/// Bytes of memory that the process could get, as far as the kernel says.
fn free_memory() -> Option<u64> {
    let mut text = [0; 512];
    let length = sys::file::read_to(c"/proc/meminfo", &mut text).ok()?;
    let of_host = available(&text[..length])?;
    // That of a container, where it has a limit.
    const LIMIT: &CStr = c"/sys/fs/cgroup/memory.max";
    let limit = sys::file::read_number(LIMIT).ok().and_then(|limit| u64::try_from(limit).ok());
    Some(limit.map_or(of_host, |limit| limit.min(of_host)))
}

/// Bytes, of the lines of /proc/meminfo.
fn available(meminfo: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(meminfo).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_take_an_eighth_of_the_memory_at_most_and_a_little_at_least() {
        const GIB: u64 = 1 << 30;
        assert_eq!(affordable(1_048_576, 16_384, 32 * GIB), 1_048_576);
        assert_eq!(affordable(1_048_576, 16_384, 8 * GIB), 262_144);
        assert_eq!(affordable(100_000, 16_384, 8 * GIB), 100_000);
        assert_eq!(affordable(100_000, 16_384, 0), 16_384);
    }

    #[test]
    fn meminfo_is_read() {
        let text =
            b"MemTotal:       24683656 kB\nMemFree:        22641128 kB\nMemAvailable:   23875244 kB\nBuff";
        assert_eq!(available(text), Some(23_875_244 << 10));
        assert_eq!(available(b"MemTotal: 1 kB\nMemAvail"), None);
        assert!(free_memory().is_some_and(|free| free > 0));
    }
}
