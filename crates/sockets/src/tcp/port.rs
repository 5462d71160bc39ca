//! The local port of a connection, where the kernel's choice may be one that is still resting here (TIME-WAIT).
//!
//! The kernel knows nothing of connections that ended in the engine, and gives their ports to the next. Linux's own
//! connect(2) passes over ports whose pair is in TIME-WAIT; so do we.

use crate::lane::Lane;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering};
use stack::Instant;
use std::net::{Ipv4Addr, SocketAddrV4};

const RANGE: &CStr = c"/proc/sys/net/ipv4/ip_local_port_range";
const RESERVED: &CStr = c"/proc/sys/net/ipv4/ip_local_reserved_ports";
/// How many ports are tried before the kernel's choice must do.
const TRIES: u32 = 64;

/// A port that `bind` accepted and whose pair with `remote` is free in the engine. `None`, nothing bound: nothing rests
/// here, or no such port was found; the kernel's choice is as good.
pub(super) fn without_rest(
    lane: &Lane,
    address: Ipv4Addr,
    remote: SocketAddrV4,
    mut bind: impl FnMut(SocketAddrV4) -> bool,
) -> Option<SocketAddrV4> {
    if !lane.lock().stack.tcp_has_time_wait() {
        return None;
    }
    let (low, high) = range()?;
    let count = u32::from(high - low) + 1;
    let mut random = [0; 4];
    sys::process::random(&mut random).ok()?;
    let start = u32::from_ne_bytes(random) % count;
    for offset in 0..TRIES.min(count) {
        let port = low + ((start + offset) % count) as u16;
        let local = SocketAddrV4::new(address, port);
        let free = lane.lock().stack.tcp_can_connect(Instant(sys::clock::now()), local, remote);
        if free && bind(local) {
            return Some(local);
        }
    }
    None
}

/// The ephemeral ports of this host; `None` if some of them are reserved for others, which the kernel respects.
fn range() -> Option<(u16, u16)> {
    const UNKNOWN: u32 = 0;
    const KERNEL: u32 = 1;
    static KNOWN: AtomicU32 = AtomicU32::new(UNKNOWN);
    let mut known = KNOWN.load(Ordering::Relaxed);
    if known == UNKNOWN {
        let found = read_range().map_or(KERNEL, |(low, high)| u32::from(low) << 16 | u32::from(high));
        KNOWN.store(found, Ordering::Relaxed);
        known = found;
    }
    (known != KERNEL).then_some(((known >> 16) as u16, known as u16))
}

fn read_range() -> Option<(u16, u16)> {
    let reserved = sys::file::read_whole(RESERVED, 4096).ok()?;
    if !reserved.trim_ascii().is_empty() {
        return None;
    }
    let bytes = sys::file::read_whole(RANGE, 64).ok()?;
    let mut words = core::str::from_utf8(&bytes).ok()?.split_whitespace();
    let (low, high) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (0 < low && low < high).then_some((low, high))
}
