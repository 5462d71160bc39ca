//! libsdp.so's view of the calls that make, name and connect sockets: families of its own, and a look at the others.
//!
//! A program converts its source by another family: 26 in Topspin's manual, 27 in OFED, 28 for IPv6. Linux uses 26 for
//! LLC and has no sockets of 27 (InfiniBand) and 28 (MPLS). So only stream sockets are converted, and only where the
//! kernel has no such family.

use crate::genuine::{errno, set_errno};
use crate::inside::opening;
use crate::start;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use libc::{c_int, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};
use sockets::{Answer, Stop, calls};

/// The low bits of a socket's type.
const KIND: c_int = 0xf;

/// AF_INET_SDP in Topspin's manual.
const INET_SDP_TOPSPIN: c_int = 26;
/// AF_INET_SDP in OFED.
const INET_SDP_OFED: c_int = 27;
/// AF_INET6_SDP.
const INET6_SDP: c_int = 28;

/// The family that the kernel knows by another number.
fn plain(family: c_int) -> Option<c_int> {
    match family {
        INET_SDP_TOPSPIN | INET_SDP_OFED => Some(libc::AF_INET),
        INET6_SDP => Some(libc::AF_INET6),
        _ => None,
    }
}

/// socket(2) of libsdp.so.
pub(super) fn socket(
    domain: c_int,
    kind: c_int,
    protocol: c_int,
    genuine: impl Fn(c_int, c_int, c_int) -> c_int,
) -> c_int {
    let is_tcp = kind & KIND == libc::SOCK_STREAM && matches!(protocol, 0 | libc::IPPROTO_TCP);
    let converted = plain(domain).filter(|_| is_tcp);
    if is_tcp && (converted.is_some() || matches!(domain, libc::AF_INET | libc::AF_INET6)) {
        match converted {
            Some(_) => start::ensure_awake(),
            None => start::ensure(),
        };
    }
    let mut fd = opening(|| genuine(domain, kind, protocol));
    let mut shown = "";
    if let Some(family) = converted
        && fd < 0
        && !matches!(errno(), libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    {
        fd = opening(|| genuine(family, kind, protocol));
        shown = ", a TCP socket in the place of one of SDP";
        if fd >= 0 && start::running() {
            calls::sdp::asks(fd);
        }
    }
    let failure = errno();
    if start::running() && start::own_process() {
        start::gave(fd);
        if is_tcp {
            logger::fine!("socket(family {domain}): fd {fd}{shown}");
        }
        told(format_args!("socket({domain}, {kind:#x}, {protocol})"), fd);
        if converted.is_some() && shown.is_empty() && fd >= 0 {
            logger::warning!(
                "socket(family {domain}): the kernel has sockets of this family (AF_LLC is 26); for SDP use {INET_SDP_OFED}"
            );
        }
    }
    set_errno(failure);
    fd
}

/// A name that the program gave, in a family that the kernel knows.
pub(super) struct Name {
    given: (*const sockaddr, socklen_t),
    copy: Option<sockaddr_storage>,
    /// What it says, if it is of one of the two families.
    pub(super) address: Option<SocketAddr>,
}

impl Name {
    /// # Safety
    /// `name` is valid for `len` bytes, or is no address of user space.
    pub(super) unsafe fn new(name: *const sockaddr, len: socklen_t) -> Name {
        let mut made = Name { given: (name, len), copy: None, address: None };
        let length = len as usize;
        if !calls::can_be_read(name.cast(), length)
            || !(size_of::<sockaddr_in>()..=size_of::<sockaddr_storage>()).contains(&length)
        {
            return made;
        }
        // SAFETY: all zeros is a sockaddr_storage, which is larger than what is copied from the application.
        let mut copy: sockaddr_storage = unsafe {
            let mut copy: sockaddr_storage = core::mem::zeroed();
            core::ptr::copy_nonoverlapping(name.cast::<u8>(), (&raw mut copy).cast::<u8>(), length);
            copy
        };
        let family = c_int::from(copy.ss_family);
        if let Some(plain) = plain(family) {
            copy.ss_family = plain as libc::sa_family_t;
            made.copy = Some(copy);
        }
        made.address = match c_int::from(copy.ss_family) {
            libc::AF_INET => {
                // SAFETY: a sockaddr_storage has room for it, and all its bytes are initialised.
                let name = unsafe { *(&raw const copy).cast::<sockaddr_in>() };
                let address = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
                Some((IpAddr::V4(address), u16::from_be(name.sin_port)).into())
            }
            libc::AF_INET6 if length >= size_of::<sockaddr_in6>() => {
                // SAFETY: as above.
                let name = unsafe { *(&raw const copy).cast::<sockaddr_in6>() };
                let address = Ipv6Addr::from(name.sin6_addr.s6_addr);
                Some((IpAddr::V6(address), u16::from_be(name.sin6_port)).into())
            }
            _ => None,
        };
        made
    }

    /// For the kernel; valid as long as this stays where it is.
    fn pointer(&self) -> *const sockaddr {
        self.copy.as_ref().map_or(self.given.0, |copy| core::ptr::from_ref(copy).cast())
    }

    /// Calls `genuine` with it, and tells the call.
    pub(super) fn call(
        &self,
        call: &str,
        fd: c_int,
        genuine: impl FnOnce(*const sockaddr) -> c_int,
    ) -> c_int {
        let value = opening(|| genuine(self.pointer()));
        match self.address {
            Some(address) => told(format_args!("{call}({fd}, {address})"), value),
            None => told(format_args!("{call}({fd}, ...)"), value),
        }
    }
}

/// A connection that was accepted ends as if nobody had listened.
pub(super) fn reset(fd: c_int) {
    let failure = errno();
    let now = libc::linger { l_onoff: 1, l_linger: 0 };
    let (value, len) = ((&raw const now).cast(), size_of::<libc::linger>() as socklen_t);
    // SAFETY: the value lives for the call. The descriptor was made here, and nobody else has seen it.
    unsafe {
        super::socket::genuine::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, value, len);
        super::descriptor::genuine::close(fd);
    }
    set_errno(failure);
}

