//! Descriptors: closing, duplicating, flags; and numbers that the kernel gives out anew.

use super::{confine, kernel, ours, passing};
use crate::answer::{Answer, Why};
use crate::closing::{became_other, let_go, registrations_stay, replaced};
use crate::errno::fail;
use crate::expel::expel;
use crate::fd_table::{self, Entry};
use crate::object::{Kind, Object};
use crate::runtime::{self, Runtime};
use crate::{counts, memory, message};
use core::sync::atomic::Ordering;
use libc::{c_int, c_uint};

/// close(2): lets go of what is ours; the kernel closes the descriptor.
pub unsafe fn close(fd: c_int) -> Answer<c_int> {
    let Some(runtime) = runtime::get() else { return kernel() };
    if let Some(entry) = fd_table::remove(fd) {
        let_go(runtime, entry, fd, fd);
    }
    counts::closed(fd..fd + 1);
    kernel()
}

/// close_range(2) and closefrom(3), before the kernel's: lets go of ours in the range, and closes around our own
/// descriptors.
pub unsafe fn close_range(first: c_uint, last: c_uint, flags: c_int) -> Answer<c_int> {
    let Some(runtime) = runtime::get() else { return kernel() };
    if first > last {
        return kernel();
    }
    let unshare = flags & libc::CLOSE_RANGE_UNSHARE as c_int;
    if unshare != 0 && !confine::is_alone() {
        // The numbers of this thread alone are closed: those of the others go on to be ours.
        return kernel();
    }
    if flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0 {
        let end = fd_table::end().min(c_int::try_from(last.saturating_add(1)).unwrap_or(c_int::MAX));
        for fd in c_int::try_from(first).unwrap_or(c_int::MAX)..end {
            if let Some(entry) = fd_table::remove(fd) {
                let_go(runtime, entry, fd, fd);
            }
        }
        let number = |fd: c_uint| c_int::try_from(fd).unwrap_or(c_int::MAX);
        counts::closed(number(first)..number(last.saturating_add(1)));
    }
    // A program of one thread shares its numbers with the background thread, in which they are to be closed, too.
    around_own(first, last, flags & !unshare, unshare != 0)
}

/// Closes the gaps between our own descriptors. Without own descriptors in the range the kernel's call serves, unless
/// it `is_other` than the application's.
fn around_own(first: c_uint, last: c_uint, flags: c_int, is_other: bool) -> Answer<c_int> {
    let mut from = first;
    let mut any = is_other;
    while let Some(own) = c_int::try_from(from).ok().and_then(sys::own_fd::next_own) {
        let own = own as c_uint;
        if own > last {
            break;
        }
        any = true;
        if own > from {
            sys::fd::close_range(from, own - 1, flags).map_err(crate::Stop::Errno)?;
        }
        from = own + 1;
    }
    if !any {
        return kernel();
    }
    if from <= last {
        sys::fd::close_range(from, last, flags).map_err(crate::Stop::Errno)?;
    }
    Ok(0)
}

/// fcntl(2).
pub unsafe fn fcntl(fd: c_int, command: c_int, argument: usize) -> Answer<c_int> {
    let Some(entry) = fd_table::entry(fd) else { return kernel() };
    if let Entry::Socket(object) = entry
        && !matches!(
            command,
            libc::F_GETFD | libc::F_SETFD | libc::F_GETFL | libc::F_DUPFD | libc::F_DUPFD_CLOEXEC
        )
    {
        object.shadow_changed.store(true, Ordering::Relaxed);
    }
    match command {
        libc::F_SETFL => {
            if let Entry::Socket(object) = entry {
                object.nonblocking.store(argument as c_int & libc::O_NONBLOCK != 0, Ordering::Relaxed);
                set_notice(object, fd, argument as c_int & libc::O_ASYNC != 0);
            }
            kernel()
        }
        F_SETSIG => {
            if let Entry::Socket(object) = entry
                && argument != 0
                && is_left_to_tell(object)?
            {
                return kernel();
            }
            if let Entry::Socket(object) = entry
                && object.notice.load(Ordering::Relaxed) != 0
            {
                let signal = if argument == 0 { libc::SIGIO } else { argument as c_int };
                object.notice.store(signal, Ordering::Relaxed);
            }
            kernel()
        }
        libc::F_SETOWN => {
            if let Entry::Socket(object) = entry {
                object.owner.store(argument as c_int, Ordering::Relaxed);
            }
            kernel()
        }
        F_SETOWN_EX => {
            if let Entry::Socket(object) = entry
                && message::plausible(argument as *const c_int, 2)
            {
                // SAFETY: this command takes a struct f_owner_ex: what is meant, and its number.
                let [kind, number] = unsafe { (argument as *const [c_int; 2]).read_unaligned() };
                let owner = if kind == F_OWNER_PGRP { -number } else { number };
                if kind == F_OWNER_TID && number != 0 && is_left_to_tell(object)? {
                    return kernel();
                }
                object.owner.store(owner, Ordering::Relaxed);
            }
            kernel()
        }
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            let Some(runtime) = runtime::get() else { return kernel() };
            // SAFETY: these commands take a number.
            duplicate(runtime, fd, || unsafe { (runtime.os.fcntl)(fd, command, argument) })
        }
        _ => kernel(),
    }
}

