//! Sending and receiving on a connection in memory. As long as the kernel's socket has a part in it, calls go there,
//! under the room's lock and without waiting, so that each direction changes over at an exact byte.

use super::leave;
use crate::counts;
use crate::errno::fail;
use crate::message::Buffers;
use crate::object::Object;
use crate::object::room::{Inner, Way};
use crate::part::{Outcome, Progress, has_failed, is_at_mark};
use crate::runtime::Runtime;
use crate::wait::block::{self, Stopped, Wait};
use crate::wait::in_memory::{self, Bell, News, after, is_in, is_repaid, poll, room};
use ::memory::{End, Joined, Source};
use core::cell::Cell;
use core::convert::Infallible;
use core::sync::atomic::Ordering;
use libc::{c_int, pollfd, ssize_t};
use stack::{Ready, Sink, Source as _};

/// Bytes that are copied on the way to buffers that may not be there, or from several that are one message.
const PIECE: usize = 2048;

/// recvmsg(2), without what only the kernel has: what there is, `progress.least` bytes if the call may wait.
pub(crate) fn receive(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    into: &mut Buffers<'_>,
    flags: c_int,
    progress: &mut Progress,
) -> Outcome {
    if flags & (libc::MSG_OOB | libc::MSG_ERRQUEUE) != 0 {
        return elsewhere(runtime, object, flags, "urgent data");
    }
    let least = progress.least;
    let begins = Cell::new(progress.begins);
    let taken = Cell::new(0);
    let mut attempt = |now| {
        let begun = into.clone();
        let is_shut = object.shut.load(Ordering::Relaxed) & 1 != 0;
        let got = locked(runtime, object, fd, now, |inner, tcp, news| {
            let got = match !begins.get() && inner.part_of_kernel().receives && is_at_mark(tcp) {
                true => Got::End,
                false => take_or_hear(inner, tcp, now, into, flags, is_shut, news),
            };
            match got {
                Got::Bytes(count) if flags & libc::MSG_PEEK != 0 && count < least && inner.is_over(tcp) => {
                    Got::Last(count)
                }
                // It ends the call, and is the next one's.
                Got::Error(errno) if errno != libc::EFAULT && news.is_over.is_none() && !begins.get() => {
                    inner.untold = errno;
                    Got::End
                }
                got => got,
            }
        })?;
        if flags & libc::MSG_PEEK != 0 {
            // Each look begins anew.
            *into = begun;
        }
        let shows_too_little = matches!(got, Got::Bytes(_)) && flags & libc::MSG_PEEK != 0;
        let mut so_far = taken.get();
        let done = answer(object, got, &mut so_far, least, flags);
        taken.set(so_far);
        begins.set(begins.get() && so_far == 0);
        if shows_too_little && done.is_none() { Some(None) } else { done.map(Some) }
    };
    let moves = object.moves.load(Ordering::Acquire);
    if let Some(Some(done)) = attempt(sys::clock::now()) {
        return done;
    }
    if !object.may_wait(flags) {
        return Outcome::Done(if taken.get() > 0 { Ok(taken.get() as ssize_t) } else { fail(libc::EAGAIN) });
    }
    let one = [object];
    let kernel = [pollfd { fd, events: in_memory::kernel_part(object, libc::POLLIN), revents: 0 }];
    let kernel = if kernel[0].events != 0 { &kernel[..] } else { &[] };
    progress.begins = begins.get();
    let mut wait = Wait::to_receive(runtime, &one, kernel).within(progress.limits(object.receive_timeout()));
    wait.moves = moves;
    let attempt = |now| {
        let done = attempt(now);
        wait.restartable.set(wait.restartable.get() && begins.get());
        done
    };
    match until_enough(runtime, &one, &wait, attempt) {
        Ok(done) => done,
        Err(Stopped::Moved) => Outcome::Moved,
        _ if taken.get() > 0 => Outcome::Done(Ok(taken.get() as ssize_t)),
        Err(stopped) => Outcome::Done(stopped.answer()),
    }
}

