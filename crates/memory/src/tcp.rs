//! What the kernel says of a TCP socket: its ends, and how many bytes went through it.

use sys::Result;
use sys::socket::{ask, ends, network_namespace, option};

/// struct tcp_info up to tcpi_bytes_received (linux/tcp.h, Linux 4.1).
const INFO_LEN: usize = 136;
const BYTES_ACKED_AT: usize = 120;
const BYTES_RECEIVED_AT: usize = 128;
const ESTABLISHED: u8 = 1;
const CLOSE: u8 = 7;
/// TIME_WAIT, CLOSE_WAIT, LAST_ACK, CLOSING: the peer's FIN has come, and is counted as a byte.
const PEER_ENDED: [u8; 4] = [6, 8, 9, 11];

/// Who made a connection: the kernel counts its SYN among the bytes that were acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Connected,
    Accepted,
}

fn info(tcp: i32) -> Result<[u8; INFO_LEN]> {
    option(tcp, libc::IPPROTO_TCP, libc::TCP_INFO, [0; INFO_LEN])
}

fn count(info: &[u8; INFO_LEN], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&info[at..at + 8]);
    u64::from_ne_bytes(bytes)
}

/// Bytes that were ever written to the socket, which has not sent its FIN. Nobody may write meanwhile.
pub(crate) fn written(tcp: i32, role: Role) -> Result<u64> {
    loop {
        let acknowledged = count(&info(tcp)?, BYTES_ACKED_AT);
        let queued = ask(tcp, libc::TIOCOUTQ as u32)? as u64;
        // An acknowledgment between the two would be missed.
        if count(&info(tcp)?, BYTES_ACKED_AT) == acknowledged {
            return Ok((acknowledged + queued).saturating_sub(u64::from(role == Role::Connected)));
        }
    }
}

/// Nagle's algorithm may hold the last bytes back until the peer acknowledges others: nothing comes behind them here,
/// so they are to go now.
pub(crate) fn push(tcp: i32) {
    let nodelay = |value: i32| sys::socket::set_option(tcp, libc::IPPROTO_TCP, libc::TCP_NODELAY, &value);
    if option(tcp, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1i32) == Ok(0) {
        let _ = nodelay(1).and_then(|()| nodelay(0));
    }
}

/// Bytes that were ever read from the socket. Nobody may read meanwhile.
pub(crate) fn read(tcp: i32) -> Result<u64> {
    loop {
        let received = count(&info(tcp)?, BYTES_RECEIVED_AT);
        let unread = ask(tcp, libc::FIONREAD as u32)? as u64;
        // The kernel reads the state before it takes the lock for the rest: only that of the later look is known to
        // go with the count.
        let after = info(tcp)?;
        if count(&after, BYTES_RECEIVED_AT) == received {
            let fin = u64::from(PEER_ENDED.contains(&after[0]));
            return Ok(received.saturating_sub(unread + fin));
        }
    }
}

/// Bytes that the socket has ever given, its stream being read to the end, which was a FIN or (`by_reset`) a reset.
/// `None`: it has not ended, whatever a receive says.
pub(crate) fn given(tcp: i32, by_reset: bool) -> Option<u64> {
    let info = info(tcp).ok()?;
    let has_ended = info[0] == CLOSE || PEER_ENDED.contains(&info[0]);
    // The FIN is counted as a byte.
    has_ended.then(|| count(&info, BYTES_RECEIVED_AT).saturating_sub(u64::from(!by_reset)))
}

/// Whether the connection is whole: established, and not to itself. Whoever sends urgent data keeps it from here
/// (FIONREAD ends at its mark).
pub(crate) fn is_established(tcp: i32) -> bool {
    let is_tcp = option(tcp, libc::SOL_SOCKET, libc::SO_PROTOCOL, 0i32) == Ok(libc::IPPROTO_TCP);
    is_tcp
        && ends(tcp).is_ok_and(|(own, other)| own != other)
        && info(tcp).is_ok_and(|info| info[0] == ESTABLISHED)
}

/// A socket of the peer that was shown is about to be closed here, and the peer may have closed it meanwhile: that must
/// not wait for its bytes to be read (SO_LINGER), which only this side could do.
pub(crate) fn looked_at(shown: Vec<sys::Fd>) {
    for socket in &shown {
        // struct linger: on, seconds.
        if option(socket.raw(), libc::SOL_SOCKET, libc::SO_LINGER, [0i32; 2]).is_ok_and(|[on, _]| on != 0) {
            let _ = sys::socket::set_option(socket.raw(), libc::SOL_SOCKET, libc::SO_LINGER, &[0i32; 2]);
        }
    }
    drop(shown);
}

/// Whether two sockets are the two ends of one connection: in one network namespace, where four names are one
/// connection.
pub(crate) fn are_ends(one: i32, other: i32) -> bool {
    let (Ok((own, peer)), Ok((theirs, ours))) = (ends(one), ends(other)) else { return false };
    let namespace = |fd| network_namespace(fd).ok();
    (own, peer) == (ours, theirs)
        && namespace(one).is_some()
        && namespace(one) == namespace(other)
        && is_established(one)
        && is_established(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_fin_that_comes_meanwhile_is_no_byte() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for _ in 0..1000 {
            let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (own, _) = listener.accept().unwrap();
            let ends = std::thread::spawn(move || peer.shutdown(Shutdown::Write).map(|()| peer));
            while !PEER_ENDED.contains(&info(own.as_raw_fd()).unwrap()[0]) {
                assert_eq!(read(own.as_raw_fd()), Ok(0));
            }
            let _peer = ends.join().unwrap().unwrap();
        }
    }
}
