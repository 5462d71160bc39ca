//! Calls on sockets under libsdp.so: the kernel's, with a look at what connects and what listens.

use crate::runtime::{self, Runtime};
use crate::sdp;
use config::sdp::{Role, Wanted};
use core::net::SocketAddr;
use libc::c_int;

/// The kernel made a stream socket for a program that wants it to speak SDP (AF_INET_SDP).
pub fn asks(fd: c_int) {
    if let Some(sdp) = runtime::get().and_then(|runtime| runtime.sdp.as_ref()) {
        sdp.asks(fd);
    }
}

/// Before connect(2). True: the connection is to speak SDP, if its peer does.
pub fn connects(fd: c_int, to: SocketAddr) -> bool {
    of_libsdp(fd).is_some_and(|runtime| sdp::wanted(runtime, fd, Role::Client, to) != Wanted::Tcp)
}

/// After connect(2) of such a socket, which has succeeded or goes on.
pub fn connected(fd: c_int, to: SocketAddr) {
    if let Some(runtime) = of_libsdp(fd) {
        sdp::connected(runtime, fd, to);
    }
}

/// After listen(2), by which the kernel has chosen a port for a socket that had none.
pub fn listens(fd: c_int, at: SocketAddr) {
    if let Some(runtime) = of_libsdp(fd)
        && sdp::wanted(runtime, fd, Role::Server, at) != Wanted::Tcp
    {
        sdp::listens(fd);
    }
}

/// The runtime, if it is libsdp's and this is a TCP socket.
fn of_libsdp(fd: c_int) -> Option<&'static Runtime> {
    let runtime = runtime::get().filter(|runtime| runtime.sdp.is_some())?;
    let is_tcp = sys::socket::option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL, 0) == Ok(libc::IPPROTO_TCP);
    is_tcp.then_some(runtime)
}
