//! Receiving datagrams, from the engine and from the kernel's shadow.

use super::ancillary;
use crate::address::{self, Named};
use crate::answer::{Answer, Stop, Why};
use crate::carrier::{self, Target};
use crate::counts;
use crate::errno::fail;
use crate::fd_table;
use crate::lane::{Frame, Lane};
use crate::message::{self, Buffers};
use crate::object::Object;
use crate::runtime::Runtime;
use crate::wait::block::{self, Stopped, Wait};
use crate::wait::{LOOK_NS, in_kernel};
use core::net::Ipv4Addr;
use core::sync::atomic::Ordering;
use libc::{c_int, msghdr, pollfd, ssize_t};
use stack::udp::Datagram;
use stack::{Frame as _, Ready, RecvError, Sink, SocketId};

/// recvmsg(2), and what is less.
///
/// # Safety
/// `target` is the application's, valid as the call demands.
pub(crate) unsafe fn recv(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    target: Target,
    flags: c_int,
) -> Answer<ssize_t> {
    let may_wait = object.may_wait(flags);
    if carrier::waits(object) && flags & libc::MSG_ERRQUEUE == 0 {
        // SAFETY: the caller's promise.
        return unsafe { late(runtime, object, fd, target, flags, may_wait) };
    }
    if flags & libc::MSG_ERRQUEUE != 0 || object.leg().is_none() && !may_wait {
        return Err(Stop::Kernel(Why::NotOurs));
    }
    if object.leg().is_some() {
        // SAFETY: the application's message and its iovecs.
        let done = unsafe {
            let message = &mut *target.message();
            let mut into = message::buffers(message.msg_iov, message.msg_iovlen, libc::EMSGSIZE)?;
            attempt(runtime, object, fd, target, &mut into, flags, sys::clock::now())
        };
        match done {
            Some(answer) => return answer,
            None if !may_wait => return fail(libc::EAGAIN),
            None => {}
        }
    }
    // SAFETY: as above.
    unsafe { wait(runtime, object, fd, target, flags) }
}

/// Receives on a socket that begins in the kernel. It moves with what came, if it is time.
unsafe fn late(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    target: Target,
    flags: c_int,
    may_wait: bool,
) -> Answer<ssize_t> {
    let given = target.message();
    // Who sent it is asked for where it may move it: what comes from this host is no reason to. In a message of our
    // own, as a handler may leave the call for good.
    // SAFETY: all zeros is an address of no family.
    let mut from: libc::sockaddr_in = unsafe { core::mem::zeroed() };
    // SAFETY: the caller's message.
    let mut asking = unsafe { *given };
    let is_asked_by_us = asking.msg_name.is_null() && carrier::is_due_with_next(runtime, object);
    let mut target = target;
    if is_asked_by_us {
        (asking.msg_name, asking.msg_namelen) = ((&raw mut from).cast(), size_of_val(&from) as u32);
        target = target.of(&raw mut asking);
    }
    let room = asking.msg_namelen;
    // SAFETY: the caller's promise, and a name of ours where the application has none.
    let answer = unsafe {
        match may_wait {
            true => match asleep(runtime, object, fd, target, flags) {
                Some(answer) => answer,
                None => wait(runtime, object, fd, target, flags),
            },
            false => look_at_shadow(runtime, object, fd, target, flags).unwrap_or(fail(libc::EAGAIN)),
        }
    };
    let message = target.message();
    if let Ok(got) = answer
        && carrier::waits(object)
    {
        let peer = || {
            // SAFETY: the application's room for a name, or ours.
            let name = unsafe { address::read((*message).msg_name.cast(), (*message).msg_namelen.min(room)) };
            if let Named::Inet(peer) = name { Some(peer) } else { None }
        };
        carrier::datagram(runtime, object, fd, got as usize, peer);
    }
    if is_asked_by_us {
        // SAFETY: the caller's message.
        unsafe {
            (*given).msg_controllen = asking.msg_controllen;
            (*given).msg_flags = asking.msg_flags;
        }
    }
    answer
}

