//! Control messages of datagrams: what recvmsg tells beside the bytes, and what sendmsg asks for one datagram.

pub(crate) use crate::object::ancillary::*;

use crate::lane::Lane;
use crate::{address, message};
use core::net::Ipv4Addr;
use libc::{c_int, cmsghdr, msghdr};
use stack::udp::Datagram;
use std::net::SocketAddrV4;
use sys::linux::{SO_TIMESTAMP_NEW, SO_TIMESTAMPING_NEW, SO_TIMESTAMPNS_NEW};

/// The bit of an option that asks recvmsg to tell more.
pub(crate) fn of_option(level: c_int, name: c_int) -> u32 {
    match (level, name) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => PKTINFO,
        (libc::IPPROTO_IP, libc::IP_RECVTTL) => TTL,
        (libc::IPPROTO_IP, libc::IP_RECVTOS) => TOS,
        (libc::IPPROTO_IP, libc::IP_RECVORIGDSTADDR) => DESTINATION,
        (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => OVERFLOW,
        (libc::SOL_SOCKET, libc::SO_REUSEADDR | libc::SO_REUSEPORT) => SHARES,
        (libc::IPPROTO_UDP, libc::UDP_CORK) => CORK,
        (libc::IPPROTO_UDP, libc::UDP_SEGMENT) => SEGMENT,
        _ => 0,
    }
}

/// The bits that an option sets and clears: timestamps exclude each other.
pub(crate) fn timestamps(name: c_int, value: c_int) -> Option<(u32, u32)> {
    const ALL: u32 = MICROS | NANOS | NEW;
    // SOF_TIMESTAMPING_RX_SOFTWARE makes them, SOF_TIMESTAMPING_SOFTWARE tells them.
    const SOFTWARE: c_int = 1 << 3 | 1 << 4;
    let on = value != 0;
    let set = match name {
        libc::SO_TIMESTAMP => MICROS,
        libc::SO_TIMESTAMPNS => NANOS,
        SO_TIMESTAMP_NEW => MICROS | NEW,
        SO_TIMESTAMPNS_NEW => NANOS | NEW,
        name if is_timestamping(name) => {
            let tells = value & SOFTWARE == SOFTWARE;
            return Some((if tells { TIMESTAMPING } else { 0 }, TIMESTAMPING));
        }
        _ => return None,
    };
    Some((if on { set } else { 0 }, ALL))
}

/// Whether an option is SO_TIMESTAMPING.
pub(crate) fn is_timestamping(name: c_int) -> bool {
    matches!(name, libc::SO_TIMESTAMPING | SO_TIMESTAMPING_NEW)
}

/// Whether a value of SO_TIMESTAMPING asks for stamps of what is sent, which come by the kernel's queue of errors.
pub(crate) fn is_of_sends(value: c_int) -> bool {
    // SOF_TIMESTAMPING_TX_HARDWARE, _TX_SOFTWARE, _OPT_ID, _TX_SCHED and _TX_ACK.
    const SENDS: c_int = 1 | 1 << 1 | 1 << 7 | 1 << 8 | 1 << 9;
    value & SENDS != 0
}

/// Control messages in the making, by the kernel's rules of truncation.
struct Writer {
    next: *mut u8,
    room: usize,
    used: usize,
    truncated: bool,
}

impl Writer {
    fn put(&mut self, level: c_int, kind: c_int, data: &[u8]) {
        const HEADER: usize = size_of::<cmsghdr>();
        let len = (HEADER + data.len()).min(self.room);
        if self.room < HEADER || !message::is_room(self.next, len) {
            self.truncated = true;
            return;
        }
        self.truncated |= len < HEADER + data.len();
        let header = cmsghdr { cmsg_len: len as _, cmsg_level: level, cmsg_type: kind };
        let space = len.next_multiple_of(size_of::<usize>()).min(self.room);
        // SAFETY: `room` bytes of the application's are left at `next`, of which at most that many are written.
        unsafe {
            self.next.cast::<cmsghdr>().write_unaligned(header);
            core::ptr::copy_nonoverlapping(data.as_ptr(), self.next.add(HEADER), len - HEADER);
            self.next = self.next.add(space);
        }
        self.room -= space;
        self.used += space;
    }
}