/// Commands of fcntl that the libc crate does not name for every target.
const F_SETSIG: c_int = 10;
const F_GETSIG: c_int = 11;
const F_SETOWN_EX: c_int = 15;
const F_OWNER_TID: c_int = 0;
const F_OWNER_PGRP: c_int = 2;

/// Only the kernel's signal says which descriptor is ready and for what (F_SETSIG), and is for one thread
/// (F_OWNER_TID): the socket is left to it, and may be another object's from then on. False: it cannot move there, and
/// goes on with plain signals.
#[cold]
fn is_left_to_tell(object: &'static Object) -> Answer<bool> {
    let Some(runtime) = runtime::get() else { return Ok(true) };
    if runtime.parameters.strict && !matches!(object.kind(), Kind::Carried | Kind::Moving) {
        return fail(libc::EPROTONOSUPPORT);
    }
    let is_left = expel(runtime, object, Why::Unsupported);
    if !is_left {
        let fd = object.fd.load(Ordering::Relaxed);
        logger::warning!(
            "fd {fd}: signals of its readiness tell no descriptor and are for the whole process: that connection cannot \
             move into the kernel, which takes CAP_NET_ADMIN or the keeper"
        );
    }
    Ok(is_left)
}

/// O_ASYNC: the signal that F_SETSIG chose, or SIGIO.
fn set_notice(object: &'static Object, fd: c_int, on: bool) {
    let Some(runtime) = runtime::get().filter(|_| on || object.notice.load(Ordering::Relaxed) != 0) else {
        return;
    };
    // SAFETY: no pointers.
    let chosen = if on { unsafe { (runtime.os.fcntl)(fd, F_GETSIG, 0) } } else { 0 };
    let signal = match (on, chosen) {
        (false, _) => 0,
        (true, 1..) => chosen,
        (true, _) => libc::SIGIO,
    };
    object.notice.store(signal, Ordering::Relaxed);
    if signal != 0 && object.kind() == Kind::Memory {
        memory::leave(runtime, object, "its owner is told by signals what comes");
    }
}

/// `genuine` makes a further descriptor of what `fd` is.
fn duplicate(runtime: &'static Runtime, fd: c_int, genuine: impl FnOnce() -> c_int) -> Answer<c_int> {
    duplicate_onto(runtime, fd, None, genuine)
}

/// The same, in place of what `to` is now.
fn duplicate_onto(
    runtime: &'static Runtime,
    fd: c_int,
    to: Option<c_int>,
    genuine: impl FnOnce() -> c_int,
) -> Answer<c_int> {
    // Closed by that, its port is to stay reserved while the peer is told.
    let shadow = to.filter(|to| fd_table::socket(*to).is_some());
    let shadow = shadow.and_then(|to| sys::Fd::duplicate_of(to).ok());
    // A connection of the parent is claimed by that, and may be the kernel's afterwards.
    let _ = ours(fd);
    let entry = fd_table::entry(fd);
    // Whoever changes what `to` is by that number has done so before it is another's.
    let before = to.and_then(|to| Some((to, fd_table::remove_socket(to)?)));
    let copy = genuine();
    if copy < 0 {
        let errno = runtime.os.errno();
        if let Some((to, object)) = before {
            fd_table::enter_socket(to, object);
        }
        return fail(errno);
    }
    let shadow = shadow.as_ref().map_or(-1, sys::Fd::raw);
    if let Some((to, object)) = before {
        replaced(runtime, Entry::Socket(object), to, shadow);
    }
    became_other(copy, shadow);
    if let Some(entry) = entry {
        adopt(runtime, entry, copy);
    }
    Ok(copy)
}

/// A further descriptor names `entry`.
fn adopt(runtime: &'static Runtime, entry: Entry, fd: c_int) {
    match entry {
        Entry::Socket(object) => {
            if fd_table::enter_socket(fd, object) {
                object.fds.fetch_add(1, Ordering::AcqRel);
            }
            if fd <= libc::STDERR_FILENO {
                passing::became_standard(runtime, object, fd);
            }
        }
        Entry::Epoll(set) => {
            if fd_table::enter_epoll(fd, set) {
                set.fds.fetch_add(1, Ordering::AcqRel);
            }
        }
    }
}

