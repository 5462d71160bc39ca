//! sockaddr to endpoint and back, with Linux's rules of truncation.

use crate::answer::{Answer, Stop, Why};
use crate::errno::fail;
use crate::message;
use core::net::{Ipv4Addr, SocketAddrV4};
use libc::{sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

/// What an application named as an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// AF_INET.
    Inet(SocketAddrV4),
    /// AF_UNSPEC: "disconnect" in connect(2), "any" in bind(2).
    Unspecified,
    /// Any other family, or a length that the kernel shall judge.
    Other,
}

/// An address that the application passed in, read once.
#[derive(Clone, Copy)]
pub(crate) struct Given {
    pointer: *const sockaddr,
    len: socklen_t,
    /// What it names.
    pub(crate) named: Named,
}

impl Given {
    /// EFAULT, if it cannot be read.
    ///
    /// # Safety
    /// `pointer` is null or points to `len` readable bytes, for as long as this lives.
    pub(crate) unsafe fn new(pointer: *const sockaddr, len: socklen_t) -> Answer<Given> {
        // A length that cannot be is EINVAL before that.
        if len as usize <= size_of::<libc::sockaddr_storage>() {
            message::check(pointer, len as usize)?;
        }
        // SAFETY: the caller's contract.
        Ok(Given { pointer, len, named: unsafe { read(pointer, len) } })
    }

    pub(crate) fn pointer(&self) -> *const sockaddr {
        self.pointer
    }

    pub(crate) fn len(&self) -> socklen_t {
        self.len
    }
}

/// Where the application wants an address written, if it does.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    address: *mut sockaddr,
    len: *mut socklen_t,
}

impl Wanted {
    /// # Safety
    /// Both are null or valid, and `address` has room for `*len` bytes, for as long as this lives.
    pub(crate) unsafe fn new(address: *mut sockaddr, len: *mut socklen_t) -> Wanted {
        Wanted { address, len }
    }

    /// For a caller that does not ask.
    pub(crate) fn nothing() -> Wanted {
        Wanted { address: core::ptr::null_mut(), len: core::ptr::null_mut() }
    }

    /// Whether an address can be written: EFAULT, or EINVAL for a negative length. Before anything is taken that would
    /// be lost.
    pub(crate) fn check(&self) -> Answer<()> {
        if self.address.is_null() {
            return Ok(());
        }
        message::check_room(self.len, 1)?;
        // SAFETY: the contract of `new`.
        let room = unsafe { self.len.read_unaligned() } as i32;
        if room < 0 {
            fail(libc::EINVAL)
        } else {
            message::check_room(self.address.cast::<u8>(), room as usize)
        }
    }

    pub(crate) fn address(&self) -> *mut sockaddr {
        self.address
    }

    pub(crate) fn len(&self) -> *mut socklen_t {
        self.len
    }

    /// Writes it there.
    pub(crate) fn write(&self, endpoint: SocketAddrV4) -> Answer<()> {
        // SAFETY: the contract of `new`.
        unsafe { write(endpoint, self.address, self.len) }
    }

    /// The bytes that there is room for; 0 where none is wanted, or none can be written.
    pub(crate) fn room(&self) -> socklen_t {
        match self.check() {
            // SAFETY: the contract of `new`, as far as it was checked.
            Ok(()) if !self.address.is_null() => unsafe { self.len.read_unaligned() },
            _ => 0,
        }
    }

    /// Writes it over a name that the kernel put there, which had so much room.
    pub(crate) fn write_over(&self, room: socklen_t, endpoint: SocketAddrV4) {
        if room > 0 {
            // SAFETY: the contract of `new`, and `room` is what it was then.
            unsafe { self.len.write_unaligned(room) };
            let _ = self.write(endpoint);
        }
    }
}

/// Reads an address.
///
/// # Safety
/// `address` is null or points to `len` readable bytes.
pub(crate) unsafe fn read(address: *const sockaddr, len: socklen_t) -> Named {
    if (len as usize) < size_of::<libc::sa_family_t>() || !message::plausible(address, 1) {
        return Named::Other;
    }
    // SAFETY: at least a family is readable.
    let family = unsafe { (&raw const (*address).sa_family).read_unaligned() };
    match i32::from(family) {
        libc::AF_UNSPEC => Named::Unspecified,
        libc::AF_INET if len as usize >= size_of::<sockaddr_in>() => {
            // SAFETY: the length covers a sockaddr_in; the application need not align it.
            let inet = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            Named::Inet(SocketAddrV4::new(
                Ipv4Addr::from(u32::from_be(inet.sin_addr.s_addr)),
                u16::from_be(inet.sin_port),
            ))
        }
        _ => Named::Other,
    }
}

/// The kernel's form of an endpoint.
pub(crate) fn to_sockaddr(endpoint: SocketAddrV4) -> sockaddr_in {
    sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: endpoint.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*endpoint.ip()).to_be() },
        sin_zero: [0; 8],
    }
}

/// The form of an endpoint in an AF_INET6 socket (RFC 4291, 2.5.5.2).
pub(crate) fn to_mapped(endpoint: SocketAddrV4) -> sockaddr_in6 {
    sockaddr_in6 {
        sin6_family: libc::AF_INET6 as libc::sa_family_t,
        sin6_port: endpoint.port().to_be(),
        sin6_flowinfo: 0,
        sin6_addr: libc::in6_addr { s6_addr: endpoint.ip().to_ipv6_mapped().octets() },
        sin6_scope_id: 0,
    }
}

