//! Values of options, as the kernel reads them.

use super::table::{SO_RCVTIMEO_NEW, SO_SNDTIMEO_NEW};
use crate::udp_legs::multicast;
use libc::{c_int, c_void, socklen_t};
use stack::tcp::Congestion;

/// What counts of a value: as much as the kernel has read of it at least, whatever length the program claimed.
///
/// # Safety
/// The kernel has accepted the value, of which it read up to `len` bytes.
pub(super) unsafe fn accepted<'a>(
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> &'a [u8] {
    if value.is_null() {
        return &[];
    }
    let most = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_LINGER | libc::SO_MAX_PACING_RATE) => 8,
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO | SO_RCVTIMEO_NEW | SO_SNDTIMEO_NEW) => 16,
        // These are read whole.
        (libc::IPPROTO_IP, libc::IP_OPTIONS | libc::IP_IPSEC_POLICY | libc::IP_XFRM_POLICY) => usize::MAX,
        (libc::IPPROTO_IP, name) if multicast::is_option(name) => multicast::value_size(name),
        // A name is read as far as its end.
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
            let most = (len as usize).min(CONGESTION_MAX);
            // SAFETY: the kernel has read the bytes before, and this one.
            (0..most).find(|at| unsafe { *value.cast::<u8>().add(*at) } == 0).unwrap_or(most)
        }
        _ => size_of::<c_int>(),
    };
    // SAFETY: the kernel has read so many there.
    unsafe { core::slice::from_raw_parts(value.cast::<u8>(), most.min(len as usize)) }
}

/// TCP_CA_NAME_MAX, without the NUL.
const CONGESTION_MAX: usize = 15;

/// What the kernel made of a value that it has just taken for this socket, where that may be another one: it holds
/// sizes of buffers to what the host allows, doubles them for its overhead, and holds SO_RCVLOWAT to the buffer. What
/// the application may keep in the engine has the same bounds.
pub(super) fn taken(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let told_by = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) => libc::SO_RCVBUF,
        (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => libc::SO_SNDBUF,
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => libc::SO_RCVLOWAT,
        _ => return None,
    };
    sys::socket::option(fd, level, told_by, 0 as c_int).ok()
}

/// As Linux: zero is none, and what is less than the least, negative numbers too, is the least.
pub(super) fn window_clamp(value: c_int) -> u32 {
    if value < 0 { 1 } else { value as u32 }
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
