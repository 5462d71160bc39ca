//! `struct Stack`: its parts, construction, and the answers about the world.
//!
//! Each public method lives in the file where its work begins: `on_frame` in ingress.rs, `udp_*` in udp.rs,
//! `tcp_*` under tcp/.

use crate::{Event, Frame, Instant, MacAddr, Outlet, Ready, Request, SocketError};
use core::net::Ipv4Addr;

/// Names a socket of one stack: index and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId {
    index: u32,
    generation: u32,
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
    /// Secret for initial sequence numbers, ports, hash tables and SYN cookies. Random in production, fixed in tests.
    pub seed: [u8; 32],
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
}

/// The engine of one interface. See the crate's page for the contract.
pub struct Stack<F: Frame> {
    _frames: core::marker::PhantomData<F>,
}

#[allow(unused_variables, missing_docs)] // the contract in signatures; bodies follow
impl<F: Frame> Stack<F> {
    /// A stack without sockets.
    pub fn new(config: Config, now: Instant) -> Self {
        todo!()
    }

    // ---- what arrives -------------------------------------------------------------------------------------
    /// A packet: `head` with all headers, `tail` with further payload (drained; usually empty).
    pub fn on_frame(&mut self, now: Instant, head: F, tail: &mut Vec<F>, out: &mut impl Outlet) {
        todo!()
    }
    /// Fires the timers that are due.
    pub fn on_time(&mut self, now: Instant, out: &mut impl Outlet) {
        todo!()
    }
    /// When `on_time` must be called next.
    pub fn next_timer(&self) -> Option<Instant> {
        todo!()
    }
    /// Sends what waits: tails of streams whose last `tcp_send` said `Push::Later`, what found the outlet full, what
    /// waited for a path or a neighbour.
    pub fn flush(&mut self, now: Instant, out: &mut impl Outlet) {
        todo!()
    }
    /// Whether `flush` has something to do (cheap; asked on each send).
    pub fn wants_flush(&self) -> bool {
        todo!()
    }

    // ---- outputs ------------------------------------------------------------------------------------------
    pub fn take_event(&mut self) -> Option<Event> {
        todo!()
    }
    pub fn take_request(&mut self) -> Option<Request> {
        todo!()
    }

    // ---- what the world is like ---------------------------------------------------------------------------
    /// The interface's own addresses: packets for others are not ours.
    pub fn set_addresses(&mut self, addresses: &[Ipv4Addr]) {
        todo!()
    }
    pub fn set_mtu(&mut self, mtu: u32) {
        todo!()
    }
    /// Answers [`Request::Path`], or tells a change. `Err`: unreachable; its sockets learn it.
    pub fn set_path(
        &mut self,
        now: Instant,
        to: Ipv4Addr,
        path: Result<Path, SocketError>,
        out: &mut impl Outlet,
    ) {
        todo!()
    }
    /// Routes changed: every path in use is asked for again; the old one serves until the answer.
    pub fn forget_paths(&mut self) {
        todo!()
    }
    /// Answers [`Request::Neighbour`] or tells a change. `None`: it does not answer; its sockets learn it (EHOSTUNREACH).
    pub fn set_neighbour(
        &mut self,
        now: Instant,
        next_hop: Ipv4Addr,
        mac: Option<MacAddr>,
        out: &mut impl Outlet,
    ) {
        todo!()
    }

    // ---- any socket ---------------------------------------------------------------------------------------
    /// Current readiness; of a socket that is gone: `HUP | ERR`... see poll(2).
    pub fn ready(&self, id: SocketId) -> Ready {
        todo!()
    }
    /// Takes the pending error (SO_ERROR).
    pub fn take_error(&mut self, id: SocketId) -> Option<SocketError> {
        todo!()
    }
    /// The owner's word for a socket, reported in its events.
    pub fn set_token(&mut self, id: SocketId, token: u64) {
        todo!()
    }
    pub fn local(&self, id: SocketId) -> Option<crate::Endpoint> {
        todo!()
    }
    pub fn remote(&self, id: SocketId) -> Option<crate::Endpoint> {
        todo!()
    }
    /// Fails every socket with `why` and sends nothing more: the device is gone.
    pub fn abandon(&mut self, why: SocketError) {
        todo!()
    }
}
