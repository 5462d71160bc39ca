//! Sending and receiving.

use super::{hearing_for, kernel, ours, ours_for};
use crate::address::{self, Named};
use crate::answer::{Answer, Stop};
use crate::carrier::{self, Carried};
use crate::counts;
use crate::errno::fail;
use crate::extra::{self, abi::SEND_DUMMY};
use crate::fd_table;
use crate::memory;
use crate::message::{self, Buffers};
use crate::object::{Kind, Object};
use crate::runtime::{self, Runtime};
use crate::udp::ancillary::Asked;
use crate::{tcp, udp};
use core::sync::atomic::Ordering;
use libc::{c_int, c_uint, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};
use stack::Source;
use stats::Verdict;
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
    let (runtime, object) = hearing_for(fd, flags)?;
    if runtime.parameters.move_every != 0 {
        carrier::shake(runtime, object, fd);
    }
    let mut piece = message::piece(buffer, size);
    match object.kind() {
        Kind::Stream => {
            let mut into = match flags & libc::MSG_TRUNC {
                // SAFETY: the application's buffer.
                0 => unsafe { message::one(&piece) }?,
                _ => message::unfilled(&piece),
            };
            let answer = counts::receive(object, tcp::recv(runtime, object, &mut into, flags));
            match after_receive(runtime, object, fd, &answer, flags) {
                After::Over => answer,
                After::Moved => {
                    let mut message = header(&mut piece, 1);
                    // SAFETY: the header is ours, its buffer is the application's.
                    unsafe { carried(runtime, object, fd, &mut message, flags) }
                }
                // SAFETY: the application's buffer, as far as nothing was received.
                After::Short(got) => unsafe { the_rest(runtime, object, fd, got, &into, flags) },
            }
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
        // SAFETY: the application's buffer.
        Kind::Memory => unsafe { in_memory(runtime, object, fd, &mut piece, flags) },
        Kind::Carried | Kind::Moving => {
            let mut message = header(&mut piece, 1);
            // SAFETY: the header is ours, its buffer is the application's.
            unsafe { carried(runtime, object, fd, &mut message, flags) }
        }
        _ => kernel(),
    }
}

/// Receives on a connection in memory, or on whatever carries it by then.
unsafe fn in_memory(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    piece: &mut iovec,
    flags: c_int,
) -> Answer<ssize_t> {
    let mut into = match flags & libc::MSG_TRUNC {
        // SAFETY: the application's buffer.
        0 => unsafe { message::one(piece) }?,
        _ => message::unfilled(piece),
    };
    match memory::receive(runtime, object, fd, &mut into, flags) {
        Carried::Done(answer) => counts::receive(object, answer),
        Carried::Moved => {
            let mut message = header(piece, 1);
            // SAFETY: the header is ours, its buffer is the application's.
            unsafe { receive_message(runtime, object, fd, &mut message, flags) }
        }
    }
}

/// What follows a receive on a connection that an engine carried when it began.
enum After {
    /// Nothing.
    Over,
    /// The kernel has carried it since before anything was received.
    Moved,
    /// It wants all (MSG_WAITALL), has so much, and the rest is the kernel's.
    Short(ssize_t),
}

#[inline]
fn after_receive(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    answer: &Answer<ssize_t>,
    flags: c_int,
) -> After {
    match *answer {
        Ok(got @ 1..) => {
            if flags & libc::MSG_WAITALL != 0 && is_carried(object, fd) && carrier::may_wait(object, flags) {
                return After::Short(got);
            }
            carrier::on_wire(runtime, object, fd, got as usize);
            After::Over
        }
        Err(Stop::Kernel(_)) if is_carried(object, fd) => After::Moved,
        _ => After::Over,
    }
}

/// Whether the descriptor's connection is the kernel's, and may move.
#[cold]
fn is_carried(object: &'static Object, fd: c_int) -> bool {
    matches!(object.kind(), Kind::Carried | Kind::Moving) && fd_table::names(fd, object)
}

