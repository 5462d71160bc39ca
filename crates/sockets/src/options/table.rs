//! Every socket option that is known, and what it means for an accelerated socket.
//!
//! The kernel's shadow judges each value first, so that errors are the kernel's own. A socket with an option that is
//! not here is the kernel's (VMA_EXCEPTION_HANDLING): it may be a guard that strangers must not get past.

use libc::c_int;

/// What setting an option does beside setting it on the shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Set {
    /// Nothing more is needed: the shadow does it (ports, addresses), or it says how the kernel should treat packets
    /// that do not go through it.
    Shadow,
    /// The engine's socket takes it over.
    Engine,
    /// The socket layer does.
    Layer,
    /// Only the kernel can: the socket is left to it, if that is still possible, whenever the value is not zero.
    Kernel,
    /// It cannot be kept and a program must know: EOPNOTSUPP.
    Refused,
}

/// Who answers getsockopt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Get {
    /// The shadow: what was set, or what is the same for both.
    Shadow,
    /// The engine knows better, once there is an engine's socket.
    Engine,
}

/// One option.
pub(super) struct Row {
    pub level: c_int,
    pub name: c_int,
    pub set: Set,
    pub get: Get,
    /// Accepted sockets have it from their listener, as in Linux; replayed on their shadows.
    pub inherited: bool,
}

const fn row(level: c_int, name: c_int, set: Set) -> Row {
    Row { level, name, set, get: Get::Shadow, inherited: false }
}

impl Row {
    const fn inherited(self) -> Row {
        Row { inherited: true, ..self }
    }

    const fn told_by_engine(self) -> Row {
        Row { get: Get::Engine, ..self }
    }
}

/// What is known of an option.
pub(super) fn find(level: c_int, name: c_int) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.level == level && row.name == name)
}

/// Names that the libc crate does not have for every target (asm-generic/socket.h, linux/in.h, linux/tcp.h).
pub(super) const SO_RCVTIMEO_NEW: c_int = 66;
/// See `SO_RCVTIMEO_NEW`.
pub(super) const SO_SNDTIMEO_NEW: c_int = 67;
/// See `SO_RCVTIMEO_NEW`.
pub(super) const SO_BINDTOIFINDEX: c_int = 62;
const SO_BUSY_POLL_BUDGET: c_int = 70;
const SO_DETACH_REUSEPORT_BPF: c_int = 68;
const SO_RESERVE_MEM: c_int = 73;
const SO_TXREHASH: c_int = 74;
const SO_CNX_ADVICE: c_int = 53;
const IP_RECVERR_RFC4884: c_int = 26;
const IP_LOCAL_PORT_RANGE: c_int = 51;
const IPV6_AUTOFLOWLABEL: c_int = 70;
const IPV6_ADDR_PREFERENCES: c_int = 72;
const TCP_FASTOPEN_KEY: c_int = 33;
const TCP_FASTOPEN_NO_COOKIE: c_int = 34;
const TCP_MD5SIG_EXT: c_int = 32;
const TCP_INQ: c_int = 36;
const TCP_THIN_DUPACK: c_int = 17;
const UDP_ENCAP: c_int = 100;

use Set::{Engine, Kernel, Layer, Refused, Shadow};
use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, IPPROTO_UDP, SOL_SOCKET};
use sys::linux::{SO_BUF_LOCK, SO_TIMESTAMP_NEW, SO_TIMESTAMPING_NEW, SO_TIMESTAMPNS_NEW, TCP_NOTSENT_LOWAT};

