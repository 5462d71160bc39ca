//! accept(2): connections of the engine first, then those that came through the kernel.

use super::spares::SPARES;
use crate::address::Wanted;
use crate::answer::{Answer, Stop, Why};
use crate::errno::fail;
use crate::fd_table;
use crate::lane::Lane;
use crate::object::in_flight::InFlight;
use crate::object::{Inherited, Kind, Object, Pin};
use crate::offload;
use crate::runtime::Runtime;
use crate::wait::LOOK_NS;
use crate::wait::block::{self, Stopped, Wait};
use core::sync::atomic::Ordering;
use libc::{c_int, pollfd};
use stack::{Ready, SocketId};
use std::net::SocketAddrV4;

/// accept4(2).
pub(crate) fn accept4(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    name: Wanted,
    flags: c_int,
) -> Answer<c_int> {
    if object.kind() != Kind::Listener {
        return Err(Stop::Kernel(Why::NotOurs));
    }
    if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        return fail(libc::EINVAL);
    }
    name.check()?;
    let attempt = |now| attempt(runtime, object, fd, name, flags, now);
    if object.nonblocking.load(Ordering::Relaxed) {
        // A non-blocking accept always looks at the kernel too: the caller may have been told of its client by poll.
        object.shadow_ready.store(true, Ordering::Relaxed);
        return attempt(sys::clock::now()).unwrap_or(fail(libc::EAGAIN));
    }
    let one = [object];
    let kernel = &[pollfd { fd, events: libc::POLLIN, revents: 0 }];
    let wait = Wait::to_receive(runtime, &one, kernel);
    match block::until(runtime, &wait, attempt) {
        Ok(answer) => answer,
        Err(Stopped::Moved) if object.leg().is_some() => accept4(runtime, object, fd, name, flags),
        Err(stopped) => stopped.answer(),
    }
}

fn attempt(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    name: Wanted,
    flags: c_int,
    now: u64,
) -> Option<Answer<c_int>> {
    if object.kind() != Kind::Listener {
        // shutdown(2) in another thread.
        return Some(fail(libc::EINVAL));
    }
    for (lane, id) in object.legs() {
        lane.turn(now);
        if lane.lock().stack.ready(id).has(Ready::IN)
            && let Some(answer) = take(runtime, object, lane, id, name, flags)
        {
            return Some(answer);
        }
    }
    let due = now.saturating_sub(object.shadow_looked.load(Ordering::Relaxed)) >= LOOK_NS;
    if !due && !object.shadow_ready.load(Ordering::Relaxed) {
        return None;
    }
    object.shadow_looked.store(now, Ordering::Relaxed);
    object.shadow_ready.store(false, Ordering::Relaxed);
    accept_in_kernel(runtime, object, object.shadow(fd), name, flags)
}

/// A blocking shadow's accept has no MSG_DONTWAIT. So one thread at a time looks, then takes: who came second would
/// wait in the kernel, and its lane would stand. Other processes have the listener only if they got it in a message.
fn accept_in_kernel(
    runtime: &Runtime,
    listener: &'static Object,
    fd: c_int,
    name: Wanted,
    flags: c_int,
) -> Option<Answer<c_int>> {
    let accepted = {
        let _alone = InFlight::alone(listener)?;
        sys::poll::readable(fd).then(|| runtime.os.accept_from(fd, name, flags))
    };
    match accepted? {
        Ok(accepted) => {
            crate::closing::recycled(accepted);
            Some(Ok(accepted))
        }
        Err(libc::EAGAIN) => None,
        Err(errno) => Some(fail(errno)),
    }
}

/// As accept(2) of a connection that an engine made; `None`: there is none.
pub(crate) fn accept_ready(
    runtime: &'static Runtime,
    listener: &'static Object,
    lane: &'static Lane,
    id: SocketId,
) -> Option<Answer<c_int>> {
    take(runtime, listener, lane, id, Wanted::nothing(), 0)
}

/// The oldest established connection gets a number, and is known by it.
fn take(
    runtime: &'static Runtime,
    listener: &'static Object,
    lane: &'static Lane,
    id: SocketId,
    name: Wanted,
    flags: c_int,
) -> Option<Answer<c_int>> {
    let Established { object, fd, remote } = match established(runtime, listener, lane, id, flags)? {
        Ok(established) => established,
        Err(errno) => return Some(fail(errno)),
    };
    crate::closing::recycled(fd);
    fd_table::enter_socket(fd, object);
    Some(name.write(remote).map(|()| fd))
}

/// A connection that is accepted, and that nobody knows by its number yet: what had that one before may still be
/// believed to. So it is had under locks that the end of a socket takes.
pub(crate) struct Established {
    pub object: &'static Object,
    pub fd: c_int,
    remote: SocketAddrV4,
}

/// Makes a descriptor for the oldest established connection. The descriptor first: a connection taken from the queue
/// could not be put back. `None`: another thread was faster.
pub(crate) fn established(
    runtime: &'static Runtime,
    listener: &'static Object,
    lane: &'static Lane,
    id: SocketId,
    flags: c_int,
) -> Option<Result<Established, c_int>> {
    let (inherited, linger, options) = {
        let control = listener.control.lock();
        (control.inherited.clone(), control.linger, control.tcp.clone())
    };
    let spare = SPARES.take(runtime, inherited.as_ref(), flags);
    let fd = match spare.map_or_else(|| shadow(runtime, inherited.as_deref(), flags), Ok) {
        Ok(fd) => fd,
        Err(errno) => return Some(Err(errno)),
    };
    let object = Object::new(Kind::TcpIdle, fd, flags & libc::SOCK_NONBLOCK != 0);
    let taken = {
        let mut inner = lane.lock();
        inner.stack.tcp_accept(id).map(|child| {
            inner.stack.set_token(child, object.token());
            inner.counts.tcp_passive_opens.one();
            (child, inner.stack.local(child), inner.stack.remote(child))
        })
    };
    let Some((child, Some(local), Some(remote))) = taken else {
        object.release();
        runtime.os.close_descriptor(fd);
        return None;
    };
    {
        let mut control = object.control.lock();
        control.local = Some(local);
        control.remote = Some(remote);
        control.accepted = true;
        control.inherited = inherited;
        control.linger = linger;
        control.tcp = options;
        object.add_leg(&Pin::of_new(object), lane, child);
    }
    for (mine, theirs) in
        [(&object.receive_timeout, &listener.receive_timeout), (&object.send_timeout, &listener.send_timeout)]
    {
        mine.store(theirs.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    object.receive_low_water.store(listener.receive_low_water.load(Ordering::Relaxed), Ordering::Relaxed);
    object.peek.set(listener.peek.get());
    // The exact flow, so that the connection outlives its listener. A full map leaves it to the listener's entry.
    let _ = offload::steer(object, lane, 0, libc::IPPROTO_TCP as u8, local, Some(remote));
    object.set_kind(Kind::Stream);
    Some(Ok(Established { object, fd, remote }))
}

/// A new shadow with the options of its listener.
fn shadow(runtime: &Runtime, inherited: Option<&Inherited>, flags: c_int) -> Result<c_int, c_int> {
    let fd = runtime.os.inet_socket(libc::SOCK_STREAM | flags)?;
    for (level, name, value) in inherited.into_iter().flatten() {
        let _ = runtime.os.set_option(fd, *level, *name, value);
    }
    Ok(fd)
}
