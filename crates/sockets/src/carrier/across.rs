//! A call that moves data on a connection, from one carrier to the next if the connection moves under it.
//!
//! Each carrier does its part of a call: it moves the cursor over the application's buffers past what it moved, and
//! says how the part ended ([`Outcome`]). What the whole call owes, its count and SIGPIPE, is settled here alone.

use super::{Target, on_wire};
use crate::answer::{Answer, Stop, Why};
use crate::counts;
use crate::errno::fail;
use crate::fd_table;
use crate::memory;
use crate::message::{Buffers, NO_PIECES};
use crate::object::{Kind, Object};
use crate::part::{Outcome, Progress, has_failed, raised};
use crate::runtime::Runtime;
use crate::tcp;
use core::sync::atomic::Ordering;
use libc::{c_int, msghdr, pollfd, ssize_t};

/// Between two looks of a call that poll(2) keeps calling in vain, nanoseconds.
const LOOKS_AGAIN_NS: u64 = 1_000_000;

/// One call, and what was true when it began: its object may be another socket's once the connection is left to the
/// kernel.
pub(crate) struct Call {
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    flags: c_int,
    may_wait: bool,
    /// The descriptor by which the object knew itself: another one once all were closed.
    known: c_int,
    progress: Progress,
}

/// What follows a part of a call.
enum Next {
    /// Another part, by whatever carries the connection now.
    Part,
    /// The rest is the kernel's, with whom the connection stays.
    Kernel(Why),
    Over(Answer<ssize_t>),
}

impl Call {
    #[inline]
    pub(crate) fn begin(runtime: &'static Runtime, object: &'static Object, fd: c_int, flags: c_int) -> Call {
        let known = object.fd.load(Ordering::Relaxed);
        let may_wait = object.may_wait(flags);
        Call { runtime, object, fd, flags, may_wait, known, progress: Progress::new() }
    }

    /// Receives into `into`: what there is, or as much as the call waits for. What it only looks at (MSG_PEEK) it does
    /// not move past. `message`: the application's, for what the kernel tells beside the bytes.
    ///
    /// # Safety
    /// The application's message.
    #[inline]
    pub(crate) unsafe fn receive(
        &mut self,
        into: &mut Buffers<'_>,
        mut message: Option<&mut msghdr>,
    ) -> Answer<ssize_t> {
        let Call { runtime, object, fd, flags, .. } = *self;
        let wanted = into.left();
        // As the kernel: MSG_WAITALL is for everything, SO_RCVLOWAT for at least so much.
        let enough = match flags & libc::MSG_WAITALL {
            0 => wanted.min(object.receive_low_water.load(Ordering::Relaxed) as usize),
            _ => wanted,
        };
        let mut is_told = false;
        loop {
            let (kind, moves) = (object.kind(), object.moves.load(Ordering::Acquire));
            self.progress.least = enough.saturating_sub(wanted - into.left());
            self.progress.begins = wanted == into.left();
            let progress = &mut self.progress;
            let part = match kind {
                Kind::Stream => tcp::recv(runtime, object, into, flags, progress),
                Kind::Memory => memory::receive(runtime, object, fd, into, flags, progress),
                Kind::Carried | Kind::Moving => {
                    let mut pieces = NO_PIECES;
                    let mut own = into.message(&mut pieces, usize::MAX);
                    let target = match message.as_deref_mut() {
                        Some(message) if progress.begins => Target::Message(message),
                        _ => Target::Bytes(&raw mut own),
                    };
                    // SAFETY: the application's message, or buffers.
                    let part = unsafe { super::receive(runtime, object, fd, target, flags, progress) };
                    let part = memory::or_kept(object, fd, part, into, flags);
                    let is_more = self.wants_more(&part, into);
                    is_told |= wanted != into.left();
                    if is_more {
                        continue;
                    }
                    part
                }
                _ => Outcome::Done(Err(Stop::Kernel(Why::NotOurs))),
            };
            let taken = wanted - into.left();
            match self.next(kind, moves, part, taken) {
                Next::Part => {}
                Next::Kernel(_) if taken > 0 => {
                    let rest = self.received_by_kernel(into, enough.saturating_sub(taken));
                    if !is_told {
                        self.tells_no_more(message);
                    }
                    return Ok((taken + rest) as ssize_t);
                }
                Next::Kernel(why) => return Err(Stop::Kernel(why)),
                Next::Over(answer) if matches!(kind, Kind::Stream | Kind::Memory) => {
                    if answer.is_ok() && !is_told {
                        self.tells_no_more(message);
                    }
                    return counts::receive(object.counts(), answer);
                }
                Next::Over(answer) => {
                    if let Ok(got @ 1..) = answer
                        && flags & libc::MSG_WAITALL != 0
                    {
                        super::brought(object, got as usize);
                    }
                    return answer;
                }
            }
        }
    }