/// Tells what was asked for, in the kernel's order.
///
/// # Safety
/// `message` has room for its control messages as it says.
pub(crate) unsafe fn tell<F>(
    wanted: u32,
    datagram: &Datagram<F>,
    lane: &Lane,
    local: Ipv4Addr,
    dropped: u64,
    message: &mut msghdr,
) {
    let room = message.msg_controllen;
    let mut out = Writer { next: message.msg_control.cast(), room, used: 0, truncated: false };
    if wanted & (MICROS | NANOS | TIMESTAMPING) != 0 {
        stamps(wanted, sys::clock::now().saturating_sub(datagram.received.0), &mut out);
    }
    if wanted & OVERFLOW != 0 && dropped > 0 {
        out.put(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &(dropped as u32).to_ne_bytes());
    }
    if wanted & PKTINFO != 0 {
        let to = datagram.to.ip();
        let mut info = [0u8; 12];
        info[..4].copy_from_slice(&lane.link.to_ne_bytes());
        info[4..8].copy_from_slice(&local.octets());
        info[8..].copy_from_slice(&to.octets());
        out.put(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
    }
    if wanted & TTL != 0 {
        out.put(libc::IPPROTO_IP, libc::IP_TTL, &i32::from(datagram.ttl).to_ne_bytes());
    }
    if wanted & TOS != 0 {
        out.put(libc::IPPROTO_IP, libc::IP_TOS, &[datagram.tos]);
    }
    if wanted & DESTINATION != 0 {
        let name = address::to_sockaddr(datagram.to);
        // SAFETY: a sockaddr_in is plain bytes without padding.
        let bytes =
            unsafe { core::slice::from_raw_parts((&raw const name).cast::<u8>(), size_of_val(&name)) };
        out.put(libc::IPPROTO_IP, libc::IP_ORIGDSTADDR, bytes);
    }
    message.msg_controllen = out.used as _;
    if out.truncated {
        message.msg_flags |= libc::MSG_CTRUNC;
    }
}

/// `age`: nanoseconds since the datagram was taken in.
fn stamps(wanted: u32, age: u64, out: &mut Writer) {
    let at = sys::clock::realtime().saturating_sub(age);
    let (seconds, nanos) = (at / 1_000_000_000, at % 1_000_000_000);
    let words = |fraction: u64| {
        let mut bytes = [0u8; 16];
        bytes[..8].copy_from_slice(&seconds.to_ne_bytes());
        bytes[8..].copy_from_slice(&fraction.to_ne_bytes());
        bytes
    };
    let new = wanted & NEW != 0;
    if wanted & NANOS != 0 {
        let name = if new { SO_TIMESTAMPNS_NEW } else { libc::SO_TIMESTAMPNS };
        out.put(libc::SOL_SOCKET, name, &words(nanos));
    } else if wanted & MICROS != 0 {
        let name = if new { SO_TIMESTAMP_NEW } else { libc::SO_TIMESTAMP };
        out.put(libc::SOL_SOCKET, name, &words(nanos / 1000));
    }
    if wanted & TIMESTAMPING != 0 {
        let mut three = [0u8; 48];
        three[..16].copy_from_slice(&words(nanos));
        out.put(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &three);
    }
}

/// What sendmsg asks for one datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// IP_PKTINFO: the source address.
    pub source: Option<Ipv4Addr>,
    /// IP_PKTINFO: the interface to leave by; 0: by the route.
    pub link: u32,
    /// IP_TTL.
    pub ttl: Option<u8>,
    /// IP_TOS.
    pub tos: Option<u8>,
}

/// Reads the control messages of a send; `None`: something that only the kernel can do, or judge.
///
/// # Safety
/// `message` is the application's, valid as sendmsg demands.
pub(crate) unsafe fn read(message: &msghdr) -> Option<Asked> {
    let mut asked = Asked::default();
    if !message::plausible(message.msg_control, message.msg_controllen) {
        return None;
    }
    // SAFETY: the macros stay within the control buffer.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !next.is_null() {
        // SAFETY: a whole header is there.
        let header = unsafe { next.read_unaligned() };
        let len = (header.cmsg_len as usize).checked_sub(size_of::<cmsghdr>())?;
        // SAFETY: CMSG_DATA follows the header.
        let data = unsafe { libc::CMSG_DATA(next) };
        // SAFETY: arithmetic within the control buffer.
        let offset = unsafe { data.offset_from(message.msg_control.cast()) } as usize;
        if offset + len > message.msg_controllen {
            return None;
        }
        // SAFETY: checked just now.
        let bytes = unsafe { core::slice::from_raw_parts(data, len) };
        let word = || match bytes {
            [byte] => Some(i32::from(*byte)),
            _ => bytes.try_into().ok().map(i32::from_ne_bytes),
        };
        match (header.cmsg_level, header.cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) if len == 12 => {
                asked.link = u32::from_ne_bytes(bytes[..4].try_into().ok()?);
                let source: [u8; 4] = bytes[4..8].try_into().ok()?;
                asked.source = Some(Ipv4Addr::from(source)).filter(|source| !source.is_unspecified());
            }
            (libc::IPPROTO_IP, libc::IP_TTL) => {
                asked.ttl = Some(word().filter(|ttl| (1..=255).contains(ttl))? as u8);
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => {
                asked.tos = Some(word().filter(|tos| (0..=255).contains(tos))? as u8);
            }
            _ => return None,
        }
        // SAFETY: as above.
        next = unsafe { libc::CMSG_NXTHDR(message, next) };
    }
    Some(asked)
}

/// The local address that a datagram came to, for IP_PKTINFO's `ipi_spec_dst`: of a group, the interface's.
pub(crate) fn specific(to: SocketAddrV4, addresses: &[Ipv4Addr]) -> Ipv4Addr {
    if addresses.contains(to.ip()) { *to.ip() } else { addresses.first().copied().unwrap_or(*to.ip()) }
}
