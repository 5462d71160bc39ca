//! UDP (RFC 768), with the semantics of Linux's sockets. Sending is in output.rs, what arrives in input.rs.

mod filter;
mod handover;
pub(crate) mod input;
mod output;
#[cfg(test)]
mod tests;

pub use handover::Heard;

use crate::net::Route;
use crate::stack::Socket;
use crate::{Endpoint, Frame, Instant, Query, Ready, RecvError, SocketError, SocketId, Stack};
use core::net::Ipv4Addr;
use std::collections::VecDeque;

/// Defaults of UDP sockets.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Receive buffer, bytes, charged as Linux charges it (payload and overhead).
    pub receive_buffer: u32,
}

/// Options of one socket.
#[derive(Clone, Debug)]
pub struct Options {
    /// SO_RCVBUF, bytes.
    pub receive_buffer: u32,
    /// IP_TOS.
    pub tos: u8,
    /// IP_TTL.
    pub ttl: u8,
    /// IP_MULTICAST_TTL.
    pub multicast_ttl: u8,
    /// IP_MULTICAST_ALL: groups that other sockets of the port joined are heard too.
    pub multicast_all: bool,
    /// IP_MTU_DISCOVER.
    pub mtu_discover: MtuDiscover,
    /// The socket is bound to the interface (SO_BINDTODEVICE): routing is asked for ways by it alone.
    pub bound_to_interface: bool,
}

/// IP_MTU_DISCOVER. Linux's names.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MtuDiscover {
    Dont,
    Want,
    Do,
    Probe,
}

/// A received datagram; it owns its frames.
pub struct Datagram<F> {
    /// Who sent it.
    pub from: Endpoint,
    /// Where it was sent to.
    pub to: Endpoint,
    /// Payload, bytes.
    pub len: usize,
    /// TTL and TOS of its IP header.
    pub ttl: u8,
    /// See `ttl`.
    pub tos: u8,
    /// When the engine took it in.
    pub received: Instant,
    /// The frame with the payload's beginning, and where in it that is.
    pub head: F,
    /// Offset and length of the payload in `head`.
    pub range: (u16, u16),
    /// Further payload.
    pub tail: Vec<F>,
    /// Without payload, and shown by `Stack::udp_peek_behind`.
    pub(crate) shown: bool,
}

impl<F: Frame> Stack<F> {
    /// A socket that receives what is sent to `local` (address unspecified: every address of the interface). Several
    /// sockets may share an endpoint: the kernel's shadow decided whether they may; unicast goes to the most specific
    /// then newest, multicast to all members. `None`: the engine's bound on sockets is reached.
    pub fn udp_open(&mut self, local: Endpoint, options: &Options, token: u64) -> Option<SocketId> {
        let id = self.open(Socket::Udp(Box::new(Udp::new(local, options.clone()))), token)?;
        self.demux.udp.bind(local, id);
        Some(id)
    }

    /// Sets or removes the peer: a connected socket receives from it alone. What waits in the queue stays.
    pub fn udp_connect(&mut self, id: SocketId, local: Endpoint, remote: Option<Endpoint>) {
        self.unplug(id);
        let Some(Socket::Udp(udp)) = self.sockets.get_mut(id) else { return };
        udp.local = local;
        udp.remote = remote;
        match remote {
            Some(remote) => {
                udp.route = Route::new(udp.way(*local.ip(), remote));
                self.demux.udp.insert_flow(local, remote, id);
            }
            None => self.demux.udp.bind(local, id),
        }
    }

    /// The pending error of a socket in whose place this one stands.
    pub fn udp_inherit_error(&mut self, id: SocketId, error: SocketError) {
        if let Some(Socket::Udp(udp)) = self.sockets.get_mut(id) {
            udp.error = Some(error);
        }
    }

    /// Takes a socket out of the tables of endpoints and flows.
    fn unplug(&mut self, id: SocketId) {
        let Some(Socket::Udp(udp)) = self.sockets.get(id) else { return };
        let (local, remote) = (udp.local, udp.remote);
        let Some(remote) = remote else {
            self.demux.udp.unbind(local, id);
            return;
        };
        if !self.demux.udp.remove_flow(local, remote, id) {
            self.demux.udp.displaced -= 1;
        } else if self.demux.udp.displaced > 0 {
            // Some flow was taken over by a later socket: if it was this one, it goes back.
            let sockets = &self.sockets;
            let is_twin = |other: &SocketId| match sockets.get(*other) {
                Some(Socket::Udp(udp)) => *other != id && udp.local == local && udp.remote == Some(remote),
                _ => false,
            };
            if let Some(twin) = sockets.ids().find(is_twin) {
                self.demux.udp.displaced -= 1;
                self.demux.udp.insert_flow(local, remote, twin);
            }
        }
    }

