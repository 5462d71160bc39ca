//! What a keeper lends: it switches the repair mode of a TCP socket, and makes one deaf, which need CAP_NET_ADMIN, and
//! binds one to a port that needs CAP_NET_BIND_SERVICE; the rest of a move its owner does. What is passed is looked at
//! first: a TCP socket of this network namespace, and nothing else, has anything set on it.

use libc::{IPPROTO_TCP, SOL_SOCKET, c_int};
use std::net::{Ipv6Addr, SocketAddrV4};
use sys::Fd;
use sys::linux::{TCP_REPAIR_OFF, TCP_REPAIR_OFF_NO_WP};
use sys::socket::{option, set_option};

/// Sockets of one client that are in repair mode at a time: one for each of its threads at most.
const OPEN_MAX: usize = 64;

/// linux/tcp.h.
const ON: c_int = 1;

/// The sockets that a client has in repair mode: they leave it when the client does, as other processes may have them,
/// who could neither send nor receive.
#[derive(Default)]
pub struct Repairs {
    open: Vec<(u64, Fd)>,
}

impl Repairs {
    /// Sets TCP_REPAIR of what was passed, if `namespace` is its network namespace. Returns 0 or errno.
    pub fn set(&mut self, namespace: u64, socket: Fd, value: i32) -> i32 {
        self.try_set(namespace, socket, value).err().unwrap_or(0)
    }

    fn try_set(&mut self, namespace: u64, socket: Fd, value: i32) -> sys::Result<()> {
        if ![ON, TCP_REPAIR_OFF, TCP_REPAIR_OFF_NO_WP].contains(&value) {
            return Err(libc::EINVAL);
        }
        check(namespace, &socket)?;
        let fd = socket.raw();
        let cookie = option(fd, SOL_SOCKET, libc::SO_COOKIE, 0u64)?;
        let known = self.open.iter().position(|(known, _)| *known == cookie);
        if value == ON && known.is_none() && self.open.len() >= OPEN_MAX {
            return Err(libc::ENOBUFS);
        }
        set_option(fd, IPPROTO_TCP, libc::TCP_REPAIR, &value)?;
        match known {
            Some(at) if value != ON => drop(self.open.swap_remove(at)),
            None if value == ON => self.open.push((cookie, socket)),
            _ => {}
        }
        Ok(())
    }

    /// Binds what this client has in repair mode to where another socket of it listens: who listens on a port has it
    /// already, however it came by it. Returns 0 or errno.
    pub fn bind(&self, namespace: u64, socket: &Fd, listener: &Fd, to: SocketAddrV4) -> i32 {
        self.try_bind(namespace, socket, listener, to).err().unwrap_or(0)
    }

    fn try_bind(&self, namespace: u64, socket: &Fd, listener: &Fd, to: SocketAddrV4) -> sys::Result<()> {
        check(namespace, socket)?;
        check(namespace, listener)?;
        let cookie = option(socket.raw(), SOL_SOCKET, libc::SO_COOKIE, 0u64)?;
        let listens = option(listener.raw(), SOL_SOCKET, libc::SO_ACCEPTCONN, 0 as c_int)? != 0;
        let (address, port) = sys::socket::own_end(listener.raw())?;
        let there = Ipv6Addr::from_bits(u128::from_be_bytes(address)).to_ipv4_mapped();
        let is_there = port == to.port() && there.is_some_and(|it| it.is_unspecified() || it == *to.ip());
        let is_ours = self.open.iter().any(|(known, _)| *known == cookie);
        if !is_ours || !listens || !is_there || port == 0 {
            return Err(libc::EACCES);
        }
        let family = libc::AF_INET as libc::sa_family_t;
        let address = libc::in_addr { s_addr: to.ip().to_bits().to_be() };
        let to = libc::sockaddr_in {
            sin_family: family,
            sin_port: port.to_be(),
            sin_addr: address,
            sin_zero: [0; 8],
        };
        sys::socket::bind(socket.raw(), &to)
    }

    /// In the child of a fork: they are its parent's to switch back.
    pub fn let_go(&mut self) {
        self.open.clear();
    }

    /// The client does not get to know that its last question was done: it is undone, if that was to begin.
    pub fn take_back(&mut self) {
        if let Some((_, socket)) = self.open.pop() {
            leave(&socket);
        }
    }
}

impl Drop for Repairs {
    fn drop(&mut self) {
        self.open.iter().for_each(|(_, socket)| leave(socket));
    }
}

/// Attaches a filter that lets nothing in. Returns 0 or errno.
pub fn deafen(namespace: u64, socket: &Fd) -> i32 {
    // BPF_RET | BPF_K: accept no byte.
    let program = [libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 }];
    let deafened = check(namespace, socket).and_then(|()| {
        // Asked for the length only. One that is there is the program's.
        match sys::socket::option_bytes(socket.raw(), SOL_SOCKET, libc::SO_ATTACH_FILTER, &mut []) {
            Ok(0) => sys::socket::attach_filter(socket.raw(), &program),
            Ok(_) => Err(libc::EBUSY),
            Err(errno) => Err(errno),
        }
    });
    deafened.err().unwrap_or(0)
}

/// The client does not get to know that it was done.
pub fn undo_deafen(socket: &Fd) {
    let _ = set_option(socket.raw(), SOL_SOCKET, libc::SO_DETACH_FILTER, &(0 as c_int));
}

