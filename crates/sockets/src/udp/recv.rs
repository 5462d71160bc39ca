//! Receiving datagrams, from the engine and from the kernel's shadow.

use super::ancillary;
use crate::address;
use crate::answer::{Answer, Stop, Why};
use crate::counts;
use crate::errno::{fail, of_recv};
use crate::lane::{Frame, Lane};
use crate::message::{self, Buffers};
use crate::object::Object;
use crate::runtime::Runtime;
use crate::wait::LOOK_NS;
use crate::wait::block::{self, Wait};
use core::net::Ipv4Addr;
use core::sync::atomic::Ordering;
use libc::{c_int, msghdr, pollfd, ssize_t};
use stack::udp::Datagram;
use stack::{Frame as _, Ready, RecvError, Sink, SocketId};

/// recvmsg(2).
///
/// # Safety
/// `message` is the application's, valid as the call demands.
pub(crate) unsafe fn recv(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    message: &mut msghdr,
    flags: c_int,
) -> Answer<ssize_t> {
    if flags & (libc::MSG_ERRQUEUE | libc::MSG_OOB) != 0 || object.leg().is_none() {
        return Err(Stop::Kernel(Why::NotOurs));
    }
    // SAFETY: the application's iovecs.
    let mut into = unsafe { message::buffers(message.msg_iov, message.msg_iovlen, libc::EMSGSIZE) }?;
    // SAFETY: as above.
    let mut attempt = |now| unsafe { attempt(runtime, object, fd, message, &mut into, flags, now) };
    if let Some(answer) = attempt(sys::clock::now()) {
        return answer;
    }
    if flags & libc::MSG_DONTWAIT != 0 || object.nonblocking.load(Ordering::Relaxed) {
        return fail(libc::EAGAIN);
    }
    let one = [object];
    let kernel = &[pollfd { fd, events: libc::POLLIN, revents: 0 }];
    let wait = Wait::to_receive(runtime, &one, kernel);
    match block::until(runtime, &wait, attempt) {
        Ok(answer) => answer,
        Err(stopped) => fail(stopped.errno()),
    }
}

/// Looks at the engine, takes a turn if there is nothing, then looks at the shadow if that is due.
#[inline]
unsafe fn attempt(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    message: &mut msghdr,
    into: &mut Buffers<'_>,
    flags: c_int,
    now: u64,
) -> Option<Answer<ssize_t>> {
    let mut gone = true;
    let mut behind = if flags & libc::MSG_PEEK != 0 { object.peek.behind() } else { None };
    for (lane, id) in object.legs() {
        gone = false;
        match take(object, lane, id, message, into, flags, &mut behind, now) {
            Err(RecvError::WouldBlock) => {}
            Err(RecvError::NoSocket) => return Some(fail(libc::EBADF)),
            Err(error) => return Some(fail(of_recv(error))),
            Ok(received) => return Some(received),
        }
    }
    if gone || object.shut.load(Ordering::Relaxed) & 1 != 0 {
        return Some(Err(Stop::Kernel(Why::NotOurs)));
    }
    let due = now.saturating_sub(object.shadow_looked.load(Ordering::Relaxed)) >= LOOK_NS;
    if !due && !object.shadow_ready.load(Ordering::Relaxed) {
        return None;
    }
    object.shadow_looked.store(now, Ordering::Relaxed);
    object.shadow_ready.store(false, Ordering::Relaxed);
    if let Some(behind) = behind {
        // What waits in the engine comes first.
        let place = c_int::try_from(behind).unwrap_or(c_int::MAX).to_ne_bytes();
        let _ = runtime.os.set_option(object.shadow(fd), libc::SOL_SOCKET, libc::SO_PEEK_OFF, &place);
    }
    // SAFETY: the application's message; MSG_DONTWAIT because this is a look.
    let got = unsafe { (runtime.os.recvmsg)(object.shadow(fd), message, flags | libc::MSG_DONTWAIT) };
    if got >= 0 {
        object.counts().rx_os_packets.one();
        object.counts().rx_os_bytes.add(got as u64);
        object.shadow_ready.store(true, Ordering::Relaxed);
        moved(object, flags, got);
        return Some(Ok(got));
    }
    match runtime.os.errno() {
        libc::EAGAIN => None,
        errno => Some(fail(errno)),
    }
}

/// SO_PEEK_OFF follows what was shown and what was read.
#[inline]
fn moved(object: &Object, flags: c_int, count: ssize_t) {
    match flags & libc::MSG_PEEK {
        0 => object.peek.read(count as usize),
        _ => object.peek.showed(count as usize),
    }
}