    /// Shows the oldest datagram without taking it (MSG_PEEK, FIONREAD).
    pub fn udp_peek(&mut self, id: SocketId) -> Result<&Datagram<F>, RecvError> {
        let Some(Socket::Udp(udp)) = self.sockets.get_mut(id) else { return Err(RecvError::NoSocket) };
        if let Some(error) = udp.error.take() {
            return Err(RecvError::Failed(error));
        }
        udp.queue.iter().take(udp.readable()).next().ok_or(RecvError::WouldBlock)
    }

    /// Shows the datagram that goes on `behind` bytes behind what is read next (SO_PEEK_OFF), which becomes the place
    /// in it, or the rest beyond all that wait. An empty one is shown once, as Linux does it.
    pub fn udp_peek_behind(&mut self, id: SocketId, behind: &mut usize) -> Result<&Datagram<F>, RecvError> {
        let Some(Socket::Udp(udp)) = self.sockets.get_mut(id) else { return Err(RecvError::NoSocket) };
        if let Some(error) = udp.error.take() {
            return Err(RecvError::Failed(error));
        }
        let readable = udp.readable();
        for datagram in udp.queue.iter_mut().take(readable) {
            if *behind >= datagram.len && (*behind > 0 || datagram.shown) {
                *behind -= datagram.len;
                continue;
            }
            datagram.shown = datagram.len == 0;
            return Ok(datagram);
        }
        Err(RecvError::WouldBlock)
    }

    /// Takes the oldest datagram.
    #[inline]
    pub fn udp_recv(&mut self, id: SocketId) -> Result<Datagram<F>, RecvError> {
        let Some(Socket::Udp(udp)) = self.sockets.get_mut(id) else { return Err(RecvError::NoSocket) };
        if let Some(error) = udp.error.take() {
            return Err(RecvError::Failed(error));
        }
        if let Some(passed) = &mut udp.passed {
            *passed = passed.checked_sub(1).ok_or(RecvError::WouldBlock)?;
        }
        let datagram = udp.queue.pop_front().ok_or(RecvError::WouldBlock)?;
        udp.charged -= true_size(datagram.len);
        self.budget.release(&datagram.head, &mut udp.held);
        for frame in &datagram.tail {
            self.budget.release(frame, &mut udp.held);
        }
        Ok(datagram)
    }

    /// The socket's options.
    pub fn udp_options(&self, id: SocketId) -> Option<&Options> {
        match self.sockets.get(id)? {
            Socket::Udp(udp) => Some(&udp.options),
            _ => None,
        }
    }

    /// Changes options.
    pub fn udp_configure(&mut self, id: SocketId, change: impl FnOnce(&mut Options)) {
        if let Some(Socket::Udp(udp)) = self.sockets.get_mut(id) {
            change(&mut udp.options);
        }
    }

    /// Receives datagrams to `group` too, from these sources; of a member: from these from now on.
    pub fn udp_join(&mut self, id: SocketId, group: Ipv4Addr, sources: Sources) {
        if let Some(Socket::Udp(udp)) = self.sockets.get_mut(id)
            && group.is_multicast()
        {
            if !udp.groups.contains(&group) {
                udp.groups.push(group);
            }
            self.demux.join(id, group, sources);
        }
    }

    /// The inverse of [`Stack::udp_join`].
    pub fn udp_leave(&mut self, id: SocketId, group: Ipv4Addr) {
        let Some(Socket::Udp(udp)) = self.sockets.get_mut(id) else { return };
        udp.groups.retain(|joined| *joined != group);
        self.demux.leave(id, group);
    }

    /// Closes the socket; what waits in its queue is thrown away.
    pub fn udp_close(&mut self, id: SocketId) {
        self.unplug(id);
        if !matches!(self.sockets.get(id), Some(Socket::Udp(_))) {
            return;
        }
        let Some(Socket::Udp(mut udp)) = self.forget(id) else { return };
        for group in &udp.groups {
            self.demux.leave(id, *group);
        }
        for datagram in &udp.queue {
            self.budget.release(&datagram.head, &mut udp.held);
            for frame in &datagram.tail {
                self.budget.release(frame, &mut udp.held);
            }
        }
    }

