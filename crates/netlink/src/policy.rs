//! IPsec policies (NETLINK_XFRM): which packets of this host's the kernel protects, blocks, or takes only protected.

use core::net::Ipv4Addr;

use sys::Fd;

use crate::Netlink;
use crate::message::{Message, NLM_F_ACK, NLM_F_DUMP, Request, u16_at, u32_at};

const XFRM_MSG_NEWPOLICY: u16 = 0x13;
const XFRM_MSG_GETPOLICY: u16 = 0x15;
const XFRM_MSG_UPDPOLICY: u16 = 0x19;
const XFRM_MSG_GETDEFAULT: u16 = 0x28;
/// The group that hears of policies, as a bit of sockaddr_nl.
const XFRMGRP_POLICY: u32 = 8;

/// Bytes of struct xfrm_userpolicy_id, which a request begins with.
const REQUEST: usize = 64;
/// Bytes of struct xfrm_userpolicy_info: selector (56), lifetimes (96), priority, index, dir, action, flags, share.
const INFO: usize = 168;
const XFRMA_TMPL: u16 = 5;
const XFRMA_IF_ID: u16 = 31;

const IN: u8 = 0;
const OUT: u8 = 1;
const ACTION_ALLOW: u8 = 0;
/// In the answer to XFRM_MSG_GETDEFAULT.
const DEFAULT_BLOCK: u8 = 1;

/// Larger than any one notification.
const BUFFER: usize = 32 << 10;

/// A policy that protects or blocks IPv4 packets between two sets of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// This host's side: address and prefix length.
    local: (Ipv4Addr, u8),
    /// The other side.
    remote: (Ipv4Addr, u8),
}

impl Policy {
    /// One that selects everything.
    pub const ALL: Policy = Policy { local: (Ipv4Addr::UNSPECIFIED, 0), remote: (Ipv4Addr::UNSPECIFIED, 0) };

    /// Whether it could select packets between these addresses; `None`: any. Protocol, ports, marks and priorities are
    /// not looked at: the answer may be true for nothing, and is never false for something.
    pub fn could_select(&self, local: Option<Ipv4Addr>, remote: Option<Ipv4Addr>) -> bool {
        let covers = |(prefix, length): (Ipv4Addr, u8), address: Option<Ipv4Addr>| {
            let differing =
                address.map_or(0, |address| (prefix.to_bits() ^ address.to_bits()).leading_zeros());
            address.is_none() || differing >= u32::from(length)
        };
        covers(self.local, local) && covers(self.remote, remote)
    }

    /// `None`: it concerns forwarded packets, a single socket, another family, or a virtual interface; or it lets pass.
    pub(crate) fn parse(message: &Message<'_>) -> Option<Policy> {
        let body = message.body;
        let (family, direction, action) = (u16_at(body, 40)?, *body.get(160)?, *body.get(161)?);
        let attributes = message.attributes(INFO);
        let is_guard =
            action != ACTION_ALLOW || attributes.find(XFRMA_TMPL).is_some_and(|all| !all.is_empty());
        let for_interface =
            attributes.find(XFRMA_IF_ID).and_then(|id| u32_at(id, 0)).is_some_and(|id| id != 0);
        let family_fits = matches!(i32::from(family), libc::AF_INET | libc::AF_UNSPEC);
        if !is_guard || for_interface || !family_fits {
            return None;
        }
        let side = |at: usize, length: usize| {
            Some((
                Ipv4Addr::from(<[u8; 4]>::try_from(body.get(at..at + 4)?).ok()?),
                (*body.get(length)?).min(32),
            ))
        };
        let (destination, source) = (side(0, 42)?, side(16, 43)?);
        match direction {
            OUT => Some(Policy { local: source, remote: destination }),
            IN => Some(Policy { local: destination, remote: source }),
            _ => None,
        }
    }
}

impl Netlink {
    /// A socket for questions about IPsec.
    pub fn open_xfrm() -> Result<Netlink, i32> {
        Self::open_for(libc::NETLINK_XFRM)
    }