/// bind(2) of a socket of either family.
pub(crate) fn bind(fd: i32, endpoint: SocketAddrV4) -> sys::Result<()> {
    match is_inet6(fd)? {
        true => sys::socket::bind(fd, &to_mapped(endpoint)),
        false => sys::socket::bind(fd, &to_sockaddr(endpoint)),
    }
}

/// connect(2) of a socket of either family.
pub(crate) fn connect(fd: i32, endpoint: SocketAddrV4) -> sys::Result<()> {
    match is_inet6(fd)? {
        true => sys::socket::connect(fd, &to_mapped(endpoint)),
        false => sys::socket::connect(fd, &to_sockaddr(endpoint)),
    }
}

fn is_inet6(fd: i32) -> sys::Result<bool> {
    Ok(sys::socket::option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN, 0i32)? == libc::AF_INET6)
}

/// Writes an endpoint where the application wants an address: at most `*len` bytes, then the true length into `*len`.
/// Nothing if `address` is null.
///
/// # Safety
/// `address` is null, or `len` is valid and `address` has room for `*len` bytes.
pub(crate) unsafe fn write(
    endpoint: SocketAddrV4,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> Answer<()> {
    // SAFETY: the caller's contract.
    unsafe { put(&to_sockaddr(endpoint), address, len) }
}

/// As [`write`], for an AF_INET6 socket.
///
/// # Safety
/// As [`write`].
pub(crate) unsafe fn write_mapped(
    endpoint: SocketAddrV4,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> Answer<()> {
    // SAFETY: the caller's contract.
    unsafe { put(&to_mapped(endpoint), address, len) }
}

/// # Safety
/// As [`write`].
unsafe fn put<A>(name: &A, address: *mut sockaddr, len: *mut socklen_t) -> Answer<()> {
    if address.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's contract.
    unsafe { Wanted::new(address, len) }.check()?;
    // SAFETY: `check` read `len`; `address` has as many bytes as it says, and `name` has its own size.
    unsafe {
        let copied = (len.read_unaligned() as usize).min(size_of::<A>());
        core::ptr::copy_nonoverlapping(core::ptr::from_ref(name).cast::<u8>(), address.cast::<u8>(), copied);
        len.write_unaligned(size_of::<A>() as socklen_t);
    }
    Ok(())
}

/// The shadow's bound address, asked from the kernel.
pub(crate) fn of_shadow(os: &crate::os::Os, fd: i32) -> Answer<SocketAddrV4> {
    match kernel_name(os.getsockname, fd) {
        Some(Some(endpoint)) => Ok(endpoint),
        Some(None) => Err(Stop::Kernel(Why::NotOurs)),
        // SAFETY: reads a thread-local.
        None => fail(unsafe { (os.errno)() }),
    }
}

/// The peer of a kernel connection; `None` if it has none, or none that IPv4 reaches.
pub(crate) fn peer_of_shadow(os: &crate::os::Os, fd: i32) -> Option<SocketAddrV4> {
    kernel_name(os.getpeername, fd)?
}

/// What getsockname(2) or getpeername(2) says. `None`: it fails; `Some(None)`: it is not an IPv4 endpoint, mapped or
/// not.
fn kernel_name(
    ask: unsafe extern "C-unwind" fn(i32, *mut sockaddr, *mut socklen_t) -> i32,
    fd: i32,
) -> Option<Option<SocketAddrV4>> {
    // Of the larger form, the beginning is the smaller one's.
    let mut name = to_mapped(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
    let mut len = size_of::<sockaddr_in6>() as socklen_t;
    // SAFETY: both pointers are to locals of the stated size.
    if unsafe { ask(fd, (&raw mut name).cast(), &raw mut len) } != 0 {
        return None;
    }
    if i32::from(name.sin6_family) == libc::AF_INET6 {
        let address = core::net::Ipv6Addr::from(name.sin6_addr.s6_addr);
        let port = u16::from_be(name.sin6_port);
        // An unbound or unconnected socket has the unspecified address, whatever its family.
        let v4 = address.to_ipv4_mapped().or(address.is_unspecified().then_some(Ipv4Addr::UNSPECIFIED));
        return Some(v4.map(|v4| SocketAddrV4::new(v4, port)));
    }
    // SAFETY: the kernel filled in `len` bytes.
    match unsafe { read((&raw const name).cast(), len) } {
        Named::Inet(endpoint) => Some(Some(endpoint)),
        _ => Some(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_survives_the_way_there_and_back() {
        let endpoint = SocketAddrV4::new(Ipv4Addr::new(10, 1, 2, 3), 4711);
        let inet = to_sockaddr(endpoint);
        // SAFETY: a local of the stated size.
        let back = unsafe { read((&raw const inet).cast(), size_of::<sockaddr_in>() as socklen_t) };
        assert_eq!(back, Named::Inet(endpoint));
    }

    #[test]
    fn a_short_buffer_is_filled_as_far_as_it_goes_and_told_the_true_length() {
        let mut room = [0xffu8; 4];
        let mut len = 4;
        // SAFETY: `room` has four bytes as `len` says.
        unsafe { write(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 80), room.as_mut_ptr().cast(), &raw mut len) }
            .unwrap();
        assert_eq!((len, room[2..4].to_vec()), (16, vec![0, 80]));
    }
}
