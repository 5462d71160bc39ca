//! Calls that go into the kernel whole where that carries the connection: sendfile and splice. What the kernel carries
//! stays there afterwards.

use super::{has_moved, kernel, ours};
use crate::answer::{Answer, Stop};
use crate::carrier;
use crate::counts;
use crate::memory;
use crate::message;
use crate::object::{Kind, Object};
use crate::part::Outcome;
use crate::runtime::{self, Runtime};
use crate::tcp;
use core::sync::atomic::Ordering;
use libc::{c_int, c_uint, size_t, ssize_t};
use stats::Verdict;

/// sendfile(2).
pub unsafe fn sendfile64(out: c_int, input: c_int, offset: *mut i64, count: size_t) -> Answer<ssize_t> {
    if offset.is_null()
        && let Some((runtime, object)) = stream(input)
        && sys::pipe::is_pipe(out)
    {
        // As the kernel, whose sendfile(2) to a pipe is a splice.
        let flags = if sys::pipe::is_nonblocking(out) { libc::SPLICE_F_NONBLOCK } else { 0 };
        return into_pipe(runtime, object, input, out, count, flags);
    }
    let (runtime, object) = ours(out)?;
    message::check_room(offset, usize::from(!offset.is_null()))?;
    if matches!(object.kind(), Kind::Carried | Kind::Moving) && memory::may_be_here(runtime, object) {
        // SAFETY: the application's pointer.
        let part = unsafe { carrier::send_file(runtime, object, out, input, offset, count) };
        if let Outcome::Done(answer) = part {
            return answer;
        }
    }
    if object.kind() != Kind::Memory {
        stays_if_carried(object);
    }
    // SAFETY: null or valid.
    let mut at = (!offset.is_null()).then(|| unsafe { offset.read_unaligned() });
    let result = where_it_is(object, out, || carrier::copy_file(runtime, object, out, input, &mut at, count));
    if let Some(at) = at {
        // SAFETY: valid, since `at` came from it.
        unsafe { offset.write_unaligned(at) };
    }
    after_whole(runtime, object, out, result)
}

/// Makes the call anew where the connection moved away and came back before the call had done anything.
fn where_it_is(
    object: &'static Object,
    fd: c_int,
    mut call: impl FnMut() -> Answer<ssize_t>,
) -> Answer<ssize_t> {
    loop {
        let moves = object.moves.load(Ordering::Acquire);
        let answer = call();
        let is_elsewhere = matches!(answer, Err(Stop::Kernel(_))) && has_moved(object, fd, moves);
        if !is_elsewhere || object.kind() != Kind::Stream {
            return answer;
        }
    }
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
        return into_pipe(runtime, object, input, output, count, flags);
    }
    if let Some((runtime, object)) = stream(output)
        && sys::pipe::is_pipe(input)
    {
        let splice = || tcp::Splice { runtime, object, pipe: input, count, flags }.send();
        return after_whole(runtime, object, output, where_it_is(object, output, splice));
    }
    kernel()
}

fn into_pipe(
    runtime: &'static Runtime,
    object: &'static Object,
    input: c_int,
    pipe: c_int,
    count: size_t,
    flags: c_uint,
) -> Answer<ssize_t> {
    let splice = || tcp::Splice { runtime, object, pipe, count, flags }.receive();
    let answer = counts::receive(object.counts(), where_it_is(object, input, splice));
    after_whole(runtime, object, input, answer)
}

const SPLICE_FLAGS: c_uint =
    libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;

/// A call that goes into the kernel whole: what the kernel carries stays there.
#[inline]
pub(super) fn stays_if_carried(object: &'static Object) {
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
