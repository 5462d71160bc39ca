//! Sending and receiving.

use super::{hearing, kernel, ours};
use crate::address::{self, Named};
use crate::answer::Answer;
use crate::counts;
use crate::errno::fail;
use crate::message::{self, Buffers};
use crate::object::{Kind, Object};
use crate::runtime::Runtime;
use crate::udp::ancillary::Asked;
use crate::{tcp, udp};
use libc::{c_int, c_uint, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};
use stack::Source;
use std::net::SocketAddrV4;

/// UIO_MAXIOV bounds the messages of one call, too.
const MESSAGES_MAX: c_uint = 1024;

/// recvfrom(2); recv(2) and read(2) are this without an address.
#[inline]
pub unsafe fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    size: size_t,
    flags: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> Answer<ssize_t> {
    let (runtime, object) = hearing(fd)?;
    let mut piece = message::piece(buffer, size);
    match object.kind() {
        Kind::Stream => {
            let mut into = match flags & libc::MSG_TRUNC {
                // SAFETY: the application's buffer.
                0 => unsafe { message::one(&piece) }?,
                _ => message::unfilled(&piece),
            };
            counts::receive(object, tcp::recv(runtime, object, &mut into, flags))
        }
        Kind::Udp => {
            message::check(len, usize::from(!address.is_null()))?;
            // SAFETY: `len` is valid where there is an address.
            let room = if address.is_null() { 0 } else { unsafe { len.read_unaligned() } };
            if (room as c_int) < 0 {
                return fail(libc::EINVAL);
            }
            let mut message = header(&mut piece, 1);
            message.msg_name = address.cast();
            message.msg_namelen = room;
            // SAFETY: the header is ours, its buffers are the application's.
            let result = unsafe { udp::recv(runtime, object, fd, &mut message, flags) };
            let result = counts::receive(object, result);
            if result.is_ok() && !address.is_null() {
                // SAFETY: as above.
                unsafe { len.write_unaligned(message.msg_namelen) };
            }
            result
        }
        _ => kernel(),
    }
}

fn header(pieces: *mut iovec, count: usize) -> msghdr {
    // SAFETY: all zeros is an empty message.
    let mut message: msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = pieces;
    message.msg_iovlen = count as _;
    message
}

/// recvmsg(2).
pub unsafe fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> Answer<ssize_t> {
    let (runtime, object) = hearing(fd)?;
    message::check(message, 1)?;
    // SAFETY: the application's message.
    let message = unsafe { &mut *message };
    match object.kind() {
        Kind::Stream => {
            // SAFETY: the application's iovecs.
            let mut into = unsafe { message::buffers(message.msg_iov, message.msg_iovlen, libc::EMSGSIZE) }?;
            let result = counts::receive(object, tcp::recv(runtime, object, &mut into, flags))?;
            message.msg_namelen = 0;
            message.msg_controllen = 0;
            message.msg_flags = flags & libc::MSG_OOB;
            Ok(result)
        }
        // SAFETY: as above.
        Kind::Udp => counts::receive(object, unsafe { udp::recv(runtime, object, fd, message, flags) }),
        _ => kernel(),
    }
}

/// recvmmsg(2). As in the kernel, the timeout is looked at after each message only.
pub unsafe fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> Answer<c_int> {
    let (_, object) = hearing(fd)?;
    if object.leg().is_none() || !matches!(object.kind(), Kind::Stream | Kind::Udp) {
        return kernel();
    }
    // SAFETY: null or valid.
    let deadline = unsafe { crate::wait::arguments::deadline(timeout) }?;
    message::check(messages, count as usize)?;
    let mut flags = flags;
    let one_is_enough = flags & libc::MSG_WAITFORONE != 0;
    flags &= !libc::MSG_WAITFORONE;
    for i in 0..count.min(MESSAGES_MAX) {
        // SAFETY: within the application's array.
        let entry = unsafe { &mut *messages.add(i as usize) };
        // SAFETY: as above.
        match unsafe { recvmsg(fd, &raw mut entry.msg_hdr, flags) } {
            Ok(got) => entry.msg_len = got as c_uint,
            Err(stop) => return if i > 0 { Ok(i as c_int) } else { Err(stop) },
        }
        if one_is_enough {
            flags |= libc::MSG_DONTWAIT;
        }
        if deadline.is_some_and(|deadline| sys::clock::now() >= deadline) {
            return Ok(i as c_int + 1);
        }
    }
    Ok(count.min(MESSAGES_MAX) as c_int)
}

/// readv(2).
pub unsafe fn readv(fd: c_int, pieces: *const iovec, count: c_int) -> Answer<ssize_t> {
    let (runtime, object) = hearing(fd)?;
    if count < 0 {
        return fail(libc::EINVAL);
    }
    match object.kind() {
        Kind::Stream => {
            // SAFETY: the application's iovecs.
            let mut into = unsafe { message::buffers(pieces, count as usize, libc::EINVAL) }?;
            counts::receive(object, tcp::recv(runtime, object, &mut into, 0))
        }
        Kind::Udp => {
            let mut message = header(pieces.cast_mut(), count as usize);
            // SAFETY: as above; receiving does not write to the iovecs themselves.
            counts::receive(object, unsafe { udp::recv(runtime, object, fd, &mut message, 0) })
        }
        _ => kernel(),
    }
}

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
    let (runtime, object) = ours(fd)?;
    let piece = message::piece(buffer, size);
    // SAFETY: the application's buffer.
    let mut data = unsafe { message::one(&piece) }?;
    // SAFETY: the application's address.
    let to = unsafe { destination(object, address, len) }?;
    transmit(runtime, object, fd, to, &mut data, flags, &Asked::default())
}

