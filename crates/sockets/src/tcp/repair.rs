//! A connection moves into the kernel: its shadow becomes the connection, in place, by TCP_REPAIR. Every descriptor
//! that names it, in any process, has it from then on.
//!
//! Needs CAP_NET_ADMIN in the user namespace of the network, or the keeper, who has it (`keeper.rs`). Where lanes
//! listen on its port, the steering program leaves it alone, since the kernel has a socket of it. The order matters:
//! the kernel knows the connection before the first packet of it reaches the kernel, and the engine is silent about it
//! after the last that reached us. What arrives in between waits in our ring, and is passed on
//! (`Inner::leave_to_kernel`).

use super::measured::Measured;
use super::port;
use crate::address;
use crate::answer::Why;
use crate::counts;
use crate::keeper;
use crate::lane::{Inner, Lane, Tx};
use crate::object::{Kind, Object};
use crate::offload;
use crate::runtime::Runtime;
use crate::wait::moves;
use core::sync::atomic::Ordering;
use libc::{IPPROTO_TCP, SOL_SOCKET, c_int};
use stack::tcp::{Handover, State};
use stack::{Instant, SocketId};
use std::net::SocketAddrV4;
use sys::linux::{
    SO_BUF_LOCK, TCP_NOTSENT_LOWAT, TCP_RECV_QUEUE, TCP_REPAIR_OFF_NO_WP, TCP_REPAIR_WINDOW, TCP_SEND_QUEUE,
};
use sys::socket::{connect, option, send, set_option, shutdown};

/// A connection that is the kernel's now. Its flow stays with the engine, which is silent about it, until this is over.
pub(crate) struct Moved {
    lane: &'static Lane,
    id: SocketId,
    local: SocketAddrV4,
    remote: SocketAddrV4,
}

/// Moves a connection into the kernel, where it is behind `fd` and all that is duplicated from it. `None`: it cannot
/// be, and is as it was.
pub(crate) fn to_kernel(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    why: Why,
) -> Option<Moved> {
    let moved = take_out(runtime, object, fd, Kind::Stream)?;
    runtime.count(why, format_args!("TCP connection (fd {fd})"));
    if object.fds.load(Ordering::Acquire) > 0 {
        offload::forget(runtime, object, why);
    } else {
        moves::moved(object);
    }
    Some(moved)
}

/// As [`to_kernel`], and the connection may come back: the object goes on as what the kernel carries.
pub(crate) fn to_carried(runtime: &'static Runtime, object: &'static Object, fd: c_int) -> Option<Moved> {
    let moved = take_out(runtime, object, fd, Kind::Carried)?;
    moves::changed(&runtime.os, object);
    Some(moved)
}

/// A connection that left the engine for nothing goes back into the kernel.
pub(crate) fn put_back(runtime: &Runtime, inner: &Inner, object: &Object, fd: c_int, connection: &Handover) {
    let measured = Measured::of(inner, object);
    match restore(runtime, fd, connection, &measured) {
        Ok(before) => go_on(runtime, fd, connection, before),
        Err(errno) => logger::error!(
            "fd {fd}: the kernel does not take its connection back: {why}",
            why = sys::Errno(errno)
        ),
    }
}

