//! The path cache, what waits for its answers, and path MTUs learned from ICMP.

use super::neighbours::NeighbourState;
use super::{Hop, Net, Route, Sent};
use crate::{Duration, Instant, Path, Query, Request, SocketError, SocketId};
use core::hash::Hasher;
use core::net::Ipv4Addr;
use std::collections::VecDeque;
use wire::ethernet;

/// One way.
pub(super) struct PathEntry {
    state: PathState,
    next_hop: Ipv4Addr,
    /// Where the next hop's entry was last time.
    pub(super) hint: u32,
    /// What routing says, and what all limits together allow, bytes of IP packet.
    route_mtu: u32,
    mtu: u32,
    learned: Option<Learned>,
    /// Routing would take another interface.
    elsewhere: bool,
    /// Routes changed since the answer: serve, but ask again.
    stale: bool,
    ident: u16,
    /// Whether the neighbour's entry has us in its list.
    pub(super) listed: bool,
    pub(super) pending: Option<Box<Pending>>,
}

/// A limit learned from ICMP.
#[derive(Clone, Copy)]
struct Learned {
    mtu: u32,
    /// Until when it counts.
    until: Instant,
    /// The path takes less than is believed: routers are to cut what is sent (Linux's locked metric).
    may_cut: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PathState {
    Asked(Instant),
    Known,
    Failed(SocketError, Instant),
}

/// What waits for a path to be known to its end.
#[derive(Default)]
pub(super) struct Pending {
    waiters: Vec<SocketId>,
    held: VecDeque<Held>,
}

/// An IP packet that waits, and the socket that learns if it cannot leave.
pub(crate) struct Held {
    pub(crate) id: SocketId,
    pub(crate) packet: Vec<u8>,
}

/// What a router's word changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lowered {
    Nothing,
    /// The path's MTU.
    Mtu,
    /// Packets may be cut from now on; the MTU perhaps, too.
    MayCut,
}

/// By which way an answer goes to where a packet came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Back {
    /// By this interface, as it came.
    Here,
    /// By another one.
    Elsewhere,
    /// There is none.
    Nowhere,
    /// That is being asked.
    Unknown,
}

/// What a path's answer set free.
#[derive(Default)]
pub(crate) struct Released {
    /// TCP sockets to try again.
    pub(crate) waiters: Vec<SocketId>,
    /// Sockets of packets that could not leave, if `why` says so.
    pub(crate) failed: Vec<SocketId>,
    pub(crate) why: Option<SocketError>,
}

impl Net {
    /// The way to a destination, if it is known to the end; else asks for what is missing.
    #[inline(always)]
    pub(crate) fn hop(&mut self, now: Instant, route: &mut Route) -> Result<Hop, Sent> {
        if let Some(at) = self.paths.find(route.query, route.hint) {
            route.hint = at;
            let path = self.paths.at(at);
            if path.state == PathState::Known
                && path.learned.is_none()
                && !path.stale
                && let Some(neighbour) = self.neighbours.find(path.next_hop, path.hint)
            {
                path.hint = neighbour;
                if let NeighbourState::Known(ether) = self.neighbours.at(neighbour).state
                    && !self.abandoned
                {
                    return Ok(Hop { ether, mtu: path.mtu, elsewhere: path.elsewhere, may_cut: false, at });
                }
            }
        }
        self.slow_hop(now, route)
    }

