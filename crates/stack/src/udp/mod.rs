//! UDP. The contract in signatures; see the crate's page.

pub(crate) mod input;

use crate::{
    Endpoint, Frame, Instant, Outlet, Ready, RecvError, SendError, SocketError, SocketId, Source, Stack,
};
use core::net::Ipv4Addr;

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
    /// IP_MTU_DISCOVER.
    pub mtu_discover: MtuDiscover,
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
}

#[allow(unused_variables, missing_docs)] // the contract in signatures; bodies follow
impl<F: Frame> Stack<F> {
    /// A socket that receives what is sent to `local` (address unspecified: every address of the interface). Several
    /// sockets may share an endpoint: the kernel's shadow decided whether they may; unicast goes to the most specific
    /// then newest, multicast to all members.
    pub fn udp_open(&mut self, local: Endpoint, options: &Options, token: u64) -> Option<SocketId> {
        todo!()
    }
    /// Sets or removes the peer: a connected socket receives from it alone.
    pub fn udp_connect(&mut self, id: SocketId, local: Endpoint, remote: Option<Endpoint>) {
        todo!()
    }
    /// Sends one datagram of all remaining bytes, fragmented if it must and may. `from` overrides the source address.
    pub fn udp_send(
        &mut self,
        now: Instant,
        id: SocketId,
        from: Option<Ipv4Addr>,
        to: Endpoint,
        data: &mut impl Source,
        out: &mut impl Outlet,
    ) -> Result<usize, SendError> {
        todo!()
    }
    /// Shows the oldest datagram without taking it (MSG_PEEK, FIONREAD).
    pub fn udp_peek(&mut self, id: SocketId) -> Result<&Datagram<F>, RecvError> {
        todo!()
    }
    /// Takes the oldest datagram.
    pub fn udp_recv(&mut self, id: SocketId) -> Result<Datagram<F>, RecvError> {
        todo!()
    }
    pub fn udp_options(&self, id: SocketId) -> Option<&Options> {
        todo!()
    }
    pub fn udp_configure(&mut self, id: SocketId, change: impl FnOnce(&mut Options)) {
        todo!()
    }
    /// Receives datagrams to `group` too; `None`: from any source.
    pub fn udp_join(&mut self, id: SocketId, group: Ipv4Addr, source: Option<Ipv4Addr>) {
        todo!()
    }
    pub fn udp_leave(&mut self, id: SocketId, group: Ipv4Addr, source: Option<Ipv4Addr>) {
        todo!()
    }
    pub fn udp_close(&mut self, id: SocketId) {
        todo!()
    }
    /// Datagrams dropped for want of buffer since the socket was made.
    pub fn udp_dropped(&self, id: SocketId) -> u64 {
        todo!()
    }
}

/// Room that a datagram of ordinary size needs in the outlet, bytes.
pub(crate) const ROOM_TO_SEND: usize = 1514;

/// One socket.
pub(crate) struct Udp<F: Frame> {
    pub(crate) local: Endpoint,
    pub(crate) remote: Option<Endpoint>,
    pub(crate) error: Option<SocketError>,
    _frames: core::marker::PhantomData<F>,
}

impl<F: Frame> Udp<F> {
    pub(crate) fn ready(&self, _room: bool) -> Ready {
        Ready::default()
    }
}
