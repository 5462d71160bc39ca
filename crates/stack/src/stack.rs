//! `struct Stack`: its parts, construction, and the answers about the world.
//!
//! Each public method lives in the file where its work begins: `on_frame` in ingress.rs, `udp_*` under udp/,
//! `tcp_*` under tcp/.

use crate::budget::Budget;
use crate::demux::Demux;
use crate::event_queue::Events;
use crate::net::Net;
use crate::reassembly::Reassembly;
use crate::slab::Slab;
use crate::timers::Timers;
use crate::unrouted::Unrouted;
use crate::{
    Dropped, Endpoint, Event, Frame, Instant, MacAddr, Outlet, Ready, Request, SocketError, tcp, udp,
};
use ahash::RandomState;
use core::hash::{Hash, Hasher};
use core::net::Ipv4Addr;

/// Names a socket of one stack: index and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl SocketId {
    /// The id as one word, for an atomic.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }
    /// The inverse of [`SocketId::to_bits`].
    pub fn from_bits(bits: u64) -> SocketId {
        SocketId { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// What a stack is made with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Secret for initial sequence numbers, ports, and hash tables. Random in production, fixed in tests.
    pub seed: [u8; 32],
    /// Secret of SYN cookies: whoever else answers SYNs for this stack makes them by it, too, and says so
    /// ([`Stack::cookies_are_out`]).
    pub cookie_key: [u8; 16],
    /// Where the timestamp clocks begin: the same for all stacks that a host has, one after the other. A peer lets a
    /// new connection take the place of one in TIME-WAIT if its timestamps are newer (RFC 6191), and a process that
    /// begins anew must not look as if it came from before.
    pub timestamp_key: [u8; 16],
    /// Hardware address of the interface.
    pub mac: MacAddr,
    /// Largest IP packet that the interface sends, bytes.
    pub mtu: u32,
    /// Accept a transport checksum that holds only the pseudo-header's sum: a local kernel peer on a virtual device
    /// leaves the rest to hardware that does not exist (CHECKSUM_PARTIAL).
    pub accept_partial_checksum: bool,
    /// Frames of the device that all receive queues together may hold before data is copied out.
    pub attached_frames_max: u32,
    /// Defaults of TCP sockets and the limits of the protocol.
    pub tcp: crate::tcp::Settings,
    /// Defaults of UDP sockets.
    pub udp: crate::udp::Settings,
}

/// How a destination is reached through this stack's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The gateway, or the destination itself if it is on the link.
    pub next_hop: Ipv4Addr,
    /// Largest IP packet on this path as routing knows it, bytes (ICMP may lower it later).
    pub mtu: u32,
    /// Routing would send such packets by another interface. The path says how they go by this one, as long as nobody
    /// does better.
    pub elsewhere: bool,
}

/// What the way of a packet depends on.
#[derive(Clone, Copy, Debug, Eq)]
pub struct Query {
    /// Where it comes from; unspecified: nobody said.
    pub from: Ipv4Addr,
    /// Where it goes to.
    pub to: Ipv4Addr,
    /// The socket is bound to the interface (SO_BINDTODEVICE).
    pub bound: bool,
}

impl Query {
    /// Of a socket that is not bound to an interface.
    pub fn new(from: Ipv4Addr, to: Ipv4Addr) -> Query {
        Query { from, to, bound: false }
    }

    #[inline(always)]
    fn ends(&self) -> u64 {
        u64::from(self.from.to_bits()) << 32 | u64::from(self.to.to_bits())
    }
}

/// Every packet that leaves compares: both addresses at once, and without a branch for each part.
impl PartialEq for Query {
    #[inline(always)]
    fn eq(&self, other: &Query) -> bool {
        (self.ends() == other.ends()) & (self.bound == other.bound)
    }
}

impl Hash for Query {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.ends());
        state.write_u8(self.bound.into());
    }
}

