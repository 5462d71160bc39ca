//! Sockets of our own: netlink, AF_XDP, Unix. Addresses are given as the bytes of their sockaddr.

use core::mem::{MaybeUninit, size_of, size_of_val};

use crate::copying::AtWork;
use crate::raw::{int, syscall};
use crate::{Fd, Result};

/// A value that the kernel may read from and write to as bytes.
///
/// # Safety
/// Every pattern of bits is a value, there is no padding between or behind the fields, and no field is an address that
/// the kernel follows.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($kind:ty)*) => { $(
        // SAFETY: integers, and structures of them without padding.
        unsafe impl Plain for $kind {}
    )* };
}

plain! { u8 i32 u32 u64 libc::sockaddr libc::sockaddr_in libc::sockaddr_in6 libc::sockaddr_ll libc::sockaddr_un libc::ucred libc::timeval }

// SAFETY: elements follow each other without padding.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// socket(2), close-on-exec.
pub fn socket(domain: i32, kind: i32, protocol: i32) -> Result<Fd> {
    // SAFETY: no pointer.
    Fd::made(|| unsafe {
        syscall(libc::SYS_socket, [int(domain), int(kind | libc::SOCK_CLOEXEC), int(protocol), 0, 0, 0])
    })
}

/// bind(2). `A` is a sockaddr type of the kernel's.
pub fn bind<A: Plain>(fd: i32, address: &A) -> Result<()> {
    let pointer = core::ptr::from_ref(address) as usize;
    // SAFETY: the address lives for the call and has the size said.
    unsafe { syscall(libc::SYS_bind, [int(fd), pointer, size_of::<A>(), 0, 0, 0]) }.map(|_| ())
}

/// shutdown(2).
pub fn shutdown(fd: i32, how: i32) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { syscall(libc::SYS_shutdown, [int(fd), int(how), 0, 0, 0, 0]) }.map(|_| ())
}

/// listen(2).
pub fn listen(fd: i32, backlog: i32) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { syscall(libc::SYS_listen, [int(fd), int(backlog), 0, 0, 0, 0]) }.map(|_| ())
}

/// accept4(2), without the name of who comes.
pub fn accept(fd: i32) -> Result<Fd> {
    // SAFETY: null stands for a name that nobody wants.
    unsafe { syscall(libc::SYS_accept4, [int(fd), 0, 0, int(libc::SOCK_CLOEXEC), 0, 0]) }.map(Fd::adopt)
}

/// connect(2).
pub fn connect<A: Plain>(fd: i32, address: &A) -> Result<()> {
    let pointer = core::ptr::from_ref(address) as usize;
    // SAFETY: the address lives for the call and has the size said.
    unsafe { syscall(libc::SYS_connect, [int(fd), pointer, size_of::<A>(), 0, 0, 0]) }.map(|_| ())
}

/// setsockopt(2) with a plain value.
pub fn set_option<T: Plain>(fd: i32, level: i32, name: i32, value: &T) -> Result<()> {
    // SAFETY: a plain value has no address that the kernel could follow.
    unsafe { set_option_with_addresses(fd, level, name, value) }
}

/// setsockopt(2) with a value that names memory.
///
/// # Safety
/// The kernel may do with that memory what the option says, for as long as it says.
pub unsafe fn set_option_with_addresses<T: Copy>(fd: i32, level: i32, name: i32, value: &T) -> Result<()> {
    let pointer = core::ptr::from_ref(value) as usize;
    // SAFETY: the value lives for the call and has the size said; for the rest the caller vouches.
    unsafe { syscall(libc::SYS_setsockopt, [int(fd), int(level), int(name), pointer, size_of::<T>(), 0]) }
        .map(|_| ())
}

/// setsockopt(2) without a value, which takes some options away.
pub fn clear_option(fd: i32, level: i32, name: i32) -> Result<()> {
    // SAFETY: no value.
    unsafe { syscall(libc::SYS_setsockopt, [int(fd), int(level), int(name), 0, 0, 0]) }.map(|_| ())
}

/// getsockopt(2) into a plain value that starts as `value`: an older kernel may fill less of it.
pub fn option<T: Plain>(fd: i32, level: i32, name: i32, mut value: T) -> Result<T> {
    let mut length = size_of::<T>() as u32;
    let (pointer, length) = (&raw mut value as usize, &raw mut length as usize);
    // SAFETY: value and length live for the call; the kernel writes no more than length says.
    unsafe { syscall(libc::SYS_getsockopt, [int(fd), int(level), int(name), pointer, length, 0]) }?;
    Ok(value)
}

