//! Link-layer addresses of neighbours: the kernel's table, and the kernel's ARP put to work.

use core::net::Ipv4Addr;

use crate::Netlink;
use crate::message::{Message, NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, Request, ipv4, mac, u16_at, u32_at};

pub(crate) const RTM_NEWNEIGH: u16 = 28;
pub(crate) const RTM_DELNEIGH: u16 = 29;
const RTM_GETNEIGH: u16 = 30;
/// Bytes of struct ndmsg: family, 3 of padding, index (u32), state (u16), flags, type.
const HEADER: usize = 12;

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// Resolve it as if a packet were to be sent.
const NTF_USE: u8 = 1;

const NUD_INCOMPLETE: u16 = 0x01;
const NUD_STALE: u16 = 0x04;
const NUD_FAILED: u16 = 0x20;

/// What the kernel knows of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// Being resolved.
    Incomplete,
    /// Known and good, or known and being confirmed right now.
    Usable,
    /// Known but not confirmed for a while: use it, and [`Netlink::resolve`] it.
    Stale,
    /// Does not answer, or was removed.
    Failed,
}

/// One entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub(crate) link: u32,
    pub(crate) address: Ipv4Addr,
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) state: NeighbourState,
}

impl Netlink {
    /// The neighbour's address as the kernel knows it; `None` if it does not (never asked, unresolved, failed).
    pub fn neighbour(
        &mut self,
        link: u32,
        address: Ipv4Addr,
    ) -> Result<Option<([u8; 6], NeighbourState)>, i32> {
        let mut request =
            Request::new(RTM_GETNEIGH, NLM_F_ACK, &header(link, 0)).attribute(NDA_DST, &address.octets());
        let mut found = None;
        let asked = self.ask(&mut request, |message| {
            if message.kind == RTM_NEWNEIGH {
                found = Neighbour::parse(message);
            }
        });
        match asked {
            Ok(_) => Ok(found.and_then(|neighbour| Some((neighbour.mac?, neighbour.state)))),
            Err(libc::ENOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Makes the kernel resolve or refresh a neighbour now (NTF_USE); the outcome is an `Update`. Needs
    /// CAP_NET_ADMIN.
    pub fn resolve(&mut self, link: u32, address: Ipv4Addr) -> Result<(), i32> {
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
        let mut request =
            Request::new(RTM_NEWNEIGH, flags, &header(link, NTF_USE)).attribute(NDA_DST, &address.octets());
        self.ask(&mut request, |_| {}).map(|_| ())
    }
}

fn header(link: u32, flags: u8) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[0] = libc::AF_INET as u8;
    header[4..8].copy_from_slice(&link.to_ne_bytes());
    header[10] = flags;
    header
}

impl Neighbour {
    pub(crate) fn parse(message: &Message<'_>) -> Option<Neighbour> {
        if message.body.first() != Some(&(libc::AF_INET as u8)) {
            return None;
        }
        let attributes = message.attributes(HEADER);
        let state = match u16_at(message.body, 8)? {
            // Created, and not asked for yet.
            0 | NUD_INCOMPLETE => NeighbourState::Incomplete,
            NUD_STALE => NeighbourState::Stale,
            NUD_FAILED => NeighbourState::Failed,
            // Reachable, delay, probe, noarp, permanent.
            _ => NeighbourState::Usable,
        };
        let known = matches!(state, NeighbourState::Usable | NeighbourState::Stale);
        Some(Neighbour {
            link: u32_at(message.body, 4)?,
            address: attributes.find(NDA_DST).and_then(ipv4)?,
            mac: attributes.find(NDA_LLADDR).and_then(mac).filter(|_| known),
            state,
        })
    }
}
