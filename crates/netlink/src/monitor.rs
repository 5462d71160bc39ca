//! A socket that follows changes.

use core::net::Ipv4Addr;

use sys::Fd;

use crate::address::{RTM_DELADDR, RTM_NEWADDR};
use crate::conf::RTM_NEWNETCONF;
use crate::link::{RTM_DELLINK, RTM_NEWLINK};
use crate::message::Message;
use crate::neighbour::{Neighbour, RTM_DELNEIGH, RTM_NEWNEIGH};
use crate::route::{RTM_DELROUTE, RTM_NEWROUTE};
use crate::{Address, Link, NeighbourState};

const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;

// Groups, as bits of sockaddr_nl.
const LINK: u32 = 1;
const NEIGHBOUR: u32 = 4;
const IPV4_ADDRESS: u32 = 0x10;
const IPV4_ROUTE: u32 = 0x40;
const IPV4_RULE: u32 = 0x80;
const IPV4_CONF: u32 = 0x80_0000;

/// Room for notifications that wait for us, in bytes; a routing daemon's update is thousands of routes at once.
const BACKLOG: i32 = 1 << 20;
const SO_RCVBUFFORCE: i32 = 33;
/// Larger than any one notification.
const BUFFER: usize = 32 << 10;

/// What changed. Routes come without detail: ask again for what is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// An interface appeared or changed.
    Link(Link),
    /// The interface of this index is gone.
    LinkGone(u32),
    /// An address appeared or changed.
    Address(Address),
    /// An address is gone.
    AddressGone(Address),
    /// Routes or policy rules changed.
    Routes,
    /// A sysctl of net.ipv4.conf changed.
    Conf,
    /// What the kernel knows of a neighbour changed.
    Neighbour {
        /// The interface's index.
        link: u32,
        /// The neighbour.
        address: Ipv4Addr,
        /// Its link-layer address, where the state has one.
        mac: Option<[u8; 6]>,
        /// How good it is.
        state: NeighbourState,
    },
    /// The kernel dropped notifications: dump again.
    Overrun,
}

/// A socket that follows changes.
pub struct Monitor {
    socket: Fd,
    buffer: Vec<u8>,
    /// The part of the buffer that holds messages not yet returned.
    start: usize,
    end: usize,
}

impl Monitor {
    /// Follows this thread's network namespace from now on.
    pub fn open() -> Result<Monitor, i32> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK;
        let socket = sys::socket::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE)?;
        // Without the privilege the default backlog has to do.
        let _ = sys::socket::set_option(socket.raw(), libc::SOL_SOCKET, SO_RCVBUFFORCE, &BACKLOG);
        // struct sockaddr_nl: family and padding (u16 each), port, groups.
        let family = u32::from_ne_bytes([libc::AF_NETLINK as u8, 0, 0, 0]);
        let groups = LINK | NEIGHBOUR | IPV4_ADDRESS | IPV4_ROUTE | IPV4_RULE | IPV4_CONF;
        sys::socket::bind(socket.raw(), &[family, 0, groups])?;
        Ok(Monitor { socket, buffer: vec![0; BUFFER], start: 0, end: 0 })
    }

    /// Readable while updates wait.
    pub fn descriptor(&self) -> i32 {
        self.socket.raw()
    }

    /// The next update, without waiting.
    #[expect(clippy::should_implement_trait, reason = "nothing now does not mean nothing later")]
    pub fn next(&mut self) -> Option<Update> {
        loop {
            while let Some((message, rest)) = Message::first(&self.buffer[self.start..self.end]) {
                self.start = self.end - rest.len();
                if let Some(update) = update(&message) {
                    return Some(update);
                }
            }
            match sys::socket::receive(self.socket.raw(), &mut self.buffer, 0) {
                Ok(0) => return None,
                Ok(got) => (self.start, self.end) = (0, got),
                Err(libc::EINTR) => {}
                Err(libc::ENOBUFS) => return Some(Update::Overrun),
                Err(_) => return None,
            }
        }
    }
}

pub(crate) fn update(message: &Message<'_>) -> Option<Update> {
    match message.kind {
        RTM_NEWLINK => Link::parse(message).map(Update::Link),
        // Also a port that leaves its bridge; `parse` tells it from an interface that is gone.
        RTM_DELLINK => Link::parse(message).map(|link| Update::LinkGone(link.index)),
        RTM_NEWADDR => Address::parse(message).map(Update::Address),
        RTM_DELADDR => Address::parse(message).map(Update::AddressGone),
        RTM_NEWROUTE | RTM_DELROUTE | RTM_NEWRULE | RTM_DELRULE => Some(Update::Routes),
        RTM_NEWNETCONF => Some(Update::Conf),
        RTM_NEWNEIGH => Neighbour::parse(message).map(|neighbour| neighbour_update(neighbour, false)),
        RTM_DELNEIGH => Neighbour::parse(message).map(|neighbour| neighbour_update(neighbour, true)),
        _ => None,
    }
}

fn neighbour_update(neighbour: Neighbour, gone: bool) -> Update {
    let Neighbour { link, address, mac, state } = neighbour;
    if gone {
        return Update::Neighbour { link, address, mac: None, state: NeighbourState::Failed };
    }
    Update::Neighbour { link, address, mac, state }
}