/// What the kernel answered is the answer; under libsdp.so it is told.
pub(super) fn called(
    answer: Answer<c_int>,
    call: &str,
    fd: c_int,
    genuine: impl FnOnce() -> c_int,
) -> Answer<c_int> {
    match answer {
        Err(Stop::Kernel(_)) if start::is_sdp() => {
            let value = opening(genuine);
            Ok(told(format_args!("{call}({fd}, ...)"), value))
        }
        answer => answer,
    }
}

/// Tells a call and what it returns, at libsdp's level 1. Returns that; errno stays.
fn told(call: core::fmt::Arguments<'_>, value: c_int) -> c_int {
    let failure = errno();
    match value {
        ..0 => logger::finer!("{call} = {value}, errno {failure}"),
        _ => logger::finer!("{call} = {value}"),
    }
    set_errno(failure);
    value
}

/// After listen(2), by the name that the kernel has for the socket.
pub(super) fn listens(
    fd: c_int,
    getsockname: unsafe extern "C-unwind" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int,
) {
    let failure = errno();
    // SAFETY: all zeros is a sockaddr_storage, and the kernel writes no more than `len` bytes of it.
    let name = unsafe {
        let mut name: sockaddr_storage = core::mem::zeroed();
        let mut len = size_of::<sockaddr_storage>() as socklen_t;
        match getsockname(fd, (&raw mut name).cast(), &raw mut len) {
            0 => Name::new((&raw const name).cast(), len).address,
            _ => None,
        }
    };
    if let Some(address) = name {
        calls::sdp::listens(fd, address);
    }
    set_errno(failure);
}