/// Waits in the kernel, by one system call. `None`: it may move meanwhile.
unsafe fn asleep(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    target: Target,
    flags: c_int,
) -> Option<Answer<ssize_t>> {
    carrier::sleep_in_kernel(runtime, object, || {
        // SAFETY: the caller's promise.
        let got = unsafe { target.fill(runtime, object.shadow(fd), flags) };
        of_shadow(runtime, object, flags, got)
    })
}

/// Waits for a datagram, whoever carries the socket meanwhile.
unsafe fn wait(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    target: Target,
    flags: c_int,
) -> Answer<ssize_t> {
    let one = [object];
    let kernel = &[pollfd { fd, events: libc::POLLIN, revents: 0 }];
    let deadline = in_kernel::deadline_of(object.receive_timeout());
    loop {
        let wait = Wait { deadline, ..Wait::to_receive(runtime, &one, kernel) };
        let outcome = if object.leg().is_some() {
            // SAFETY: the application's message and its iovecs.
            let mut into = unsafe {
                let message = &*target.message();
                message::buffers(message.msg_iov, message.msg_iovlen, libc::EMSGSIZE)
            }?;
            block::until(runtime, &wait, |now| {
                // SAFETY: as above.
                unsafe { attempt(runtime, object, fd, target, &mut into, flags, now) }
            })
        } else if object.shut.load(Ordering::Relaxed) & 1 != 0 {
            return Err(Stop::Kernel(Why::NotOurs));
        } else {
            in_kernel::call(
                runtime,
                object,
                fd,
                libc::POLLIN,
                (deadline, deadline.is_none()),
                wait.moves,
                || {
                    // SAFETY: as above.
                    unsafe { look_at_shadow(runtime, object, fd, target, flags) }
                },
            )
        };
        match outcome {
            Ok(answer) => return answer,
            Err(Stopped::Moved) if fd_table::names(fd, object) => {}
            Err(stopped) => return stopped.answer(),
        }
    }
}

/// Looks at the engine, takes a turn if there is nothing, then looks at the shadow if that is due.
#[inline]
unsafe fn attempt(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    target: Target,
    into: &mut Buffers<'_>,
    flags: c_int,
    now: u64,
) -> Option<Answer<ssize_t>> {
    if object.shadow_first.load(Ordering::Relaxed) != 0 {
        // SAFETY: the application's message.
        let waited = unsafe { first_of_shadow(runtime, object, fd, target, flags, now) };
        if waited.is_some() {
            return waited;
        }
    }
    if object.is_filtered() {
        object.legs().for_each(|(lane, _)| lane.turn(now));
        crate::filter::vet(object);
    }
    let mut behind = if flags & libc::MSG_PEEK != 0 { object.peek.behind() } else { None };
    // SAFETY: the caller's promise.
    let message = unsafe { &mut *target.message() };
    for (lane, id) in object.legs() {
        match take(object, lane, id, message, into, flags, &mut behind, now) {
            // Without a socket: it moves just now, and who moves it will say so.
            Err(RecvError::WouldBlock | RecvError::NoSocket) => {}
            Err(error) => return Some(fail(error.errno())),
            Ok(received) => {
                carrier::datagram_on_wire(received.as_ref().map_or(0, |got| *got as usize));
                return Some(received);
            }
        }
    }
    if object.shut.load(Ordering::Relaxed) & 1 != 0 {
        return Some(Err(Stop::Kernel(Why::NotOurs)));
    }
    if !is_shadow_due(object, now) {
        return None;
    }
    if let Some(behind) = behind {
        // What waits in the engine comes first.
        let place = c_int::try_from(behind).unwrap_or(c_int::MAX).to_ne_bytes();
        let _ = runtime.os.set_option(object.shadow(fd), libc::SOL_SOCKET, libc::SO_PEEK_OFF, &place);
    }
    // SAFETY: the application's message.
    unsafe { look_at_shadow(runtime, object, fd, target, flags) }
}

