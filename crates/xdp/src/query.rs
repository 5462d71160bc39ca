//! What only netlink answers: which XDP features a driver announces, and an interface's program, carrier and packets.
//! (Routes and neighbours are another crate's; this is one request and one reply.)

use sys::Result;

const NETLINK_ROUTE: i32 = 0;
const NETLINK_GENERIC: i32 = 16;
const RTM_GETLINK: u16 = 18;
const IFLA_STATS64: u16 = 23;
const IFLA_CARRIER: u16 = 33;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_PROG_ID: u16 = 4;
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u32 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u32 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NLMSG_ERROR: u16 = 2;

/// Basic actions and redirection in the driver's own hook.
pub const NATIVE: u64 = 1 | 2;
/// AF_XDP without copies.
pub const ZERO_COPY: u64 = 8;

/// `xdp-features` of the netdev family. EOPNOTSUPP or ENOENT: a kernel without it (before 6.3).
pub fn xdp_features(interface: u32) -> Result<u64> {
    let version = 1 << 8;
    let name = (CTRL_ATTR_FAMILY_NAME, &b"netdev\0"[..]);
    let reply =
        ask(NETLINK_GENERIC, GENL_ID_CTRL, &(CTRL_CMD_GETFAMILY | version).to_ne_bytes(), Some(name))?;
    let family = attribute(reply.get(4..).unwrap_or_default(), CTRL_ATTR_FAMILY_ID).ok_or(libc::ENOENT)?;
    let family = u16::from_ne_bytes(family.get(..2).ok_or(libc::EPROTO)?.try_into().unwrap_or_default());
    let index = (NETDEV_A_DEV_IFINDEX, &interface.to_ne_bytes()[..]);
    let reply = ask(NETLINK_GENERIC, family, &(NETDEV_CMD_DEV_GET | version).to_ne_bytes(), Some(index))?;
    let features =
        attribute(reply.get(4..).unwrap_or_default(), NETDEV_A_DEV_XDP_FEATURES).ok_or(libc::ENOENT)?;
    Ok(u64::from_ne_bytes(features.get(..8).ok_or(libc::EPROTO)?.try_into().unwrap_or_default()))
}

/// The id of the XDP program on an interface, if there is one.
pub fn xdp_program(interface: u32) -> Option<u32> {
    let reply = link(interface)?;
    let id = attribute(attribute(reply.get(16..)?, IFLA_XDP)?, IFLA_XDP_PROG_ID)?;
    Some(u32::from_ne_bytes(id.get(..4)?.try_into().ok()?))
}

/// Whether the interface has a carrier, as the driver says.
pub(crate) fn has_carrier(interface: u32) -> Option<bool> {
    let reply = link(interface)?;
    Some(*attribute(reply.get(16..)?, IFLA_CARRIER)?.first()? != 0)
}

/// Packets that the interface has received.
pub(crate) fn received_packets(interface: u32) -> Option<u64> {
    let reply = link(interface)?;
    // struct rtnl_link_stats64 begins with them.
    let statistics = attribute(reply.get(16..)?, IFLA_STATS64)?;
    Some(u64::from_ne_bytes(statistics.get(..8)?.try_into().ok()?))
}

fn link(interface: u32) -> Option<Vec<u8>> {
    // struct ifinfomsg: family, pad, type, index, flags, change.
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&interface.to_ne_bytes());
    ask(NETLINK_ROUTE, RTM_GETLINK, &header, None).ok()
}

/// One request with a family header and at most one attribute; what follows the reply's netlink header.
fn ask(protocol: i32, kind: u16, header: &[u8], attribute: Option<(u16, &[u8])>) -> Result<Vec<u8>> {
    const NLM_F_REQUEST: u16 = 1;
    let mut message = vec![0; 16];
    message[4..6].copy_from_slice(&kind.to_ne_bytes());
    message[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    message.extend_from_slice(header);
    if let Some((kind, value)) = attribute {
        message.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(value);
        message.resize(message.len().next_multiple_of(4), 0);
    }
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());

    let socket = sys::socket::socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol)?;
    sys::socket::send(socket.raw(), &message, 0)?;
    let mut reply = vec![0; 32 << 10];
    let got = loop {
        match sys::socket::receive(socket.raw(), &mut reply, 0) {
            Err(libc::EINTR) => {}
            outcome => break outcome?,
        }
    };
    reply.truncate(got);
    if got < 20 {
        return Err(libc::EPROTO);
    }
    if u16::from_ne_bytes([reply[4], reply[5]]) == NLMSG_ERROR {
        let code = i32::from_ne_bytes([reply[16], reply[17], reply[18], reply[19]]);
        return Err(if code < 0 { -code } else { libc::EPROTO });
    }
    let stated = u32::from_ne_bytes([reply[0], reply[1], reply[2], reply[3]]) as usize;
    reply.truncate(stated);
    Ok(reply.split_off(16))
}

/// The value of the first attribute of a kind.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    const KIND: u16 = 0x3fff;
    while bytes.len() >= 4 {
        let length = u16::from_ne_bytes([bytes[0], bytes[1]]) as usize;
        let kind = u16::from_ne_bytes([bytes[2], bytes[3]]) & KIND;
        let value = bytes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_behind_others_and_broken_ones_end_the_search() {
        let bytes = [5, 0, 1, 0, 9, 0, 0, 0, 6, 0, 2, 0, 7, 8, 0, 0];
        assert_eq!(attribute(&bytes, 2), Some(&[7u8, 8][..]));
        assert_eq!(attribute(&bytes, 3), None);
        assert_eq!(attribute(&[3, 0, 1, 0], 1), None);
        assert_eq!(attribute(&[200, 0, 1, 0, 1], 1), None);
    }

    #[test]
    fn loopback_has_no_program_and_no_zero_copy() {
        assert_eq!((xdp_program(1), has_carrier(1)), (None, Some(true)));
        assert!(received_packets(1).is_some() && received_packets(0x7fff_0000).is_none());
        assert_eq!(xdp_features(1).unwrap_or(0) & ZERO_COPY, 0);
    }
}