    #[cold]
    fn slow_hop(&mut self, now: Instant, route: &mut Route) -> Result<Hop, Sent> {
        if self.abandoned {
            return Err(Sent::Unreachable(SocketError::Aborted));
        }
        let Some(at) = self.paths.find(route.query, route.hint) else {
            self.insert_path(route.query, PathState::Asked(now))
                .ok_or(Sent::Unreachable(SocketError::HostUnreachable))?;
            self.requests.push_back(Request::Path(route.query));
            return Err(Sent::Waiting);
        };
        route.hint = at;
        let path = self.paths.at(at);
        match path.state {
            PathState::Asked(since) if now < since + ASK_AGAIN => return Err(Sent::Waiting),
            PathState::Failed(why, until) if now < until => return Err(Sent::Unreachable(why)),
            PathState::Known if !path.stale => {}
            state => {
                path.stale = false;
                self.requests.push_back(Request::Path(route.query));
                if state != PathState::Known {
                    path.state = PathState::Asked(now);
                    return Err(Sent::Waiting);
                }
            }
        }
        path.forget_learned(now);
        let grows = path.limit(self.mtu);
        self.growths = self.growths.wrapping_add(grows);
        let (next_hop, mtu, elsewhere) = (path.next_hop, path.mtu, path.elsewhere);
        let may_cut = path.may_cut();
        let ether = self.neighbour(now, next_hop, at, route.query)?;
        Ok(Hop { ether, mtu, elsewhere, may_cut, at })
    }

    /// The largest IP packet on the way to a destination as far as is known, bytes.
    #[inline]
    pub(crate) fn path_mtu(&mut self, now: Instant, route: &mut Route) -> u32 {
        let Some(at) = self.paths.find(route.query, route.hint) else { return self.mtu };
        route.hint = at;
        let limit = self.mtu;
        let path = self.paths.at(at);
        if path.forget_learned(now) {
            self.growths = self.growths.wrapping_add(path.limit(limit));
        }
        route.growths = self.growths;
        path.mtu
    }

    /// A router says that packets of `query` must be no larger than `mtu`. The caller made sure that it quoted a packet
    /// of ours. No limit is believed below 552 bytes: what is sent there may be cut instead, as by Linux
    /// (net.ipv4.route.min_pmtu). It is forgotten after ten minutes (RFC 1191, 6.3).
    pub(crate) fn lower_mtu(&mut self, now: Instant, query: Query, mtu: u32) -> Lowered {
        let Some(at) = self.paths.find(query, u32::MAX) else { return Lowered::Nothing };
        let limit = self.mtu;
        let path = self.paths.at(at);
        let may_cut = mtu < PMTU_MIN && !path.may_cut();
        let believed = mtu.max(PMTU_MIN).min(path.mtu);
        if path.state != PathState::Known || (believed == path.mtu && !may_cut) {
            return Lowered::Nothing;
        }
        let lowered = if may_cut { Lowered::MayCut } else { Lowered::Mtu };
        let may_cut = may_cut || path.may_cut();
        path.learned = Some(Learned { mtu: believed, until: now + PMTU_LIFETIME, may_cut });
        path.limit(limit);
        lowered
    }

    /// Whether routers may cut what goes to a destination, though it asks for none of that.
    pub(crate) fn may_cut(&mut self, route: &Route) -> bool {
        let found = self.paths.find(route.query, route.hint);
        found.is_some_and(|at| self.paths.at(at).may_cut())
    }

    /// By which way answers go.
    pub(crate) fn back(&mut self, now: Instant, query: Query) -> Back {
        let Some(at) = self.paths.find(query, u32::MAX) else {
            if self.insert_path(query, PathState::Asked(now)).is_none() {
                return Back::Nowhere;
            }
            self.requests.push_back(Request::Path(query));
            return Back::Unknown;
        };
        let path = self.paths.at(at);
        match path.state {
            PathState::Known if !path.stale && path.elsewhere => return Back::Elsewhere,
            PathState::Known if !path.stale => return Back::Here,
            PathState::Asked(since) if now < since + ASK_AGAIN => return Back::Unknown,
            PathState::Failed(_, until) if now < until => return Back::Nowhere,
            PathState::Known => path.stale = false,
            PathState::Asked(_) | PathState::Failed(..) => path.state = PathState::Asked(now),
        }
        self.requests.push_back(Request::Path(query));
        Back::Unknown
    }

    /// Whether routing would send by another interface, as far as is known.
    pub(crate) fn is_elsewhere(&mut self, route: &Route) -> bool {
        let found = self.paths.find(route.query, route.hint);
        found.is_some_and(|at| self.paths.at(at).elsewhere)
    }