/// Waits until an attempt says how the call ended; one that says `Some(None)` has shown (MSG_PEEK) less than is waited
/// for.
fn until_enough(
    runtime: &'static Runtime,
    one: &[&'static Object; 1],
    wait: &Wait<'_>,
    mut attempt: impl FnMut(u64) -> Option<Option<Outcome>>,
) -> Result<Outcome, Stopped> {
    loop {
        match block::until(runtime, wait, &mut attempt)? {
            // What was shown stays where it is, and would end each sleep: more is asked for now and then.
            None => match until_later(runtime, one, wait) {
                Stopped::TimedOut if wait.deadline.is_none_or(|end| sys::clock::now() < end) => {}
                stopped => return Err(stopped),
            },
            Some(done) => return Ok(done),
        }
    }
}

/// Between two looks (MSG_PEEK) that wait for more than there is, nanoseconds.
const LOOKS_AGAIN_NS: u64 = 1_000_000;

/// Sleeps for so long, or until something else than data ends the wait.
#[cold]
fn until_later(runtime: &'static Runtime, one: &[&'static Object; 1], wait: &Wait<'_>) -> Stopped {
    let later = sys::clock::now() + LOOKS_AGAIN_NS;
    let deadline = wait.deadline.map_or(later, |end| end.min(later));
    let restartable = wait.restartable.clone();
    let pause = Wait {
        deadline: Some(deadline),
        moves: wait.moves,
        restartable,
        ..Wait::to_receive(runtime, one, &[])
    };
    let Err(stopped) = block::until(runtime, &pause, |_| None::<Infallible>);
    stopped
}

/// What an attempt means for a receive that wants `least` bytes, and has `taken` some.
fn answer(object: &Object, got: Got, taken: &mut usize, least: usize, flags: c_int) -> Option<Outcome> {
    let done = match got {
        Got::Last(count) => Ok(count as ssize_t),
        Got::Bytes(count) if flags & libc::MSG_PEEK != 0 => {
            *taken = count;
            if *taken < least {
                return None;
            }
            Ok(count as ssize_t)
        }
        Got::Bytes(count) => {
            counts::received_in_memory(object.counts(), count);
            *taken += count;
            if *taken < least {
                return None;
            }
            Ok(*taken as ssize_t)
        }
        Got::Moved => return Some(Outcome::Moved),
        Got::Nothing if least == 0 => Ok(0),
        Got::Nothing => return None,
        _ if *taken > 0 => Ok(*taken as ssize_t),
        Got::End => Ok(0),
        Got::Error(errno) => fail(errno),
    };
    Some(Outcome::Done(done))
}

/// Only the kernel's socket can do it.
#[cold]
fn elsewhere(runtime: &'static Runtime, object: &'static Object, flags: c_int, why: &str) -> Outcome {
    leave::leave(runtime, object, why);
    // The peer has not answered yet.
    let is_late = is_in(object) && !object.may_wait(flags);
    if is_late { Outcome::Done(fail(libc::EAGAIN)) } else { Outcome::Moved }
}

/// What there is to receive.
enum Got {
    Bytes(usize),
    /// Bytes that were looked at, and no others come.
    Last(usize),
    /// Not yet.
    Nothing,
    /// The end of the stream.
    End,
    Error(i32),
    /// The kernel carries it by now.
    Moved,
}

/// One attempt, under the room's lock; what it changed is told behind it.
#[inline]
fn locked<T>(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    now: u64,
    attempt: impl FnOnce(&mut Inner, c_int, &mut News) -> T,
) -> Option<T>
where
    T: Attempt,
{
    let room = room(object)?;
    let tcp = object.shadow(fd);
    let (news, got) = {
        let mut inner = room.inner.lock();
        if !is_in(object) {
            (News::default(), T::MOVED)
        } else {
            let mut news = inner.go_on(tcp, now, Bell::IfDue);
            let was_stuck = inner.is_stuck;
            let got = if news.is_over.is_some() { T::MOVED } else { attempt(&mut inner, tcp, &mut news) };
            news.is_unarmed |= inner.is_stuck && !was_stuck;
            if got.moved_data() {
                inner.judge(runtime.parameters.move_every);
            }
            // What was read may have been the last of its way.
            let part = inner.part_of_kernel();
            if news.is_over.is_none() && part != inner.part {
                inner.part = part;
                news.has_moved = true;
            }
            (news, got)
        }
    };
    after(runtime, object, &news);
    Some(got)
}

/// What an attempt answers when the kernel carries the connection.
trait Attempt {
    const MOVED: Self;

    fn moved_data(&self) -> bool;
}

impl Attempt for Got {
    const MOVED: Got = Got::Moved;

    fn moved_data(&self) -> bool {
        matches!(self, Got::Bytes(_))
    }
}