fn take_out(runtime: &Runtime, object: &'static Object, fd: c_int, becomes: Kind) -> Option<Moved> {
    // Also where it fails: what was tried on the shadow stays with this connection.
    object.shadow_changed.store(true, Ordering::Relaxed);
    let (lane, mut guard, id) = object.engine()?;
    let now = sys::clock::now();
    let inner = &mut *guard;
    inner.turn(now);
    if becomes == Kind::Carried && inner.stack.tcp_has_urgent(id) {
        // The kernel would not know of it, and could not tell it when the connection comes back.
        return None;
    }
    inner.stack.tcp_tell_all(Instant(now), id, &mut Tx(&mut inner.device));
    inner.flush(Instant(now));
    let connection = inner.stack.tcp_describe(Instant(now), id)?;
    super::port::unshare(object, fd);
    let measured = Measured::of(inner, object);
    let before = match restore(runtime, fd, &connection, &measured) {
        Ok(before) => before,
        Err(errno) => {
            logger::debug!(
                "fd {fd}: the kernel does not take the connection: {why}",
                why = sys::Errno(errno)
            );
            return None;
        }
    };
    inner.stack.tcp_handed_over(id);
    // Before the entry goes nearly all that waits, so that little is overtaken by what the kernel gets by itself from
    // then on.
    inner.look_at_all(now);
    let flows = {
        let mut control = object.control.lock();
        let end = connection.send_seq.wrapping_add(connection.sent.len() as u32);
        control.on_way = connection.sent_at.map(|at| (end, at));
        control.least_round_trip = connection.pace.map(|pace| pace.least);
        core::mem::take(&mut control.flows)
    };
    flows.into_iter().for_each(|(_, flow)| inner.device.unsteer(flow));
    inner.look_at_all(now);
    go_on(runtime, fd, &connection, before);
    lane.note(inner, now);
    if object.peek.behind().is_some() {
        let _ = set_option(fd, SOL_SOCKET, libc::SO_PEEK_OFF, &object.peek.get());
    }
    if becomes == Kind::Carried {
        object.is_carried_again();
    }
    counts::segment().process().moves_to_kernel.add(1);
    let has_low_water = object.receive_low_water.load(Ordering::Relaxed) > 1;
    if connection.state != State::Established || connection.read_shut || has_low_water {
        // The kernel has the end of it in a form of its own, and looks that do not wait know no low water mark.
        object.price.store(u32::MAX, Ordering::Relaxed);
    }
    // The kind first: a call that found neither an engine's connection nor the kernel's would wait in the kernel, where
    // nobody could wake it.
    object.set_kind(becomes);
    object.drop_legs();
    // Who finds no leg under the lane's lock finds this changed, too.
    object.moves.fetch_add(1, Ordering::SeqCst);
    drop(guard);
    Some(Moved { lane, id, local: connection.local, remote: connection.remote })
}

impl Moved {
    /// A connection that did not leave the kernel, though its flow was steered to the lane for a moment.
    pub(crate) fn not(
        lane: &'static Lane,
        inner: &mut Inner,
        local: SocketAddrV4,
        remote: SocketAddrV4,
    ) -> Moved {
        Moved { lane, id: inner.stack.tcp_leave_flow(local, remote), local, remote }
    }

    /// Nothing is under way to the engine any more: from now on the flow is as any other.
    pub(crate) fn end(&self) {
        let mut inner = self.lane.lock();
        // What was under way to us when the flow was given back.
        inner.look_at_all(sys::clock::now());
        inner.stack.tcp_forget_flow(self.id, self.local, self.remote);
    }
}

/// What the shadow had before it became a connection again.
struct Before {
    /// SO_REUSEADDR, which repair mode takes away.
    reuse: c_int,
    /// SO_SNDBUF, in which there may have to be more room for a while.
    send_buffer: c_int,
}

/// The shadow becomes the connection, in repair mode, in which nothing is sent; `leave` ends it. In case of an error it
/// is a socket without connection again.
fn restore(runtime: &Runtime, fd: c_int, connection: &Handover, measured: &Measured) -> sys::Result<Before> {
    let has = |name| option(fd, SOL_SOCKET, name, 0 as c_int);
    let reuse = has(libc::SO_REUSEADDR)?;
    let send_buffer = has(libc::SO_SNDBUF)?;
    let receive_buffer = has(libc::SO_RCVBUF)?.max(bound(runtime.tcp_settings().rmem[2]));
    keeper::set_repair(fd, 1)?;
    let restored = establish(fd, connection).and_then(|()| fill(fd, connection, measured));
    // Before a segment makes the kernel say something: it would offer the room that was made for what is unread.
    keep_bounds(fd, (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE), receive_buffer);
    if restored.is_err() {
        // In repair mode that tells the peer nothing.
        let _ = connect(fd, &libc::sockaddr { sa_family: libc::AF_UNSPEC as u16, sa_data: [0; 14] });
        end_repair(fd, TCP_REPAIR_OFF_NO_WP, reuse);
    }
    restored.map(|()| Before { reuse, send_buffer })
}

/// Ends repair mode, in one of its ways.
fn end_repair(fd: c_int, how: c_int, reuse: c_int) {
    let _ = keeper::set_repair(fd, how);
    let _ = set_option(fd, SOL_SOCKET, libc::SO_REUSEADDR, &reuse);
}