/// SO_RCVTIMEO or SO_SNDTIMEO, in nanoseconds; 0: none, or the descriptor is no socket.
pub fn timeout(fd: i32, name: i32) -> u64 {
    // struct timeval.
    let [seconds, micros] = option(fd, libc::SOL_SOCKET, name, [0u64; 2]).unwrap_or([0; 2]);
    seconds.saturating_mul(1_000_000_000).saturating_add(micros.saturating_mul(1000))
}

/// Whether a TCP socket is neither connected, nor about to be, nor listening. False of other sockets.
pub fn is_closed(fd: i32) -> bool {
    const TCP_CLOSE: u8 = 7;
    let is_tcp = option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL, 0) == Ok(libc::IPPROTO_TCP);
    // The state is the first byte of struct tcp_info.
    is_tcp && option(fd, libc::IPPROTO_TCP, libc::TCP_INFO, [0u8; 4]).is_ok_and(|info| info[0] == TCP_CLOSE)
}

/// The process that made a pair of Unix sockets or connected one (SO_PEERCRED), as this process' pid namespace numbers
/// it; 0: it is not in there.
pub fn peer_process(fd: i32) -> Result<i32> {
    // struct ucred: pid, uid, gid.
    option(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, [-1i32; 3]).map(|[pid, ..]| pid)
}

/// One end of a connection: the address, an IPv4 one as IPv6 maps it, and the port.
pub type End = ([u8; 16], u16);

/// The two ends of an internet socket: its own and the other one (ENOTCONN: there is none). EAFNOSUPPORT: of another
/// family.
pub fn ends(fd: i32) -> Result<(End, End)> {
    Ok((name(fd, libc::SYS_getsockname)?, name(fd, libc::SYS_getpeername)?))
}

/// The own end of an internet socket, which may have no other one yet.
pub fn own_end(fd: i32) -> Result<End> {
    name(fd, libc::SYS_getsockname)
}

fn name(fd: i32, call: libc::c_long) -> Result<End> {
    let mut bytes = [0u8; size_of::<libc::sockaddr_in6>()];
    let mut length = bytes.len() as u32;
    let (pointer, at) = (bytes.as_mut_ptr() as usize, &raw mut length as usize);
    // SAFETY: the bytes live for the call; the kernel writes no more than length says.
    unsafe { syscall(call, [int(fd), pointer, at, 0, 0, 0]) }?;
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    let mut address = [0; 16];
    match i32::from(u16::from_ne_bytes([bytes[0], bytes[1]])) {
        libc::AF_INET => {
            address[10..12].fill(0xff);
            address[12..].copy_from_slice(&bytes[4..8]);
        }
        libc::AF_INET6 => address.copy_from_slice(&bytes[8..24]),
        _ => return Err(libc::EAFNOSUPPORT),
    }
    Ok((address, port))
}

/// A number for the network namespace that a socket belongs to (SO_NETNS_COOKIE).
pub fn network_namespace(fd: i32) -> Result<u64> {
    option(fd, libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, 0u64)
}

/// getsockopt(2) into `value`; how long the kernel says that it is.
pub fn option_bytes(fd: i32, level: i32, name: i32, value: &mut [u8]) -> Result<usize> {
    let mut length = value.len() as u32;
    let (pointer, at) = (value.as_mut_ptr() as usize, &raw mut length as usize);
    // SAFETY: value and length live for the call; the kernel writes no more than length says.
    let got = unsafe { syscall(libc::SYS_getsockopt, [int(fd), int(level), int(name), pointer, at, 0]) }?;
    // Of a filter the return value is its length, of others it is zero.
    Ok(got.max(length as usize))
}

/// ioctl(2) that answers a number: FIONREAD, SIOCOUTQ and their like.
pub fn ask(fd: i32, request: u32) -> Result<i32> {
    let mut answer = 0i32;
    // SAFETY: these requests write one int.
    unsafe { syscall(libc::SYS_ioctl, [int(fd), request as usize, &raw mut answer as usize, 0, 0, 0]) }?;
    Ok(answer)
}

/// Attaches a classic BPF filter (socket(7), SO_ATTACH_FILTER).
pub fn attach_filter(fd: i32, program: &[libc::sock_filter]) -> Result<()> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let (pointer, len) = (&raw const program as usize, size_of_val(&program));
    let (level, name) = (int(libc::SOL_SOCKET), int(libc::SO_ATTACH_FILTER));
    // SAFETY: program and filter live for the call, which only reads them.
    unsafe { syscall(libc::SYS_setsockopt, [int(fd), level, name, pointer, len, 0]) }.map(|_| ())
}