impl Attempt for Put {
    const MOVED: Put = Put::Moved;

    fn moved_data(&self) -> bool {
        matches!(self, Put::Bytes(_))
    }
}

/// One look; where the kernel's socket says that it is over, the bell may say that there is more, elsewhere.
fn take_or_hear(
    inner: &mut Inner,
    tcp: c_int,
    now: u64,
    into: &mut Buffers<'_>,
    flags: c_int,
    is_shut: bool,
    news: &mut News,
) -> Got {
    let got = match take(inner, tcp, into, flags, is_shut) {
        Got::End | Got::Nothing if inner.untold != 0 => Got::Error(core::mem::take(&mut inner.untold)),
        got => got,
    };
    if !matches!(got, Got::End | Got::Error(_)) || !inner.part.receives {
        return got;
    }
    news.add(inner.go_on(tcp, now, Bell::Rung));
    let more = if news.is_over.is_some() { Got::Moved } else { take(inner, tcp, into, flags, is_shut) };
    match (got, more) {
        // The kernel tells an error once, and has just told it.
        (Got::Error(errno), Got::Bytes(count)) => {
            inner.untold = errno;
            Got::Bytes(count)
        }
        (Got::Error(errno), _) => Got::Error(errno),
        (_, more) => more,
    }
}

fn take(inner: &mut Inner, tcp: c_int, into: &mut Buffers<'_>, flags: c_int, is_shut: bool) -> Got {
    let joined = match &mut inner.way {
        Way::Joined(joined) => joined,
        _ => return from_socket(tcp, into, flags, u64::MAX).0,
    };
    let mut got = 0;
    if let Source::Socket(most) = joined.source() {
        let (said, count) = from_socket(tcp, into, flags, most);
        if flags & libc::MSG_PEEK == 0 {
            joined.received_by_socket(count as u64);
            inner.owes_ack |= count > 0;
        }
        let said = match said {
            Got::End if joined.was_left_unread() && !core::mem::replace(&mut inner.told_reset, true) => {
                Got::Error(libc::ECONNRESET)
            }
            said => said,
        };
        let is_passed = match flags & libc::MSG_PEEK {
            0 => joined.source() == Source::Segment,
            _ => count as u64 == most,
        };
        if count == 0 || into.left() == 0 || !is_passed {
            return said;
        }
        got = count;
    }
    match from_segment(joined, into, flags) {
        Some(more) => got += more,
        None if got == 0 => return Got::Error(libc::EFAULT),
        None => {}
    }
    if flags & libc::MSG_PEEK != 0 && got > 0 && into.left() > 0 && joined.has_peer_parted() {
        got += from_socket(tcp, into, flags, u64::MAX).1;
    }
    if got > 0 {
        return Got::Bytes(got);
    }
    match joined.ended() {
        Some(End::Reset) if !core::mem::replace(&mut inner.told_reset, true) => Got::Error(libc::ECONNRESET),
        Some(_) => Got::End,
        None if is_shut && into.left() > 0 => Got::End,
        None => Got::Nothing,
    }
}

/// `None`: nothing, as the buffers are not there.
fn from_segment(joined: &mut Joined, into: &mut Buffers<'_>, flags: c_int) -> Option<usize> {
    let (peeks, drops) = (flags & libc::MSG_PEEK != 0, flags & libc::MSG_TRUNC != 0);
    let count = match (peeks, drops) {
        (true, true) => joined.unread().min(into.left()),
        (false, true) => {
            let count = joined.discard(into.left());
            into.pass(count);
            count
        }
        _ if !Buffers::are_sure() => {
            let mut piece = [0; PIECE];
            let mut done = 0;
            loop {
                let room = into.left().min(PIECE);
                let count = joined.peek(if peeks { done } else { 0 }, &mut piece[..room]);
                if count == 0 {
                    break done;
                }
                if !into.put(&piece[..count]) {
                    return (done > 0).then_some(done);
                }
                done += if peeks { count } else { joined.discard(count) };
            }
        }
        (true, false) => {
            let mut skip = 0;
            into.fill(|room| {
                let count = joined.peek(skip, room);
                skip += count;
                count
            })
        }
        (false, false) => into.fill(|room| joined.receive(room)),
    };
    Some(count)
}

