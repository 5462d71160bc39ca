//! Receiving: from an engine, from memory, from the kernel, or from whatever carries a connection after a move.

use super::{hearing_for, kernel};
use crate::answer::{Answer, Stop};
use crate::carrier::{self, Call, Target};
use crate::counts;
use crate::errno::fail;
use crate::message;
use crate::object::{Kind, Object};
use crate::runtime::Runtime;
use crate::{udp, wait};
use libc::{c_int, c_uint, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};
use sys::linux::UIO_MAXIOV;

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
    carrier::before_any_call(runtime, object, fd);
    let mut piece = message::piece(buffer, size);
    match object.kind() {
        Kind::Stream | Kind::Memory | Kind::Carried | Kind::Moving => {
            let mut into = match flags & libc::MSG_TRUNC {
                // SAFETY: the application's buffer.
                0 => unsafe { message::one(&piece) }?,
                _ => message::unfilled(&piece),
            };
            // SAFETY: there is no message.
            let got = unsafe { Call::begin(runtime, object, fd, flags).receive(&mut into, None) }?;
            tell_no_name(address, len)?;
            Ok(got)
        }
        Kind::Udp => {
            message::check_room(len, usize::from(!address.is_null()))?;
            // SAFETY: `len` is valid where there is an address.
            let room = if address.is_null() { 0 } else { unsafe { len.read_unaligned() } };
            if (room as c_int) < 0 {
                return fail(libc::EINVAL);
            }
            let mut message = header(&mut piece, 1);
            message.msg_name = address.cast();
            message.msg_namelen = room;
            // SAFETY: the header is ours, its buffers are the application's.
            let result = unsafe { udp::recv(runtime, object, fd, Target::Bytes(&raw mut message), flags) };
            let result = counts::receive(object.counts(), result);
            if result.is_ok() && !address.is_null() {
                // SAFETY: as above.
                unsafe { len.write_unaligned(message.msg_namelen) };
            }
            result
        }
        _ => kernel(),
    }
}

/// Who sent them is not told with the bytes of a stream.
#[inline]
fn tell_no_name(address: *mut sockaddr, len: *mut socklen_t) -> Answer<()> {
    if !address.is_null() {
        message::check_room(len, 1)?;
        // SAFETY: the application's, and there.
        unsafe { len.write_unaligned(0) };
    }
    Ok(())
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
    carrier::before_any_call(runtime, object, fd);
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
    message::check_room(message, 1)?;
    // SAFETY: the application's message.
    let message = unsafe { &mut *message };
    match object.kind() {
        Kind::Stream | Kind::Memory | Kind::Carried | Kind::Moving => {
            // SAFETY: the application's iovecs.
            let mut into = unsafe { message::buffers(message.msg_iov, message.msg_iovlen, libc::EMSGSIZE) }?;
            let mut call = Call::begin(runtime, object, fd, flags);
            // SAFETY: the application's message.
            unsafe { call.receive(&mut into, Some(message)) }
        }
        // SAFETY: as above.
        Kind::Udp => counts::receive(object.counts(), unsafe {
            udp::recv(runtime, object, fd, Target::Message(message), flags)
        }),
        _ => kernel(),
    }
}

/// Behind the first message: whether another one is to be received. What befell the socket by then is the next call's
/// to tell, so it is looked for, and waited for, before a receive would take it.
fn goes_on(runtime: &'static Runtime, object: &'static Object, fd: c_int, flags: c_int) -> bool {
    if flags & (libc::MSG_ERRQUEUE | libc::MSG_OOB) != 0 {
        return true;
    }
    if object.may_wait(flags) {
        let mut one = [sys::poll::asked(fd, libc::POLLIN)];
        let deadline = wait::in_kernel::deadline_of(object.receive_timeout());
        let found = wait::poll::poll(runtime, &mut one, deadline, None);
        return !matches!(found, Ok(0) | Err(Stop::Errno(_))) && one[0].revents & libc::POLLERR == 0;
    }
    match object.kind() {
        Kind::Carried => !carrier::error_waits(fd),
        Kind::Udp | Kind::Stream => !wait::ready(object).has(stack::Ready::ERR),
        _ => true,
    }
}