/// sendto(2) without an address.
#[inline]
pub fn send(fd: i32, bytes: &[u8], flags: i32) -> Result<usize> {
    // SAFETY: the bytes live for the call; no address.
    unsafe { syscall(libc::SYS_sendto, [int(fd), bytes.as_ptr() as usize, bytes.len(), int(flags), 0, 0]) }
}

/// sendto(2). `address` is one of the kernel's sockaddr structures.
pub fn send_to<A: Plain>(fd: i32, bytes: &[u8], flags: i32, address: &A) -> Result<usize> {
    let (pointer, length) = (&raw const *address as usize, size_of::<A>());
    // SAFETY: bytes and address live for the call, which only reads them.
    unsafe {
        syscall(
            libc::SYS_sendto,
            [int(fd), bytes.as_ptr() as usize, bytes.len(), int(flags), pointer, length],
        )
    }
}

/// sendmsg(2) of an IP packet to a group on an interface, from `source` (IP_PKTINFO).
#[allow(clippy::unnecessary_cast, reason = "these lengths are u32 in other C libraries")]
pub fn send_to_group(
    fd: i32,
    bytes: &[u8],
    flags: i32,
    group: &libc::sockaddr_in,
    interface: u32,
    source: libc::in_addr,
) -> Result<usize> {
    #[repr(C, align(8))]
    struct Way {
        header: libc::cmsghdr,
        info: libc::in_pktinfo,
    }
    let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero is a valid cmsghdr and in_pktinfo.
    let mut way: Way = unsafe { MaybeUninit::zeroed().assume_init() };
    way.header.cmsg_level = libc::IPPROTO_IP;
    way.header.cmsg_type = libc::IP_PKTINFO;
    way.header.cmsg_len = (size_of::<libc::cmsghdr>() + size_of::<libc::in_pktinfo>()) as _;
    way.info.ipi_ifindex = interface as i32;
    way.info.ipi_spec_dst = source;
    let mut message = message(&mut iov);
    message.msg_name = (&raw const *group).cast_mut().cast();
    message.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
    message.msg_control = (&raw mut way).cast();
    message.msg_controllen = size_of::<Way>() as _;
    // SAFETY: message, address, iov, control and bytes live for the call, which only reads them.
    unsafe { syscall(libc::SYS_sendmsg, [int(fd), &raw const message as usize, int(flags), 0, 0, 0]) }
}