    /// Whether routing knows the way to a destination.
    pub(crate) fn has_path(&mut self, route: &Route) -> bool {
        match self.paths.find(route.query, route.hint) {
            Some(at) => self.paths.at(at).state == PathState::Known,
            None => false,
        }
    }

    /// As [`Net::next_ident`], for a path that may not be known to its end.
    pub(crate) fn ident_to(&mut self, route: &Route) -> u16 {
        let Some(at) = self.paths.find(route.query, route.hint) else { return 0 };
        let path = self.paths.at(at);
        path.ident = path.ident.wrapping_add(1);
        path.ident
    }

    /// Has `flush` send what is held for a way.
    pub(crate) fn stall(&mut self, query: Query) {
        self.stalled.push(query);
    }

    /// The identification of the next packet that may be fragmented: a counter per destination with a keyed start,
    /// so that no peer learns how much others are sent.
    #[inline]
    pub(crate) fn next_ident(&mut self, hop: &Hop) -> u16 {
        let path = self.paths.at(hop.at);
        path.ident = path.ident.wrapping_add(1);
        path.ident
    }

    /// Has a socket tried again when the path is known.
    pub(crate) fn wait_for_path(&mut self, id: SocketId, route: &Route) {
        if let Some(at) = self.paths.find(route.query, route.hint)
            && self.waiting.for_path(id)
        {
            self.paths.at(at).pending.get_or_insert_default().waiters.push(id);
        }
    }

    /// Keeps an IP packet until the path is known. When there is no room, the oldest of this path goes (as Linux's
    /// unres_qlen does); `false`: this one.
    pub(crate) fn hold(&mut self, route: &Route, held: Held) -> bool {
        let Some(at) = self.paths.find(route.query, route.hint) else { return false };
        let pending = self.paths.at(at).pending.get_or_insert_default();
        let len = held.packet.len();
        while pending.held.len() >= HELD_MAX || self.held_bytes + len > HELD_BYTES_MAX {
            let Some(oldest) = pending.held.pop_front() else { return false };
            self.held_bytes -= oldest.packet.len();
        }
        self.held_bytes += len;
        pending.held.push_back(held);
        true
    }

    /// Takes in what routing says about a destination.
    pub(crate) fn answer_path(&mut self, now: Instant, query: Query, answer: Result<Path, SocketError>) {
        let at = match self.paths.find(query, u32::MAX) {
            Some(at) => at,
            None => match self.insert_path(query, PathState::Asked(now)) {
                Some(at) => at,
                None => return,
            },
        };
        let limit = self.mtu;
        let path = self.paths.at(at);
        path.stale = false;
        match answer {
            Ok(answer) => {
                path.state = PathState::Known;
                if path.next_hop != answer.next_hop {
                    // The list of the former next hop may still name us: harmless, its answer tries us once more.
                    path.listed = false;
                }
                path.next_hop = answer.next_hop;
                path.elsewhere = answer.elsewhere;
                path.route_mtu = answer.mtu.max(IPV4_MTU_MIN);
                self.growths = self.growths.wrapping_add(path.limit(limit));
            }
            Err(why) => path.state = PathState::Failed(why, now + FAILURE_LASTS),
        }
    }