    /// Whether the call goes on behind a part in the kernel.
    fn wants_more(&self, part: &Outcome, into: &mut Buffers<'_>) -> bool {
        let Outcome::Done(Ok(got @ 1..)) = *part else { return false };
        if self.flags & (libc::MSG_PEEK | libc::MSG_OOB | libc::MSG_ERRQUEUE) != 0 {
            return false;
        }
        into.pass(got as usize);
        self.may_wait && (got as usize) < self.progress.least && fd_table::names(self.fd, self.object)
    }

    /// A stream's bytes come with nothing beside them.
    #[inline]
    fn tells_no_more(&self, message: Option<&mut msghdr>) {
        if let Some(message) = message {
            (message.msg_namelen, message.msg_controllen) = (0, 0);
            message.msg_flags = self.flags & libc::MSG_OOB;
        }
    }

    /// Sends all of `data`, or what there is room for if the call may not wait; behind what the call has sent before.
    #[inline]
    pub(crate) fn send(&mut self, data: &mut Buffers<'_>) -> Answer<ssize_t> {
        let Call { runtime, object, fd, flags, .. } = *self;
        let wanted = data.left();
        self.progress.begin_piece();
        loop {
            let progress = &mut self.progress;
            let (kind, moves) = (object.kind(), object.moves.load(Ordering::Acquire));
            let part = match kind {
                _ if !progress.begins && !fd_table::names(fd, object) => Outcome::Moved,
                Kind::Stream => tcp::send(runtime, object, data, flags, progress),
                Kind::Memory => memory::send(runtime, object, fd, data, flags, progress),
                Kind::Carried | Kind::Moving => super::send(runtime, object, fd, data, flags, progress),
                _ => Outcome::Done(Err(Stop::Kernel(Why::NotOurs))),
            };
            let sent = wanted - data.left();
            self.progress.sent(sent);
            match self.next(kind, moves, part, sent) {
                Next::Part => {}
                Next::Kernel(_) if !self.progress.begins => return self.sent_by_kernel(data, sent),
                Next::Kernel(why) => return self.refused(Stop::Kernel(why), data, kind),
                Next::Over(Err(stop)) => return self.refused(stop, data, kind),
                Next::Over(answer) => return answer,
            }
        }
    }

    /// `kind`, `moves`: of the object before the part. `done`: bytes that the call has moved by now.
    #[inline]
    fn next(&self, kind: Kind, moves: u32, part: Outcome, done: usize) -> Next {
        match part {
            Outcome::Done(Ok(count)) => {
                if kind == Kind::Stream && count > 0 {
                    on_wire(self.runtime, self.object, self.fd, count as usize);
                }
                Next::Over(Ok(count.max(done as ssize_t)))
            }
            // What was moved counts; what befell the connection is told by the next call.
            Outcome::Done(Err(Stop::Errno(_))) if done > 0 => Next::Over(Ok(done as ssize_t)),
            Outcome::Done(Err(Stop::Errno(errno))) => Next::Over(fail(errno)),
            Outcome::Done(Err(Stop::Kernel(why))) => self.elsewhere(Some((kind, moves)), why, done),
            Outcome::Moved => self.elsewhere(None, Why::NotOurs, done),
        }
    }

    /// The connection is not where a part looked for it, or was moved under it. `before`: its kind and count of moves
    /// before a part that found nothing: its shadow would answer for a connection that it has not got.
    #[cold]
    fn elsewhere(&self, before: Option<(Kind, u32)>, why: Why, done: usize) -> Next {
        let Call { object, fd, known, .. } = *self;
        if done > 0 && !self.may_wait {
            return Next::Over(Ok(done as ssize_t));
        }
        let is_known = fd_table::names(fd, object);
        let has_moved =
            before.is_none_or(|before| before != (object.kind(), object.moves.load(Ordering::Acquire)));
        // A number that was closed under the call may name something else by now.
        let is_left = fd_table::entry(fd).is_none() && object.fd.load(Ordering::Relaxed) == known;
        match (is_known, is_left) {
            (true, _) if has_moved => Next::Part,
            (false, false) if done > 0 => Next::Over(Ok(done as ssize_t)),
            _ => Next::Kernel(why),
        }
    }

