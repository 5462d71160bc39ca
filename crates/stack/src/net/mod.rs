//! The interface: addresses, paths to destinations, neighbours, and the one way by which every transport sends.
//!
//! A destination leads to a path, a path to its next hop, a next hop to a hardware address. What is unknown is asked
//! of the owner once; until the answer comes, TCP sockets wait in the path's entry and are tried again, datagrams are
//! held there as packets.

mod cache;
mod neighbours;
mod paths;
mod waiting;

#[cfg(test)]
mod tests;

use crate::ingress::IpMeta;
use crate::{Config, Instant, Large, MacAddr, Outlet, Query, Request, SocketError, SocketId};
use ahash::RandomState;
use cache::Cache;
use core::net::Ipv4Addr;
use neighbours::Neighbour;
use paths::PathEntry;
use siphasher::sip::SipHasher13;
use std::collections::VecDeque;
use waiting::Waiting;
use wire::{ethernet, ipv4};

pub(crate) use paths::{Back, Held, Lowered};

/// Bytes before the IP packet of a frame that we send.
pub(crate) const LINK_LEN: usize = ethernet::HEADER_LEN;
/// Bytes before the IP payload of a frame that we send.
pub(crate) const HEADERS_LEN: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;

/// See the module's page.
pub(crate) struct Net {
    mac: MacAddr,
    mtu: u32,
    /// How often a path came to take more: who cuts by a path's MTU looks again.
    growths: u16,
    /// The interface's.
    addresses: Vec<Ipv4Addr>,
    /// All that this host has, in order.
    of_host: Vec<Ipv4Addr>,
    /// [`mark`] of all of those.
    marks: u64,
    paths: Cache<Query, PathEntry>,
    neighbours: Cache<Ipv4Addr, Neighbour>,
    pub(crate) requests: VecDeque<Request>,
    pub(crate) waiting: Waiting,
    /// Destinations whose held packets found the outlet full.
    stalled: Vec<Query>,
    held_bytes: usize,
    /// IP packets for the kernel to carry, or to receive, since their way is another interface's.
    for_kernel: VecDeque<Vec<u8>>,
    ident_key: SipHasher13,
    /// The device is gone: nothing is sent any more.
    pub(crate) abandoned: bool,
}

/// A way, and where its path was found last time. Kept by whoever sends there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) query: Query,
    hint: u32,
    /// `Net::growths` when the MTU was asked for.
    growths: u16,
}

impl Route {
    pub(crate) fn new(query: Query) -> Route {
        Route { query, hint: u32::MAX, growths: 0 }
    }

    pub(crate) fn to(&self) -> Ipv4Addr {
        self.query.to
    }
}

/// What the IP header of a packet to be sent says; its destination is the route's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ip {
    pub(crate) src: Ipv4Addr,
    pub(crate) protocol: u8,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) dont_fragment: bool,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// In the outlet.
    Done,
    /// The outlet is full; the socket is tried again by `flush`.
    Full,
    /// Path or neighbour are not known yet; the socket is tried again when they are.
    Waiting,
    /// There is no way.
    Unreachable(SocketError),
    /// Larger than the path's MTU, which this is (bytes of IP packet).
    TooBig(u32),
}

/// The last link of a path that is known to the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop {
    ether: [u8; ethernet::HEADER_LEN],
    /// Largest IP packet, bytes.
    pub(crate) mtu: u32,
    /// Routing would take another interface.
    pub(crate) elsewhere: bool,
    /// Routers may cut what is sent, whatever it asks for.
    may_cut: bool,
    /// Where the path's entry is.
    at: u32,
}

impl Net {
    /// An IP packet that the kernel is to have. Those that are too many are lost, as on the way.
    pub(crate) fn leave_to_kernel(&mut self, packet: Vec<u8>) {
        if self.for_kernel.len() < FOR_KERNEL_MAX {
            self.for_kernel.push_back(packet);
        }
    }

    pub(crate) fn take_for_kernel(&mut self) -> Option<Vec<u8>> {
        self.for_kernel.pop_front()
    }

