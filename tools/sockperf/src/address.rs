//! Socket addresses of all three families in the form the system calls want, and host names turned into them.

use std::ffi::{CStr, CString};
use std::fmt;
use std::mem::{offset_of, size_of};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use libc::{sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, sockaddr_un, socklen_t};

use crate::exit::{Code, Failure, Result};

/// A socket address: IPv4, IPv6 or a Unix path.
#[derive(Clone, Copy)]
pub struct Address {
    storage: sockaddr_storage,
    len: socklen_t,
}

impl Default for Address {
    fn default() -> Self {
        // SAFETY: all-zero bytes are a valid sockaddr_storage of family AF_UNSPEC.
        Address { storage: unsafe { std::mem::zeroed() }, len: size_of::<sockaddr_storage>() as socklen_t }
    }
}

impl Address {
    /// An IPv4 or IPv6 address with its port.
    pub fn from_ip(address: SocketAddr) -> Address {
        let mut this = Address::default();
        match address {
            SocketAddr::V4(v4) => {
                let raw = sockaddr_in {
                    sin_family: libc::AF_INET as u16,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
                this.put(raw);
            }
            SocketAddr::V6(v6) => {
                let raw = sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as u16,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                this.put(raw);
            }
        }
        this
    }

    /// A Unix socket path.
    pub fn from_path(path: &str) -> Result<Address> {
        let mut this = Address::default();
        // SAFETY: all-zero bytes are a valid sockaddr_un.
        let mut raw: sockaddr_un = unsafe { std::mem::zeroed() };
        raw.sun_family = libc::AF_UNIX as u16;
        if path.len() >= raw.sun_path.len() || path.contains('\0') {
            return Err(Failure::new(
                Code::Argument,
                format!(
                    "'{path}' is too long for a Unix socket path (at most {} bytes)",
                    raw.sun_path.len() - 1
                ),
            ));
        }
        for (to, from) in raw.sun_path.iter_mut().zip(path.bytes()) {
            *to = from as libc::c_char;
        }
        this.put(raw);
        this.len = (offset_of!(sockaddr_un, sun_path) + path.len() + 1) as socklen_t;
        Ok(this)
    }

    /// Room for the kernel to fill, when the caller wants it filled.
    #[inline]
    pub fn default_if(wanted: bool) -> Option<Address> {
        if wanted { Some(Address::default()) } else { None }
    }

    fn put<T: Copy>(&mut self, raw: T) {
        assert!(size_of::<T>() <= size_of::<sockaddr_storage>());
        // SAFETY: sockaddr_storage is as large and as aligned as every sockaddr type written here.
        unsafe { (&raw mut self.storage).cast::<T>().write(raw) };
        self.len = size_of::<T>() as socklen_t;
    }

    /// For the kernel to read.
    #[inline]
    pub fn as_ptr(&self) -> *const sockaddr {
        (&raw const self.storage).cast()
    }

    /// For the kernel to fill, with the length in and out.
    #[inline]
    pub fn as_out(&mut self) -> (*mut sockaddr, *mut socklen_t) {
        self.len = size_of::<sockaddr_storage>() as socklen_t;
        ((&raw mut self.storage).cast(), &raw mut self.len)
    }

    /// Length of the address in bytes.
    #[inline]
    pub fn len(&self) -> socklen_t {
        self.len
    }

    /// AF_INET, AF_INET6 or AF_UNIX.
    #[inline]
    pub fn family(&self) -> i32 {
        i32::from(self.storage.ss_family)
    }

    /// The IP address and port; `None` for a Unix path.
    pub fn ip(&self) -> Option<SocketAddr> {
        match self.family() {
            libc::AF_INET => {
                // SAFETY: the family says which sockaddr the storage holds.
                let raw = unsafe { (&raw const self.storage).cast::<sockaddr_in>().read() };
                let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddr::from((ip, u16::from_be(raw.sin_port))))
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let raw = unsafe { (&raw const self.storage).cast::<sockaddr_in6>().read() };
                let v6 = std::net::SocketAddrV6::new(
                    raw.sin6_addr.s6_addr.into(),
                    u16::from_be(raw.sin6_port),
                    raw.sin6_flowinfo,
                    raw.sin6_scope_id,
                );
                Some(SocketAddr::V6(v6))
            }
            _ => None,
        }
    }

