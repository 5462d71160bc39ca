//! Calls on sockets under libsdp.so: the kernel's, with a look at what connects and what listens.

use crate::runtime::{self, Runtime};
use crate::sdp;
pub use crate::sdp::refusal::Connects;
use config::sdp::{Role, Wanted};
use core::net::SocketAddr;
use libc::c_int;

/// The kernel made a stream socket for a program that wants it to speak SDP (AF_INET_SDP).
pub fn asks(fd: c_int) {
    if let Some(sdp) = runtime::get().and_then(|runtime| runtime.sdp.as_ref()) {
        sdp.asks(fd);
    }
}

/// Before connect(2): whether the connection is to speak SDP.
pub fn connects(fd: c_int, to: SocketAddr) -> Connects {
    let Some(runtime) = of_libsdp(fd) else { return Connects::Plainly };
    match sdp::wanted(runtime, fd, Role::Client, to) {
        (Wanted::Tcp, _) => Connects::Plainly,
        wanted => sdp::refusal::before_connect(runtime, fd, to, wanted),
    }
}

/// After connect(2) of such a socket, which has succeeded or goes on.
pub fn connected(fd: c_int, to: SocketAddr, connects: Connects) {
    if let (Some(runtime), Connects::AsSdp(offered)) = (runtime::get(), connects) {
        sdp::connected(runtime, fd, to, offered);
    }
}

/// After listen(2), by which the kernel has chosen a port for a socket that had none.
pub fn listens(fd: c_int, at: SocketAddr) {
    if let Some(runtime) = of_libsdp(fd)
        && let (wanted @ (Wanted::Sdp | Wanted::Both), _) = sdp::wanted(runtime, fd, Role::Server, at)
    {
        sdp::listens(fd, wanted);
    }
}

/// The runtime, if it is libsdp's and this is a TCP socket.
fn of_libsdp(fd: c_int) -> Option<&'static Runtime> {
    let runtime = runtime::get().filter(|runtime| runtime.sdp.is_some())?;
    let is_tcp = sys::socket::option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL, 0) == Ok(libc::IPPROTO_TCP);
    is_tcp.then_some(runtime)
}