/// The socket came from the kernel: what waits there is older than all that an engine has.
#[cold]
unsafe fn first_of_shadow(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    target: Target,
    flags: c_int,
    now: u64,
) -> Option<Answer<ssize_t>> {
    // SAFETY: the caller's promise.
    let waited = unsafe { look_at_shadow(runtime, object, fd, target, flags) };
    if waited.is_none() && now >= object.shadow_first.load(Ordering::Relaxed) {
        object.shadow_first.store(0, Ordering::Relaxed);
    }
    waited
}

/// Whether it is time to look at the kernel's shadow: true notes that the caller does.
#[inline]
pub(crate) fn is_shadow_due(object: &Object, now: u64) -> bool {
    let due = now.saturating_sub(object.shadow_looked.load(Ordering::Relaxed)) >= LOOK_NS;
    if !due && !object.shadow_ready.load(Ordering::Relaxed) {
        return false;
    }
    object.shadow_looked.store(now, Ordering::Relaxed);
    object.shadow_ready.store(false, Ordering::Relaxed);
    true
}

/// Takes what waits in the kernel's shadow. `None`: nothing does.
unsafe fn look_at_shadow(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    target: Target,
    flags: c_int,
) -> Option<Answer<ssize_t>> {
    // SAFETY: the caller's promise; MSG_DONTWAIT because this is a look.
    let got = unsafe { target.fill(runtime, object.shadow(fd), flags | libc::MSG_DONTWAIT) };
    match of_shadow(runtime, object, flags, got) {
        Err(Stop::Errno(libc::EAGAIN)) => None,
        answer => Some(answer),
    }
}

/// What the kernel's shadow answered.
fn of_shadow(runtime: &Runtime, object: &Object, flags: c_int, got: ssize_t) -> Answer<ssize_t> {
    if got < 0 {
        return fail(runtime.os.errno());
    }
    object.counts().rx_os_packets.one();
    object.counts().rx_os_bytes.add(got as u64);
    object.shadow_ready.store(true, Ordering::Relaxed);
    moved(object, flags, got);
    Ok(got)
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
    lane.briefly(|inner| {
        inner.drain(now);
        if inner.device.unkicked() > 0
            || behind.is_some()
            || !inner.stack.ready(id).any(Ready::IN | Ready::ERR)
        {
            inner.turn(now);
            lane.note(inner, now);
        }
        if flags & libc::MSG_PEEK != 0 {
            let dropped = inner.stack.udp_dropped(id);
            let datagram = match behind {
                Some(behind) => inner.stack.udp_peek_behind(id, behind)?,
                None => inner.stack.udp_peek(id)?,
            };
            let place = behind.unwrap_or(0);
            // SAFETY: `message` is the application's (see `recv`).
            Ok(unsafe {
                told(object, lane, &inner.addresses, dropped, datagram, place, message, into, flags)
            })
        } else {
            let datagram = inner.stack.udp_recv(id)?;
            let dropped = inner.stack.udp_dropped(id);
            // SAFETY: as above.
            let answer =
                unsafe { told(object, lane, &inner.addresses, dropped, &datagram, 0, message, into, flags) };
            counts::received(object.counts(), datagram.len);
            Ok(answer)
        }
    })
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
    let tail = datagram.tail.iter().map(|piece| piece.bytes());
    if !core::iter::once(head).chain(tail).all(|bytes| put(into, bytes, &mut before)) {
        return fail(libc::EFAULT);
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

/// As many bytes as fit, behind the first `before`. False: the room is not there.
fn put(into: &mut Buffers<'_>, bytes: &[u8], before: &mut usize) -> bool {
    let passed = bytes.len().min(*before);
    *before -= passed;
    let fits = (bytes.len() - passed).min(into.room());
    into.put(&bytes[passed..passed + fits])
}
