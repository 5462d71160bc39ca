//! Has the peers of killed processes find out: a segment in the wrong place has each say which number it expects, and
//! that ends the connection. The kernel, which has no such connection, resets what it hears; but a firewall may keep
//! it from it, to which all packets of such connections are new. So the answers are read before the firewall, for a
//! moment, and reset here as well. A second reset finds no connection any more.

use std::collections::HashSet;
use std::net::SocketAddrV4;
use std::time::{Duration, Instant};
use sys::Fd;
use wire::half_open::{opening, reset};
use xdp::HalfOpen;

/// Most answers take a round trip.
const ANSWERS: Duration = Duration::from_millis(200);
/// Linux's ETH_P_IP, and a frame without its Ethernet header.
const IP: u16 = 0x0800;
const FRAME_MAX: usize = 2048;
/// Answers of 500 peers at once.
const UNREAD_MAX: i32 = 1 << 20;

/// Tells those whose connections these are, on an interface; by whoever may wait for their answers. Says why some may
/// not know, in an errno.
pub(crate) fn tell(interface: u32, half_open: &HalfOpen, waits: bool) -> Option<i32> {
    let connections = half_open.connections();
    let pairs = connections.iter().filter_map(|flow| Some((flow.local, flow.remote?)));
    let ear = if waits { listen(interface).ok() } else { None };
    let mut failure = None;
    for (local, remote) in pairs.clone() {
        failure = half_open.send(&opening(local, remote), *remote.ip()).err().or(failure);
    }
    if let Some(ear) = ear {
        answer(&ear, half_open, pairs.collect());
    }
    failure
}

/// What hears all IP packets that the interface receives, and has not redirected to a program.
fn listen(interface: u32) -> sys::Result<Fd> {
    let socket = sys::socket::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0)?;
    sys::socket::set_option(socket.raw(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &UNREAD_MAX)?;
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: IP.to_be(),
        sll_ifindex: interface as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    sys::socket::bind(socket.raw(), &address)?;
    Ok(socket)
}

/// Resets who answers, until all have or have had the time.
fn answer(ear: &Fd, half_open: &HalfOpen, mut waiting: HashSet<(SocketAddrV4, SocketAddrV4)>) {
    let end = Instant::now() + ANSWERS;
    let mut packet = [0; FRAME_MAX];
    while !waiting.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        match sys::socket::receive(ear.raw(), &mut packet, libc::MSG_DONTWAIT) {
            Ok(length) => {
                if let Some((local, remote, reset)) = reset(&packet[..length])
                    && waiting.remove(&(local, remote))
                {
                    let _ = half_open.send(&reset, *remote.ip());
                }
            }
            Err(libc::EAGAIN | libc::EINTR) => {
                let mut one = [sys::poll::pollfd { fd: ear.raw(), events: libc::POLLIN, revents: 0 }];
                let _ = sys::poll::poll(&mut one, Some(left.as_nanos() as u64), None);
            }
            Err(_) => return,
        }
    }
}
