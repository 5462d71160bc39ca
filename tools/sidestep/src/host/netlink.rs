//! Netlink: which chains of nf_tables hang at the hooks, what the audit system does; and the pair of interfaces that
//! measurements make for themselves.

use super::facts::{Audit, Firewall};

type Result<T> = core::result::Result<T, i32>;

const NETLINK_AUDIT: i32 = 9;
const NETLINK_NETFILTER: i32 = 12;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// A host has no more chains, rules of audit or interfaces than fit into so many replies.
const REPLIES_MAX: usize = 4096;

/// Chains with a hook: `inet filter input (12 rules)`.
pub(super) fn firewall() -> Result<Firewall> {
    const GETCHAIN: u16 = 10 << 8 | 4;
    let mut chains = Vec::new();
    for reply in ask(NETLINK_NETFILTER, GETCHAIN, NLM_F_DUMP, &[0; 4])? {
        let family = match reply.first() {
            Some(1) => "inet",
            Some(2) => "ip",
            Some(3) => "arp",
            Some(5) => "netdev",
            Some(7) => "bridge",
            Some(10) => "ip6",
            _ => "?",
        };
        let attributes = reply.get(4..).unwrap_or_default();
        let text = |kind| {
            let value = attribute(attributes, kind).unwrap_or_default();
            String::from_utf8_lossy(value.strip_suffix(&[0]).unwrap_or(value)).into_owned()
        };
        const HOOK: u16 = 4;
        const USE: u16 = 6;
        if attribute(attributes, HOOK).is_none() {
            continue;
        }
        let rules =
            attribute(attributes, USE).and_then(|value| value.try_into().ok()).map_or(0, u32::from_be_bytes);
        chains.push(format!("{family} {} {} ({rules} rules)", text(1), text(3)));
    }
    chains.sort();
    Ok(Firewall { chains })
}

/// AUDIT_GET, and the number of rules.
pub(super) fn audit() -> Result<Audit> {
    const GET: u16 = 1000;
    const LIST_RULES: u16 = 1013;
    let replies = ask(NETLINK_AUDIT, GET, 0, &[])?;
    // struct audit_status: mask, enabled, ...
    let enabled = replies.first().and_then(|reply| reply.get(4..8)).ok_or(libc::EPROTO)?;
    let rules = ask(NETLINK_AUDIT, LIST_RULES, NLM_F_DUMP, &[]).ok();
    let rules = rules.and_then(|rules| u32::try_from(rules.len()).ok());
    Ok(Audit { enabled: enabled != [0; 4], rules })
}

/// The number of both ends of a pair, each in its own namespace.
pub(crate) const VETH_INDEX: u32 = 10;

/// Makes a pair of veth; the other end is in the namespace that `other` is open to.
pub(crate) fn make_veth(name: &str, peer: &str, other: i32) -> std::io::Result<()> {
    const IFLA_IFNAME: u16 = 3;
    const IFLA_LINKINFO: u16 = 18;
    const IFLA_NET_NS_FD: u16 = 28;
    const INFO_KIND: u16 = 1;
    const INFO_DATA: u16 = 2;
    const PEER: u16 = 1;
    let text = |text: &str| [text.as_bytes(), &[0]].concat();
    let mut far = link(0);
    far.extend(packed(IFLA_IFNAME, &text(peer)));
    far.extend(packed(IFLA_NET_NS_FD, &other.to_ne_bytes()));
    let information = [packed(INFO_KIND, &text("veth")), packed(INFO_DATA, &packed(PEER, &far))].concat();
    let mut message = link(0);
    message.extend(packed(IFLA_IFNAME, &text(name)));
    message.extend(packed(IFLA_LINKINFO, &information));
    const CREATE: u16 = 0x400 | 0x200;
    command(RTM_NEWLINK, CREATE, &message)
}

/// Gives an interface an address of a network of 24 bits, and sets it up.
pub(crate) fn set_up(interface: u32, address: std::net::Ipv4Addr) -> std::io::Result<()> {
    const RTM_NEWADDR: u16 = 20;
    const IFA_ADDRESS: u16 = 1;
    const IFA_LOCAL: u16 = 2;
    // struct ifaddrmsg: family, prefix, flags, scope, index.
    let mut message = vec![libc::AF_INET as u8, 24, 0, 0];
    message.extend(interface.to_ne_bytes());
    message.extend(packed(IFA_LOCAL, &address.octets()));
    message.extend(packed(IFA_ADDRESS, &address.octets()));
    command(RTM_NEWADDR, 0x400, &message)?;
    let mut up = link(libc::IFF_UP as u32);
    up[4..8].copy_from_slice(&interface.to_ne_bytes());
    command(RTM_NEWLINK, 0, &up)
}

const RTM_NEWLINK: u16 = 16;

/// struct ifinfomsg: family, pad, type, index, flags, change.
fn link(flags: u32) -> Vec<u8> {
    let mut header = vec![0; 16];
    header[4..8].copy_from_slice(&VETH_INDEX.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&flags.to_ne_bytes());
    header
}

fn packed(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (value.len() as u16 + 4).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A request that the kernel acknowledges.
fn command(kind: u16, flags: u16, payload: &[u8]) -> std::io::Result<()> {
    const NETLINK_ROUTE: i32 = 0;
    const ACK: u16 = 4;
    ask(NETLINK_ROUTE, kind, flags | ACK, payload).map(|_| ()).map_err(std::io::Error::from_raw_os_error)
}

/// One request; the payloads of all replies.
fn ask(protocol: i32, kind: u16, flags: u16, payload: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut message = Vec::with_capacity(16 + payload.len());
    message.extend_from_slice(&(16 + payload.len() as u32).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&(NLM_F_REQUEST | flags).to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(payload);
    let socket = sys::socket::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol)?;
    let patience = libc::timeval { tv_sec: 1, tv_usec: 0 };
    sys::socket::set_option(socket.raw(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, &patience)?;
    sys::socket::send(socket.raw(), &message, 0)?;
    let mut replies = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    while replies.len() < REPLIES_MAX {
        let got = match sys::socket::receive(socket.raw(), &mut buffer, 0) {
            Err(libc::EINTR) => continue,
            outcome => outcome?,
        };
        let mut rest = &buffer[..got];
        while let Some(header) = rest.get(..16) {
            let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
            let Some(body) = rest.get(16..length) else { return Err(libc::EPROTO) };
            match u16::from_ne_bytes([header[4], header[5]]) {
                NLMSG_DONE => return Ok(replies),
                NLMSG_ERROR => {
                    let code = body
                        .get(..4)
                        .and_then(|code| code.try_into().ok())
                        .map_or(-libc::EPROTO, i32::from_ne_bytes);
                    return if code == 0 { Ok(replies) } else { Err(-code) };
                }
                _ => replies.push(body.to_vec()),
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        if flags & NLM_F_DUMP != NLM_F_DUMP && !replies.is_empty() {
            break;
        }
    }
    Ok(replies)
}

/// The value of the first attribute of a kind.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    while bytes.len() >= 4 {
        let length = u16::from_ne_bytes([bytes[0], bytes[1]]) as usize;
        let kind = u16::from_ne_bytes([bytes[2], bytes[3]]) & 0x3fff;
        let value = bytes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
    None
}