    /// Sends what a path held if it is known now; what else waited is the caller's to try. Nothing is released as
    /// long as the path is not known to its end.
    pub(crate) fn release(&mut self, now: Instant, query: Query, out: &mut impl crate::Outlet) -> Released {
        let mut route = Route::new(query);
        let Some(at) = self.paths.find(query, u32::MAX) else { return Released::default() };
        let Some(mut pending) = self.paths.at(at).pending.take() else { return Released::default() };
        let mut released = Released::default();
        let mtu = self.mtu as usize;
        match self.hop(now, &mut route) {
            Ok(hop) => {
                if hop.elsewhere {
                    for held in pending.held.drain(..) {
                        self.held_bytes -= held.packet.len();
                        self.leave_to_kernel(held.packet);
                    }
                }
                while let Some(held) = pending.held.pop_front() {
                    if held.packet.len() > mtu {
                        // The interface takes less by now than when it was written: as if lost on the way.
                        self.held_bytes -= held.packet.len();
                        continue;
                    }
                    let len = ethernet::HEADER_LEN + held.packet.len();
                    let Some(frame) = out.reserve(len) else {
                        pending.held.push_front(held);
                        break;
                    };
                    frame[..ethernet::HEADER_LEN].copy_from_slice(&hop.ether);
                    frame[ethernet::HEADER_LEN..len].copy_from_slice(&held.packet);
                    out.commit(len);
                    self.held_bytes -= held.packet.len();
                }
                released.waiters = core::mem::take(&mut pending.waiters);
                if !pending.held.is_empty() {
                    self.stalled.push(query);
                    self.paths.at(at).pending = Some(pending);
                }
            }
            Err(Sent::Unreachable(why)) => {
                self.held_bytes -= pending.held.iter().map(|held| held.packet.len()).sum::<usize>();
                released.why = Some(why);
                released.failed = pending.held.into_iter().map(|held| held.id).collect();
                released.waiters = pending.waiters;
            }
            Err(_) => self.paths.at(at).pending = Some(pending),
        }
        for id in &released.waiters {
            self.waiting.clear_path(*id);
        }
        released
    }

    /// Ways whose held packets found the outlet full.
    pub(crate) fn take_stalled(&mut self) -> Vec<Query> {
        core::mem::take(&mut self.stalled)
    }

    pub(crate) fn has_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    pub(crate) fn forget_paths(&mut self) {
        for (_, path) in self.paths.iter_mut() {
            path.stale = true;
        }
    }

    pub(crate) fn set_mtu(&mut self, mtu: u32) {
        self.mtu = mtu.max(IPV4_MTU_MIN);
        for (_, path) in self.paths.iter_mut() {
            self.growths = self.growths.wrapping_add(path.limit(self.mtu));
        }
    }

    fn insert_path(&mut self, query: Query, state: PathState) -> Option<u32> {
        let mut key = self.ident_key;
        key.write(&query.to.octets());
        let entry = PathEntry {
            state,
            next_hop: query.to,
            hint: u32::MAX,
            route_mtu: self.mtu,
            mtu: self.mtu,
            learned: None,
            elsewhere: false,
            stale: false,
            ident: key.finish() as u16,
            listed: false,
            pending: None,
        };
        self.paths.insert(query, entry, |path| path.pending.is_some())
    }
}

impl PathEntry {
    /// What all limits together allow from now on; answers how often it grew, once or not at all.
    fn limit(&mut self, interface: u32) -> u16 {
        let learned = self.learned.map_or(u32::MAX, |learned| learned.mtu);
        let before = core::mem::replace(&mut self.mtu, self.route_mtu.min(interface).min(learned));
        u16::from(self.mtu > before)
    }

    fn may_cut(&self) -> bool {
        self.learned.is_some_and(|learned| learned.may_cut)
    }

    /// Forgets what a router said long ago (RFC 1191, 6.3); whether there was something.
    fn forget_learned(&mut self, now: Instant) -> bool {
        self.learned.take_if(|learned| now >= learned.until).is_some()
    }
}

/// An unanswered question is asked again by the next packet after this time: the kernel gives a neighbour three
/// probes, a second apart.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(4);
/// How long a failure is believed, as Linux keeps a failed neighbour for its retransmission time.
pub(super) const FAILURE_LASTS: Duration = Duration::from_secs(1);
/// Packets held per path, and bytes over all paths (Linux: unres_qlen_bytes, 208 KiB per neighbour).
const HELD_MAX: usize = 101;
const HELD_BYTES_MAX: usize = 1 << 20;
/// What every link of IPv4 carries (RFC 791, 3.2).
pub(super) const IPV4_MTU_MIN: u32 = 68;
/// Linux: net.ipv4.route.min_pmtu and mtu_expires.
const PMTU_MIN: u32 = 552;
const PMTU_LIFETIME: Duration = Duration::from_secs(600);