/// The rest of a receive that waits for all (MSG_WAITALL), `got` of which came from an engine.
#[cold]
unsafe fn the_rest(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    got: ssize_t,
    into: &Buffers<'_>,
    flags: c_int,
) -> Answer<ssize_t> {
    if into.left() == 0 {
        return Ok(got);
    }
    let mut pieces = [message::piece(core::ptr::null(), 0); PIECES];
    let count = into.rest(&mut pieces);
    let mut message = header(pieces.as_mut_ptr(), count);
    // What stays in the kernel goes there whole, and waits there.
    carrier::stays(object, Verdict::CallOfTheKernel);
    // SAFETY: the application's buffers, as far as nothing was received.
    let more = unsafe { (runtime.os.recvmsg)(fd, &raw mut message, flags) };
    Ok(got + more.max(0))
}

/// Pieces of the application's buffers that take the rest of a receive.
const PIECES: usize = 16;

/// Receives on what the kernel carries, as long as it does.
#[cold]
unsafe fn carried(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    message: &mut msghdr,
    flags: c_int,
) -> Answer<ssize_t> {
    // SAFETY: the caller's message.
    match unsafe { carrier::receive(runtime, object, fd, message, flags) } {
        Carried::Done(answer) => answer,
        // SAFETY: as above.
        Carried::Moved => unsafe { receive_message(runtime, object, fd, message, flags) },
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
    let (runtime, object) = hearing_for(fd, flags)?;
    if runtime.parameters.move_every != 0 {
        carrier::shake(runtime, object, fd);
    }
    // SAFETY: the caller's message.
    unsafe { receive_message(runtime, object, fd, message, flags) }
}

unsafe fn receive_message(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
) -> Answer<ssize_t> {
    message::check(message, 1)?;
    // SAFETY: the application's message.
    let message = unsafe { &mut *message };
    match object.kind() {
        Kind::Stream => {
            // SAFETY: the application's iovecs.
            let mut into = unsafe { message::buffers(message.msg_iov, message.msg_iovlen, libc::EMSGSIZE) }?;
            let answer = counts::receive(object, tcp::recv(runtime, object, &mut into, flags));
            let result = match after_receive(runtime, object, fd, &answer, flags) {
                After::Over => answer?,
                // SAFETY: as above.
                After::Moved => return unsafe { carried(runtime, object, fd, message, flags) },
                // SAFETY: as above.
                After::Short(got) => unsafe { the_rest(runtime, object, fd, got, &into, flags) }?,
            };
            message.msg_namelen = 0;
            message.msg_controllen = 0;
            message.msg_flags = flags & libc::MSG_OOB;
            Ok(result)
        }
        Kind::Memory => {
            // SAFETY: as above.
            let mut into = unsafe { message::buffers(message.msg_iov, message.msg_iovlen, libc::EMSGSIZE) }?;
            match memory::receive(runtime, object, fd, &mut into, flags) {
                Carried::Done(answer) => {
                    let result = counts::receive(object, answer)?;
                    message.msg_namelen = 0;
                    message.msg_controllen = 0;
                    message.msg_flags = 0;
                    Ok(result)
                }
                // SAFETY: as above.
                Carried::Moved => unsafe { receive_message(runtime, object, fd, message, flags) },
            }
        }
        // SAFETY: as above.
        Kind::Udp => counts::receive(object, unsafe { udp::recv(runtime, object, fd, message, flags) }),
        // SAFETY: as above.
        Kind::Carried | Kind::Moving => unsafe { carried(runtime, object, fd, message, flags) },
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
    let (_, object) = hearing_for(fd, flags)?;
    if object.kind() != Kind::Memory {
        stays_if_carried(object);
    }
    let may_wait = flags & libc::MSG_DONTWAIT == 0 && !object.nonblocking.load(Ordering::Relaxed);
    match object.kind() {
        Kind::Stream if object.leg().is_some() => {}
        Kind::Memory => {}
        // Without legs one that waits does so message by message, since it may get them meanwhile.
        Kind::Udp if object.leg().is_some() || may_wait => {}
        _ => return kernel(),
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
    let (runtime, object) = hearing_for(fd, 0)?;
    if runtime.parameters.move_every != 0 {
        carrier::shake(runtime, object, fd);
    }
    if count < 0 {
        return fail(libc::EINVAL);
    }
    match object.kind() {
        Kind::Stream => {
            // SAFETY: the application's iovecs.
            let mut into = unsafe { message::buffers(pieces, count as usize, libc::EINVAL) }?;
            let answer = counts::receive(object, tcp::recv(runtime, object, &mut into, 0));
            if !matches!(after_receive(runtime, object, fd, &answer, 0), After::Moved) {
                return answer;
            }
            let mut message = header(pieces.cast_mut(), count as usize);
            // SAFETY: as above.
            unsafe { carried(runtime, object, fd, &mut message, 0) }
        }
        Kind::Udp => {
            let mut message = header(pieces.cast_mut(), count as usize);
            // SAFETY: as above; receiving does not write to the iovecs themselves.
            counts::receive(object, unsafe { udp::recv(runtime, object, fd, &mut message, 0) })
        }
        Kind::Carried | Kind::Moving | Kind::Memory => {
            // SAFETY: the application's iovecs.
            unsafe { message::buffers(pieces, count as usize, libc::EINVAL) }?;
            let mut message = header(pieces.cast_mut(), count as usize);
            // SAFETY: as above.
            unsafe { receive_message(runtime, object, fd, &mut message, 0) }
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
    let (runtime, object) = sender(fd, flags)?;
    let piece = message::piece(buffer, size);
    // SAFETY: the application's buffer.
    let data = unsafe { message::one(&piece) }.and_then(Buffers::readable);
    let mut data = data.or_else(|stop| nothing_to_send(runtime, object, stop, flags))?;
    // SAFETY: the application's address.
    let to = unsafe { destination(object, address, len, flags) }?;
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
        Kind::Stream => drop(tcp::send(runtime, object, &mut &[][..], flags)?),
        Kind::Udp if object.leg().is_none() => return kernel(),
        Kind::Udp => udp::take_error(object)?,
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

/// The address of a send: none, one of ours, or one that is the kernel's to judge.
unsafe fn destination(
    object: &Object,
    address: *const sockaddr,
    len: socklen_t,
    flags: c_int,
) -> Answer<Option<SocketAddrV4>> {
    // A connection has one destination, whatever is said here.
    let is_stream = match object.kind() {
        Kind::Stream | Kind::Memory => true,
        Kind::Carried | Kind::Moving => flags & libc::MSG_FASTOPEN == 0,
        _ => false,
    };
    if address.is_null() || is_stream {
        return Ok(None);
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
    if runtime.parameters.move_every != 0 {
        carrier::shake(runtime, object, fd);
    }
    deliver(runtime, object, fd, to, data, flags, asked)
}

/// Sends on whatever carries the socket. A connection may move meanwhile: what then is left of a send that waits for
/// all to be taken goes to the other carrier.
#[inline]
fn deliver(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    to: Option<SocketAddrV4>,
    data: &mut Buffers<'_>,
    flags: c_int,
    asked: &Asked,
) -> Answer<ssize_t> {
    let wanted = data.remaining();
    loop {
        let before = data.remaining();
        let answer = match object.kind() {
            Kind::Stream => tcp::send(runtime, object, data, flags),
            Kind::Udp => {
                let answer = udp::send(runtime, object, fd, to, data, flags, asked);
                if let Err(stop) = answer {
                    counts::send_stopped(object, stop, data.remaining());
                }
                return answer;
            }
            Kind::Memory => match memory::send(runtime, object, fd, data, flags) {
                Carried::Done(Ok(_)) => return Ok((wanted - data.remaining()) as ssize_t),
                Carried::Done(_) if before < wanted => return Ok((wanted - before) as ssize_t),
                Carried::Done(answer) => {
                    return answer.inspect_err(|stop| counts::send_stopped(object, *stop, before));
                }
                Carried::Moved => continue,
            },
            Kind::Carried | Kind::Moving => {
                match carrier::send(runtime, object, fd, data, flags, before == wanted) {
                    Carried::Done(Ok(_))
                        if data.remaining() > 0
                            && carrier::may_wait(object, flags)
                            && matches!(object.kind(), Kind::Stream | Kind::Memory) => {}
                    Carried::Done(Ok(_)) => return Ok((wanted - data.remaining()) as ssize_t),
                    Carried::Done(_) if before < wanted => return Ok((wanted - before) as ssize_t),
                    Carried::Done(answer) => return answer,
                    Carried::Moved => {}
                }
                continue;
            }
            _ if before < wanted => return Ok((wanted - before) as ssize_t),
            _ => return kernel(),
        };
        match answer {
            Ok(sent) if sent as usize == before => {
                carrier::on_wire(runtime, object, fd, sent as usize);
                return Ok(wanted as ssize_t);
            }
            Ok(_) if carrier::may_wait(object, flags) && is_carried(object, fd) => {}
            Ok(sent) => {
                carrier::on_wire(runtime, object, fd, sent as usize);
                return Ok((wanted - data.remaining()) as ssize_t);
            }
            Err(Stop::Kernel(_)) if is_carried(object, fd) => {}
            Err(_) if before < wanted => return Ok((wanted - before) as ssize_t),
            Err(stop) => {
                counts::send_stopped(object, stop, data.remaining());
                return Err(stop);
            }
        }
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
        (data, destination(object, message.msg_name.cast(), message.msg_namelen, flags)?)
    };
    transmit(runtime, object, fd, to, &mut data, flags, &asked)
}

/// sendmmsg(2).
pub unsafe fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> Answer<c_int> {
    let (_, object) = sender(fd, flags)?;
    if flags & SEND_DUMMY == 0 {
        if object.kind() != Kind::Memory {
            stays_if_carried(object);
        }
        let is_carried = object.leg().is_some() && matches!(object.kind(), Kind::Stream | Kind::Udp);
        if !is_carried && object.kind() != Kind::Memory {
            return kernel();
        }
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
    let (runtime, object) = ours_for(fd, 0)?;
    if count < 0 {
        return fail(libc::EINVAL);
    }
    // SAFETY: the application's iovecs.
    let data = unsafe { message::buffers(pieces, count as usize, libc::EINVAL) }.and_then(Buffers::readable);
    let mut data = data.or_else(|stop| nothing_to_send(runtime, object, stop, 0))?;
    transmit(runtime, object, fd, None, &mut data, 0, &Asked::default())
}

/// sendfile(2).
pub unsafe fn sendfile64(out: c_int, input: c_int, offset: *mut i64, count: size_t) -> Answer<ssize_t> {
    let (runtime, object) = ours(out)?;
    if object.kind() != Kind::Memory {
        stays_if_carried(object);
    }
    message::check_given(offset)?;
    // SAFETY: null or valid.
    let mut at = (!offset.is_null()).then(|| unsafe { offset.read_unaligned() });
    let result = tcp::send_file(runtime, object, out, input, &mut at, count);
    if let Some(at) = at {
        // SAFETY: valid, since `at` came from it.
        unsafe { offset.write_unaligned(at) };
    }
    after_whole(runtime, object, out, result)
}

/// A call that goes into the kernel whole, where that carries the connection, was made on one that an engine carries.
fn after_whole(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    answer: Answer<ssize_t>,
) -> Answer<ssize_t> {
    match answer {
        Ok(moved @ 1..) => carrier::on_wire(runtime, object, fd, moved as usize),
        Err(Stop::Kernel(_)) => stays_if_carried(object),
        _ => {}
    }
    answer
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
        return after_whole(runtime, object, input, counts::receive(object, splice.receive()));
    }
    if let Some((runtime, object)) = stream(output)
        && sys::pipe::is_pipe(input)
    {
        let answer = tcp::Splice { runtime, object, pipe: input, count, flags }.send();
        return after_whole(runtime, object, output, answer);
    }
    kernel()
}

const SPLICE_FLAGS: c_uint =
    libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;

/// A call that goes into the kernel whole: what the kernel carries stays there.
#[inline]
fn stays_if_carried(object: &'static Object) {
    if object.kind() == Kind::Memory
        && let Some(runtime) = runtime::get()
    {
        return memory::leave(runtime, object, "a call that goes into the kernel whole");
    }
    if matches!(object.kind(), Kind::Carried | Kind::Moving) {
        carrier::stays(object, Verdict::CallOfTheKernel);
    }
}

/// The connection behind a descriptor.
fn stream(fd: c_int) -> Option<(&'static Runtime, &'static Object)> {
    let known = ours(fd).ok();
    if let Some((_, object)) = known {
        stays_if_carried(object);
    }
    known.filter(|(_, object)| object.kind() == Kind::Stream)
}