    /// The path of a Unix address; empty when it has none.
    pub fn path(&self) -> Option<String> {
        if self.family() != libc::AF_UNIX {
            return None;
        }
        // SAFETY: the family says which sockaddr the storage holds, and the storage is zeroed behind it.
        let raw = unsafe { (&raw const self.storage).cast::<sockaddr_un>().read() };
        let bytes: Vec<u8> = raw.sun_path.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// True for a multicast group.
    pub fn is_multicast(&self) -> bool {
        self.ip().is_some_and(|a| a.ip().is_multicast())
    }

    /// True for 0.0.0.0 and ::.
    pub fn is_wildcard(&self) -> bool {
        self.ip().is_some_and(|a| a.ip().is_unspecified())
    }

    /// A number that tells two peers apart: exact for IPv4, a hash otherwise.
    #[inline]
    pub fn key(&self) -> u64 {
        if self.family() == libc::AF_INET {
            // SAFETY: the storage is larger than eight bytes; for AF_INET bytes 2..8 are port and address.
            let head = unsafe { self.as_ptr().cast::<u64>().read_unaligned() };
            return head >> 16;
        }
        self.hashed()
    }

    #[cold]
    fn hashed(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        match self.ip() {
            Some(ip) => ip.hash(&mut hasher),
            None => self.path().hash(&mut hasher),
        }
        hasher.finish() | 1 << 63
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.ip(), self.path()) {
            (Some(ip), _) => ip.fmt(f),
            (_, Some(path)) => f.write_str(&path),
            _ => f.write_str("unknown"),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `host` (an address or a name, IPv4 preferred) with `port`; an absolute path is a Unix socket.
pub fn resolve(host: &str, port: u16) -> Result<Address> {
    if host.starts_with('/') {
        return Address::from_path(host);
    }
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let (bare, scope) = bare.split_once('%').map_or((bare, None), |(h, s)| (h, Some(s)));
    if let Ok(ip) = bare.parse::<IpAddr>() {
        let mut address = SocketAddr::new(ip, port);
        if let (SocketAddr::V6(v6), Some(scope)) = (&mut address, scope) {
            v6.set_scope_id(interface_index(scope)?);
        }
        return Ok(Address::from_ip(address));
    }
    use std::net::ToSocketAddrs;
    let missing = |e| Failure::new(Code::NotFound, format!("cannot resolve host '{host}': {e}"));
    let found: Vec<SocketAddr> = (bare, port).to_socket_addrs().map_err(missing)?.collect();
    let best = found.iter().find(|a| a.is_ipv4()).or(found.first());
    best.map(|a| Address::from_ip(*a))
        .ok_or_else(|| Failure::new(Code::NotFound, format!("host '{host}' has no address")))
}

/// Index of a network interface given by name or number.
pub fn interface_index(name: &str) -> Result<u32> {
    if let Ok(index) = name.parse() {
        return Ok(index);
    }
    let missing = || Failure::new(Code::NotFound, format!("there is no network interface '{name}'"));
    let name = CString::new(name).map_err(|_| missing())?;
    // SAFETY: `name` is a NUL-terminated string.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(missing()),
        index => Ok(index),
    }
}

/// Non-loopback IPv4 addresses of this host.
pub fn local_ipv4() -> Vec<Ipv4Addr> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call fills `list`, which is freed below.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut entry = list;
    while !entry.is_null() {
        // SAFETY: `entry` is an element of the list the call made.
        let element = unsafe { &*entry };
        if !element.ifa_addr.is_null() {
            // SAFETY: the address is not null; its family is readable for every kind of address.
            let family = i32::from(unsafe { (*element.ifa_addr).sa_family });
            if family == libc::AF_INET {
                // SAFETY: the family says it is a sockaddr_in.
                let raw = unsafe { element.ifa_addr.cast::<sockaddr_in>().read_unaligned() };
                let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
                if !ip.is_loopback() && !found.contains(&ip) {
                    found.push(ip);
                }
            }
        }
        entry = element.ifa_next;
    }
    // SAFETY: the list came from getifaddrs and is not used afterwards.
    unsafe { libc::freeifaddrs(list) };
    found
}

/// The text of a C string that libc handed out, for example by `dlerror`.
pub fn text_of(c: *const libc::c_char) -> String {
    if c.is_null() {
        return String::from("unknown error");
    }
    // SAFETY: not null, and libc's strings are NUL-terminated.
    unsafe { CStr::from_ptr(c) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernels_form() {
        for text in ["10.1.2.3:80", "[fe80::1]:11111", "224.4.0.3:17000"] {
            let ip: SocketAddr = text.parse().unwrap();
            assert_eq!(Address::from_ip(ip).ip(), Some(ip));
            assert_eq!(Address::from_ip(ip).to_string(), text);
        }
        let unix = Address::from_path("/tmp/x").unwrap();
        assert_eq!((unix.path().as_deref(), unix.len()), (Some("/tmp/x"), 2 + 7));
        assert!(Address::from_path(&"/x".repeat(100)).is_err());
    }

    #[test]
    fn keys_tell_ports_and_hosts_apart() {
        let key = |text: &str| Address::from_ip(text.parse().unwrap()).key();
        assert_ne!(key("10.0.0.1:1"), key("10.0.0.1:2"));
        assert_ne!(key("10.0.0.1:1"), key("10.0.0.2:1"));
        assert_ne!(key("[::1]:1"), key("[::1]:2"));
        assert_eq!(key("[::1]:1"), key("[::1]:1"));
    }

    #[test]
    fn hosts_resolve_by_address_name_and_path() {
        assert_eq!(resolve("127.0.0.1", 5).unwrap().to_string(), "127.0.0.1:5");
        assert_eq!(resolve("[::1]", 5).unwrap().to_string(), "[::1]:5");
        assert_eq!(resolve("/tmp/s", 5).unwrap().family(), libc::AF_UNIX);
        assert_eq!(resolve("nohost.invalid", 5).unwrap_err().code, Code::NotFound);
    }
}
