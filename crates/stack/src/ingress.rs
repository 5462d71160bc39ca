//! `on_frame`: from a frame to the transport it is for. Each check stands in the order of the layers; what fails one
//! is counted and dropped without an answer.

use crate::mutation::planted;
use crate::reassembly::Place;
use crate::{Frame, Instant, MacAddr, Outlet, Stack, icmp, tcp, udp};
use core::net::Ipv4Addr;
use core::ops::Range;
use wire::checksum::Sum;
use wire::{ethernet, ipv4};

/// What the headers below a transport's said, checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpMeta {
    pub(crate) src: Ipv4Addr,
    pub(crate) dst: Ipv4Addr,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) protocol: u8,
    /// Hardware address that it came from: where a stateless answer goes.
    pub(crate) from_mac: MacAddr,
    /// It came to all stations or a group of them.
    pub(crate) to_group: bool,
    /// Bytes of IP payload, in head and tail together.
    pub(crate) len: usize,
}

/// Packets that went no further, by the reason. Each packet counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Not an untagged IPv4 frame for this station.
    pub ethernet: u64,
    /// Malformed IP header or lengths.
    pub ip_header: u64,
    /// A source that cannot be one, or this host's own.
    pub martian: u64,
    /// Not for an address of this host.
    pub not_ours: u64,
    /// Wrong IP or transport checksum.
    pub checksum: u64,
    /// Malformed transport header.
    pub transport: u64,
    /// Fragments refused, or of datagrams never completed.
    pub fragments: u64,
    /// No socket for it.
    pub no_socket: u64,
}

/// Why a packet goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drop {
    Ethernet,
    IpHeader,
    Martian,
    NotOurs,
    Checksum,
    Transport,
    Fragments,
    NoSocket,
}

impl Dropped {
    pub(crate) fn count(&mut self, why: Drop) {
        let counter = match why {
            Drop::Ethernet => &mut self.ethernet,
            Drop::IpHeader => &mut self.ip_header,
            Drop::Martian => &mut self.martian,
            Drop::NotOurs => &mut self.not_ours,
            Drop::Checksum => &mut self.checksum,
            Drop::Transport => &mut self.transport,
            Drop::Fragments => &mut self.fragments,
            Drop::NoSocket => &mut self.no_socket,
        };
        *counter += 1;
    }
}

impl<F: Frame> Stack<F> {
    /// A packet: `head` with all headers, `tail` with further payload (drained; usually empty).
    pub fn on_frame(&mut self, now: Instant, head: F, tail: &mut Vec<F>, out: &mut impl Outlet) {
        let now = self.reach(now);
        if let Err(why) = self.take_in(now, head, tail, out) {
            self.dropped.count(why);
        }
        tail.clear();
    }

    /// Ethernet and IP.
    #[inline]
    fn take_in(
        &mut self,
        now: Instant,
        head: F,
        tail: &mut Vec<F>,
        out: &mut impl Outlet,
    ) -> Result<(), Drop> {
        let bytes = head.bytes();
        let ether = ethernet::Header::parse(bytes).ok_or(Drop::Ethernet)?;
        let to_group = ether.dst.is_group();
        if ether.ethertype != ethernet::IPV4
            || ether.vlan.unwrap_or(0) != 0
            || ether.src.is_group()
            || !(to_group || ether.dst == self.net.mac())
        {
            return Err(Drop::Ethernet);
        }
        let packet = &bytes[ether.len..];
        let ip = ipv4::Header::parse(packet).ok_or(Drop::IpHeader)?;
        if !ip.checksum_is_valid() {
            return Err(Drop::Checksum);
        }
        if !ip.options_are_harmless() {
            return Err(Drop::IpHeader);
        }
        let total = ip.total_len();
        if tail.is_empty() {
            // Frames shorter than Ethernet's minimum are padded: what exceeds the packet is not ours to read.
            if total > packet.len() {
                return Err(Drop::IpHeader);
            }
        } else if total != packet.len() + tail.iter().map(|frame| frame.bytes().len()).sum::<usize>() {
            return Err(Drop::IpHeader);
        }
        let (src, dst) = (ip.src(), ip.dst());
        if !may_be_source(src) || self.net.is_local(src) {
            return Err(Drop::Martian);
        }
        let is_group = ip.protocol() == ipv4::UDP && is_for_group(dst, ether.dst);
        if !is_group && !self.net.is_local(dst) {
            return Err(Drop::NotOurs);
        }
        let meta = IpMeta {
            src,
            dst,
            tos: ip.tos(),
            ttl: ip.ttl(),
            protocol: ip.protocol(),
            from_mac: ether.src,
            to_group,
            len: total - ip.len(),
        };
        let range = ether.len + ip.len()..bytes.len().min(ether.len + total);
        if ip.is_fragment() {
            let place = Place::of(&ip);
            if !tail.is_empty() {
                return Err(Drop::Fragments);
            }
            return self.take_fragment(now, meta, place, head, range, out);
        }
        self.deliver(now, &meta, head, range, tail, out)
    }