/// Whether it is a TCP socket of this network namespace.
fn check(namespace: u64, socket: &Fd) -> sys::Result<()> {
    let of = |name: c_int| option(socket.raw(), SOL_SOCKET, name, 0 as c_int);
    let is_tcp = of(libc::SO_PROTOCOL)? == IPPROTO_TCP;
    if !is_tcp || ![libc::AF_INET, libc::AF_INET6].contains(&of(libc::SO_DOMAIN)?) {
        return Err(libc::EPROTONOSUPPORT);
    }
    match sys::socket::network_namespace(socket.raw())? == namespace {
        true => Ok(()),
        false => Err(libc::EXDEV),
    }
}

fn leave(socket: &Fd) {
    let _ = set_option(socket.raw(), IPPROTO_TCP, libc::TCP_REPAIR, &TCP_REPAIR_OFF_NO_WP);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp() -> Fd {
        sys::socket::socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap()
    }

    fn mode(socket: &Fd) -> c_int {
        option(socket.raw(), IPPROTO_TCP, libc::TCP_REPAIR, -7).unwrap()
    }

    #[test]
    fn a_port_is_lent_only_to_who_listens_on_it_and_to_what_is_in_repair_mode() {
        if sys::process::capabilities().unwrap_or(0) & sys::capability::NET_ADMIN == 0 {
            return rig::skip::skipped_here("needs CAP_NET_ADMIN");
        }
        let server = std::net::TcpListener::bind("127.83.68.7:0").unwrap();
        let std::net::SocketAddr::V4(there) = server.local_addr().unwrap() else { unreachable!() };
        let listener = Fd::duplicate_of(std::os::fd::AsRawFd::as_raw_fd(&server)).unwrap();
        let here = sys::socket::network_namespace(listener.raw()).unwrap();
        let (mut repairs, socket) = (Repairs::default(), tcp());
        assert_eq!(repairs.bind(here, &socket, &listener, there), libc::EACCES, "not in repair mode");
        assert_eq!(repairs.set(here, socket.duplicate().unwrap(), ON), 0);
        let another_port = SocketAddrV4::new(*there.ip(), there.port() ^ 1);
        let another_address = SocketAddrV4::new([127, 83, 68, 8].into(), there.port());
        assert_eq!(repairs.bind(here, &socket, &listener, another_port), libc::EACCES);
        assert_eq!(repairs.bind(here, &socket, &listener, another_address), libc::EACCES);
        assert_eq!(repairs.bind(here, &socket, &tcp(), there), libc::EACCES, "nobody listens");
        let elsewhere = SocketAddrV4::new([0, 0, 0, 0].into(), 0);
        assert_eq!(repairs.bind(here, &socket, &tcp(), elsewhere), libc::EACCES, "a socket of no port");
        assert_eq!(repairs.bind(here + 1, &socket, &listener, there), libc::EXDEV);
        assert_eq!(repairs.bind(here, &socket, &sys::fd::eventfd().unwrap(), there), libc::ENOTSOCK);
        assert_eq!(repairs.bind(here, &socket, &listener, there), 0);
        assert_eq!(sys::socket::own_end(socket.raw()), sys::socket::own_end(listener.raw()));
        assert_eq!(
            Repairs::default().bind(here, &socket, &listener, there),
            libc::EACCES,
            "another client's"
        );
    }

    #[test]
    fn what_is_no_tcp_socket_of_the_namespace_is_refused() {
        let mut repairs = Repairs::default();
        let here = sys::socket::network_namespace(tcp().raw()).unwrap();
        let other = |domain, kind| sys::socket::socket(domain, kind, 0).unwrap();
        assert_eq!(repairs.set(here, sys::fd::eventfd().unwrap(), ON), libc::ENOTSOCK);
        assert_eq!(repairs.set(here, other(libc::AF_INET, libc::SOCK_DGRAM), ON), libc::EPROTONOSUPPORT);
        assert_eq!(repairs.set(here, other(libc::AF_UNIX, libc::SOCK_STREAM), ON), libc::EPROTONOSUPPORT);
        assert_eq!(repairs.set(here, tcp(), 2), libc::EINVAL);
        assert_eq!(repairs.set(here + 1, tcp(), ON), libc::EXDEV);
        assert_eq!(deafen(here + 1, &tcp()), libc::EXDEV);
        assert_eq!(deafen(here, &sys::fd::eventfd().unwrap()), libc::ENOTSOCK);
        assert!(repairs.open.is_empty());
    }

    /// As root.
    #[test]
    fn who_leaves_leaves_no_socket_in_repair_mode_and_has_a_bounded_number_there() {
        if sys::process::capabilities().unwrap_or(0) & sys::capability::NET_ADMIN == 0 {
            return rig::skip::skipped_here("needs CAP_NET_ADMIN");
        }
        let here = sys::socket::network_namespace(tcp().raw()).unwrap();
        let mut repairs = Repairs::default();
        let [first, second] = [tcp(), tcp()];
        for _again in 0..2 {
            assert_eq!(repairs.set(here, first.duplicate().unwrap(), ON), 0);
        }
        assert_eq!((mode(&first), repairs.open.len()), (1, 1));
        assert_eq!(repairs.set(here, first.duplicate().unwrap(), TCP_REPAIR_OFF_NO_WP), 0);
        assert_eq!((mode(&first), repairs.open.len()), (0, 0));
        assert_eq!(repairs.set(here, second.duplicate().unwrap(), ON), 0);
        repairs.take_back();
        assert_eq!((mode(&second), repairs.open.len()), (0, 0));
        for _ in 0..OPEN_MAX {
            assert_eq!(repairs.set(here, tcp(), ON), 0);
        }
        assert_eq!(repairs.set(here, first.duplicate().unwrap(), ON), libc::ENOBUFS);
        drop(repairs.open.pop());
        assert_eq!(repairs.set(here, first.duplicate().unwrap(), ON), 0);
        drop(repairs);
        assert_eq!(mode(&first), 0);
    }
}
