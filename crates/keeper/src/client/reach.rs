//! How a program reaches its keeper: by the keeper's place, or by the connection of the process that forked it.

use super::{Error, PATIENCE_NS, Result};
use crate::place::{self, Place};
use crate::protocol::{Kind, Packet};
use sys::Fd;

/// Connects to the keeper. Why it could not be reached goes to `errno`.
pub(super) fn call(place: &Place, errno: &mut i32) -> Result<Fd> {
    let socket = connect(place).map_err(|failure| {
        *errno = failure;
        match failure {
            libc::EACCES => Error::Denied,
            libc::EAGAIN => Error::Silent,
            _ => Error::Absent,
        }
    })?;
    // Sockets are shown to it: not to anybody's, unless the user named it.
    let nobody = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let peer = sys::socket::option(socket.raw(), libc::SOL_SOCKET, libc::SO_PEERCRED, nobody)
        .map_err(|_| Error::Foreign)?;
    let is_named = matches!(place, Place::Path(_));
    match is_named || peer.uid == 0 || peer.uid == sys::process::user() {
        true => Ok(socket),
        false => Err(Error::Foreign),
    }
}

fn connect(place: &Place) -> sys::Result<Fd> {
    let address = place::address(&place.path()?)?;
    let socket = sys::socket::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0)?;
    bound(&socket).map_err(|_| libc::EINVAL)?;
    sys::socket::connect(socket.raw(), &address).map(|()| socket)
}

/// A connection for the child of a fork, by that of its parent.
pub(super) fn join(parents: &Fd) -> Result<Fd> {
    let (ours, theirs) = sys::socket::pair(libc::SOCK_SEQPACKET).map_err(|_| Error::Absent)?;
    bound(&ours)?;
    let question = Packet::question(Kind::Join, 0, 0).bytes();
    match sys::socket::send_descriptors(parents.raw(), &question, &[theirs.raw()]) {
        Ok(_) => Ok(ours),
        Err(_) => Err(Error::Absent),
    }
}

/// Neither sending nor receiving waits for ever.
pub(super) fn bound(socket: &Fd) -> Result<()> {
    let limit = libc::timeval { tv_sec: (PATIENCE_NS / 1_000_000_000) as libc::time_t, tv_usec: 0 };
    for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        sys::socket::set_option(socket.raw(), libc::SOL_SOCKET, name, &limit).map_err(Error::Errno)?;
    }
    Ok(())
}
