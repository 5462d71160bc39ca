//! What net.ipv4.conf says of an interface.

use crate::Netlink;
use crate::message::{Message, NLM_F_ACK, Request, u32_at};

pub(crate) const RTM_NEWNETCONF: u16 = 80;
const RTM_GETNETCONF: u16 = 82;
/// Bytes of struct netconfmsg (the family), with what aligns the attributes.
const HEADER: usize = 4;

const NETCONFA_IFINDEX: u16 = 1;
const NETCONFA_RP_FILTER: u16 = 3;
/// In the place of an interface: what holds for all of them.
const ALL: u32 = u32::MAX;

impl Netlink {
    /// rp_filter of an interface as the kernel applies it: the larger of its own and that of all. 0: no filter, 1:
    /// strict, 2: loose (RFC 3704).
    pub fn reverse_path_filter(&mut self, link: u32) -> Result<u32, i32> {
        Ok(self.filter_of(link)?.max(self.filter_of(ALL)?))
    }

    fn filter_of(&mut self, link: u32) -> Result<u32, i32> {
        let header = [libc::AF_INET as u8, 0, 0, 0];
        let mut request =
            Request::new(RTM_GETNETCONF, NLM_F_ACK, &header).attribute(NETCONFA_IFINDEX, &link.to_ne_bytes());
        let mut found = Err(libc::ENODEV);
        self.ask(&mut request, |message| {
            if message.kind == RTM_NEWNETCONF {
                found = filter(message).ok_or(libc::EPROTO);
            }
        })?;
        found
    }
}

fn filter(message: &Message<'_>) -> Option<u32> {
    message.attributes(HEADER).find(NETCONFA_RP_FILTER).and_then(|value| u32_at(value, 0))
}