/// sendmsg(2) of bytes in pieces, without an address.
pub fn send_pieces(fd: i32, pieces: &[std::io::IoSlice<'_>], flags: i32) -> Result<usize> {
    let message = libc::msghdr {
        msg_name: core::ptr::null_mut(),
        msg_namelen: 0,
        // An IoSlice is an iovec (its documentation promises it); the kernel only reads.
        msg_iov: pieces.as_ptr().cast_mut().cast(),
        msg_iovlen: pieces.len(),
        msg_control: core::ptr::null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    };
    // SAFETY: message and pieces live for the call.
    unsafe { syscall(libc::SYS_sendmsg, [int(fd), &raw const message as usize, int(flags), 0, 0, 0]) }
}

/// recvfrom(2) without an address.
#[inline]
pub fn receive(fd: i32, buffer: &mut [u8], flags: i32) -> Result<usize> {
    // SAFETY: the buffer lives for the call; no address.
    unsafe {
        syscall(libc::SYS_recvfrom, [int(fd), buffer.as_mut_ptr() as usize, buffer.len(), int(flags), 0, 0])
    }
}

/// Descriptors that one message may carry here.
pub const DESCRIPTORS_MAX: usize = 128;

/// Room for a control message with [`DESCRIPTORS_MAX`] descriptors.
#[repr(C, align(8))]
struct Control {
    header: libc::cmsghdr,
    fds: [i32; DESCRIPTORS_MAX],
}

/// sendmsg(2) with descriptors (SCM_RIGHTS); at least one byte must go along. More than [`DESCRIPTORS_MAX`]: EINVAL.
#[allow(clippy::unnecessary_cast, reason = "these lengths are u32 in other C libraries")]
pub fn send_descriptors(fd: i32, bytes: &[u8], descriptors: &[i32]) -> Result<usize> {
    if descriptors.len() > DESCRIPTORS_MAX {
        return Err(libc::EINVAL);
    }
    let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero is a valid cmsghdr and array.
    let mut control: Control = unsafe { MaybeUninit::zeroed().assume_init() };
    control.header.cmsg_level = libc::SOL_SOCKET;
    control.header.cmsg_type = libc::SCM_RIGHTS;
    control.header.cmsg_len = (size_of::<libc::cmsghdr>() + size_of_val(descriptors)) as _;
    control.fds[..descriptors.len()].copy_from_slice(descriptors);
    let mut message = message(&mut iov);
    if !descriptors.is_empty() {
        message.msg_control = (&raw mut control).cast();
        // CMSG_SPACE: the length, rounded up to 8.
        message.msg_controllen = (control.header.cmsg_len as usize).next_multiple_of(8) as _;
    }
    let flags = int(libc::MSG_NOSIGNAL);
    // SAFETY: message, iov, control and bytes live for the call.
    unsafe { syscall(libc::SYS_sendmsg, [int(fd), &raw const message as usize, flags, 0, 0, 0]) }
}

/// recvmsg(2) with descriptors, which are ours (close-on-exec, high) from then on. Says how many bytes came.
#[allow(clippy::unnecessary_cast, reason = "these lengths are u32 in other C libraries")]
pub fn receive_descriptors(
    fd: i32,
    buffer: &mut [u8],
    descriptors: &mut Vec<Fd>,
    flags: i32,
) -> Result<usize> {
    let mut iov = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all-zero is a valid cmsghdr and array.
    let mut control: Control = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut message = message(&mut iov);
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>() as _;
    let flags = int(flags | libc::MSG_CMSG_CLOEXEC);
    // SAFETY: message, iov, control and buffer live for the call.
    let got = unsafe { syscall(libc::SYS_recvmsg, [int(fd), &raw mut message as usize, flags, 0, 0, 0]) }?;
    let header = &control.header;
    if message.msg_controllen as usize >= size_of::<libc::cmsghdr>()
        && (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS)
    {
        let bytes = (header.cmsg_len as usize).saturating_sub(size_of::<libc::cmsghdr>());
        let count = (bytes / size_of::<i32>()).min(DESCRIPTORS_MAX);
        descriptors.extend(control.fds[..count].iter().map(|&fd| Fd::adopt(fd as usize)));
    }
    Ok(got)
}

fn message(iov: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: all-zero is a valid msghdr (no name, no control).
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = iov;
    message.msg_iovlen = 1;
    message
}

/// A connected pair of Unix sockets.
pub fn pair(kind: i32) -> Result<(Fd, Fd)> {
    let mut fds = [0i32; 2];
    let arguments = [int(libc::AF_UNIX), int(kind | libc::SOCK_CLOEXEC), 0, fds.as_mut_ptr() as usize, 0, 0];
    let at_work = &AtWork::begin();
    // SAFETY: the kernel writes two descriptors.
    unsafe { syscall(libc::SYS_socketpair, arguments) }?;
    Ok((Fd::hide(fds[0], at_work), Fd::hide(fds[1], at_work)))
}

/// Has files closed some time after this process has ended, not while it ends: where closing waits for the kernel,
/// whoever waits for the process would wait as well. The descriptors stay open and usable until then.
///
/// They are sent to a socket that is sent to itself with them. When the process has ended, and with it every other way
/// to that socket, the kernel's collector of sockets that are only in flight (unix(7)) closes them all.
pub fn close_after_exit(descriptors: &[i32]) -> Result<()> {
    let (sender, receiver) = pair(libc::SOCK_STREAM)?;
    for some in descriptors.chunks(DESCRIPTORS_MAX) {
        send_descriptors(sender.raw(), &[0], some)?;
    }
    send_descriptors(sender.raw(), &[0], &[receiver.raw()])?;
    // The end of the sender, which is not in flight, makes the collector look; until then the receiver has an owner.
    core::mem::forget((sender, receiver));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_travel_over_a_unix_socket_and_arrive_as_ours() {
        let (a, b) = pair(libc::SOCK_SEQPACKET).unwrap();
        let event = crate::fd::eventfd().unwrap();
        assert_eq!(send_descriptors(a.raw(), b"x", &[event.raw(), event.raw()]), Ok(1));
        let (mut byte, mut got) = ([0; 4], Vec::new());
        assert_eq!(receive_descriptors(b.raw(), &mut byte, &mut got, 0), Ok(1));
        assert_eq!(got.len(), 2);
        crate::fd::signal(got[0].raw());
        assert!(crate::fd::clear(event.raw()));
        assert!(got.iter().all(|fd| crate::own_fd::is_own(fd.raw())));
        assert_eq!(send_descriptors(a.raw(), b"y", &[]), Ok(1));
        assert_eq!(receive_descriptors(b.raw(), &mut byte, &mut got, 0), Ok(1));
        assert_eq!(got.len(), 2);
    }
}
