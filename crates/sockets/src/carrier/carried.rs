//! Calls on a TCP connection that the kernel carries, made so that it can move between any two of them.
//!
//! Calls are counted while they are in the kernel. Who moves a connection makes it [`Kind::Moving`] first, and gives up
//! if one is under way; who finds it moving waits, which takes some ten microseconds.

use super::judge;
use crate::answer::{Answer, Stop, Why};
use crate::counts;
use crate::errno::fail;
use crate::fd_table;
use crate::memory;
use crate::message::{Buffers, NO_PIECES};
use crate::object::in_flight::{LOOKS, SLEEPS, has_to_stay, in_kernel, stays, wait_while_moving};
use crate::object::{Kind, Object};
use crate::part::{Outcome, Progress, has_failed, is_at_mark};
use crate::runtime::Runtime;
use crate::wait::block::Stopped;
use crate::wait::in_kernel as waits;
use core::sync::atomic::Ordering;
use libc::{c_int, msghdr, ssize_t};
use stats::Verdict;

/// A socket that the kernel carries, and whose connections may move. `is_mapped`: its family is AF_INET6.
pub(crate) fn begin(fd: c_int, nonblocking: bool, is_mapped: bool) -> &'static Object {
    let object = Object::new(Kind::Carried, fd, nonblocking);
    object.is_mapped.store(is_mapped, Ordering::Relaxed);
    object
}

/// The kernel accepted `fd` by a listener of ours that it carries.
pub(crate) fn accepted(listener: &'static Object, fd: c_int, nonblocking: bool) {
    if listener.kind() != Kind::Carried || fd_table::entry(fd).is_some() {
        return;
    }
    let object = begin(fd, nonblocking, listener.is_mapped.load(Ordering::Relaxed));
    let linger = listener.control.lock().linger;
    {
        let mut control = object.control.lock();
        control.accepted = true;
        control.linger = linger;
    }
    object.price.store(listener.price.load(Ordering::Relaxed), Ordering::Relaxed);
    object.is_demanded.store(listener.is_demanded.load(Ordering::Relaxed), Ordering::Relaxed);
    for (mine, theirs) in
        [(&object.receive_timeout, &listener.receive_timeout), (&object.send_timeout, &listener.send_timeout)]
    {
        mine.store(theirs.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    object.receive_low_water.store(listener.receive_low_water.load(Ordering::Relaxed), Ordering::Relaxed);
    enter(fd, object);
}

/// From now on calls on the descriptor find the object. One whose number is beyond the table is the kernel's alone.
pub(crate) fn enter(fd: c_int, object: &'static Object) {
    if !fd_table::enter_socket(fd, object) {
        object.release();
    }
}

/// What a receive fills.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// The application's message, with what the kernel tells beside the bytes.
    Message(*mut msghdr),
    /// The pieces of a message of ours.
    Bytes(*mut msghdr),
}

impl Target {
    pub(crate) fn message(self) -> *mut msghdr {
        let (Target::Message(message) | Target::Bytes(message)) = self;
        message
    }

    /// As much, of another message.
    pub(crate) fn of(self, message: *mut msghdr) -> Target {
        match self {
            Target::Message(_) => Target::Message(message),
            Target::Bytes(_) => Target::Bytes(message),
        }
    }

    /// The kernel fills it.
    ///
    /// # Safety
    /// The application's message, or buffers.
    #[inline]
    pub(crate) unsafe fn fill(self, runtime: &Runtime, fd: c_int, flags: c_int) -> ssize_t {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Target::Message(message) => (runtime.os.recvmsg)(fd, message, flags),
                Target::Bytes(message) => runtime.os.receive_bytes(fd, message, flags),
            }
        }
    }
}

