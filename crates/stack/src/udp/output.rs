//! Sending datagrams: whole, in fragments, or held until the path is known.

use super::MtuDiscover;
use super::input::fail;
use crate::mutation::planted;
use crate::net::{Held, Hop, Ip, Net, Route, Sent};
use crate::stack::Socket;
use crate::{Endpoint, Frame, Instant, Outlet, SendError, SocketError, SocketId, Source, Stack};
use core::net::Ipv4Addr;
use wire::checksum::Sum;
use wire::ipv4::{self, Fragment};
use wire::udp::{HEADER_LEN, Header, PAYLOAD_MAX, checksum_field};

impl<F: Frame> Stack<F> {
    /// Sends one datagram of all remaining bytes, fragmented if it must and may. `from` overrides the source address.
    /// A destination without port means the peer of a connected socket. As on Linux, a datagram that waits for its
    /// neighbour, or whose neighbour does not answer, counts as sent.
    #[inline]
    pub fn udp_send(
        &mut self,
        now: Instant,
        id: SocketId,
        from: Option<Ipv4Addr>,
        to: Endpoint,
        data: &mut impl Source,
        out: &mut impl Outlet,
    ) -> Result<usize, SendError> {
        self.udp_send_or_rehearse::<false>(now, id, from, to, data, out)
    }

    /// Writes the packet that `udp_send` would send to an outlet that sends nothing, and nothing remembers it.
    /// `WouldBlock`: it would not go at once and whole.
    pub fn udp_rehearse(
        &mut self,
        now: Instant,
        id: SocketId,
        from: Option<Ipv4Addr>,
        to: Endpoint,
        data: &mut impl Source,
        out: &mut impl Outlet,
    ) -> Result<usize, SendError> {
        self.udp_send_or_rehearse::<true>(now, id, from, to, data, out)
    }

    #[inline]
    fn udp_send_or_rehearse<const REHEARSE: bool>(
        &mut self,
        now: Instant,
        id: SocketId,
        from: Option<Ipv4Addr>,
        to: Endpoint,
        data: &mut impl Source,
        out: &mut impl Outlet,
    ) -> Result<usize, SendError> {
        let now = self.reach(now);
        let Some(Socket::Udp(udp)) = self.sockets.get_mut(id) else { return Err(SendError::NoSocket) };
        // As the kernel: what cannot be sent in any case leaves the pending error alone.
        let len = data.remaining();
        if len > PAYLOAD_MAX {
            return Err(SendError::Failed(SocketError::MessageTooBig));
        }
        if !REHEARSE && let Some(error) = udp.error.take() {
            return Err(SendError::Failed(error));
        }
        let to = if to.port() != 0 { to } else { udp.remote.ok_or(SendError::NotConnected)? };
        let to = match udp.route.to() {
            before if planted!(Misaddressed) && !before.is_unspecified() => Endpoint::new(before, to.port()),
            _ => to,
        };
        let src = from.unwrap_or(*udp.local.ip());
        let src = if src.is_unspecified() || src.is_multicast() {
            self.net.source_for(*to.ip()).ok_or(SendError::Failed(SocketError::NetUnreachable))?
        } else {
            src
        };
        let query = udp.way(src, to);
        if udp.route.query != query {
            udp.route = Route::new(query);
        }
        let options = &udp.options;
        let ip = Ip {
            src,
            protocol: ipv4::UDP,
            tos: options.tos,
            ttl: if to.ip().is_multicast() { options.multicast_ttl } else { options.ttl },
            dont_fragment: options.mtu_discover != MtuDiscover::Dont,
        };
        let ports = (udp.local.port(), to.port());
        let total = HEADER_LEN + len;
        if let Ok(hop) = self.net.hop(now, &mut udp.route)
            && !hop.elsewhere
            && ipv4::HEADER_LEN + total <= hop.mtu as usize
        {
            let (fragment, ident) = match udp.options.mtu_discover {
                MtuDiscover::Do | MtuDiscover::Probe => (Fragment::DONT, 0),
                MtuDiscover::Dont | MtuDiscover::Want => self.net.whole(&hop, &ip),
            };
            let fill = |into: &mut [u8]| write_datagram(into, &ip, *to.ip(), ports, data);
            if self.net.emit(&hop, *to.ip(), &ip, ident, fragment, total, out, fill) {
                return Ok(len);
            }
            if !REHEARSE {
                self.net.waiting.for_outlet(id);
            }
            return Err(SendError::WouldBlock);
        }
        if REHEARSE {
            return Err(SendError::WouldBlock);
        }
        self.udp_send_slowly(now, id, &ip, ports, data, out)
    }

