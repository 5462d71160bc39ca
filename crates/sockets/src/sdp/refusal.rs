//! Where a rule says `sdp`, who does not speak it is refused.
//!
//! A client sees by the listener's sign ([`memory::sign`](::memory::sign)), before it connects, whether SDP is spoken
//! there. A listener that takes in nobody else says so by its sign; a client that means to speak SDP then offers the
//! meeting place before it connects, so that it is there when the connection is accepted, or never will be.

use super::reason;
use crate::answer::Why;
use crate::counts;
use crate::fd_table;
use crate::memory;
use crate::object::Object;
use crate::runtime::Runtime;
use ::memory::Meeting;
use ::memory::sign::{Takes, is_up};
use config::sdp::{By, Wanted};
use core::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV4};
use stats::Verdict;
use sys::socket::End;

/// What connect(2) is to do.
pub enum Connects {
    /// Nothing of SDP's.
    Plainly,
    /// The connection may meet its other side; the place is offered already if that looks for it at once.
    AsSdp(Option<Meeting>),
    /// Fail with this errno: the peer does not speak SDP.
    Refused(i32),
}

fn end_of(address: SocketAddr) -> End {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    (ip.octets(), address.port())
}

/// Whether a socket that is connected, or is being, connects to this host: to loopback, or to the address that it has
/// itself.
pub(crate) fn is_within_host(fd: i32, to: SocketAddr) -> bool {
    let ip = to.ip().to_canonical();
    let own = || sys::socket::own_end(fd).map(|(address, _)| Ipv6Addr::from(address).to_canonical());
    ip.is_loopback() || ip.is_unspecified() || own() == Ok(ip)
}

/// Before connect(2) of a socket that is to speak SDP.
pub(crate) fn before_connect(
    runtime: &Runtime,
    fd: i32,
    to: SocketAddr,
    (wanted, by): (Wanted, By),
) -> Connects {
    let end = end_of(to);
    if is_up(end, Takes::SdpOnly) {
        return Connects::AsSdp(offer(fd, to));
    }
    if wanted != Wanted::Sdp || is_up(end, Takes::All) {
        return Connects::AsSdp(None);
    }
    let errno = if is_of_host(to) { libc::ECONNREFUSED } else { libc::ENETUNREACH };
    counts::segment().left_to_kernel(Why::SdpRefused);
    let (by, remedy) = (reason(runtime, by), Why::SdpRefused.remedy());
    match errno {
        libc::ECONNREFUSED => logger::warning!(
            "fd {fd}: connect to {to}: refused (ECONNREFUSED): sdp wanted ({by}), and nobody listens there who speaks it; \
             {remedy}"
        ),
        _ => logger::warning!(
            "fd {fd}: connect to {to}: refused (ENETUNREACH): sdp wanted ({by}), which reaches this host only"
        ),
    }
    Connects::Refused(errno)
}

/// Offers the meeting place of a connection that is to be made. The socket gets its own end for that.
fn offer(fd: i32, to: SocketAddr) -> Option<Meeting> {
    let (_, port) = sys::socket::own_end(fd).ok()?;
    if port == 0 {
        bind(fd, source_towards(to)?).ok()?;
    }
    let (address, port) = sys::socket::own_end(fd).ok()?;
    let own = match Ipv6Addr::from(address).to_canonical().is_unspecified() {
        true => source_towards(to)?,
        false => address,
    };
    Meeting::offer_between((own, port), end_of(to)).ok()
}

/// The address that the kernel gives a socket that connects to `to`.
fn source_towards(to: SocketAddr) -> Option<[u8; 16]> {
    let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let probe = sys::socket::socket(family, libc::SOCK_DGRAM, 0).ok()?;
    match to {
        SocketAddr::V4(to) => sys::socket::connect(probe.raw(), &crate::address::to_sockaddr(to)),
        SocketAddr::V6(to) => sys::socket::connect(probe.raw(), &sockaddr_in6(to.ip(), to.port())),
    }
    .ok()?;
    sys::socket::own_end(probe.raw()).ok().map(|(address, _)| address)
}

/// Whether an address is one of this host's: who talks to it does so from the same one, or over loopback.
fn is_of_host(to: SocketAddr) -> bool {
    let own = source_towards(to).map(|own| Ipv6Addr::from(own).to_canonical());
    let ip = to.ip().to_canonical();
    ip.is_loopback() || ip.is_unspecified() || own == Some(ip)
}

fn bind(fd: i32, address: [u8; 16]) -> sys::Result<()> {
    let domain = sys::socket::option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN, 0i32)?;
    let address = Ipv6Addr::from(address);
    match (domain, address.to_ipv4_mapped()) {
        (libc::AF_INET, Some(address)) => {
            sys::socket::bind(fd, &crate::address::to_sockaddr(SocketAddrV4::new(address, 0)))
        }
        _ => sys::socket::bind(fd, &sockaddr_in6(&address, 0)),
    }
}

fn sockaddr_in6(address: &Ipv6Addr, port: u16) -> libc::sockaddr_in6 {
    libc::sockaddr_in6 {
        sin6_family: libc::AF_INET6 as u16,
        sin6_port: port.to_be(),
        sin6_flowinfo: 0,
        sin6_addr: libc::in6_addr { s6_addr: address.octets() },
        sin6_scope_id: 0,
    }
}

/// A listener that takes in nobody but those who speak SDP accepted `fd`. False: it is none of them.
pub(crate) fn takes_in(runtime: &'static Runtime, object: &'static Object, fd: i32) -> bool {
    let Err(why) = memory::accepted_sdp(runtime, object, fd) else { return true };
    if fd_table::take_out(fd, object) {
        object.release();
    }
    counts::segment().left_to_kernel(Why::SdpRefused);
    let what = match why {
        Verdict::PeerOfOtherUser => "it is another user's process",
        Verdict::NoSegment => "this process has no memory, or no descriptors, for one more connection of SDP",
        Verdict::OptionOfTheKernel => "an option of the listener keeps its connections in the kernel",
        _ => "it does not speak SDP",
    };
    logger::warning!("fd {fd}: accepted, and reset: sdp wanted of who connects, and {what}");
    false
}
