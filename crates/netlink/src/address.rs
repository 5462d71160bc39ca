//! Addresses of this host.

use core::net::Ipv4Addr;

use crate::Netlink;
use crate::message::{Message, NLM_F_DUMP, Request, ipv4, u32_at};

pub(crate) const RTM_NEWADDR: u16 = 20;
pub(crate) const RTM_DELADDR: u16 = 21;
const RTM_GETADDR: u16 = 22;
/// Bytes of struct ifaddrmsg: family, prefix length, flags, scope, index (u32).
const HEADER: usize = 8;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_BROADCAST: u16 = 4;

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The interface's index.
    pub link: u32,
    /// Ours, also on a point-to-point interface.
    pub address: Ipv4Addr,
    /// Bits of the network's prefix.
    pub prefix: u8,
    /// The directed broadcast address, if one is set.
    pub broadcast: Option<Ipv4Addr>,
}

impl Netlink {
    /// All IPv4 addresses of this network namespace.
    pub fn addresses(&mut self) -> Result<Vec<Address>, i32> {
        let header = [libc::AF_INET as u8, 0, 0, 0, 0, 0, 0, 0];
        self.dump(Request::new(RTM_GETADDR, NLM_F_DUMP, &header), Address::parse)
    }
}

impl Address {
    pub(crate) fn parse(message: &Message<'_>) -> Option<Address> {
        let &[family, prefix, ..] = message.body else { return None };
        if family != libc::AF_INET as u8 {
            return None;
        }
        let attributes = message.attributes(HEADER);
        Some(Address {
            link: u32_at(message.body, 4)?,
            address: attributes.find(IFA_LOCAL).or_else(|| attributes.find(IFA_ADDRESS)).and_then(ipv4)?,
            prefix,
            broadcast: attributes.find(IFA_BROADCAST).and_then(ipv4),
        })
    }
}