    /// The policies that protect or block. EPERM: that takes CAP_NET_ADMIN.
    pub fn policies(&mut self) -> Result<Vec<Policy>, i32> {
        let request = Request::new(XFRM_MSG_GETPOLICY, NLM_F_DUMP, &[0; REQUEST]);
        let mut all = self.dump(request, |message| {
            (message.kind == XFRM_MSG_NEWPOLICY).then(|| Policy::parse(message)).flatten()
        })?;
        // What no policy selects passes by default. (Kernels before 5.14 know no other way.)
        let mut request = Request::new(XFRM_MSG_GETDEFAULT, NLM_F_ACK, &[0; 4]);
        let mut blocks = false;
        let _ = self.ask(&mut request, |message| {
            let of = |direction: usize| message.body.get(direction) == Some(&DEFAULT_BLOCK);
            // struct xfrm_userpolicy_default: in, forward, out.
            blocks |= message.kind == XFRM_MSG_GETDEFAULT && (of(0) || of(2));
        });
        if blocks {
            all.push(Policy::ALL);
        }
        Ok(all)
    }
}

/// A socket that hears of changes of policies. Making it takes CAP_NET_ADMIN, using it does not.
pub struct PolicyMonitor {
    socket: Fd,
}

impl PolicyMonitor {
    /// Follows this thread's network namespace from now on.
    pub fn open() -> Result<PolicyMonitor, i32> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK;
        let socket = sys::socket::socket(libc::AF_NETLINK, kind, libc::NETLINK_XFRM)?;
        // struct sockaddr_nl: family and padding (u16 each), port, groups.
        let family = u32::from_ne_bytes([libc::AF_NETLINK as u8, 0, 0, 0]);
        sys::socket::bind(socket.raw(), &[family, 0, XFRMGRP_POLICY])?;
        Ok(PolicyMonitor { socket })
    }

    /// For a process that may not ask: what hears of changes, and then whether there are policies. Nothing is missed
    /// between.
    pub fn for_another() -> Result<(Fd, bool), i32> {
        match PolicyMonitor::open() {
            Ok(monitor) => {
                let policies = Netlink::open_xfrm()?.policies()?;
                Ok((monitor.socket, !policies.is_empty()))
            }
            // This kernel has no such policies, and nothing to hear of them.
            Err(libc::EPROTONOSUPPORT) => sys::fd::eventfd().map(|nothing| (nothing, false)),
            Err(errno) => Err(errno),
        }
    }

    /// One that somebody opened who may, and passed.
    pub fn received(socket: Fd) -> PolicyMonitor {
        PolicyMonitor { socket }
    }

    /// Readable while something changed.
    pub fn descriptor(&self) -> i32 {
        self.socket.raw()
    }

    /// What changed, without waiting: the policies that are new, for those who may not ask for all. `None`: nothing.
    pub fn changed(&self) -> Option<Vec<Policy>> {
        let mut buffer = vec![0; BUFFER];
        let mut new = None;
        loop {
            let got = match sys::socket::receive(self.socket.raw(), &mut buffer, 0) {
                Ok(0) => return new,
                Ok(got) => got,
                Err(libc::EINTR) => continue,
                // Notifications were lost: anything may be new.
                Err(libc::ENOBUFS) => {
                    new.get_or_insert_with(Vec::new).push(Policy::ALL);
                    continue;
                }
                Err(_) => return new,
            };
            let mut rest = &buffer[..got];
            let new = new.get_or_insert_with(Vec::new);
            while let Some((message, after)) = Message::first(rest) {
                rest = after;
                match message.kind {
                    XFRM_MSG_NEWPOLICY | XFRM_MSG_UPDPOLICY => new.extend(Policy::parse(&message)),
                    XFRM_MSG_GETDEFAULT => new.push(Policy::ALL),
                    _ => {}
                }
            }
        }
    }
}