/// recvmsg(2), and what is less: what comes first, of a call with MSG_WAITALL too unless it sleeps in the kernel.
///
/// # Safety
/// The application's message, or buffers.
pub(crate) unsafe fn receive(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    target: Target,
    flags: c_int,
    progress: &mut Progress,
) -> Outcome {
    let begins = progress.begins;
    match begins {
        true => memory::before_call(runtime, object, fd),
        false => wait_while_moving(object),
    }
    let is_whole = is_kernels_whole(object, fd, flags);
    if is_whole && object.kind() != Kind::Memory {
        stays(object, Verdict::CallOfTheKernel);
    } else if !is_whole && begins {
        judge::before_call(runtime, object, fd);
    }
    let moves = object.moves.load(Ordering::Acquire);
    if object.kind() != Kind::Carried {
        return Outcome::Moved;
    }
    if memory::keeps(object) {
        memory::still_keeps(object, object.shadow(fd));
    }
    let is_for_good = has_to_stay(object) && (is_whole || begins);
    if is_for_good && !memory::keeps(object) {
        return Outcome::Done(Err(Stop::Kernel(Why::NotOurs)));
    }
    let receive = |flags, how| {
        let _in_flight = in_kernel(object, how)?;
        // SAFETY: the caller's promise.
        Some(unsafe { target.fill(runtime, object.shadow(fd), flags) })
    };
    let look = || {
        if !begins && ends_here(object.shadow(fd)) {
            return Some(Ok(0));
        }
        receive(flags & !libc::MSG_WAITALL | libc::MSG_DONTWAIT, LOOKS).and_then(|got| outcome(runtime, got))
    };
    let answer = if is_for_good || begins && sleeps_there(runtime, object, flags) {
        let got = receive(flags, SLEEPS);
        if got.is_some() && !memory::keeps(object) {
            // The kernel made the call as a whole.
            progress.least = 0;
        }
        got.map_or(Outcome::Moved, |got| Outcome::Done(runtime.os.answer(got)))
    } else {
        let limits = || progress.limits(object.receive_timeout());
        // The urgent byte alone is no data to poll(2), and its mark ends the call.
        let events = libc::POLLIN | if begins { 0 } else { libc::POLLPRI };
        wait(runtime, object, fd, events, flags, limits, moves, look)
    };
    if let Outcome::Done(Ok(got @ 1..)) = answer
        && flags & libc::MSG_WAITALL == 0
    {
        brought(object, got as usize);
    }
    answer
}

/// A call brought so many bytes by the kernel.
pub(super) fn brought(object: &'static Object, bytes: usize) {
    judge::in_kernel(object, bytes);
    counts::in_kernel(object.counts(), bytes, true);
}

/// Whether a call that has received something ends here, as the kernel's would: at the urgent mark, or where the error
/// that ended the connection is all that waits. (What else waits in the error queue ends no call.)
pub(super) fn ends_here(tcp: c_int) -> bool {
    is_at_mark(tcp) || error_waits(tcp)
}

/// Whether the error that ended the connection waits, and nothing before it.
pub(crate) fn error_waits(tcp: c_int) -> bool {
    has_failed(tcp) && sys::socket::ask(tcp, libc::FIONREAD as u32) == Ok(0)
}

/// Sends what `data` holds, as the calls without control messages do. What stays in the kernel may go there whole, if
/// it begins.
pub(crate) fn send(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    data: &mut Buffers<'_>,
    flags: c_int,
    progress: &mut Progress,
) -> Outcome {
    // FIONREAD ends at the urgent mark, so two ends that meet behind it would not agree what came before.
    if flags & libc::MSG_OOB != 0 && memory::may_ever_meet(runtime, object) {
        stays(object, Verdict::CallOfTheKernel);
    }
    memory::before_call(runtime, object, fd);
    judge::before_call(runtime, object, fd);
    if object.kind() != Kind::Carried {
        return Outcome::Moved;
    }
    if progress.begins && has_to_stay(object) && !memory::keeps(object) {
        return Outcome::Done(Err(Stop::Kernel(Why::NotOurs)));
    }
    let mut sent = 0;
    loop {
        let moves = object.moves.load(Ordering::Acquire);
        let has_sent = progress.has_sent;
        let look = || {
            let _in_flight = in_kernel(object, LOOKS)?;
            if has_sent && has_failed(object.shadow(fd)) {
                return Some(fail(libc::EPIPE));
            }
            let mut pieces = NO_PIECES;
            let message = data.message(&mut pieces, usize::MAX);
            let flags = flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // SAFETY: the application's buffers, as far as they were not sent.
            let got = unsafe { runtime.os.send_bytes(object.shadow(fd), &message, flags) };
            outcome(runtime, got)
        };
        let limits = || progress.limits(object.send_timeout());
        match wait(runtime, object, fd, libc::POLLOUT, flags, limits, moves, look) {
            Outcome::Done(Ok(n)) => {
                sent += n;
                progress.sent(n as usize);
                data.pass(n as usize);
                judge::in_kernel(object, n as usize);
                counts::in_kernel(object.counts(), n as usize, false);
                if n == 0 || data.left() == 0 || !object.may_wait(flags) {
                    return Outcome::Done(Ok(sent));
                }
            }
            part => {
                if matches!(part, Outcome::Done(Err(Stop::Errno(libc::ECONNRESET)))) && memory::keeps(object)
                {
                    memory::was_reset(object);
                }
                return part;
            }
        }
    }
}

