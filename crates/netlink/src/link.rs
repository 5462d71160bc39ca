//! Interfaces.

use crate::Netlink;
use crate::message::{Attributes, Message, NLM_F_DUMP, Request, mac, u16_at, u32_at};

pub(crate) const RTM_NEWLINK: u16 = 16;
pub(crate) const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
/// Bytes of struct ifinfomsg: family, pad, type (u16), index, flags, change.
const HEADER: usize = 16;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_EXT_MASK: u16 = 29;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_PROG_ID: u16 = 4;
/// Leaves the statistics out of the replies.
const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index.
    pub index: u32,
    /// Its name; up to 15 bytes.
    pub name: String,
    /// Its Ethernet address; zero if it has none.
    pub mac: [u8; 6],
    /// Bytes of an IP packet that it takes.
    pub mtu: u32,
    /// Is it administratively up (IFF_UP)? The carrier may be missing.
    pub up: bool,
    /// Is it the loopback interface?
    pub loopback: bool,
    /// Does it carry Ethernet frames (and is not the loopback)?
    pub ethernet: bool,
    /// The kind of a virtual interface: "veth", "bridge", "bond", "vlan"...
    pub kind: Option<String>,
    /// The bridge, bond or VRF that it belongs to.
    pub master: Option<u32>,
    /// The XDP program attached to it.
    pub xdp_program: Option<u32>,
}

impl Netlink {
    /// All interfaces of this network namespace.
    pub fn links(&mut self) -> Result<Vec<Link>, i32> {
        let mask = RTEXT_FILTER_SKIP_STATS.to_ne_bytes();
        let request = Request::new(RTM_GETLINK, NLM_F_DUMP, &[0; HEADER]).attribute(IFLA_EXT_MASK, &mask);
        self.dump(request, Link::parse)
    }
}

impl Link {
    /// `None` for messages that speak of a port of a bridge and not of an interface.
    pub(crate) fn parse(message: &Message<'_>) -> Option<Link> {
        const ARPHRD_ETHER: u16 = 1;
        if message.body.first() != Some(&(libc::AF_UNSPEC as u8)) {
            return None;
        }
        let flags = u32_at(message.body, 8)?;
        let attributes = message.attributes(HEADER);
        let loopback = flags & libc::IFF_LOOPBACK as u32 != 0;
        let kind = attributes.find(IFLA_LINKINFO).and_then(|info| Attributes(info).find(IFLA_INFO_KIND));
        let program = attributes.find(IFLA_XDP).and_then(|xdp| Attributes(xdp).find(IFLA_XDP_PROG_ID));
        Some(Link {
            index: Self::index(message)?,
            name: text(attributes.find(IFLA_IFNAME)?),
            mac: attributes.find(IFLA_ADDRESS).and_then(mac).unwrap_or_default(),
            mtu: attributes.find(IFLA_MTU).and_then(|value| u32_at(value, 0)).unwrap_or(0),
            up: flags & libc::IFF_UP as u32 != 0,
            loopback,
            ethernet: u16_at(message.body, 2)? == ARPHRD_ETHER && !loopback,
            kind: kind.map(text),
            master: attributes.find(IFLA_MASTER).and_then(|value| u32_at(value, 0)),
            xdp_program: program.and_then(|value| u32_at(value, 0)),
        })
    }

    pub(crate) fn index(message: &Message<'_>) -> Option<u32> {
        u32_at(message.body, 4)
    }
}

fn text(value: &[u8]) -> String {
    let bytes = value.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}