    /// Datagrams that wait in a socket's queue.
    pub fn udp_queued(&self, id: SocketId) -> Option<Queued> {
        match self.sockets.get(id)? {
            Socket::Udp(udp) => {
                let bytes = udp.queue.iter().map(|datagram| datagram.len).sum();
                Some(Queued { packets: udp.queue.len(), bytes })
            }
            _ => None,
        }
    }

    /// Datagrams dropped for want of buffer since the socket was made.
    pub fn udp_dropped(&self, id: SocketId) -> u64 {
        match self.sockets.get(id) {
            Some(Socket::Udp(udp)) => udp.dropped,
            _ => 0,
        }
    }
}

/// See `Stack::udp_queued`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// Datagrams.
    pub packets: usize,
    /// Their payload, bytes.
    pub bytes: usize,
}

/// One socket.
pub(crate) struct Udp<F: Frame> {
    pub(crate) local: Endpoint,
    pub(crate) remote: Option<Endpoint>,
    pub(crate) error: Option<SocketError>,
    options: Options,
    queue: VecDeque<Datagram<F>>,
    /// What the queue is charged, bytes.
    charged: u32,
    /// Frames of the device in the queue.
    held: u32,
    dropped: u64,
    /// The last destination.
    route: Route,
    groups: Vec<Ipv4Addr>,
    /// With a filter of the owner's: how many at the front of the queue it let pass. The others are not there yet.
    passed: Option<u32>,
    /// The kernel goes on with it: what comes is passed on.
    handed_over: Option<Heard>,
}

/// From whom a member of a multicast group hears (RFC 3376, 2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sources {
    /// Those that were joined one by one, or are on a list.
    Only(Vec<Ipv4Addr>),
    /// Those that are not blocked.
    AllBut(Vec<Ipv4Addr>),
}

impl Sources {
    /// Whoever sends.
    pub const ANY: Sources = Sources::AllBut(Vec::new());

    /// Whether a datagram from this source is heard.
    pub fn has(&self, source: Ipv4Addr) -> bool {
        match self {
            Sources::Only(list) => list.contains(&source),
            Sources::AllBut(list) => !list.contains(&source),
        }
    }
}

impl<F: Frame> Udp<F> {
    fn new(local: Endpoint, options: Options) -> Self {
        Udp {
            local,
            remote: None,
            error: None,
            options,
            queue: VecDeque::new(),
            charged: 0,
            held: 0,
            dropped: 0,
            route: Route::new(Query::new(Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED)),
            groups: Vec::new(),
            passed: None,
            handed_over: None,
        }
    }

    /// Datagrams that a read finds.
    #[inline]
    fn readable(&self) -> usize {
        self.passed.map_or(self.queue.len(), |passed| passed as usize)
    }

    /// What the way of its datagrams depends on.
    pub(crate) fn way(&self, from: Ipv4Addr, remote: Endpoint) -> Query {
        Query { from, to: *remote.ip(), bound: self.options.bound_to_interface }
    }

    /// Readiness; `room`: the last send did not find the outlet full.
    pub(crate) fn ready(&self, room: bool) -> Ready {
        let mut ready = Ready::default();
        if self.readable() > 0 {
            ready |= Ready::IN;
        }
        if room {
            ready |= Ready::OUT;
        }
        if self.error.is_some() {
            ready |= Ready::ERR;
        }
        ready
    }
}

/// What a datagram of `len` bytes of payload is charged: as Linux's skb->truesize, a power of two for headers,
/// payload and shared info, and the sk_buff itself.
#[inline]
fn true_size(len: usize) -> u32 {
    const HEADERS_AND_SHARED_INFO: usize = 384;
    const SK_BUFF: usize = 256;
    let data = len + HEADERS_AND_SHARED_INFO;
    let rounded = if data <= 4096 { data.next_power_of_two() } else { data.next_multiple_of(4096) };
    (rounded + SK_BUFF) as u32
}

/// Room that a datagram of ordinary size needs in the outlet, bytes.
pub(crate) const ROOM_TO_SEND: usize = 1514;