/// ioctl(2).
pub unsafe fn ioctl(fd: c_int, request: usize, argument: usize) -> Answer<c_int> {
    let (runtime, object) = ours(fd)?;
    let result = argument as *mut c_int;
    if !message::plausible(result, 1) {
        return kernel();
    }
    let request = request as u64 & 0xffff_ffff;
    if !matches!(request, libc::FIONREAD | libc::TIOCOUTQ | AT_MARK | NOT_SENT) {
        object.shadow_changed.store(true, Ordering::Relaxed);
    }
    let queued = || object.engine().and_then(|(_, inner, id)| inner.stack.tcp_queued(id));
    let value = match (request, object.kind()) {
        (libc::FIONBIO, _) => {
            // SAFETY: FIONBIO takes a pointer to int.
            object.nonblocking.store(unsafe { result.read_unaligned() } != 0, Ordering::Relaxed);
            return kernel();
        }
        (FIOSETOWN | SIOCSPGRP, _) => {
            // SAFETY: these take a pointer to int.
            object.owner.store(unsafe { result.read_unaligned() }, Ordering::Relaxed);
            return kernel();
        }
        (FIOASYNC, _) => {
            // SAFETY: as above.
            set_notice(object, fd, unsafe { result.read_unaligned() } != 0);
            return kernel();
        }
        (libc::FIONREAD, Kind::Stream) => queued().map(|queued| queued.receive),
        (libc::TIOCOUTQ, Kind::Stream) => queued().map(|queued| queued.send),
        (libc::FIONREAD, Kind::Memory) => memory::unread(runtime, object),
        (libc::FIONREAD, Kind::Udp) => next_datagram(object),
        (AT_MARK, Kind::Stream) => {
            object.engine().map(|(_, inner, id)| usize::from(inner.stack.tcp_at_mark(id)))
        }
        (NOT_SENT, Kind::Stream) => queued().map(|queued| queued.unsent),
        _ => None,
    };
    let Some(value) = value.filter(|_| message::is_room(result, 1)) else { return kernel() };
    // SAFETY: these requests take a pointer to int.
    unsafe { result.write_unaligned(value.min(c_int::MAX as usize) as c_int) };
    Ok(0)
}

const FIOSETOWN: u64 = 0x8901;
const SIOCSPGRP: u64 = 0x8902;
const FIOASYNC: u64 = 0x5452;
const AT_MARK: u64 = sys::linux::SIOCATMARK as u64;
const NOT_SENT: u64 = sys::linux::SIOCOUTQNSD as u64;

/// Bytes of the next datagram that the engine holds; the shadow's are the kernel's to tell.
fn next_datagram(object: &Object) -> Option<usize> {
    let now = sys::clock::now();
    object.legs().find_map(|(lane, id)| {
        lane.turn(now);
        lane.lock().stack.udp_peek(id).ok().map(|datagram| datagram.len)
    })
}

/// dup(2).
pub unsafe fn dup(fd: c_int) -> Answer<c_int> {
    let (Some(_), Some(runtime)) = (fd_table::entry(fd), runtime::get()) else { return kernel() };
    // SAFETY: no pointers.
    duplicate(runtime, fd, || unsafe { (runtime.os.dup)(fd) })
}

/// dup2 with `flags` = -1 (which does nothing for equal descriptors), dup3 otherwise.
pub unsafe fn dup3(fd: c_int, to: c_int, flags: c_int) -> Answer<c_int> {
    let Some(runtime) = runtime::get() else { return kernel() };
    if fd == to || (fd_table::entry(fd).is_none() && fd_table::entry(to).is_none()) {
        return kernel();
    }
    if let Some(Entry::Socket(object)) = fd_table::entry(to)
        && object.fds.load(Ordering::Acquire) > 1
    {
        // While the number still names it. (If the call fails, that changes nothing that can be seen.)
        registrations_stay(runtime, object, to, to);
    }
    // SAFETY: no pointers.
    duplicate_onto(runtime, fd, Some(to), || unsafe { (runtime.os.dup3)(fd, to, flags.max(0)) })
}

/// Whether anything here depends on this number: a socket or epoll set of ours, or a descriptor that the library keeps
/// for itself. A look at a table, for the hook to let go of other descriptors at once.
#[inline]
pub fn knows(fd: c_int) -> bool {
    fd_table::entry(fd).is_some() || is_internal(fd) || counts::knows(fd)
}

/// Whether a descriptor number is one that the library keeps for itself (hidden from close, close_range, dup2).
#[inline]
pub fn is_internal(fd: c_int) -> bool {
    sys::own_fd::is_own(fd)
}