/// Takes the oldest datagram of one leg, after a turn if none waits; or shows the one that `behind` leads to, which
/// becomes the place in it.
#[inline]
#[allow(clippy::too_many_arguments)]
fn take(
    object: &Object,
    lane: &'static Lane,
    id: SocketId,
    message: &mut msghdr,
    into: &mut Buffers<'_>,
    flags: c_int,
    behind: &mut Option<usize>,
    now: u64,
) -> Result<Answer<ssize_t>, RecvError> {
    let mut inner = lane.lock();
    if inner.device.unkicked() > 0 || behind.is_some() || !inner.stack.ready(id).any(Ready::IN | Ready::ERR) {
        inner.turn(now);
        lane.note(&inner, now);
    }
    if flags & libc::MSG_PEEK != 0 {
        let dropped = inner.stack.udp_dropped(id);
        let inner = &mut *inner;
        let datagram = match behind {
            Some(behind) => inner.stack.udp_peek_behind(id, behind)?,
            None => inner.stack.udp_peek(id)?,
        };
        let place = behind.unwrap_or(0);
        // SAFETY: `message` is the application's (see `recv`).
        Ok(unsafe { told(object, lane, &inner.addresses, dropped, datagram, place, message, into, flags) })
    } else {
        let datagram = inner.stack.udp_recv(id)?;
        let dropped = inner.stack.udp_dropped(id);
        // SAFETY: as above.
        let answer =
            unsafe { told(object, lane, &inner.addresses, dropped, &datagram, 0, message, into, flags) };
        counts::received(object, datagram.len);
        Ok(answer)
    }
}

/// The datagram, and beside it what the application asked to be told.
#[inline]
#[allow(clippy::too_many_arguments)]
unsafe fn told(
    object: &Object,
    lane: &Lane,
    addresses: &[Ipv4Addr],
    dropped: u64,
    datagram: &Datagram<Frame>,
    place: usize,
    message: &mut msghdr,
    into: &mut Buffers<'_>,
    flags: c_int,
) -> Answer<ssize_t> {
    let control = message.msg_controllen;
    // SAFETY: the caller's promise.
    let received = unsafe { deliver(datagram, place, message, into, flags) }?;
    moved(object, flags, received);
    let wanted = object.ancillary.load(Ordering::Relaxed) & ancillary::TOLD;
    if wanted != 0 {
        message.msg_controllen = control;
        let local = ancillary::specific(datagram.to, addresses);
        // SAFETY: as above.
        unsafe { ancillary::tell(wanted, datagram, lane, local, dropped, message) };
    }
    Ok(received)
}

/// Copies a datagram out, from `place` on, and says of it what recvmsg says.
unsafe fn deliver(
    datagram: &Datagram<Frame>,
    place: usize,
    message: &mut msghdr,
    into: &mut Buffers<'_>,
    flags: c_int,
) -> Answer<ssize_t> {
    let (offset, len) = (usize::from(datagram.range.0), usize::from(datagram.range.1));
    let left = datagram.len - place;
    let room = into.room();
    let copied = left.min(room);
    let head = datagram.head.bytes().get(offset..offset + len).unwrap_or(&[]);
    let mut before = place;
    put(into, head, &mut before);
    for piece in &datagram.tail {
        put(into, piece.bytes(), &mut before);
    }
    // As Linux: behind the beginning, a buffer that is just large enough is called too small.
    let truncated = room <= left && copied < datagram.len;
    message.msg_flags = if truncated { libc::MSG_TRUNC } else { 0 };
    message.msg_controllen = 0;
    let mut namelen = message.msg_namelen;
    // SAFETY: the application's name buffer of `msg_namelen` bytes.
    unsafe { address::write(datagram.from, message.msg_name.cast(), &raw mut namelen) }?;
    if !message.msg_name.is_null() {
        message.msg_namelen = namelen;
    }
    let told = if flags & libc::MSG_TRUNC != 0 { datagram.len } else { copied };
    Ok(told as ssize_t)
}

/// As many bytes as fit, behind the first `before`.
fn put(into: &mut Buffers<'_>, bytes: &[u8], before: &mut usize) {
    let passed = bytes.len().min(*before);
    *before -= passed;
    let fits = (bytes.len() - passed).min(into.room());
    into.put(&bytes[passed..passed + fits]);
}
