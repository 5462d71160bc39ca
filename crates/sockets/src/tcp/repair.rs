//! A connection moves into the kernel: its shadow becomes the connection, in place, by TCP_REPAIR. Every descriptor that
//! names it, in any process, has it from then on.
//!
//! Needs CAP_NET_ADMIN in the user namespace of the network, as AF_XDP did. Where lanes listen on its port, the steering
//! program leaves it alone, since the kernel has a socket of it. The order matters: the kernel knows the
//! connection before the first packet of it reaches the kernel, and the engine is silent about it after the last that
//! reached us. What arrives in between is lost, as on a wire, and sent again.

use crate::address;
use crate::answer::Why;
use crate::lane::Lane;
use crate::object::Object;
use crate::offload;
use crate::runtime::Runtime;
use core::sync::atomic::Ordering;
use libc::{IPPROTO_TCP, SOL_SOCKET, c_int};
use stack::tcp::Handover;
use stack::{Instant, SocketId};
use std::net::SocketAddrV4;
use sys::socket::{connect, option, send, set_option, shutdown};

/// linux/tcp.h.
const TCP_REPAIR_OFF: c_int = 0;
const TCP_REPAIR_OFF_NO_WP: c_int = -1;
const TCP_REPAIR_WINDOW: c_int = 29;
const TCP_RECV_QUEUE: c_int = 1;
const TCP_SEND_QUEUE: c_int = 2;
/// asm-generic/socket.h.
const SO_BUF_LOCK: c_int = 72;

/// struct tcp_repair_opt: a TCP option by its number, and its value.
#[repr(C)]
#[derive(Clone, Copy)]
struct Agreed {
    number: u32,
    value: u32,
}

/// struct tcp_repair_window.
#[repr(C)]
#[derive(Clone, Copy)]
struct Windows {
    send_wl1: u32,
    send: u32,
    send_max: u32,
    receive: u32,
    receive_wup: u32,
}

/// A connection that is the kernel's now. Its flow stays with the engine, which is silent about it, until this is over.
pub(crate) struct Moved {
    lane: &'static Lane,
    id: SocketId,
    local: SocketAddrV4,
    remote: SocketAddrV4,
}

/// Moves a connection into the kernel, where it is behind `fd` and all that is duplicated from it. `None`: it cannot be,
/// and is as it was.
pub(crate) fn to_kernel(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    why: Why,
) -> Option<Moved> {
    // Also where it fails: what was tried on the shadow stays with this connection.
    object.shadow_changed.store(true, Ordering::Relaxed);
    let (lane, id) = object.leg()?;
    let now = sys::clock::now();
    let mut guard = lane.lock();
    let inner = &mut *guard;
    inner.turn(now);
    let connection = inner.stack.tcp_describe(Instant(now), id)?;
    let reuse = match restore(runtime, fd, &connection) {
        Ok(reuse) => reuse,
        Err(errno) => {
            logger::debug!("fd {fd}: the kernel does not take the connection: errno {errno}");
            return None;
        }
    };
    inner.stack.tcp_handed_over(id);
    for (_, flow) in core::mem::take(&mut object.control.lock().flows) {
        inner.device.unsteer(flow);
    }
    go_on(fd, &connection, reuse);
    lane.note(inner, now);
    drop(guard);
    if object.peek.behind().is_some() {
        let _ = set_option(fd, SOL_SOCKET, libc::SO_PEEK_OFF, &object.peek.get());
    }
    object.drop_legs();
    object.watch.wake_all(object);
    runtime.count(why, format_args!("TCP connection (fd {fd})"));
    if object.fds.load(Ordering::Acquire) > 0 {
        offload::forget(runtime, object, why);
    }
    Some(Moved { lane, id, local: connection.local, remote: connection.remote })
}

impl Moved {
    /// Nothing is under way to the engine any more: from now on the flow is as any other.
    pub(crate) fn end(&self) {
        let mut inner = self.lane.lock();
        // What was under way to us when the flow was given back.
        inner.turn(sys::clock::now());
        inner.stack.tcp_forget_flow(self.id, self.local, self.remote);
    }
}

/// The shadow becomes the connection, in repair mode, in which nothing is sent; `leave` ends it. In case of an error it is
/// a socket without connection again. Returns SO_REUSEADDR, which the mode takes away.
fn restore(runtime: &Runtime, fd: c_int, connection: &Handover) -> sys::Result<c_int> {
    let reuse = option(fd, SOL_SOCKET, libc::SO_REUSEADDR, 0 as c_int)?;
    tcp_option(fd, libc::TCP_REPAIR, 1)?;
    let restored = establish(runtime, fd, connection).and_then(|()| fill(fd, connection));
    if restored.is_err() {
        // In repair mode that tells the peer nothing.
        let _ = connect(fd, &libc::sockaddr { sa_family: libc::AF_UNSPEC as u16, sa_data: [0; 14] });
        leave(fd, TCP_REPAIR_OFF_NO_WP, reuse);
    }
    restored.map(|()| reuse)
}

