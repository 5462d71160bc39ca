//! Opening sockets: options, multicast membership, bind, connect with a time limit.

use std::ffi::{c_int, c_void};
use std::net::IpAddr;
use std::sync::Arc;

use libc::{AF_INET, AF_INET6, AF_UNIX, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET, socklen_t};

use crate::address::{Address, interface_index, local_ipv4, resolve};
use crate::calls::calls;
use crate::exit::{Code, Failure, Result};
use crate::settings::{Endpoint, Mode, Settings};
use crate::stream;
use crate::tls::Session;

/// Pending connections of a listener. The original takes ten, which refuses bursts of clients.
const BACKLOG: c_int = 1024;
/// The option some accelerated systems want set before anything else.
const SO_ACCELERATE: c_int = 100;

/// An open socket; closed on drop.
pub struct Socket {
    /// The descriptor.
    pub fd: c_int,
    /// What its bytes are inside of.
    pub session: Option<Arc<Session>>,
    /// A path to remove when the socket goes.
    unlink: Option<String>,
}

impl Socket {
    fn new(family: c_int, tcp: bool) -> Result<Socket> {
        let kind = if tcp { libc::SOCK_STREAM } else { libc::SOCK_DGRAM };
        // SAFETY: no pointers.
        let fd = unsafe { (calls().socket)(family, kind | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(Failure::socket("cannot open a socket"));
        }
        Ok(Socket::from_fd(fd))
    }

    /// Takes over an accepted descriptor.
    pub fn from_fd(fd: c_int) -> Socket {
        Socket { fd, session: None, unlink: None }
    }

    /// Sets one option.
    pub fn set<T>(&self, level: c_int, option: c_int, value: &T, what: &str) -> Result<()> {
        let len = size_of::<T>() as socklen_t;
        // SAFETY: pointer and length are those of `value`.
        let rc = unsafe {
            (calls().setsockopt)(self.fd, level, option, (&raw const *value).cast::<c_void>(), len)
        };
        if rc != 0 { Err(Failure::socket(format!("cannot set {what}"))) } else { Ok(()) }
    }

    /// Reads one integer option.
    pub fn get(&self, level: c_int, option: c_int) -> c_int {
        let mut value: c_int = 0;
        let mut len = size_of::<c_int>() as socklen_t;
        // SAFETY: pointer and length are those of `value`.
        unsafe { (calls().getsockopt)(self.fd, level, option, (&raw mut value).cast(), &mut len) };
        value
    }

    /// The address the socket is bound to.
    pub fn local(&self) -> Address {
        let mut address = Address::default();
        let (pointer, len) = address.as_out();
        // SAFETY: both pointers are into `address`.
        unsafe { (calls().getsockname)(self.fd, pointer, len) };
        address
    }

    fn bind(&mut self, address: &Address) -> Result<()> {
        // SAFETY: pointer and length are those of `address`.
        if unsafe { (calls().bind)(self.fd, address.as_ptr(), address.len()) } != 0 {
            return Err(Failure::socket(format!("cannot bind to {address}")));
        }
        self.unlink = address.path();
        Ok(())
    }

    /// Makes reads return after `ms` milliseconds without data.
    pub fn receive_timeout(&self, ms: u32) -> Result<()> {
        let value = libc::timeval { tv_sec: i64::from(ms / 1000), tv_usec: i64::from(ms % 1000) * 1000 };
        self.set(SOL_SOCKET, libc::SO_RCVTIMEO, &value, "the receive time-out")
    }

    /// Switches O_NONBLOCK.
    pub fn nonblocking(&self, on: bool) -> Result<()> {
        // SAFETY: no pointers.
        let rc = unsafe {
            let flags = libc::fcntl(self.fd, libc::F_GETFL);
            let wanted = if on { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
            libc::fcntl(self.fd, libc::F_SETFL, wanted)
        };
        if rc < 0 { Err(Failure::socket("cannot switch O_NONBLOCK")) } else { Ok(()) }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            stream::goodbye(self.fd, session);
        }
        // SAFETY: the descriptor is ours and not used afterwards.
        unsafe { (calls().close)(self.fd) };
        if let Some(path) = &self.unlink {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A socket that sends to `endpoint`; a stream is connected.
pub fn client(s: &Settings, endpoint: &Endpoint) -> Result<Socket> {
    let address = &endpoint.address;
    let mut socket = Socket::new(address.family(), endpoint.tcp)?;
    common(s, &socket, endpoint)?;
    if s.client_port != 0 || s.client_ip.is_some() {
        let wildcard = if address.family() == AF_INET6 { "::" } else { "0.0.0.0" };
        let local = s.client_ip.map_or_else(|| resolve(wildcard, 0), Ok)?;
        let local = local.ip().map_or(local, |mut ip| {
            ip.set_port(s.client_port);
            Address::from_ip(ip)
        });
        if s.debug {
            say(&format!("[fd={}] Binding to: {local}...", socket.fd));
        }
        socket.bind(&local)?;
    } else if address.family() == AF_UNIX && !endpoint.tcp {
        let path = format!("{address}_{}_{}", std::process::id(), socket.fd);
        socket.bind(&Address::from_path(&path)?)?;
    }
    if address.is_multicast() && s.mode != Mode::Throughput {
        join(s, &socket, endpoint)?;
    }
    if endpoint.tcp {
        connect(&socket, address, s.connect_timeout_ms)?;
        if let Some(tls) = &s.tls {
            stream::handshake(&mut socket, tls, address, s.connect_timeout_ms)?;
        }
    }
    socket.nonblocking(s.nonblocked)?;
    Ok(socket)
}

/// A bound socket that receives at `endpoint`; a stream listens.
pub fn server(s: &Settings, endpoint: &Endpoint) -> Result<Socket> {
    let address = &endpoint.address;
    let mut socket = Socket::new(address.family(), endpoint.tcp)?;
    common(s, &socket, endpoint)?;
    let mut local = *address;
    if let Some(mut ip) = address.ip()
        && ip.ip().is_multicast()
    {
        let any: IpAddr = if ip.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
        ip.set_ip(any);
        local = Address::from_ip(ip);
    }
    if let Some(path) = address.path() {
        remove_stale(&path);
    }
    if s.debug {
        say(&format!("[fd={}] Binding to: {local}...", socket.fd));
    }
    socket.bind(&local)?;
    if address.is_multicast() {
        join(s, &socket, endpoint)?;
    }
    if endpoint.tcp {
        // SAFETY: no pointers.
        if unsafe { (calls().listen)(socket.fd, BACKLOG) } != 0 {
            return Err(Failure::socket(format!("cannot listen on {address}")));
        }
    } else {
        socket.nonblocking(s.nonblocked)?;
    }
    Ok(socket)
}

/// Options of an accepted connection, which it does not inherit everywhere.
pub fn accepted(s: &Settings, fd: c_int) -> Result<Socket> {
    let mut socket = Socket::from_fd(fd);
    if let Some(tls) = &s.tls {
        let session = tls.session().map_err(|e| Failure::new(Code::Fatal, format!("no TLS session: {e}")))?;
        socket.session = Some(Arc::new(session));
    }
    if s.no_delay() && socket.local().family() != AF_UNIX {
        socket.set(IPPROTO_TCP, libc::TCP_NODELAY, &1i32, "TCP_NODELAY")?;
    }
    socket.nonblocking(s.nonblocked)?;
    Ok(socket)
}

/// True when answers must carry their source address: a datagram socket on the wildcard of a host with several.
pub fn needs_packet_info(endpoint: &Endpoint) -> bool {
    endpoint.address.is_wildcard()
        && !endpoint.tcp
        && endpoint.address.family() == AF_INET
        && local_ipv4().len() > 1
}

fn say(line: &str) {
    crate::report::say(line);
}

/// A path left behind by a server that died would refuse the bind for ever; a living one answers connect.
fn remove_stale(path: &str) {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    let alive = std::os::unix::net::UnixStream::connect(path)
        .map_or_else(|e| e.raw_os_error() != Some(libc::ECONNREFUSED), |_| true);
    if is_socket && !alive {
        let _ = std::fs::remove_file(path);
    }
}

fn common(s: &Settings, socket: &Socket, endpoint: &Endpoint) -> Result<()> {
    let family = endpoint.address.family();
    if s.sock_accl {
        socket.set(SOL_SOCKET, SO_ACCELERATE, &1i32, "socket acceleration (SOL_SOCKET, 100)")?;
    }
    let multicast = endpoint.address.is_multicast();
    let fixed_port = s.mode == Mode::Server || s.client_port != 0;
    if (multicast && fixed_port) || s.reuse_address || (endpoint.tcp && s.mode == Mode::Server) {
        socket.set(SOL_SOCKET, libc::SO_REUSEADDR, &1i32, "SO_REUSEADDR")?;
    }
    if let Some(us) = s.busy_poll_us {
        socket.set(SOL_SOCKET, libc::SO_BUSY_POLL, &us, "busy polling (--lls)")?;
    }
    if let Some(rate) = s.rate_limit {
        socket.set(SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate, "the rate limit")?;
    }
    if let Some(tos) = s.tos {
        match family {
            AF_INET => socket.set(IPPROTO_IP, libc::IP_TOS, &tos, "the type of service")?,
            AF_INET6 => socket.set(IPPROTO_IPV6, libc::IPV6_TCLASS, &tos, "the traffic class")?,
            _ => {}
        }
    }
    if endpoint.tcp && family != AF_UNIX && s.no_delay() {
        socket.set(IPPROTO_TCP, libc::TCP_NODELAY, &1i32, "TCP_NODELAY")?;
    }
    if let Some(size) = s.buffer_size {
        buffers(socket, size)?;
    }
    if multicast { multicast_options(s, socket, family) } else { Ok(()) }
}

fn buffers(socket: &Socket, size: c_int) -> Result<()> {
    for (option, what) in [(libc::SO_RCVBUF, "receive"), (libc::SO_SNDBUF, "send")] {
        socket.set(SOL_SOCKET, option, &size, &format!("the {what} buffer"))?;
        let granted = socket.get(SOL_SOCKET, option);
        say(&format!("sockperf: Socket {what} buffer: {granted} bytes"));
        if i64::from(granted) < 2 * i64::from(size) {
            let limit = if option == libc::SO_RCVBUF { "rmem_max" } else { "wmem_max" };
            say(&format!(
                "sockperf: WARNING: less than the {size} asked for; raise /proc/sys/net/core/{limit}"
            ));
        }
    }
    Ok(())
}

fn multicast_options(s: &Settings, socket: &Socket, family: c_int) -> Result<()> {
    let (loopback, ttl) = (c_int::from(s.mc_loopback), c_int::from(s.mc_ttl));
    if family == AF_INET6 {
        socket.set(IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP, &loopback, "multicast loopback")?;
        socket.set(IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, &ttl, "multicast hops")?;
        if let Some(name) = &s.mc_tx_if {
            socket.set(IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, &interface_index(name)?, "--mc-tx-if")?;
        }
        return Ok(());
    }
    socket.set(IPPROTO_IP, libc::IP_MULTICAST_LOOP, &loopback, "multicast loopback")?;
    socket.set(IPPROTO_IP, libc::IP_MULTICAST_TTL, &ttl, "multicast hops")?;
    if let Some(name) = &s.mc_tx_if {
        socket.set(IPPROTO_IP, libc::IP_MULTICAST_IF, &ipv4(name)?, "--mc-tx-if")?;
    }
    Ok(())
}

fn ipv4(host: &str) -> Result<u32> {
    match resolve(host, 0)?.ip().map(|a| a.ip()) {
        Some(IpAddr::V4(ip)) => Ok(u32::from_ne_bytes(ip.octets())),
        _ => Err(Failure::new(Code::Argument, format!("'{host}' is not an IPv4 address of an interface"))),
    }
}

/// Joins the group of `endpoint`, from one source when one is named.
pub fn join(s: &Settings, socket: &Socket, endpoint: &Endpoint) -> Result<()> {
    let source = endpoint.source.or(s.mc_source);
    let what = format!("membership of {}", endpoint.address);
    match (endpoint.address.ip().map(|a| a.ip()), source.and_then(|a| a.ip()).map(|a| a.ip())) {
        (Some(IpAddr::V4(group)), source) => {
            let group = u32::from_ne_bytes(group.octets());
            let interface = s.mc_rx_if.as_deref().map_or(Ok(0), ipv4)?;
            if let Some(IpAddr::V4(from)) = source {
                // struct ip_mreq_source: group, interface, source.
                let request = [group, interface, u32::from_ne_bytes(from.octets())];
                return socket.set(IPPROTO_IP, libc::IP_ADD_SOURCE_MEMBERSHIP, &request, &what);
            }
            socket.set(IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &[group, interface], &what)
        }
        (Some(IpAddr::V6(group)), source) => {
            let index = s.mc_rx_if.as_deref().map_or(Ok(0), interface_index)?;
            if let Some(source) = source {
                return join_source_v6(socket, index, &endpoint.address, source, &what);
            }
            let request = libc::ipv6_mreq {
                ipv6mr_multiaddr: libc::in6_addr { s6_addr: group.octets() },
                ipv6mr_interface: index,
            };
            socket.set(IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, &request, &what)
        }
        _ => Ok(()),
    }
}

fn join_source_v6(socket: &Socket, index: u32, group: &Address, source: IpAddr, what: &str) -> Result<()> {
    /// struct group_source_req: interface, padding to eight, group, source.
    #[repr(C)]
    struct Request {
        interface: u32,
        pad: u32,
        group: [u8; 128],
        source: [u8; 128],
    }
    let bytes = |address: &Address| {
        let mut raw = [0u8; 128];
        // SAFETY: an Address is backed by 128 bytes of storage.
        unsafe { std::ptr::copy_nonoverlapping(address.as_ptr().cast::<u8>(), raw.as_mut_ptr(), 128) };
        raw
    };
    let source = Address::from_ip((source, 0).into());
    let request = Request { interface: index, pad: 0, group: bytes(group), source: bytes(&source) };
    socket.set(IPPROTO_IPV6, libc::MCAST_JOIN_SOURCE_GROUP, &request, what)
}

fn connect(socket: &Socket, address: &Address, timeout_ms: u32) -> Result<()> {
    let failed = || Failure::socket(format!("cannot connect to {address}"));
    socket.nonblocking(true)?;
    // SAFETY: pointer and length are those of `address`.
    let rc = unsafe { (calls().connect)(socket.fd, address.as_ptr(), address.len()) };
    if rc != 0 {
        if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINPROGRESS) {
            return Err(failed());
        }
        let mut entry = libc::pollfd { fd: socket.fd, events: libc::POLLOUT, revents: 0 };
        // SAFETY: one entry, which outlives the call.
        let n = unsafe { (calls().poll)(&mut entry, 1, i32::try_from(timeout_ms).unwrap_or(i32::MAX)) };
        if n == 0 {
            let text = format!("cannot connect to {address}: no answer within {timeout_ms} msec");
            return Err(Failure::new(Code::Timeout, text));
        }
        let error = socket.get(SOL_SOCKET, libc::SO_ERROR);
        if n < 0 || error != 0 {
            let reason = std::io::Error::from_raw_os_error(error);
            return Err(Failure::new(Code::Socket, format!("cannot connect to {address}: {reason}")));
        }
    }
    socket.nonblocking(false)
}
