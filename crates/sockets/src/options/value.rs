//! Values of options, as the kernel reads them.

use libc::c_int;
use stack::tcp::Congestion;

/// A value as the kernel reads it: an int, or one byte of what is shorter. (Where it takes nothing shorter it refused.)
pub(crate) fn word_of(bytes: &[u8]) -> Option<c_int> {
    let byte = || bytes.first().map(|byte| c_int::from(*byte));
    bytes.first_chunk::<4>().map(|four| c_int::from_ne_bytes(*four)).or_else(byte)
}

/// A struct timeval as nanoseconds; 0: none.
pub(super) fn span_of(bytes: &[u8]) -> u64 {
    let word =
        |at: usize| bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, i64::from_ne_bytes);
    let (seconds, micros) = (word(0).max(0) as u64, word(8).max(0) as u64);
    seconds.saturating_mul(1_000_000_000).saturating_add(micros * 1000)
}

/// Bytes in a second; zero: no limit. An int or, as the kernel takes it too, a long with all bits set for no limit.
pub(super) fn pacing_rate(bytes: &[u8]) -> u64 {
    let rate = match (bytes.first_chunk::<8>(), bytes.first_chunk::<4>()) {
        (Some(long), _) => u64::from_ne_bytes(*long),
        (None, Some(int)) => match u32::from_ne_bytes(*int) {
            u32::MAX => u64::MAX,
            rate => u64::from(rate),
        },
        (None, None) => u64::MAX,
    };
    if rate == u64::MAX { 0 } else { rate }
}

/// Others that the kernel knows (bbr, ...) are not had here: the nearest is the default.
pub(super) fn congestion(name: &[u8]) -> Congestion {
    match name.split(|byte| *byte == 0).next() {
        Some(b"reno") => Congestion::NewReno,
        _ => Congestion::Cubic,
    }
}

/// As Linux: 0 is 1, and negative is as much as can be.
pub(super) fn low_water(value: c_int) -> u32 {
    if value < 0 { c_int::MAX as u32 } else { value.max(1) as u32 }
}