    /// The rest of a receive that has received something, `least` bytes of which it waits for; how many came. It does
    /// not wait in recvmsg(2), where the call would be one that begins: over the urgent mark, and with the error.
    #[cold]
    fn received_by_kernel(&mut self, into: &mut Buffers<'_>, mut least: usize) -> usize {
        let wanted = into.left();
        while into.left() > 0 {
            let is_over = least > 0 && self.is_ready_in_kernel(libc::SO_RCVTIMEO).is_err();
            if is_over || super::ends_here(self.fd) {
                break;
            }
            let mut pieces = NO_PIECES;
            let mut message = into.message(&mut pieces, usize::MAX);
            let flags = self.flags & !libc::MSG_WAITALL | libc::MSG_DONTWAIT;
            // SAFETY: the application's buffers, as far as nothing was received.
            let got = unsafe { (self.runtime.os.recvmsg)(self.fd, &raw mut message, flags) };
            match usize::try_from(got) {
                Ok(got @ 1..) => {
                    into.pass(got);
                    least = least.saturating_sub(got);
                }
                // Another thread took it, or the mark is ahead of what has come.
                Err(_) if least > 0 && self.runtime.os.errno() == libc::EAGAIN => {
                    sys::thread::sleep(LOOKS_AGAIN_NS);
                }
                _ => break,
            }
        }
        wanted - into.left()
    }

    /// Waits until the kernel has something for the rest of a receive, or room for that of a send, within the time of
    /// `timeout`: SO_RCVTIMEO or SO_SNDTIMEO. EINTR: a handler ran; EAGAIN: the call's time is over.
    fn is_ready_in_kernel(&mut self, timeout: c_int) -> sys::Result<()> {
        let events = if timeout == libc::SO_RCVTIMEO { libc::POLLIN | libc::POLLPRI } else { libc::POLLOUT };
        // The kernel is asked, as the object may be another socket's by now.
        let (deadline, _) = self.progress.limits(sys::socket::timeout(self.fd, timeout));
        let left = deadline.map(|deadline| deadline.saturating_sub(sys::clock::now()));
        let mut one = [pollfd { fd: self.fd, events, revents: 0 }];
        match self.runtime.os.poll_all(&mut one, left, None)? {
            0 => Err(libc::EAGAIN),
            _ => Ok(()),
        }
    }

    /// The rest of a send, `sent` bytes of which went; how many did in the end.
    #[cold]
    fn sent_by_kernel(&mut self, data: &mut Buffers<'_>, sent: usize) -> Answer<ssize_t> {
        let wanted = data.left();
        let mut ended = Ok(());
        while data.left() > 0 && ended.is_ok() {
            if sent + wanted - data.left() > 0 && has_failed(self.fd) {
                break;
            }
            if self.may_wait {
                ended = self.is_ready_in_kernel(libc::SO_SNDTIMEO);
            }
            if ended.is_ok() {
                ended = self.give_to_kernel(data);
            }
        }
        match (sent + wanted - data.left(), ended) {
            (0, Err(errno)) => fail(errno),
            (sent, _) => Ok(sent as ssize_t),
        }
    }

    /// Sends what the kernel has room for now. If that is nothing, as for lack of memory, a call that may wait does so
    /// for a moment.
    fn give_to_kernel(&self, data: &mut Buffers<'_>) -> sys::Result<()> {
        let mut pieces = NO_PIECES;
        let message = data.message(&mut pieces, usize::MAX);
        let flags = self.flags | libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: the application's buffers, as far as they were not sent.
        let got = unsafe { (self.runtime.os.sendmsg)(self.fd, &raw const message, flags) };
        match usize::try_from(got) {
            Ok(got) => data.pass(got),
            Err(_) => match self.runtime.os.errno() {
                libc::EAGAIN if self.may_wait => sys::thread::sleep(LOOKS_AGAIN_NS),
                errno => return Err(errno),
            },
        }
        Ok(())
    }

    /// A send that moved nothing.
    #[cold]
    fn refused(&self, stop: Stop, data: &Buffers<'_>, kind: Kind) -> Answer<ssize_t> {
        if matches!(kind, Kind::Stream | Kind::Memory) {
            counts::send_stopped(self.object.counts(), stop, data.left());
        }
        Err(raised(stop, self.flags))
    }
}