/// The engine of one interface. See the crate's page for the contract.
pub struct Stack<F: Frame> {
    pub(crate) net: Net,
    pub(crate) sockets: Slab<Socket<F>>,
    pub(crate) demux: Demux,
    pub(crate) timers: Timers,
    pub(crate) events: Events,
    pub(crate) budget: Budget,
    pub(crate) reassembly: Reassembly<F>,
    pub(crate) unrouted: Unrouted<F>,
    pub(crate) tcp: tcp::Shared,
    pub(crate) dropped: Dropped,
    pub(crate) accept_partial_checksum: bool,
    /// The latest time that any call came with.
    latest: Instant,
    /// Room for the receivers of one datagram and for one datagram to be fragmented: kept to allocate once.
    pub(crate) receivers: Vec<SocketId>,
    pub(crate) assembled: Vec<u8>,
}

/// A socket of any kind.
pub(crate) enum Socket<F: Frame> {
    Udp(Box<udp::Udp<F>>),
    Listener(Box<tcp::Listener>),
    HalfOpen(Box<tcp::HalfOpen>),
    Tcp(Box<tcp::Connection<F>>),
    TimeWait(Box<tcp::TimeWait>),
}

impl<F: Frame> Stack<F> {
    /// Whether it has no sockets, not even those of connections that rest in TIME-WAIT.
    pub fn is_empty(&self) -> bool {
        self.sockets.len() == 0
    }