/// See the module's page.
pub(super) const TABLE: &[Row] = &[
    row(SOL_SOCKET, libc::SO_ACCEPTCONN, Shadow),
    row(SOL_SOCKET, libc::SO_ATTACH_BPF, Kernel),
    row(SOL_SOCKET, libc::SO_ATTACH_FILTER, Kernel),
    row(SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, Kernel),
    row(SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_EBPF, Kernel),
    row(SOL_SOCKET, libc::SO_BINDTODEVICE, Layer),
    row(SOL_SOCKET, SO_BINDTOIFINDEX, Layer),
    row(SOL_SOCKET, libc::SO_BROADCAST, Shadow),
    row(SOL_SOCKET, SO_BUF_LOCK, Shadow),
    row(SOL_SOCKET, libc::SO_BUSY_POLL, Shadow),
    row(SOL_SOCKET, SO_BUSY_POLL_BUDGET, Shadow),
    row(SOL_SOCKET, SO_CNX_ADVICE, Shadow),
    row(SOL_SOCKET, libc::SO_COOKIE, Shadow),
    row(SOL_SOCKET, libc::SO_DEBUG, Shadow),
    row(SOL_SOCKET, libc::SO_DETACH_FILTER, Shadow),
    row(SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, Shadow),
    row(SOL_SOCKET, libc::SO_DOMAIN, Shadow),
    row(SOL_SOCKET, libc::SO_DONTROUTE, Kernel),
    row(SOL_SOCKET, libc::SO_ERROR, Shadow).told_by_engine(),
    row(SOL_SOCKET, libc::SO_INCOMING_CPU, Shadow),
    row(SOL_SOCKET, libc::SO_INCOMING_NAPI_ID, Shadow),
    row(SOL_SOCKET, libc::SO_KEEPALIVE, Engine).inherited(),
    row(SOL_SOCKET, libc::SO_LINGER, Layer).inherited(),
    row(SOL_SOCKET, libc::SO_LOCK_FILTER, Shadow),
    row(SOL_SOCKET, libc::SO_MARK, Kernel).inherited(),
    row(SOL_SOCKET, libc::SO_MAX_PACING_RATE, Layer).inherited(),
    row(SOL_SOCKET, libc::SO_MEMINFO, Shadow),
    row(SOL_SOCKET, libc::SO_NO_CHECK, Shadow),
    row(SOL_SOCKET, libc::SO_OOBINLINE, Engine).inherited(),
    row(SOL_SOCKET, libc::SO_PASSCRED, Shadow),
    row(SOL_SOCKET, libc::SO_PASSSEC, Shadow),
    row(SOL_SOCKET, libc::SO_PEEK_OFF, Layer).inherited().told_by_engine(),
    row(SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, Shadow),
    row(SOL_SOCKET, libc::SO_PRIORITY, Shadow),
    row(SOL_SOCKET, libc::SO_PROTOCOL, Shadow),
    row(SOL_SOCKET, libc::SO_RCVBUF, Engine).inherited(),
    row(SOL_SOCKET, libc::SO_RCVBUFFORCE, Engine).inherited(),
    row(SOL_SOCKET, libc::SO_RCVLOWAT, Engine).inherited(),
    row(SOL_SOCKET, libc::SO_RCVTIMEO, Layer).inherited(),
    row(SOL_SOCKET, SO_RCVTIMEO_NEW, Layer).inherited(),
    row(SOL_SOCKET, SO_RESERVE_MEM, Shadow),
    row(SOL_SOCKET, libc::SO_REUSEADDR, Shadow).inherited(),
    row(SOL_SOCKET, libc::SO_REUSEPORT, Shadow).inherited(),
    row(SOL_SOCKET, libc::SO_RXQ_OVFL, Layer),
    row(SOL_SOCKET, libc::SO_SELECT_ERR_QUEUE, Shadow),
    row(SOL_SOCKET, libc::SO_SNDBUF, Engine).inherited(),
    row(SOL_SOCKET, libc::SO_SNDBUFFORCE, Engine).inherited(),
    row(SOL_SOCKET, libc::SO_SNDLOWAT, Shadow),
    row(SOL_SOCKET, libc::SO_SNDTIMEO, Layer).inherited(),
    row(SOL_SOCKET, SO_SNDTIMEO_NEW, Layer).inherited(),
    row(SOL_SOCKET, libc::SO_TIMESTAMP, Layer),
    row(SOL_SOCKET, SO_TIMESTAMP_NEW, Layer),
    row(SOL_SOCKET, libc::SO_TIMESTAMPNS, Layer),
    row(SOL_SOCKET, SO_TIMESTAMPNS_NEW, Layer),
    row(SOL_SOCKET, libc::SO_TIMESTAMPING, Layer),
    row(SOL_SOCKET, SO_TIMESTAMPING_NEW, Layer),
    row(SOL_SOCKET, SO_TXREHASH, Shadow),
    row(SOL_SOCKET, libc::SO_TYPE, Shadow),
    row(SOL_SOCKET, libc::SO_ZEROCOPY, Refused),
    row(IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, Layer),
    row(IPPROTO_IP, libc::IP_ADD_SOURCE_MEMBERSHIP, Layer),
    row(IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, Shadow),
    row(IPPROTO_IP, libc::IP_BLOCK_SOURCE, Layer),
    row(IPPROTO_IP, libc::IP_DROP_MEMBERSHIP, Layer),
    row(IPPROTO_IP, libc::IP_DROP_SOURCE_MEMBERSHIP, Layer),
    row(IPPROTO_IP, libc::IP_FREEBIND, Shadow),
    row(IPPROTO_IP, libc::IP_IPSEC_POLICY, Kernel),
    row(IPPROTO_IP, IP_LOCAL_PORT_RANGE, Shadow),
    row(IPPROTO_IP, libc::IP_MINTTL, Kernel),
    row(IPPROTO_IP, libc::IP_MTU, Shadow).told_by_engine(),
    row(IPPROTO_IP, libc::IP_MTU_DISCOVER, Engine),
    row(IPPROTO_IP, libc::IP_MULTICAST_ALL, Layer),
    row(IPPROTO_IP, libc::IP_MULTICAST_IF, Layer),
    row(IPPROTO_IP, libc::IP_MULTICAST_LOOP, Layer),
    row(IPPROTO_IP, libc::IP_MULTICAST_TTL, Engine),
    row(IPPROTO_IP, libc::IP_OPTIONS, Kernel),
    row(IPPROTO_IP, libc::IP_PKTINFO, Layer),
    row(IPPROTO_IP, libc::IP_RECVERR, Layer),
    row(IPPROTO_IP, IP_RECVERR_RFC4884, Shadow),
    row(IPPROTO_IP, libc::IP_RECVORIGDSTADDR, Layer),
    row(IPPROTO_IP, libc::IP_RECVTOS, Layer),
    row(IPPROTO_IP, libc::IP_RECVTTL, Layer),
    row(IPPROTO_IP, libc::IP_TOS, Engine).inherited(),
    row(IPPROTO_IP, libc::IP_TRANSPARENT, Kernel),
    row(IPPROTO_IP, libc::IP_TTL, Engine).inherited(),
    row(IPPROTO_IP, libc::IP_UNBLOCK_SOURCE, Layer),
    row(IPPROTO_IP, libc::IP_UNICAST_IF, Kernel),
    row(IPPROTO_IP, libc::IP_XFRM_POLICY, Kernel),
    // Of an AF_INET6 socket: they concern its connections over IPv6, which are the kernel's.
    row(IPPROTO_IPV6, IPV6_ADDR_PREFERENCES, Shadow),
    row(IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, Shadow),
    row(IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, Shadow),
    row(IPPROTO_IPV6, libc::IPV6_TCLASS, Shadow),
    row(IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, Shadow),
    row(IPPROTO_IPV6, libc::IPV6_V6ONLY, Shadow),
    row(IPPROTO_TCP, libc::TCP_CONGESTION, Engine).inherited().told_by_engine(),
    row(IPPROTO_TCP, libc::TCP_CORK, Engine),
    row(IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, Shadow),
    row(IPPROTO_TCP, libc::TCP_FASTOPEN, Shadow),
    row(IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, Shadow),
    row(IPPROTO_TCP, libc::TCP_INFO, Shadow).told_by_engine(),
    row(IPPROTO_TCP, TCP_FASTOPEN_KEY, Shadow),
    row(IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, Shadow),
    row(IPPROTO_TCP, TCP_INQ, Refused),
    row(IPPROTO_TCP, libc::TCP_KEEPCNT, Engine).inherited(),
    row(IPPROTO_TCP, libc::TCP_KEEPIDLE, Engine).inherited(),
    row(IPPROTO_TCP, libc::TCP_KEEPINTVL, Engine).inherited(),
    row(IPPROTO_TCP, libc::TCP_LINGER2, Engine).inherited(),
    row(IPPROTO_TCP, libc::TCP_MAXSEG, Engine).inherited().told_by_engine(),
    row(IPPROTO_TCP, libc::TCP_MD5SIG, Kernel),
    row(IPPROTO_TCP, TCP_MD5SIG_EXT, Kernel),
    row(IPPROTO_TCP, libc::TCP_NODELAY, Engine).inherited(),
    row(IPPROTO_TCP, TCP_NOTSENT_LOWAT, Engine).inherited(),
    row(IPPROTO_TCP, libc::TCP_QUICKACK, Engine),
    row(IPPROTO_TCP, libc::TCP_SYNCNT, Engine).inherited(),
    row(IPPROTO_TCP, TCP_THIN_DUPACK, Shadow),
    row(IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS, Shadow),
    row(IPPROTO_TCP, libc::TCP_USER_TIMEOUT, Engine).inherited(),
    row(IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, Engine).inherited(),
    row(IPPROTO_UDP, libc::UDP_CORK, Layer),
    row(IPPROTO_UDP, UDP_ENCAP, Kernel),
    row(IPPROTO_UDP, libc::UDP_GRO, Kernel),
    row(IPPROTO_UDP, libc::UDP_SEGMENT, Layer),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_stands_once() {
        for (i, row) in TABLE.iter().enumerate() {
            let twin = TABLE[i + 1..].iter().any(|other| (other.level, other.name) == (row.level, row.name));
            assert!(!twin, "level {} name {}", row.level, row.name);
        }
    }

    #[test]
    fn what_is_refused_or_left_is_not_inherited_but_for_the_mark() {
        let odd = |row: &&Row| row.inherited && matches!(row.set, Set::Kernel | Set::Refused);
        assert_eq!(TABLE.iter().filter(odd).count(), 1);
    }
}