    /// A datagram that is larger than its path, or whose path is not known, not there or another interface's.
    #[cold]
    fn udp_send_slowly(
        &mut self,
        now: Instant,
        id: SocketId,
        ip: &Ip,
        ports: (u16, u16),
        data: &mut impl Source,
        out: &mut impl Outlet,
    ) -> Result<usize, SendError> {
        let Some(Socket::Udp(udp)) = self.sockets.get_mut(id) else { return Err(SendError::NoSocket) };
        let len = data.remaining();
        let (hop, path_mtu) = match self.net.hop(now, &mut udp.route) {
            Ok(hop) if hop.elsewhere => return Err(SendError::Elsewhere),
            Ok(hop) => (Some(hop), hop.mtu),
            Err(Sent::Unreachable(why)) => {
                if why != SocketError::HostUnreachable || !self.net.has_path(&udp.route) {
                    return Err(SendError::Failed(why));
                }
                fail(self, id, why);
                return Ok(len);
            }
            Err(_) => (None, self.net.path_mtu(now, &mut udp.route)),
        };
        let discover = udp.options.mtu_discover;
        let mtu = if discover == MtuDiscover::Probe { self.net.mtu() } else { path_mtu } as usize;
        let total = HEADER_LEN + len;
        if ipv4::HEADER_LEN + total > mtu && matches!(discover, MtuDiscover::Do | MtuDiscover::Probe) {
            return Err(SendError::Failed(SocketError::MessageTooBig));
        }
        if hop.is_some() && out.reserve(mtu + crate::net::LINK_LEN).is_none() {
            self.net.waiting.for_outlet(id);
            return Err(SendError::WouldBlock);
        }
        // The checksum in the first fragment covers all of them: the datagram is put together first.
        self.assembled.clear();
        self.assembled.resize(total, 0);
        write_datagram(&mut self.assembled, ip, udp.route.to(), ports, data);
        in_fragments(&mut self.net, id, &mut udp.route, ip, hop, mtu, &self.assembled, out);
        Ok(len)
    }
}

/// Sends or holds a datagram in packets of at most `mtu` bytes.
#[cold]
#[allow(clippy::too_many_arguments)]
fn in_fragments(
    net: &mut Net,
    id: SocketId,
    route: &mut Route,
    ip: &Ip,
    hop: Option<Hop>,
    mtu: usize,
    datagram: &[u8],
    out: &mut impl Outlet,
) {
    let dst = route.to();
    let whole = ipv4::HEADER_LEN + datagram.len() <= mtu;
    let step = if whole { datagram.len() } else { (mtu - ipv4::HEADER_LEN) & !7 };
    let ident = net.ident_to(route);
    let mut full = false;
    for (index, part) in datagram.chunks(step).enumerate() {
        let offset = index * step;
        let fragment = match (whole, ip.dont_fragment) {
            (true, true) => Fragment::DONT,
            (true, false) => Fragment::WHOLE,
            (false, _) => Fragment::part(offset, offset + part.len() < datagram.len()),
        };
        if let Some(hop) = hop
            && !full
        {
            full =
                !net.emit(&hop, dst, ip, ident, fragment, part.len(), out, |into| into.copy_from_slice(part));
            if !full {
                continue;
            }
        }
        // The rest of a datagram that filled the outlet follows with `flush`: without it the beginning was in vain.
        let fields = ipv4::Fields {
            src: ip.src,
            dst,
            protocol: ip.protocol,
            tos: ip.tos,
            ttl: ip.ttl,
            ident,
            fragment,
            payload_len: part.len(),
        };
        net.hold(route, Held { id, packet: [&fields.emit(), part].concat() });
    }
    if full {
        net.stall(route.query);
    }
}

/// Writes header and payload.
#[inline]
fn write_datagram(into: &mut [u8], ip: &Ip, dst: Ipv4Addr, ports: (u16, u16), data: &mut impl Source) {
    let len = into.len();
    let (header, payload) = into.split_at_mut(HEADER_LEN);
    data.copy_to(payload);
    let mut fields = Header { src: ports.0, dst: ports.1, len, checksum: 0 };
    let sum = Sum::pseudo(ip.src, dst, ipv4::UDP, len).bytes(&fields.emit()).bytes(payload).finish();
    fields.checksum = checksum_field(sum);
    header.copy_from_slice(&fields.emit());
}