/// As the kernel writes back what is left of a timeout, behind each message.
///
/// # Safety
/// `timeout` is null or valid.
unsafe fn left_of(timeout: *mut timespec, deadline: Option<u64>) {
    if let Some(deadline) = deadline.filter(|_| !timeout.is_null()) {
        // SAFETY: by the caller's promise.
        unsafe { timeout.write_unaligned(crate::arguments::left_until(deadline)) };
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
    let (runtime, object) = hearing_for(fd, flags)?;
    match object.kind() {
        Kind::Stream if object.leg().is_some() => {}
        Kind::Memory => {}
        Kind::Carried | Kind::Moving if !carrier::has_to_stay(object) => {}
        // Without legs one that waits does so message by message, since it may get them meanwhile.
        Kind::Udp if object.leg().is_some() || object.may_wait(flags) => {}
        _ => return kernel(),
    }
    // SAFETY: null or valid.
    let deadline = unsafe { crate::arguments::deadline(timeout) }?;
    message::check_room(messages, count as usize)?;
    let mut flags = flags;
    let one_is_enough = flags & libc::MSG_WAITFORONE != 0;
    flags &= !libc::MSG_WAITFORONE;
    for i in 0..count.min(UIO_MAXIOV as c_uint) {
        // SAFETY: within the application's array.
        let entry = unsafe { &mut *messages.add(i as usize) };
        if i > 0 && !goes_on(runtime, object, fd, flags) {
            return Ok(i as c_int);
        }
        // SAFETY: as above.
        let mut got = unsafe { recvmsg(fd, &raw mut entry.msg_hdr, flags) };
        if i > 0 && matches!(got, Err(Stop::Kernel(_))) {
            // SAFETY: as above.
            got = runtime.os.answer(unsafe { (runtime.os.recvmsg)(fd, &raw mut entry.msg_hdr, flags) });
        }
        match got {
            Ok(got) => {
                entry.msg_len = got as c_uint;
                // SAFETY: null or valid.
                unsafe { left_of(timeout, deadline) };
            }
            Err(stop) => return if i > 0 { Ok(i as c_int) } else { Err(stop) },
        }
        if one_is_enough {
            flags |= libc::MSG_DONTWAIT;
        }
        if deadline.is_some_and(|deadline| sys::clock::now() >= deadline) {
            return Ok(i as c_int + 1);
        }
    }
    Ok(count.min(UIO_MAXIOV as c_uint) as c_int)
}

/// readv(2).
pub unsafe fn readv(fd: c_int, pieces: *const iovec, count: c_int) -> Answer<ssize_t> {
    let (runtime, object) = hearing_for(fd, 0)?;
    carrier::before_any_call(runtime, object, fd);
    if count < 0 {
        return fail(libc::EINVAL);
    }
    // SAFETY: the application's iovecs.
    if unsafe { message::buffers(pieces, count as usize, libc::EINVAL) }?.left() == 0 {
        // As read(2) of nothing: it waits for nothing, and takes nothing, not even a datagram.
        return Ok(0);
    }
    match object.kind() {
        Kind::Stream | Kind::Memory => {
            // SAFETY: the application's iovecs.
            let mut into = unsafe { message::buffers(pieces, count as usize, libc::EINVAL) }?;
            // SAFETY: there is no message.
            unsafe { Call::begin(runtime, object, fd, 0).receive(&mut into, None) }
        }
        Kind::Udp => {
            let mut message = header(pieces.cast_mut(), count as usize);
            let target = Target::Bytes(&raw mut message);
            // SAFETY: the application's iovecs; receiving does not write to them.
            counts::receive(object.counts(), unsafe { udp::recv(runtime, object, fd, target, 0) })
        }
        Kind::Carried | Kind::Moving => {
            let mut message = header(pieces.cast_mut(), count as usize);
            // SAFETY: as above.
            unsafe { receive_message(runtime, object, fd, &mut message, 0) }
        }
        _ => kernel(),
    }
}