    /// A stack without sockets.
    pub fn new(config: Config, now: Instant) -> Self {
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&config.seed[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let hasher = RandomState::with_seeds(word(0), word(8), word(16), word(24));
        Stack {
            net: Net::new(&config, &hasher),
            sockets: Slab::new(),
            demux: Demux::new(hasher),
            timers: Timers::new(now),
            events: Events::default(),
            budget: Budget::new(config.attached_frames_max),
            reassembly: Reassembly::new(),
            unrouted: Unrouted::default(),
            tcp: tcp::Shared::new(&config),
            dropped: Dropped::default(),
            accept_partial_checksum: config.accept_partial_checksum,
            latest: now,
            receivers: Vec::new(),
            assembled: Vec::new(),
        }
    }

    /// The time of a call. Threads read the clock before they get hold of the stack, so a call may come with an earlier
    /// time than the one before it; in here time never goes back, as timestamps must not (RFC 7323, 5.3: a peer drops
    /// what looks older than what it saw).
    #[inline]
    pub(crate) fn reach(&mut self, now: Instant) -> Instant {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// From now on a transport checksum may hold only the pseudo-header's sum, see [`Config::accept_partial_checksum`].
    pub fn accept_partial_checksums(&mut self) {
        self.accept_partial_checksum = true;
    }

    // ---- what arrives, beside `on_frame` ------------------------------------------------------------------

    /// Fires the timers that are due.
    pub fn on_time(&mut self, now: Instant, out: &mut impl Outlet) {
        let now = self.reach(now);
        while let Some(id) = self.timers.expire(now) {
            tcp::timers::expired(self, now, id, out);
        }
        if self.reassembly.next().is_some_and(|deadline| deadline <= now) {
            self.dropped.fragments += self.reassembly.expire(now) as u64;
        }
    }

    /// When `on_time` must be called next.
    pub fn next_timer(&self) -> Option<Instant> {
        match (self.timers.next(), self.reassembly.next()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Sends what waits: tails of streams whose last `tcp_send` said `Push::Later`, what found the outlet full, what
    /// waited for a path or a neighbour.
    pub fn flush(&mut self, now: Instant, out: &mut impl Outlet) {
        let now = self.reach(now);
        if self.net.has_stalled() {
            for query in self.net.take_stalled() {
                self.release(now, query, out);
            }
        }
        // Each of those that wait now has one try; the first that finds the outlet full again ends the round, and
        // the next round begins behind it.
        for _ in 0..self.net.waiting.outlet_len() {
            let Some(id) = self.net.waiting.take_for_outlet() else { return };
            match self.sockets.get(id) {
                Some(Socket::Udp(_)) if out.reserve(udp::ROOM_TO_SEND).is_some() => {
                    self.events.raise(id, Ready::OUT);
                }
                Some(Socket::Udp(_)) => self.net.waiting.for_outlet(id),
                Some(_) => tcp::output::retry(self, now, id, out),
                None => {}
            }
            if self.net.waiting.waits_for_outlet(id) {
                return;
            }
        }
    }

    /// Whether `flush` has something to do (cheap; asked on each send).
    #[inline]
    pub fn wants_flush(&self) -> bool {
        self.net.waiting.outlet_len() != 0 || self.net.has_stalled()
    }

    /// Whether packets that were sent wait here for their path or their neighbour.
    pub fn holds_packets(&self) -> bool {
        self.net.held_bytes() != 0
    }

    // ---- outputs ------------------------------------------------------------------------------------------

    /// The oldest event.
    #[inline]
    pub fn take_event(&mut self) -> Option<Event> {
        self.events.take()
    }

    /// The oldest question.
    #[inline]
    pub fn take_request(&mut self) -> Option<Request> {
        self.net.requests.pop_front()
    }

    /// Packets that went no further, since the stack was made.
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    // ---- what the world is like ---------------------------------------------------------------------------

    /// The addresses of this host: the interface's own, and those of its others, by which packets may come and go, too.
    /// Packets for others are not ours, and packets from any of them are nobody's.
    pub fn set_addresses(&mut self, own: &[Ipv4Addr], elsewhere: &[Ipv4Addr]) {
        self.net.set_addresses(own, elsewhere);
    }

    /// The interface's hardware address.
    pub fn set_mac(&mut self, mac: MacAddr) {
        self.net.set_mac(mac);
    }

    /// Somebody else answered SYNs for listeners of this stack with SYN cookies up to now: for a while their proof is
    /// believed.
    pub fn cookies_are_out(&mut self, now: Instant) {
        self.tcp.cookies_elsewhere = Some(now);
    }

    /// Largest IP packet that the interface sends, bytes.
    pub fn set_mtu(&mut self, mtu: u32) {
        self.net.set_mtu(mtu);
    }

    /// Answers [`Request::Path`], or tells a change. `Err`: unreachable; its sockets learn it.
    pub fn set_path(
        &mut self,
        now: Instant,
        query: Query,
        path: Result<Path, SocketError>,
        out: &mut impl Outlet,
    ) {
        let now = self.reach(now);
        self.net.answer_path(now, query, path);
        self.release(now, query, out);
        self.take_in_held(now, query, out);
    }

    /// Routes changed: every path in use is asked for again; the old one serves until the answer.
    pub fn forget_paths(&mut self) {
        self.net.forget_paths();
    }

    /// Answers [`Request::Neighbour`] or tells a change. `None`: it does not answer; its sockets learn it
    /// (EHOSTUNREACH).
    pub fn set_neighbour(
        &mut self,
        now: Instant,
        next_hop: Ipv4Addr,
        mac: Option<MacAddr>,
        out: &mut impl Outlet,
    ) {
        let now = self.reach(now);
        for query in self.net.answer_neighbour(now, next_hop, mac) {
            self.release(now, query, out);
        }
    }

    /// Whether [`Stack::set_neighbour`] is to be told of a change of this next hop: packets go to it, or did lately.
    pub fn has_neighbour(&self, next_hop: Ipv4Addr) -> bool {
        self.net.has_neighbour(next_hop)
    }

    /// Neighbours that packets left to since the last call: the owner sees that what is known of them stays true.
    pub fn take_used_neighbours(&mut self) -> Vec<Ipv4Addr> {
        self.net.take_used_neighbours()
    }

    /// Changes of neighbours may have been missed. Those that are to be told anew, by [`Stack::set_neighbour`].
    pub fn doubt_neighbours(&mut self, now: Instant) -> Vec<Ipv4Addr> {
        let now = self.reach(now);
        self.net.doubt_neighbours(now)
    }

    /// Sends or fails what waited for a destination, if its path is known now.
    fn release(&mut self, now: Instant, query: Query, out: &mut impl Outlet) {
        let released = self.net.release(now, query, out);
        if let Some(why) = released.why {
            for id in released.failed {
                udp::input::fail(self, id, why);
            }
        }
        for id in released.waiters {
            tcp::output::retry(self, now, id, out);
        }
    }

    // ---- any socket ---------------------------------------------------------------------------------------

    /// Current readiness by the rules of poll(2). Of a socket that is gone: everything, so that nobody waits for it.
    pub fn ready(&self, id: SocketId) -> Ready {
        match self.sockets.get(id) {
            Some(Socket::Udp(udp)) => udp.ready(!self.net.waiting.waits_for_outlet(id)),
            Some(Socket::Listener(listener)) => listener.ready(),
            Some(Socket::Tcp(connection)) => connection.ready(),
            Some(Socket::HalfOpen(_) | Socket::TimeWait(_)) | None => {
                Ready::IN | Ready::OUT | Ready::RDHUP | Ready::HUP
            }
        }
    }

    /// Takes the pending error (SO_ERROR).
    pub fn take_error(&mut self, id: SocketId) -> Option<SocketError> {
        match self.sockets.get_mut(id)? {
            Socket::Udp(udp) => udp.error.take(),
            Socket::Listener(listener) => listener.take_error(),
            Socket::Tcp(connection) => connection.take_error(),
            Socket::HalfOpen(_) | Socket::TimeWait(_) => None,
        }
    }

    /// The owner's word for a socket, reported in its events.
    pub fn set_token(&mut self, id: SocketId, token: u64) {
        self.events.set_token(id, token);
    }

    /// The local endpoint.
    pub fn local(&self, id: SocketId) -> Option<Endpoint> {
        match self.sockets.get(id)? {
            Socket::Udp(udp) => Some(udp.local),
            Socket::Listener(listener) => Some(listener.local),
            Socket::HalfOpen(half) => Some(half.local),
            Socket::Tcp(connection) => Some(connection.local),
            Socket::TimeWait(rest) => Some(rest.local),
        }
    }

    /// The peer's endpoint, if there is a peer.
    pub fn remote(&self, id: SocketId) -> Option<Endpoint> {
        match self.sockets.get(id)? {
            Socket::Udp(udp) => udp.remote,
            Socket::Listener(_) => None,
            Socket::HalfOpen(half) => Some(half.remote),
            Socket::Tcp(connection) => Some(connection.remote),
            Socket::TimeWait(rest) => Some(rest.remote),
        }
    }

    /// Fails every socket with `why` and sends nothing more: the device is gone.
    pub fn abandon(&mut self, why: SocketError) {
        self.net.abandoned = true;
        let ids: Vec<SocketId> = self.sockets.ids().collect();
        for id in ids {
            match self.sockets.get_mut(id) {
                Some(Socket::Udp(udp)) => udp.error = Some(why),
                Some(Socket::Listener(listener)) => listener.abandon(why),
                Some(Socket::Tcp(connection)) => connection.abandon(why),
                Some(Socket::HalfOpen(_) | Socket::TimeWait(_)) | None => {}
            }
            self.timers.set(id, None);
            self.events.raise(id, Ready::IN | Ready::OUT | Ready::ERR);
        }
    }

    /// Takes a socket in and begins to keep its events; `None`: the bound on sockets is reached.
    pub(crate) fn open(&mut self, socket: Socket<F>, token: u64) -> Option<SocketId> {
        let id = self.sockets.insert(socket)?;
        self.events.open(id, token);
        Some(id)
    }

    /// Removes a socket with its timer and undrained events. Its place in the tables of `demux` is the caller's.
    pub(crate) fn forget(&mut self, id: SocketId) -> Option<Socket<F>> {
        self.timers.set(id, None);
        self.events.close(id);
        self.sockets.remove(id)
    }
}
