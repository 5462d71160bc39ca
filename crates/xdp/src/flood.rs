//! What the program does with floods of SYNs (`bpf/flood.h`): its bounds, the key of its cookies, and what it counted.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use sys::memory::Mapping;
use sys::{Fd, Result};

use crate::arena::LANES;
use crate::bpf;

/// Addresses that a connection stood with, remembered for floods of SYNs.
const PROVEN_MAX: u32 = 1 << 14;

/// Bytes of the map that are mapped: the smallest page, rounded up by the kernel where pages are larger.
const PAGE: usize = 4096;

/// How SYNs beyond the bounds are answered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answers {
    /// The MSS to announce; 0: they are dropped.
    pub(crate) mss: u16,
    /// The interface's address: frames for others are not answered.
    pub(crate) mac: [u8; 6],
}

/// `struct flood` of the program.
#[repr(C)]
#[derive(Clone, Copy)]
struct Record {
    most: u32,
    most_proven: u32,
    mss: u16,
    mac: [u8; 6],
    key: [u8; 16],
    ahead: i64,
    answered: u64,
    refused: u64,
    ran: u64,
    passed: [u32; LANES],
}

/// The maps of `bpf/flood.h`.
#[derive(Debug)]
pub(crate) struct Flood {
    record: Fd,
    proven: Fd,
    /// The record, as the program sees it.
    mapping: Mapping,
    key: [u8; 16],
}

impl Flood {
    /// Bounds that leave room for other packets in a receive ring of `rx_ring` entries, and a new key.
    pub(crate) fn create(rx_ring: u32, answers: Answers) -> Result<Flood> {
        let mut key = [0; 16];
        // Where there are no random numbers, cookies that everybody can guess would let everybody in.
        let mss = if sys::process::random(&mut key).is_ok() { answers.mss } else { 0 };
        Self::with_key(rx_ring, Answers { mss, ..answers }, key)
    }

    pub(crate) fn with_key(rx_ring: u32, answers: Answers, key: [u8; 16]) -> Result<Flood> {
        let proven = bpf::map_create(bpf::MAP_TYPE_LRU_HASH, 4, 4, PROVEN_MAX, 0)?;
        let record = bpf::map_create(bpf::MAP_TYPE_ARRAY, 4, size_of::<Record>(), 1, bpf::MAPPABLE)?;
        let bounds = Record {
            most: rx_ring / 2,
            most_proven: rx_ring / 4 * 3,
            mss: answers.mss,
            mac: answers.mac,
            key,
            ahead: clock_ahead(),
            answered: 0,
            refused: 0,
            ran: 0,
            passed: [0; LANES],
        };
        bpf::map_update(&record, &0u32, &bounds)?;
        let mapping = Mapping::shared(record.raw(), PAGE, 0, false)?;
        Ok(Flood { record, proven, mapping, key })
    }

    /// The maps that another process made.
    pub(crate) fn received(record: Fd, proven: Fd) -> Result<Flood> {
        let mapping = Mapping::shared(record.raw(), PAGE, 0, false)?;
        let mut flood = Flood { record, proven, mapping, key: [0; 16] };
        for (at, byte) in (offset_of!(Record, key)..).zip(&mut flood.key) {
            // SAFETY: within the record at the beginning of the mapping, which lives as long as we do; nobody changes
            // the key.
            *byte =
                unsafe { flood.mapping.start().add(at).cast::<AtomicU8>().as_ref() }.load(Ordering::Relaxed);
        }
        Ok(flood)
    }

    /// By which another process has them.
    pub(crate) fn descriptors(&self) -> [i32; 2] {
        [self.record.raw(), self.proven.raw()]
    }

    /// The map of this name in the program.
    pub(crate) fn map(&self, name: &[u8]) -> Option<i32> {
        match name {
            b"floods" => Some(self.record.raw()),
            b"proven" => Some(self.proven.raw()),
            _ => None,
        }
    }

    /// The key of the program's cookies.
    pub(crate) fn key(&self) -> [u8; 16] {
        self.key
    }

    /// SYNs that the program answered; a load from memory that the program writes.
    #[inline]
    pub(crate) fn answered(&self) -> u64 {
        self.count(offset_of!(Record, answered))
    }

    /// SYNs that the program dropped.
    pub(crate) fn refused(&self) -> u64 {
        self.count(offset_of!(Record, refused))
    }

    /// Whether the program ran since this was asked last.
    pub(crate) fn take_ran(&self) -> bool {
        // SAFETY: the record is at the beginning of the mapping, which lives as long as we do; the program only stores
        // to this number.
        let ran = unsafe { self.mapping.start().add(offset_of!(Record, ran)).cast::<AtomicU64>().as_ref() };
        ran.swap(0, Ordering::Relaxed) != 0
    }

    /// A lane has found its rings empty: there is room for first segments again.
    #[inline]
    pub(crate) fn caught_up(&self, lane: u32) {
        let at = offset_of!(Record, passed) + (lane as usize % LANES) * size_of::<u32>();
        // SAFETY: within the record at the beginning of the mapping, which lives as long as we do; the program adds to
        // these numbers by atomic additions.
        let passed = unsafe { self.mapping.start().add(at).cast::<AtomicU32>().as_ref() };
        if passed.load(Ordering::Relaxed) != 0 {
            passed.store(0, Ordering::Relaxed);
        }
    }

    /// The interface has another address.
    pub(crate) fn set_mac(&self, mac: [u8; 6]) {
        for (at, byte) in (offset_of!(Record, mac)..).zip(mac) {
            // SAFETY: within the record at the beginning of the mapping, which lives as long as we do; the program only
            // reads these bytes, and a mixture of two addresses is nobody's.
            unsafe { self.mapping.start().add(at).cast::<AtomicU8>().as_ref() }
                .store(byte, Ordering::Relaxed);
        }
    }

    #[inline]
    fn count(&self, offset: usize) -> u64 {
        // SAFETY: the record is at the beginning of the mapping, which lives as long as we do; the counters in it are
        // aligned, and the program changes them by atomic additions.
        unsafe { self.mapping.start().add(offset).cast::<AtomicU64>().as_ref() }.load(Ordering::Acquire)
    }
}

/// Nanoseconds of this process's monotonic clock before the kernel's own, by which the program goes: not zero in a time
/// namespace (time_namespaces(7)).
fn clock_ahead() -> i64 {
    let table = sys::file::read_whole(c"/proc/self/timens_offsets", 256).unwrap_or_default();
    monotonic_offset(core::str::from_utf8(&table).unwrap_or_default()).unwrap_or(0)
}

fn monotonic_offset(table: &str) -> Option<i64> {
    let line = table.lines().find(|line| line.starts_with("monotonic"))?;
    let mut numbers = line.split_whitespace().skip(1).map(str::parse::<i64>);
    let (seconds, nanoseconds) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        let table = "monotonic       86400    500000000\nboottime        7         0\n";
        assert_eq!(monotonic_offset(table), Some(86_400_500_000_000));
        assert_eq!(monotonic_offset("monotonic  -1 0"), Some(-1_000_000_000));
        assert_eq!(monotonic_offset(""), None);
    }
}