/// Sequence numbers, addresses, what the handshake agreed.
fn establish(fd: c_int, connection: &Handover) -> sys::Result<()> {
    // The window that the peer was told must have room, too.
    make_room(
        fd,
        (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE),
        connection.unread.len() + connection.receive_window as usize,
    );
    make_room(fd, (libc::SO_SNDBUF, libc::SO_SNDBUFFORCE), connection.sent.len() + connection.unsent.len());
    // One before: the kernel sends our FIN again where the peer acknowledged it, else that byte is to tell the round
    // trip.
    let send_seq = connection.send_seq.wrapping_sub(1);
    for (queue, seq) in [(TCP_SEND_QUEUE, send_seq), (TCP_RECV_QUEUE, receive_seq(connection))] {
        tcp_option(fd, libc::TCP_REPAIR_QUEUE, queue)?;
        set_option(fd, IPPROTO_TCP, libc::TCP_QUEUE_SEQ, &seq)?;
    }
    // The listener's port: repair mode allows it. A socket that has one already says EINVAL.
    match keeper::bind(fd, connection.local, port::listener_at) {
        Ok(()) | Err(libc::EINVAL) => {}
        Err(errno) => return Err(errno),
    }
    connect_past_policies(fd, connection)?;
    agree(fd, 2, u32::from(connection.mss))?;
    if let Some((theirs, ours)) = connection.scales {
        agree(fd, 3, u32::from(theirs) | u32::from(ours) << 16)?;
    }
    if connection.sack {
        agree(fd, 4, 0)?;
    }
    if let Some((then, at)) = connection.timestamp {
        agree(fd, 8, 0)?;
        let now = then.wrapping_add((Instant(sys::clock::now()).since(at).as_millis()) as u32);
        // An odd number would mean a clock of microseconds.
        set_option(fd, IPPROTO_TCP, libc::TCP_TIMESTAMP, &(now.wrapping_add(now & 1)))?;
    }
    // By connect(2) the kernel took the MSS of a peer that says nothing, 536. What was agreed counts when it looks at
    // the path or at the headers again, as it does when it is given IP options: such connections have none.
    let _ = sys::socket::clear_option(fd, libc::IPPROTO_IP, libc::IP_OPTIONS);
    Ok(())
}

/// The kernel does not know of the peer's FIN: its number lies before what is unread, so that what follows is right.
fn receive_seq(connection: &Handover) -> u32 {
    connection.receive_seq.wrapping_add(u32::from(connection.is_fin_received()))
}

/// What waits to be read and to be acknowledged, and the windows.
fn fill(fd: c_int, connection: &Handover, measured: &Measured) -> sys::Result<()> {
    tcp_option(fd, libc::TCP_REPAIR_QUEUE, TCP_RECV_QUEUE)?;
    write(fd, &connection.unread)?;
    tcp_option(fd, libc::TCP_REPAIR_QUEUE, TCP_SEND_QUEUE)?;
    if connection.state != State::FinWait2 {
        write(fd, &[0])?;
        measured.tell(connection);
    }
    write(fd, &connection.sent)?;
    // The rest is written when there is no way back.
    let room = option(fd, SOL_SOCKET, libc::SO_SNDBUF, 0 as c_int)?;
    if (room / 2).cast_unsigned() < (connection.sent.len() + connection.unsent.len()) as u32 {
        return Err(libc::ENOBUFS);
    }
    // All was acknowledged before (`tcp_tell_all`).
    let acknowledged = receive_seq(connection).wrapping_add(connection.unread.len() as u32);
    // struct tcp_repair_window: snd_wl1, snd_wnd, max_window, rcv_wnd, rcv_wup.
    let windows = [
        connection.send_wl1,
        connection.send_window,
        connection.send_window_max,
        connection.receive_window,
        acknowledged,
    ];
    set_option(fd, IPPROTO_TCP, TCP_REPAIR_WINDOW, &windows)
}