impl Inner {
    /// Whether the peer sends no more.
    fn is_over(&self, tcp: c_int) -> bool {
        match &self.way {
            Way::Joined(joined) if !self.part.receives => joined.peer_has_ended(),
            _ => {
                let mut one = [pollfd { fd: tcp, events: libc::POLLRDHUP, revents: 0 }];
                let _ = sys::poll::poll(&mut one, Some(0), None);
                one[0].revents != 0
            }
        }
    }
}

/// Receives by the kernel's socket, not more than `most` bytes; what to answer, and how many bytes came.
fn from_socket(tcp: c_int, into: &mut Buffers<'_>, flags: c_int, most: u64) -> (Got, usize) {
    let kept = flags & (libc::MSG_PEEK | libc::MSG_TRUNC) | libc::MSG_DONTWAIT;
    let mut failure = None;
    let mut left = most;
    let mut is_empty = false;
    let count = into.fill(|room| {
        let room = match usize::try_from(left) {
            Ok(left) if left < room.len() => &mut room[..left],
            _ => room,
        };
        if room.is_empty() || failure.is_some() || flags & libc::MSG_PEEK != 0 && left != most {
            return 0;
        }
        match sys::socket::receive(tcp, room, kept) {
            Ok(count) => {
                is_empty = count == 0;
                left = left.saturating_sub(count as u64).min(left - u64::from(count > 0));
                count
            }
            Err(errno) => {
                failure = Some(errno);
                0
            }
        }
    });
    let got = match (count, failure) {
        (1.., _) => Got::Bytes(count),
        (_, Some(libc::EAGAIN | libc::EINTR)) => Got::Nothing,
        (_, Some(errno)) => Got::Error(errno),
        (_, None) if is_empty => Got::End,
        (_, None) => Got::Nothing,
    };
    (got, count)
}

/// What became of bytes to be sent.
enum Put {
    Bytes(usize),
    Nothing,
    Error(i32),
    Moved,
}

/// Sends what `data` holds, or what there is room for if the caller may not wait.
pub(crate) fn send(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    data: &mut Buffers<'_>,
    flags: c_int,
    progress: &mut Progress,
) -> Outcome {
    if flags & (libc::MSG_OOB | libc::MSG_ZEROCOPY) != 0 {
        return elsewhere(runtime, object, flags, "urgent data, or MSG_ZEROCOPY");
    }
    let begins = Cell::new(progress.begins);
    let has_sent = progress.has_sent;
    let sent = Cell::new(0usize);
    let mut attempt = |now| -> Option<Outcome> {
        let put = locked(runtime, object, fd, now, |inner, tcp, news| {
            let was_vain = inner.sent_in_vain;
            let is_shut = object.shut.load(Ordering::Relaxed) & 2 != 0;
            let put = give(inner, tcp, data, flags, is_shut, has_sent || sent.get() > 0);
            if inner.sent_in_vain && !was_vain {
                news.edges |= Ready::HUP;
            }
            put
        })?;
        match put {
            Put::Bytes(count) => {
                counts::sent_in_memory(object.counts(), count, begins.replace(begins.get() && count == 0));
                sent.set(sent.get() + count);
                (data.left() == 0).then_some(Outcome::Done(Ok(sent.get() as ssize_t)))
            }
            Put::Nothing => None,
            Put::Error(errno) => Some(Outcome::Done(fail(errno))),
            Put::Moved => Some(Outcome::Moved),
        }
    };
    let moves = object.moves.load(Ordering::Acquire);
    if let Some(done) = attempt(sys::clock::now()) {
        return done;
    }
    if !object.may_wait(flags) {
        return Outcome::Done(if sent.get() > 0 { Ok(sent.get() as ssize_t) } else { fail(libc::EAGAIN) });
    }
    let one = [object];
    let kernel = [pollfd { fd, events: in_memory::kernel_part(object, libc::POLLOUT), revents: 0 }];
    progress.begins = begins.get();
    let mut wait = Wait::to_send(runtime, &one).within(progress.limits(object.send_timeout()));
    wait.kernel = if kernel[0].events != 0 { &kernel } else { &[] };
    wait.moves = moves;
    let outcome = block::until(runtime, &wait, |now| {
        let done = attempt(now);
        wait.restartable.set(wait.restartable.get() && begins.get());
        done
    });
    match outcome {
        Ok(done) => done,
        Err(Stopped::Moved) => Outcome::Moved,
        Err(stopped) => Outcome::Done(stopped.answer()),
    }
}