/// The address of a send: none, one of ours, or one that is the kernel's to judge.
unsafe fn destination(
    object: &Object,
    address: *const sockaddr,
    len: socklen_t,
) -> Answer<Option<SocketAddrV4>> {
    if address.is_null() || object.kind() == Kind::Stream {
        return Ok(None);
    }
    // SAFETY: the caller's contract.
    match unsafe { address::read(address, len) } {
        Named::Inet(to) => Ok(Some(to)),
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
    let answer = match object.kind() {
        Kind::Stream => tcp::send(runtime, object, data, flags),
        Kind::Udp => udp::send(runtime, object, fd, to, data, flags, asked),
        _ => return kernel(),
    };
    if let Err(stop) = answer {
        counts::send_stopped(object, stop, data.remaining());
    }
    answer
}

/// sendmsg(2). Control messages other than udp/ancillary.rs knows choose what only the kernel can do.
pub unsafe fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> Answer<ssize_t> {
    let (runtime, object) = ours(fd)?;
    message::check(message, 1)?;
    // SAFETY: the application's message.
    let message = unsafe { &*message };
    let asked = match message.msg_controllen {
        0 => Asked::default(),
        _ if object.kind() != Kind::Udp => Asked::default(),
        // SAFETY: the application's message.
        _ => match unsafe { udp::ancillary::read(message) } {
            Some(asked) => asked,
            None => return kernel(),
        },
    };
    // SAFETY: the application's iovecs and address.
    let (mut data, to) = unsafe {
        let data = message::buffers(message.msg_iov, message.msg_iovlen, libc::EMSGSIZE)?;
        (data, destination(object, message.msg_name.cast(), message.msg_namelen)?)
    };
    transmit(runtime, object, fd, to, &mut data, flags, &asked)
}

/// sendmmsg(2).
pub unsafe fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> Answer<c_int> {
    let (_, object) = ours(fd)?;
    if object.leg().is_none() || !matches!(object.kind(), Kind::Stream | Kind::Udp) {
        return kernel();
    }
    message::check(messages, count as usize)?;
    for i in 0..count.min(MESSAGES_MAX) {
        // SAFETY: within the application's array.
        let entry = unsafe { &mut *messages.add(i as usize) };
        // SAFETY: as above.
        match unsafe { sendmsg(fd, &raw const entry.msg_hdr, flags) } {
            Ok(sent) => entry.msg_len = sent as c_uint,
            Err(_) if i > 0 => return Ok(i as c_int),
            Err(stop) => return Err(stop),
        }
    }
    Ok(count.min(MESSAGES_MAX) as c_int)
}

/// writev(2).
pub unsafe fn writev(fd: c_int, pieces: *const iovec, count: c_int) -> Answer<ssize_t> {
    let (runtime, object) = ours(fd)?;
    if count < 0 {
        return fail(libc::EINVAL);
    }
    // SAFETY: the application's iovecs.
    let mut data = unsafe { message::buffers(pieces, count as usize, libc::EINVAL) }?;
    transmit(runtime, object, fd, None, &mut data, 0, &Asked::default())
}

/// sendfile(2).
pub unsafe fn sendfile64(out: c_int, input: c_int, offset: *mut i64, count: size_t) -> Answer<ssize_t> {
    let (runtime, object) = ours(out)?;
    message::check_given(offset)?;
    // SAFETY: null or valid.
    let mut at = (!offset.is_null()).then(|| unsafe { offset.read_unaligned() });
    let result = tcp::send_file(runtime, object, input, &mut at, count);
    if let Some(at) = at {
        // SAFETY: valid, since `at` came from it.
        unsafe { offset.write_unaligned(at) };
    }
    result
}

/// splice(2). What no descriptor could do is the kernel's to refuse, of the shadow as of any socket.
pub unsafe fn splice(
    input: c_int,
    input_offset: *mut i64,
    output: c_int,
    output_offset: *mut i64,
    count: size_t,
    flags: c_uint,
) -> Answer<ssize_t> {
    if !input_offset.is_null() || !output_offset.is_null() || count == 0 || flags & !SPLICE_FLAGS != 0 {
        return kernel();
    }
    if let Some((runtime, object)) = stream(input)
        && sys::pipe::is_pipe(output)
    {
        let splice = tcp::Splice { runtime, object, pipe: output, count, flags };
        return counts::receive(object, splice.receive());
    }
    if let Some((runtime, object)) = stream(output)
        && sys::pipe::is_pipe(input)
    {
        return tcp::Splice { runtime, object, pipe: input, count, flags }.send();
    }
    kernel()
}

const SPLICE_FLAGS: c_uint =
    libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;

/// The connection behind a descriptor.
fn stream(fd: c_int) -> Option<(&'static Runtime, &'static Object)> {
    ours(fd).ok().filter(|(_, object)| object.kind() == Kind::Stream)
}