    /// One whole IP payload, which begins at `range` of `head` and goes on in `tail`.
    #[inline]
    pub(crate) fn deliver(
        &mut self,
        now: Instant,
        meta: &IpMeta,
        head: F,
        range: Range<usize>,
        tail: &mut Vec<F>,
        out: &mut impl Outlet,
    ) -> Result<(), Drop> {
        match meta.protocol {
            ipv4::TCP if !meta.to_group => {
                self.verify(meta, &head.bytes()[range.clone()], tail, meta.len, TCP_CHECKSUM)?;
                tcp::input::on_segment(self, now, meta, head, range, tail, out);
                Ok(())
            }
            ipv4::UDP => udp::input::on_datagram(self, now, meta, head, range, tail),
            ipv4::ICMP if !meta.to_group => {
                icmp::on_message(self, now, meta, &head.bytes()[range], tail, out)
            }
            _ => Err(Drop::NotOurs),
        }
    }

    /// Checks the checksum of `len` bytes of a transport, whose field is at `at`.
    #[inline]
    pub(crate) fn verify(
        &self,
        meta: &IpMeta,
        head: &[u8],
        tail: &[F],
        len: usize,
        at: usize,
    ) -> Result<(), Drop> {
        let field = head.get(at..at + 2).ok_or(Drop::Transport)?;
        let pseudo = Sum::pseudo(meta.src, meta.dst, meta.protocol, len);
        if self.accept_partial_checksum && field == pseudo.partial().to_be_bytes() {
            return Ok(());
        }
        if planted!(NoChecksum) || sum_of(pseudo, head, tail).is_valid() {
            Ok(())
        } else {
            Err(Drop::Checksum)
        }
    }
}

/// Adds a payload that is spread over frames.
#[inline]
pub(crate) fn sum_of<F: Frame>(start: Sum, head: &[u8], tail: &[F]) -> Sum {
    let mut sum = start.bytes(head);
    let mut offset = head.len();
    for frame in tail {
        sum = sum.bytes_at(offset, frame.bytes());
        offset += frame.bytes().len();
    }
    sum
}

/// Whether a packet from the wire can come from this address (RFC 1122, 3.2.1.3; RFC 6890).
#[inline]
fn may_be_source(address: Ipv4Addr) -> bool {
    // 0/8, 127/8, and from 224/4 up to the limited broadcast address.
    !matches!(address.octets()[0], 0 | 127 | 224..)
}

/// Whether a packet that is not for an address of ours is a multicast, or a broadcast. Which broadcast addresses the
/// link has only routing knows: what came to all stations is taken for one, if it can be one of any network (no
/// network has fewer than two host bits, all ones).
#[inline]
fn is_for_group(dst: Ipv4Addr, mac: MacAddr) -> bool {
    if dst.is_multicast() {
        return mac.is_group();
    }
    mac == MacAddr::BROADCAST && (dst.is_broadcast() || may_be_source(dst) && dst.octets()[3] & 3 == 3)
}

/// Where TCP's header has its checksum.
const TCP_CHECKSUM: usize = 16;

#[cfg(test)]
mod tests;