/// `has_sent`: see [`Progress::has_sent`].
fn give(
    inner: &mut Inner,
    tcp: c_int,
    data: &mut Buffers<'_>,
    flags: c_int,
    is_shut: bool,
    has_sent: bool,
) -> Put {
    if is_shut {
        return Put::Error(libc::EPIPE);
    }
    let joined = match &mut inner.way {
        Way::Joined(joined) if !joined.has_left() => joined,
        Way::Joined(joined) if !is_repaid(joined, inner.repaid) => return Put::Nothing,
        _ if has_sent && has_failed(tcp) => return Put::Error(libc::EPIPE),
        _ => return to_socket(tcp, data, flags),
    };
    if joined.is_leaving() {
        return Put::Nothing;
    }
    if joined.has_peer_hung_up() || joined.distrust().is_some() || !joined.sends_by_segment() {
        return in_vain(inner, data, has_sent);
    }
    if data.left() == 0 {
        return Put::Bytes(0);
    }
    if core::mem::take(&mut inner.owes_ack) {
        acknowledge(tcp);
    }
    let count = as_one(data, |bytes| joined.send(bytes));
    inner.is_stuck |= data.left() > 0;
    if count > 0 { Put::Bytes(count) } else { Put::Nothing }
}

/// What is answered in memory acknowledges nothing in TCP. The peer's kernel would wait for its timer, and SIOCOUTQ and
/// the numbers of stamps say meanwhile that the bytes have not arrived to which the peer has the answer.
#[cold]
fn acknowledge(tcp: c_int) {
    let _ = sys::socket::set_option(tcp, libc::IPPROTO_TCP, libc::TCP_QUICKACK, &1i32);
}

/// Pieces of one call that are short together are sent as one: a reader finds all of them or none, as by the kernel's
/// writev. How much was sent.
fn as_one(data: &mut Buffers<'_>, mut send: impl FnMut(&[u8]) -> usize) -> usize {
    let left = data.left();
    if left > PIECE || !data.is_scattered() {
        return data.drain(send);
    }
    let mut whole = [0; PIECE];
    data.clone().copy_to(&mut whole[..left]);
    let count = send(&whole[..left]);
    data.pass(count);
    count
}

/// The peer is gone. As in the kernel, the first send meets a RST that is on its way, unless that has come.
#[cold]
fn in_vain(inner: &mut Inner, data: &mut Buffers<'_>, has_sent: bool) -> Put {
    let is_reset = match &inner.way {
        Way::Joined(joined) => joined.ended() == Some(End::Reset),
        _ => false,
    };
    if is_reset && !has_sent && !core::mem::replace(&mut inner.told_reset, true) {
        return Put::Error(libc::ECONNRESET);
    }
    let has_drawn_reset = inner.has_drawn_reset();
    if is_reset || core::mem::replace(&mut inner.sent_in_vain, true) || has_drawn_reset {
        return Put::Error(libc::EPIPE);
    }
    Put::Bytes(data.drain(<[u8]>::len))
}

fn to_socket(tcp: c_int, data: &mut Buffers<'_>, flags: c_int) -> Put {
    let flags = flags & (libc::MSG_MORE | libc::MSG_EOR) | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let mut failure = None;
    let count = as_one(data, |bytes| match sys::socket::send(tcp, bytes, flags) {
        Ok(count) => count,
        Err(errno) => {
            failure = Some(errno);
            0
        }
    });
    match (count, failure) {
        (1.., _) => Put::Bytes(count),
        (_, Some(libc::EAGAIN | libc::EINTR)) => Put::Nothing,
        (_, Some(errno)) => Put::Error(errno),
        (_, None) => Put::Bytes(0),
    }
}

/// FIONREAD; `None`: the kernel tells.
pub(crate) fn unread(runtime: &'static Runtime, object: &'static Object) -> Option<usize> {
    poll(runtime, object, sys::clock::now());
    let room = room(object)?;
    let inner = room.inner.lock();
    let Way::Joined(joined) = &inner.way else { return None };
    let by_socket = match joined.source() {
        Source::Segment if joined.has_peer_parted() => u64::MAX,
        Source::Segment => return Some(joined.unread()),
        Source::Socket(u64::MAX) => return None,
        Source::Socket(most) => most,
    };
    let tcp = object.fd.load(Ordering::Relaxed);
    let queued = sys::socket::ask(tcp, libc::FIONREAD as u32).unwrap_or(0) as u64;
    Some(queued.min(by_socket) as usize + joined.unread())
}