/// sendfile(2) on a connection whose peer may be on this host: the kernel's own call, as long as the two have not met.
/// [`Outcome::Moved`]: they have, or the peer is elsewhere.
///
/// # Safety
/// The application's pointer.
pub(crate) unsafe fn send_file(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    input: c_int,
    offset: *mut i64,
    count: usize,
) -> Outcome {
    memory::before_call(runtime, object, fd);
    if !memory::may_be_here(runtime, object) {
        return Outcome::Moved;
    }
    let Some(_in_flight) = in_kernel(object, SLEEPS) else { return Outcome::Moved };
    // SAFETY: the application's pointer.
    let sent = unsafe { (runtime.os.sendfile64)(object.shadow(fd), input, offset, count) };
    if sent > 0 {
        judge::in_kernel(object, sent as usize);
        counts::in_kernel(object.counts(), sent as usize, false);
    }
    Outcome::Done(runtime.os.answer(sent))
}

/// Whether only one call of the kernel's can do it. The kernel wakes for SO_RCVLOWAT bytes, whatever a call has taken
/// before, and what is only looked at (MSG_PEEK) ends each wait for more.
fn is_kernels_whole(object: &Object, fd: c_int, flags: c_int) -> bool {
    const LOOKS_AT_ALL: c_int = libc::MSG_PEEK | libc::MSG_WAITALL;
    if flags & (libc::MSG_OOB | libc::MSG_ERRQUEUE) != 0 || flags & LOOKS_AT_ALL == LOOKS_AT_ALL {
        return true;
    }
    if !object.may_wait(flags) {
        return false;
    }
    memory::know_options(object, fd);
    object.receive_low_water.load(Ordering::Relaxed) > 1
}

/// A receive that may wait does so in the kernel, by one system call, and is counted meanwhile: nobody moves the
/// connection under it. The next call that begins while none sleeps moves it, if it is due. Until the process keeps
/// statistics, and while the connection looks for a peer on this host, waits end now and then for that.
fn sleeps_there(runtime: &Runtime, object: &Object, flags: c_int) -> bool {
    object.may_wait(flags)
        && runtime.parameters.move_every == 0
        && !memory::looks(object)
        && counts::part(None).is_none()
}

/// What the kernel answered; `None`: nothing yet.
fn outcome(runtime: &Runtime, got: ssize_t) -> Option<Answer<ssize_t>> {
    match got {
        0.. => Some(Ok(got)),
        _ => match runtime.os.errno() {
            libc::EAGAIN => None,
            errno => Some(fail(errno)),
        },
    }
}

/// `limits`: as [`Progress::limits`].
#[allow(clippy::too_many_arguments)]
fn wait(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    events: i16,
    flags: c_int,
    limits: impl FnOnce() -> (Option<u64>, bool),
    moves: u32,
    mut look: impl FnMut() -> Option<Answer<ssize_t>>,
) -> Outcome {
    if !object.may_wait(flags) {
        return match look() {
            Some(answer) => Outcome::Done(answer),
            // Nobody has looked.
            None if object.moves.load(Ordering::Acquire) != moves => Outcome::Moved,
            None => Outcome::Done(fail(libc::EAGAIN)),
        };
    }
    memory::know_options(object, fd);
    match waits::call(runtime, object, fd, events, limits(), moves, look) {
        Ok(answer) => Outcome::Done(answer),
        Err(Stopped::Moved) if fd_table::names(fd, object) => Outcome::Moved,
        Err(stopped) => Outcome::Done(stopped.answer()),
    }
}