/// The kernel's from here: it sends what waits. It asks the peer nothing: the number of its probe is an old one, so the
/// peer would not hear of the room that the kernel then believes to have told.
fn go_on(runtime: &Runtime, fd: c_int, connection: &Handover, before: Before) {
    end_repair(fd, TCP_REPAIR_OFF_NO_WP, before.reuse);
    send_unsent(fd, &connection.unsent);
    let most = before.send_buffer.max(bound(runtime.tcp_settings().wmem[2]));
    keep_bounds(fd, (libc::SO_SNDBUF, libc::SO_SNDBUFFORCE), most);
    // Whose FIN came is not known to the kernel, but reads end as if it were.
    if connection.read_shut || connection.is_fin_received() {
        let _ = shutdown(fd, libc::SHUT_RD);
    }
    if connection.is_write_ended() {
        let _ = shutdown(fd, libc::SHUT_WR);
    }
}

/// The bytes that no TCP has sent yet. There is room for them (`fill`), and no bound of the application's on what waits
/// holds for what it has written already.
fn send_unsent(fd: c_int, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let bound = option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 0 as c_int);
    let _ = tcp_option(fd, TCP_NOTSENT_LOWAT, -1);
    if let Err(errno) = write(fd, bytes) {
        logger::error!(
            "fd {fd}: the kernel does not take all that was to be sent: {why}",
            why = sys::Errno(errno)
        );
    }
    let _ = tcp_option(fd, TCP_NOTSENT_LOWAT, bound.unwrap_or(0));
}

/// An IPsec policy that blocks the connection's packets refuses connect(2) as well; a connection that stands lives on
/// under it. A policy of the socket's own lets the call pass, in which nothing is sent, and goes before anything could
/// be.
fn connect_past_policies(fd: c_int, connection: &Handover) -> sys::Result<()> {
    match address::connect(fd, connection.remote) {
        Err(libc::EPERM) => {}
        outcome => return outcome,
    }
    set_option(fd, libc::IPPROTO_IP, libc::IP_XFRM_POLICY, &LETS_OUT)?;
    let outcome = address::connect(fd, connection.remote);
    sys::socket::clear_option(fd, libc::IPPROTO_IP, libc::IP_XFRM_POLICY)?;
    outcome
}

/// struct xfrm_userpolicy_info: every IPv4 packet out is allowed, as it is, for ever. The family is at 40 and the
/// direction (XFRM_POLICY_OUT) at 160; the limits of bytes and packets are the four words from 56 on.
const LETS_OUT: [u8; 168] = {
    let mut info = [0; 168];
    info[40] = libc::AF_INET as u8;
    let mut at = 56;
    while at < 88 {
        info[at] = 0xff;
        at += 1;
    }
    info[160] = 1;
    info
};

fn tcp_option(fd: c_int, name: c_int, value: c_int) -> sys::Result<()> {
    set_option(fd, IPPROTO_TCP, name, &value)
}

/// struct tcp_repair_opt: a TCP option by its number, and its value.
fn agree(fd: c_int, number: u32, value: u32) -> sys::Result<()> {
    set_option(fd, IPPROTO_TCP, libc::TCP_REPAIR_OPTIONS, &[number, value])
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
fn make_room(fd: c_int, names: (c_int, c_int), bytes: usize) {
    let has = option(fd, SOL_SOCKET, names.0, 0 as c_int).unwrap_or(0);
    let wanted = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    if has / 2 < wanted {
        resize(fd, names, wanted);
    }
}

/// What had to have room once is no size for later: the window would grow with each move, and what waits with it.
fn keep_bounds(fd: c_int, names: (c_int, c_int), most: c_int) {
    if option(fd, SOL_SOCKET, names.0, 0 as c_int).is_ok_and(|has| has > most) {
        resize(fd, names, most / 2);
    }
}

fn resize(fd: c_int, (name, force): (c_int, c_int), bytes: c_int) {
    if let Ok(locks) = option(fd, SOL_SOCKET, SO_BUF_LOCK, 0 as c_int) {
        // Beyond the sysctl's bound only with privilege.
        if set_option(fd, SOL_SOCKET, force, &bytes).is_err() {
            let _ = set_option(fd, SOL_SOCKET, name, &bytes);
        }
        let _ = set_option(fd, SOL_SOCKET, SO_BUF_LOCK, &locks);
    }
}

fn bound(sysctl: u32) -> c_int {
    c_int::try_from(sysctl).unwrap_or(c_int::MAX)
}
