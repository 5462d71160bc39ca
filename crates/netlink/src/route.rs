//! Where the kernel would send a packet.

use core::net::Ipv4Addr;

use crate::Netlink;
use crate::message::{Attributes, Message, NLM_F_ACK, Request, ipv4, u32_at};

pub(crate) const RTM_NEWROUTE: u16 = 24;
pub(crate) const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
/// Bytes of struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type, flags (u32).
const HEADER: usize = 12;

const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_MARK: u16 = 16;
/// A gateway of another family (IPv4 by way of an IPv6 neighbour).
const RTA_VIA: u16 = 18;
const RTAX_MTU: u16 = 2;

/// What a route does with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// Sends them out.
    Unicast,
    /// Delivers them on this host.
    Local,
    /// Sends them to all on a network.
    Broadcast,
    /// Sends them to a group.
    Multicast,
    /// Refuses them.
    Unreachable,
}

/// The kernel's answer for one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// What is done.
    pub kind: RouteKind,
    /// The interface that packets leave by (the loopback for [`RouteKind::Local`]).
    pub link: u32,
    /// The next hop; `None`: the destination itself.
    pub gateway: Option<Ipv4Addr>,
    /// The source address that the kernel would choose.
    pub source: Option<Ipv4Addr>,
    /// The MTU of the route, or of the path as far as the kernel learned it, where it is not the interface's.
    pub mtu: Option<u32>,
}

/// What the choice of a route may depend on besides the destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RouteQuery {
    /// The address that the socket is bound to.
    pub source: Option<Ipv4Addr>,
    /// The interface that the socket is bound to (SO_BINDTODEVICE, IP_UNICAST_IF, IP_MULTICAST_IF).
    pub link: Option<u32>,
    /// SO_MARK.
    pub mark: u32,
    /// IP_TOS.
    pub tos: u8,
}

impl Netlink {
    /// How the kernel would route to `to` (policy rules included). `Err(errno)` as connect(2) would fail; a next hop
    /// that is not IPv4 is EAFNOSUPPORT.
    pub fn route(&mut self, to: Ipv4Addr, query: RouteQuery) -> Result<Route, i32> {
        let source_bits = if query.source.is_some() { 32 } else { 0 };
        let header = [libc::AF_INET as u8, 32, source_bits, query.tos & 0x1c, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut request = Request::new(RTM_GETROUTE, NLM_F_ACK, &header).attribute(RTA_DST, &to.octets());
        if let Some(source) = query.source {
            request = request.attribute(RTA_SRC, &source.octets());
        }
        if let Some(link) = query.link {
            request = request.attribute(RTA_OIF, &link.to_ne_bytes());
        }
        if query.mark != 0 {
            request = request.attribute(RTA_MARK, &query.mark.to_ne_bytes());
        }
        let mut route = Err(libc::ENETUNREACH);
        self.ask(&mut request, |message| {
            if message.kind == RTM_NEWROUTE {
                route = Route::parse(message);
            }
        })?;
        route
    }
}

impl Route {
    pub(crate) fn parse(message: &Message<'_>) -> Result<Route, i32> {
        let kind = match message.body.get(7) {
            Some(1) => RouteKind::Unicast,
            Some(2) => RouteKind::Local,
            Some(3) => RouteKind::Broadcast,
            Some(5) => RouteKind::Multicast,
            _ => RouteKind::Unreachable,
        };
        let attributes = message.attributes(HEADER);
        if attributes.find(RTA_VIA).is_some() {
            return Err(libc::EAFNOSUPPORT);
        }
        let metrics = Attributes(attributes.find(RTA_METRICS).unwrap_or_default());
        Ok(Route {
            kind,
            link: attributes.find(RTA_OIF).and_then(|value| u32_at(value, 0)).unwrap_or(0),
            gateway: attributes.find(RTA_GATEWAY).and_then(ipv4),
            source: attributes.find(RTA_PREFSRC).and_then(ipv4),
            mtu: metrics.find(RTAX_MTU).and_then(|value| u32_at(value, 0)),
        })
    }
}