    /// Bytes of packets that wait for an answer of the owner.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    pub(crate) fn new(config: &Config, hasher: &RandomState) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(&config.seed[16..]);
        Net {
            mac: config.mac,
            mtu: config.mtu.max(paths::IPV4_MTU_MIN),
            growths: 0,
            addresses: Vec::new(),
            of_host: Vec::new(),
            marks: 0,
            paths: Cache::new(PATHS_MAX, hasher.clone()),
            neighbours: Cache::new(NEIGHBOURS_MAX, hasher.clone()),
            requests: VecDeque::new(),
            waiting: Waiting::default(),
            stalled: Vec::new(),
            held_bytes: 0,
            for_kernel: VecDeque::new(),
            ident_key: SipHasher13::new_with_key(&key),
            abandoned: false,
        }
    }

    /// Whether packets to `address` are for this host, whichever of its interfaces has it.
    #[inline(always)]
    pub(crate) fn is_local(&self, address: Ipv4Addr) -> bool {
        // Each packet asks twice: most are from others, to the interface's first address.
        let others = || self.marks & mark(address) != 0 && self.of_host.binary_search(&address).is_ok();
        self.addresses.first() == Some(&address) || others()
    }

    pub(crate) fn mac(&self) -> MacAddr {
        self.mac
    }

    /// Whether some path has come to take more since [`Net::path_mtu`] was asked for this way: it may be this one. That
    /// is so seldom that the count does not come round.
    #[inline]
    pub(crate) fn may_take_more(&self, route: &Route) -> bool {
        route.growths != self.growths
    }

    /// The interface's MTU, bytes of IP packet.
    pub(crate) fn mtu(&self) -> u32 {
        self.mtu
    }

    pub(crate) fn set_addresses(&mut self, own: &[Ipv4Addr], elsewhere: &[Ipv4Addr]) {
        self.addresses.clear();
        self.addresses.extend_from_slice(own);
        self.of_host.clear();
        self.of_host.extend(own.iter().chain(elsewhere));
        self.of_host.sort_unstable();
        self.marks = self.of_host.iter().fold(0, |marks, address| marks | mark(*address));
    }

    /// The address that packets to `to` come from when nobody says: the one that shares the longest prefix.
    pub(crate) fn source_for(&self, to: Ipv4Addr) -> Option<Ipv4Addr> {
        let distance = |address: &&Ipv4Addr| address.to_bits() ^ to.to_bits();
        self.addresses.iter().min_by_key(distance).copied()
    }

    /// Sends one IP packet of `len` bytes of payload, which `fill` writes. Nothing is written unless it is sent.
    /// `id` is the socket that is tried again after `Full` and `Waiting`.
    #[inline]
    #[allow(clippy::too_many_arguments)] // the one way out: each argument is a fact about the packet
    pub(crate) fn send(
        &mut self,
        now: Instant,
        id: SocketId,
        route: &mut Route,
        ip: &Ip,
        len: usize,
        out: &mut impl Outlet,
        fill: impl FnOnce(&mut [u8]),
    ) -> Sent {
        let hop = match self.way(now, id, route) {
            Ok(hop) => hop,
            Err(why) => return why,
        };
        if ipv4::HEADER_LEN + len > hop.mtu as usize {
            return Sent::TooBig(hop.mtu);
        }
        let (fragment, ident) = self.whole(&hop, ip);
        if self.emit(&hop, route.to(), ip, ident, fragment, len, out, fill) {
            return Sent::Done;
        }
        self.waiting.for_outlet(id);
        Sent::Full
    }

    /// As [`Net::send`], a TCP packet that is cut on its way out; it may not be fragmented. `transport` is its header,
    /// for segments of `mss` bytes of payload.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn send_large(
        &mut self,
        now: Instant,
        id: SocketId,
        route: &mut Route,
        ip: &Ip,
        (transport, mss): (&[u8], usize),
        payload: &[&[u8]],
        out: &mut impl Outlet,
    ) -> Sent {
        let hop = match self.way(now, id, route) {
            Ok(hop) => hop,
            Err(why) => return why,
        };
        if ipv4::HEADER_LEN + transport.len() + mss > hop.mtu as usize {
            return Sent::TooBig(hop.mtu);
        }
        let fields = ipv4::Fields {
            src: ip.src,
            dst: route.to(),
            protocol: ip.protocol,
            tos: ip.tos,
            ttl: ip.ttl,
            ident: 0,
            fragment: ipv4::Fragment::DONT,
            payload_len: transport.len() + payload.iter().map(|piece| piece.len()).sum::<usize>(),
        };
        let mut headers = [0; HEADERS_LEN + wire::tcp::HEADER_LEN_MAX];
        headers[..ethernet::HEADER_LEN].copy_from_slice(&hop.ether);
        if let Some(ip) = headers[ethernet::HEADER_LEN..].first_chunk_mut() {
            fields.write(ip);
        }
        let end = HEADERS_LEN + transport.len();
        headers[HEADERS_LEN..end].copy_from_slice(transport);
        if out.send_large(&Large { headers: &headers[..end], transport: HEADERS_LEN, payload, mss }) {
            return Sent::Done;
        }
        self.waiting.for_outlet(id);
        Sent::Full
    }

    /// The way to a destination. `Err`: it is not known yet, and `id` is tried again when it is; or there is none.
    #[inline]
    pub(crate) fn way(&mut self, now: Instant, id: SocketId, route: &mut Route) -> Result<Hop, Sent> {
        self.hop(now, route).inspect_err(|why| {
            if *why == Sent::Waiting {
                self.wait_for_path(id, route);
            }
        })
    }

    /// Flags and identification of a packet that leaves whole. What cannot be fragmented needs no identification
    /// (RFC 6864, 4.1). Where a path takes less than is believed, nothing that leaves would arrive otherwise.
    #[inline]
    pub(crate) fn whole(&mut self, hop: &Hop, ip: &Ip) -> (ipv4::Fragment, u16) {
        if ip.dont_fragment && !hop.may_cut {
            (ipv4::Fragment::DONT, 0)
        } else {
            (ipv4::Fragment::WHOLE, self.next_ident(hop))
        }
    }

    /// Writes one packet or fragment to a known hop; `false`: the outlet is full.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn emit(
        &mut self,
        hop: &Hop,
        dst: Ipv4Addr,
        ip: &Ip,
        ident: u16,
        fragment: ipv4::Fragment,
        len: usize,
        out: &mut impl Outlet,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        write_packet(&hop.ether, dst, ip, ident, fragment, len, out, fill)
    }

    /// Answers a packet without a path: by the way it came (RST, SYN cookies, ICMP). `false`: the outlet is full.
    #[inline]
    pub(crate) fn reply(
        &mut self,
        to: &IpMeta,
        ip: &Ip,
        len: usize,
        out: &mut impl Outlet,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        if self.abandoned {
            return false;
        }
        let ether = ethernet::Header::ipv4(to.from_mac, self.mac);
        write_packet(&ether, to.src, ip, 0, ipv4::Fragment::DONT, len, out, fill)
    }
}

