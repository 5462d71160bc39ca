//! Sending: on whatever carries the socket, and what is left of a send on what carries it after a move.

use super::{kernel, ours_for};
use crate::abi::SEND_DUMMY;
use crate::address::{self, Named};
use crate::answer::{Answer, Stop, Why};
use crate::carrier::{self, Call};
use crate::counts;
use crate::errno::fail;
use crate::extra;
use crate::message::{self, Buffers};
use crate::object::{Kind, Object};
use crate::offload;
use crate::part::{self, Outcome, Progress};
use crate::runtime::Runtime;
use crate::udp::ancillary::Asked;
use crate::udp_legs;
use crate::{tcp, udp};
use libc::{c_int, c_uint, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use stack::Source;
use stats::Verdict;
use std::net::SocketAddrV4;
use sys::linux::UIO_MAXIOV;

/// sendto(2); send(2) and write(2) are this without an address.
#[inline]
pub unsafe fn sendto(
    fd: c_int,
    buffer: *const c_void,
    size: size_t,
    flags: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> Answer<ssize_t> {
    let (runtime, object) = sender(fd, flags)?;
    let piece = message::piece(buffer, size);
    // SAFETY: the application's buffer.
    let data = unsafe { message::one(&piece) }.and_then(Buffers::readable);
    let mut data = data.or_else(|stop| nothing_to_send(runtime, object, stop, flags))?;
    // SAFETY: the application's address.
    let to = unsafe { destination(runtime, object, address, len, flags) }?;
    transmit(runtime, object, fd, to, &mut data, flags, &Asked::default())
}

/// What is to be sent is not there. As on Linux, an error of the socket comes before that.
#[cold]
fn nothing_to_send<T>(
    runtime: &'static Runtime,
    object: &'static Object,
    stop: Stop,
    flags: c_int,
) -> Answer<T> {
    if stop != Stop::Errno(libc::EFAULT) {
        return Err(stop);
    }
    match object.kind() {
        Kind::Stream => {
            let sent = tcp::send(runtime, object, &mut &[][..], flags, &mut Progress::new());
            if let Outcome::Done(Err(stop)) = sent {
                return Err(part::raised(stop, flags));
            }
        }
        Kind::Udp if object.leg().is_none() => return kernel(),
        Kind::Udp => udp_legs::take_error(object)?,
        _ => {}
    }
    Err(stop)
}

/// As [`ours_for`], for a send: a dummy send is never the kernel's, which would send it.
#[inline]
fn sender(fd: c_int, flags: c_int) -> Answer<(&'static Runtime, &'static Object)> {
    match ours_for(fd, flags) {
        Err(Stop::Kernel(_)) if flags & SEND_DUMMY != 0 => fail(libc::EINVAL),
        known => known,
    }
}

/// A connect that is part of a send (MSG_FASTOPEN): the kernel's, data and all. One that it carries may move later.
#[cold]
fn opens(runtime: &'static Runtime, object: &'static Object) -> Stop {
    match object.kind() {
        Kind::TcpIdle => {
            let left = offload::fall_back::<()>(runtime, object, Why::Unsupported, "MSG_FASTOPEN");
            left.err().unwrap_or(Stop::Kernel(Why::NotOurs))
        }
        _ => Stop::Kernel(Why::NotOurs),
    }
}

/// The address of a send: none, one of ours, or one that is the kernel's to judge.
unsafe fn destination(
    runtime: &'static Runtime,
    object: &'static Object,
    address: *const sockaddr,
    len: socklen_t,
    flags: c_int,
) -> Answer<Option<SocketAddrV4>> {
    if address.is_null() {
        return Ok(None);
    }
    match object.kind() {
        Kind::TcpIdle | Kind::Carried | Kind::Moving if flags & libc::MSG_FASTOPEN != 0 => {
            return Err(opens(runtime, object));
        }
        // A connection has one destination, whatever is said here.
        Kind::Stream | Kind::Memory | Kind::Carried | Kind::Moving => return Ok(None),
        _ => {}
    }
    // SAFETY: the caller's contract.
    match unsafe { address::read(address, len) } {
        Named::Inet(to) => Ok(Some(to)),
        _ if flags & SEND_DUMMY != 0 => fail(libc::EINVAL),
        _ => kernel(),
    }
}

#[inline]
fn transmit(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    to: Option<SocketAddrV4>,
    data: &mut Buffers<'_>,
    flags: c_int,
    asked: &Asked,
) -> Answer<ssize_t> {
    if flags & SEND_DUMMY != 0 {
        return extra::send(runtime, object, fd, to, data);
    }
    carrier::before_any_call(runtime, object, fd);
    match object.kind() {
        Kind::Udp => {
            let answer = udp::send(runtime, object, fd, to, data, flags, asked);
            answer.inspect_err(|stop| counts::send_stopped(object.counts(), *stop, data.remaining()))
        }
        Kind::Stream | Kind::Memory | Kind::Carried | Kind::Moving => {
            Call::begin(runtime, object, fd, flags).send(data)
        }
        _ => kernel(),
    }
}

/// sendmsg(2). Control messages other than udp/ancillary.rs knows choose what only the kernel can do.
pub unsafe fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> Answer<ssize_t> {
    let (runtime, object) = sender(fd, flags)?;
    message::check(message, 1)?;
    // SAFETY: the application's message.
    let message = unsafe { &*message };
    let asked = match message.msg_controllen {
        0 => Asked::default(),
        _ if flags & SEND_DUMMY != 0 => Asked::default(),
        _ if matches!(object.kind(), Kind::Carried | Kind::Moving) => {
            carrier::stays(object, Verdict::CallOfTheKernel);
            match object.kind() {
                Kind::Carried => return kernel(),
                _ => Asked::default(),
            }
        }
        _ if object.kind() != Kind::Udp => Asked::default(),
        // SAFETY: the application's message.
        _ => match unsafe { udp::ancillary::read(message) } {
            Some(asked) => asked,
            None => return kernel(),
        },
    };
    // SAFETY: the application's iovecs and address.
    let (mut data, to) = unsafe {
        let data = message::buffers(message.msg_iov, message.msg_iovlen, libc::EMSGSIZE);
        let data = data.and_then(Buffers::readable);
        let data = data.or_else(|stop| nothing_to_send(runtime, object, stop, flags))?;
        (data, destination(runtime, object, message.msg_name.cast(), message.msg_namelen, flags)?)
    };
    transmit(runtime, object, fd, to, &mut data, flags, &asked)
}

/// sendmmsg(2).
pub unsafe fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> Answer<c_int> {
    let (runtime, object) = sender(fd, flags)?;
    if flags & SEND_DUMMY == 0 {
        match object.kind() {
            Kind::Stream | Kind::Udp if object.leg().is_some() => {}
            Kind::Memory => {}
            Kind::Carried | Kind::Moving if !carrier::has_to_stay(object) => {}
            _ => return kernel(),
        }
    }
    message::check_room(messages, count as usize)?;
    for i in 0..count.min(UIO_MAXIOV as c_uint) {
        // SAFETY: within the application's array.
        let entry = unsafe { &mut *messages.add(i as usize) };
        // SAFETY: as above.
        let mut sent = unsafe { sendmsg(fd, &raw const entry.msg_hdr, flags) };
        if i > 0 && matches!(sent, Err(Stop::Kernel(_))) {
            // SAFETY: as above.
            sent = runtime.os.answer(unsafe { (runtime.os.sendmsg)(fd, &raw const entry.msg_hdr, flags) });
        }
        match sent {
            Ok(sent) => entry.msg_len = sent as c_uint,
            Err(_) if i > 0 => return Ok(i as c_int),
            Err(stop) => return Err(stop),
        }
        let (pieces, count) = (entry.msg_hdr.msg_iov, entry.msg_hdr.msg_iovlen);
        // SAFETY: as above.
        let whole = unsafe { message::buffers(pieces, count, libc::EMSGSIZE) }.map_or(0, |data| data.left());
        // What follows a message that went in part would be taken for its rest.
        if object.kind() != Kind::Udp && (entry.msg_len as usize) < whole {
            return Ok(i as c_int + 1);
        }
    }
    Ok(count.min(UIO_MAXIOV as c_uint) as c_int)
}

/// writev(2).
pub unsafe fn writev(fd: c_int, pieces: *const iovec, count: c_int) -> Answer<ssize_t> {
    let (runtime, object) = ours_for(fd, 0)?;
    if count < 0 {
        return fail(libc::EINVAL);
    }
    // SAFETY: the application's iovecs.
    let data = unsafe { message::buffers(pieces, count as usize, libc::EINVAL) }.and_then(Buffers::readable);
    let mut data = data.or_else(|stop| nothing_to_send(runtime, object, stop, 0))?;
    transmit(runtime, object, fd, None, &mut data, 0, &Asked::default())
}