fn leave(fd: c_int, how: c_int, reuse: c_int) {
    let _ = tcp_option(fd, libc::TCP_REPAIR, how);
    let _ = set_option(fd, SOL_SOCKET, libc::SO_REUSEADDR, &reuse);
}

/// Sequence numbers, addresses, what the handshake agreed.
fn establish(runtime: &Runtime, fd: c_int, connection: &Handover) -> sys::Result<()> {
    // The window that the peer was told must have room, too.
    make_room(
        fd,
        (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE),
        connection.unread.len() + connection.receive_window as usize,
    );
    make_room(fd, (libc::SO_SNDBUF, libc::SO_SNDBUFFORCE), connection.sent.len() + connection.unsent.len());
    for (queue, seq) in [(TCP_SEND_QUEUE, connection.send_seq), (TCP_RECV_QUEUE, connection.receive_seq)] {
        tcp_option(fd, libc::TCP_REPAIR_QUEUE, queue)?;
        set_option(fd, IPPROTO_TCP, libc::TCP_QUEUE_SEQ, &seq)?;
    }
    let is_bound = address::of_shadow(&runtime.os, fd).is_ok_and(|bound| bound.port() != 0);
    if !is_bound {
        // The listener's port: repair mode allows it.
        sys::socket::bind(fd, &address::to_sockaddr(connection.local))?;
    }
    connect(fd, &address::to_sockaddr(connection.remote))?;
    agree(fd, 2, u32::from(connection.mss))?;
    if let Some((theirs, ours)) = connection.scales {
        agree(fd, 3, u32::from(theirs) | u32::from(ours) << 16)?;
    }
    if connection.sack {
        agree(fd, 4, 0)?;
    }
    if let Some(now) = connection.timestamp {
        agree(fd, 8, 0)?;
        // An odd number would mean a clock of microseconds.
        set_option(fd, IPPROTO_TCP, libc::TCP_TIMESTAMP, &(now.wrapping_add(now & 1)))?;
    }
    Ok(())
}

/// What waits to be read and to be acknowledged, and the windows.
fn fill(fd: c_int, connection: &Handover) -> sys::Result<()> {
    for (queue, bytes) in [(TCP_RECV_QUEUE, &connection.unread), (TCP_SEND_QUEUE, &connection.sent)] {
        tcp_option(fd, libc::TCP_REPAIR_QUEUE, queue)?;
        write(fd, bytes)?;
    }
    let windows = Windows {
        send_wl1: connection.send_wl1,
        send: connection.send_window,
        send_max: connection.send_window_max,
        receive: connection.receive_window,
        receive_wup: connection.receive_seq.wrapping_add(connection.unread.len() as u32),
    };
    set_option(fd, IPPROTO_TCP, TCP_REPAIR_WINDOW, &windows)
}

/// The kernel's from here: it asks the peer where it stands, and sends what waits.
fn go_on(fd: c_int, connection: &Handover, reuse: c_int) {
    leave(fd, TCP_REPAIR_OFF, reuse);
    let _ = write(fd, &connection.unsent);
    // Whose FIN came is not known to the kernel, but reads end as if it were.
    if connection.read_ended {
        let _ = shutdown(fd, libc::SHUT_RD);
    }
    if connection.write_ended {
        let _ = shutdown(fd, libc::SHUT_WR);
    }
}

fn tcp_option(fd: c_int, name: c_int, value: c_int) -> sys::Result<()> {
    set_option(fd, IPPROTO_TCP, name, &value)
}

fn agree(fd: c_int, number: u32, value: u32) -> sys::Result<()> {
    set_option(fd, IPPROTO_TCP, libc::TCP_REPAIR_OPTIONS, &Agreed { number, value })
}

/// Pieces that the kernel can keep in one buffer of its own.
fn write(fd: c_int, bytes: &[u8]) -> sys::Result<()> {
    for piece in bytes.chunks(1 << 15) {
        let mut rest = piece;
        while !rest.is_empty() {
            rest = &rest[send(fd, rest, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)?..];
        }
    }
    Ok(())
}

/// Enlarges a buffer of the shadow, whose size goes on adapting if it did. The kernel counts twice the bytes.
fn make_room(fd: c_int, (name, force): (c_int, c_int), bytes: usize) {
    let has = option(fd, SOL_SOCKET, name, 0 as c_int).unwrap_or(0);
    let wanted = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    if has / 2 < wanted
        && let Ok(locks) = option(fd, SOL_SOCKET, SO_BUF_LOCK, 0 as c_int)
    {
        let _ = set_option(fd, SOL_SOCKET, force, &wanted);
        let _ = set_option(fd, SOL_SOCKET, SO_BUF_LOCK, &locks);
    }
}