#[inline]
#[allow(clippy::too_many_arguments)]
fn write_packet(
    ether: &[u8; ethernet::HEADER_LEN],
    dst: Ipv4Addr,
    ip: &Ip,
    ident: u16,
    fragment: ipv4::Fragment,
    len: usize,
    out: &mut impl Outlet,
    fill: impl FnOnce(&mut [u8]),
) -> bool {
    let Some(frame) = out.reserve(HEADERS_LEN + len) else { return false };
    let fields = ipv4::Fields {
        src: ip.src,
        dst,
        protocol: ip.protocol,
        tos: ip.tos,
        ttl: ip.ttl,
        ident,
        fragment,
        payload_len: len,
    };
    let Some((headers, rest)) = frame.split_first_chunk_mut::<HEADERS_LEN>() else { return false };
    let Some((link, ip)) = headers.split_first_chunk_mut::<{ ethernet::HEADER_LEN }>() else { return false };
    *link = *ether;
    if let Some(ip) = ip.first_chunk_mut() {
        fields.write(ip);
    }
    fill(&mut rest[..len]);
    out.commit(HEADERS_LEN + len);
    true
}

/// One bit of 64 for an address (by Fibonacci hashing).
#[inline]
fn mark(address: Ipv4Addr) -> u64 {
    1 << (u32::from_ne_bytes(address.octets()).wrapping_mul(0x9E37_79B1) >> 26)
}

/// Packets for the kernel between two looks of the owner.
const FOR_KERNEL_MAX: usize = 256;
/// Ways remembered: more than a busy server's peers in a while, about 2 MiB.
const PATHS_MAX: usize = 16_384;
/// Next hops remembered, as Linux's gc_thresh3 by default (1024), four times.
const NEIGHBOURS_MAX: usize = 4_096;
