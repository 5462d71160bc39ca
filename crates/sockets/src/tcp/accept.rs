//! accept(2): connections of the engine first, then those that came through the kernel.

use crate::address;
use crate::answer::{Answer, Stop, Why};
use crate::errno::fail;
use crate::fd_table;
use crate::lane::Lane;
use crate::object::{Kind, Object};
use crate::offload;
use crate::runtime::Runtime;
use crate::wait::block::{self, Polling, Stopped, Wait};
use crate::wait::{LOOK_NS, Lanes};
use core::sync::atomic::Ordering;
use libc::{c_int, pollfd, sockaddr, socklen_t};
use stack::{Ready, SocketId};

/// accept4(2).
///
/// # Safety
/// `address` and `len` are the application's, valid as the call demands.
pub(crate) unsafe fn accept4(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> Answer<c_int> {
    if object.kind() != Kind::Listener {
        return Err(Stop::Kernel(Why::NotOurs));
    }
    if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        return fail(libc::EINVAL);
    }
    if !address.is_null() && len.is_null() {
        return fail(libc::EFAULT);
    }
    // SAFETY: the application's pointers.
    let attempt = |now| unsafe { attempt(runtime, object, fd, address, len, flags, now) };
    if object.nonblocking.load(Ordering::Relaxed) {
        // A non-blocking accept always looks at the kernel too: the caller may have been told of its client by poll.
        object.shadow_ready.store(true, Ordering::Relaxed);
        return attempt(sys::clock::now()).unwrap_or(fail(libc::EAGAIN));
    }
    let timeout = object.receive_timeout.load(Ordering::Relaxed);
    let wait = Wait {
        objects: &[object],
        lanes: Lanes::of(object),
        set: None,
        kernel: &[pollfd { fd, events: libc::POLLIN, revents: 0 }],
        deadline: (timeout > 0).then(|| sys::clock::now() + timeout),
        budget: runtime.receive_budget(),
        memory: &object.spin,
        restartable: timeout == 0,
        mask: None,
        polling: Polling::Receive(object.counts()),
    };
    match block::until(runtime, &wait, attempt) {
        Ok(answer) => answer,
        Err(Stopped::TimedOut) => fail(libc::EAGAIN),
        Err(Stopped::Interrupted) => fail(libc::EINTR),
    }
}

unsafe fn attempt(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
    now: u64,
) -> Option<Answer<c_int>> {
    if object.kind() != Kind::Listener {
        // shutdown(2) in another thread.
        return Some(fail(libc::EINVAL));
    }
    if object.resting.load(Ordering::Relaxed) {
        offload::attend(runtime, object);
    }
    for (lane, id) in object.legs() {
        lane.turn(now);
        if lane.lock().stack.ready(id).has(Ready::IN)
            // SAFETY: as the caller's.
            && let Some(answer) = unsafe { take(runtime, object, lane, id, address, len, flags) }
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
    // SAFETY: as the caller's.
    unsafe { accept_in_kernel(runtime, object.shadow(fd), address, len, flags) }
}

/// The shadow may be blocking, and accept has no MSG_DONTWAIT: one thread at a time looks, then takes.
unsafe fn accept_in_kernel(
    runtime: &Runtime,
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> Option<Answer<c_int>> {
    static ONE: sys::Mutex<()> = sys::Mutex::new(());
    let _one = ONE.lock();
    if !sys::poll::readable(fd) {
        return None;
    }
    // SAFETY: the application's pointers, passed on.
    let accepted = unsafe { (runtime.os.accept4)(fd, address, len, flags) };
    if accepted >= 0 {
        crate::calls::recycled(accepted);
        return Some(Ok(accepted));
    }
    match runtime.os.errno() {
        libc::EAGAIN => None,
        errno => Some(fail(errno)),
    }
}

/// Makes a descriptor for the oldest established connection. The descriptor first: a connection taken from the queue
/// could not be put back. `None`: another thread was faster.
unsafe fn take(
    runtime: &'static Runtime,
    listener: &'static Object,
    lane: &'static Lane,
    id: SocketId,
    address: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> Option<Answer<c_int>> {
    // SAFETY: no pointers.
    let fd = unsafe { (runtime.os.socket)(libc::AF_INET, libc::SOCK_STREAM | flags, 0) };
    if fd < 0 {
        return Some(fail(runtime.os.errno()));
    }
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
        // SAFETY: the descriptor made above.
        unsafe { (runtime.os.close)(fd) };
        return None;
    };
    let (inherited, linger, options) = {
        let control = listener.control.lock();
        (control.inherited.clone(), control.linger, control.tcp.clone())
    };
    for (level, name, value) in &inherited {
        // SAFETY: our own copy of the value.
        unsafe {
            (runtime.os.setsockopt)(fd, *level, *name, value.as_ptr().cast(), value.len() as socklen_t)
        };
    }
    {
        let mut control = object.control.lock();
        control.local = Some(local);
        control.remote = Some(remote);
        control.inherited = inherited;
        control.linger = linger;
        control.tcp = options;
        object.add_leg(lane, child);
    }
    for (mine, theirs) in
        [(&object.receive_timeout, &listener.receive_timeout), (&object.send_timeout, &listener.send_timeout)]
    {
        mine.store(theirs.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    object.receive_low_water.store(listener.receive_low_water.load(Ordering::Relaxed), Ordering::Relaxed);
    // The exact flow, so that the connection outlives its listener. A full map leaves it to the listener's entry.
    let _ = offload::steer(object, lane, 0, libc::IPPROTO_TCP as u8, local, Some(remote));
    object.set_kind(Kind::Stream);
    crate::calls::recycled(fd);
    fd_table::enter_socket(fd, object);
    // SAFETY: the application's pointers.
    match unsafe { address::write(remote, address, len) } {
        Ok(()) => Some(Ok(fd)),
        Err(stop) => Some(Err(stop)),
    }
}
