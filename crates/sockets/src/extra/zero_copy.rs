//! recvfrom_zcopy and free_packets: the program is lent what the engine's receive queues hold.

use crate::abi::{MSG_ZCOPY, MSG_ZCOPY_FORCE, Packet};
use crate::address;
use crate::answer::{Answer, Stop};
use crate::counts;
use crate::errno::fail;
use crate::filter::{self, datagram_memory};
use crate::lane::{Inner, Lane, Tx};
use crate::lent::{Lent, Loan, Memory, Returned};
use crate::lookup::{hearing, ours};
use crate::message;
use crate::object::{Kind, Object};
use crate::runtime::Runtime;
use crate::udp;
use crate::wait::block::{self, Stopped, Wait};
use core::sync::atomic::Ordering;
use libc::{c_int, c_void, iovec, pollfd, size_t, sockaddr, socklen_t, ssize_t};
use stack::{Endpoint, Instant, Ready, RecvError, SocketId};

/// Flags under which a receive is a copy.
const COPIES: c_int =
    libc::MSG_PEEK | libc::MSG_TRUNC | libc::MSG_OOB | libc::MSG_ERRQUEUE | libc::MSG_WAITALL;

/// Bytes of the head of the list, of a packet's own, and of each piece.
const HEAD: usize = size_of::<size_t>();
const PACKET: usize = size_of::<Packet>();
const PIECE: usize = size_of::<iovec>();

/// What recvfrom_zcopy did.
pub enum ZeroCopied {
    /// The buffer holds a list of packets with so many bytes; with `true` it had no room for all pieces of one.
    Lent(ssize_t, bool),
    /// Nothing is lent, and no bytes came: the end of a stream.
    Ended,
    /// Nothing is lent: an ordinary receive has the bytes.
    ToCopy,
}

/// recvfrom_zcopy.
///
/// # Safety
/// As recvfrom(2).
pub unsafe fn receive(
    fd: c_int,
    buffer: *mut c_void,
    size: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> Answer<ZeroCopied> {
    let forced = flags & MSG_ZCOPY_FORCE != 0;
    let flags = flags & !(MSG_ZCOPY | MSG_ZCOPY_FORCE);
    let (runtime, object) = hearing(fd)?;
    super::demand(runtime, object, fd);
    let call = Call { runtime, object, fd, buffer: buffer.cast(), size, flags, from, from_len };
    if flags & COPIES == 0 && object.leg().is_some() && matches!(object.kind(), Kind::Udp | Kind::Stream) {
        message::check_room(buffer, size)?;
        let least = HEAD + PACKET + if object.kind() == Kind::Stream { PIECE } else { 0 };
        if size < least {
            return fail(libc::ENOBUFS);
        }
        // SAFETY: the caller's promise.
        if let Some(answer) = unsafe { call.lend() } {
            if let Err(stop) = answer {
                let _ = counts::receive(object.counts(), Err(stop));
            }
            return answer;
        }
    }
    // An ordinary receive, which is not wanted by all.
    if forced { fail(libc::EIO) } else { Ok(ZeroCopied::ToCopy) }
}

struct Call {
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    buffer: *mut u8,
    size: usize,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
}

/// One look.
enum Found {
    Nothing,
    /// It can only be had by a copy.
    ToCopy,
    Done(Answer<ZeroCopied>),
}

impl Call {
    /// `None`: only a copy will do.
    unsafe fn lend(&self) -> Option<Answer<ZeroCopied>> {
        // SAFETY: the caller's promise.
        match unsafe { self.look(sys::clock::now(), false) } {
            Found::Done(answer) => return Some(answer),
            Found::ToCopy => return None,
            Found::Nothing => {}
        }
        if !self.object.may_wait(self.flags) {
            return Some(fail(libc::EAGAIN));
        }
        let one = [self.object];
        let shadow = [pollfd { fd: self.fd, events: libc::POLLIN, revents: 0 }];
        let kernel = if self.object.kind() == Kind::Udp { &shadow[..] } else { &[] };
        let wait = Wait::to_receive(self.runtime, &one, kernel);
        let outcome = block::until(self.runtime, &wait, |now| {
            // SAFETY: as above.
            match unsafe { self.look(now, true) } {
                Found::Nothing => None,
                Found::ToCopy => Some(None),
                Found::Done(answer) => Some(Some(answer)),
            }
        });
        match outcome {
            Ok(found) => found,
            Err(Stopped::Moved) => None,
            Err(stopped) => Some(stopped.answer()),
        }
    }

    unsafe fn look(&self, now: u64, waits: bool) -> Found {
        let object = self.object;
        if object.is_filtered() {
            object.legs().for_each(|(lane, _)| lane.turn(now));
            filter::vet(object);
        }
        if object.kind() == Kind::Stream {
            let Some((lane, id)) = object.leg() else { return Found::ToCopy };
            // SAFETY: the caller's promise.
            return unsafe { self.look_at_stream(lane, id, now, waits) };
        }
        for (lane, id) in object.legs() {
            // SAFETY: as above.
            match unsafe { self.look_at_datagrams(lane, id, now) } {
                Found::Nothing => {}
                found => return found,
            }
        }
        self.look_at_shadow(now)
    }

    unsafe fn look_at_datagrams(&self, lane: &'static Lane, id: SocketId, now: u64) -> Found {
        let mut guard = lane.lock();
        let inner = &mut *guard;
        if inner.device.unkicked() > 0 || !inner.stack.ready(id).any(Ready::IN | Ready::ERR) {
            inner.turn(now);
            lane.note(inner, now);
        }
        let pieces = match inner.stack.udp_peek(id) {
            // Without a byte there is nothing to lend.
            Ok(datagram) if datagram.len == 0 => return Found::ToCopy,
            Ok(datagram) => 1 + datagram.tail.len(),
            Err(RecvError::WouldBlock | RecvError::NoSocket) => return Found::Nothing,
            Err(error) => return Found::Done(fail(error.errno())),
        };
        if !self.may_hold(&inner.lent, pieces) {
            return Found::ToCopy;
        }
        let Ok(datagram) = inner.stack.udp_recv(id) else { return Found::Nothing };
        let (from, len) = (datagram.from, datagram.len);
        let memory = datagram_memory(datagram);
        let first = inner.lent.lend(Loan::Packet(self.object.token()), id, memory);
        let mut list = List { call: self, at: HEAD, packets: 0 };
        // SAFETY: the caller's promise.
        let truncated = unsafe { list.add(&inner.lent, first) };
        // SAFETY: as above.
        Found::Done(unsafe { self.told(list, from, len, pieces, truncated) })
    }

    unsafe fn look_at_stream(&self, lane: &'static Lane, id: SocketId, now: u64, waits: bool) -> Found {
        let at = Instant(now);
        let mut guard = lane.lock();
        let inner = &mut *guard;
        let room = ((self.size - HEAD) / (PACKET + PIECE)).min(MOST);
        if !self.may_hold(&inner.lent, room) {
            return Found::ToCopy;
        }
        let mut taken = core::mem::take(&mut inner.lent.taken);
        let take = |inner: &mut Inner, taken: &mut Vec<_>| {
            inner.stack.tcp_take(at, id, (room, usize::MAX), taken, &mut Tx(&mut inner.device))
        };
        let mut result = take(inner, &mut taken);
        if result == Err(RecvError::WouldBlock) {
            if waits {
                inner.turn(now)
            } else {
                inner.turn_within_round(now)
            }
            result = take(inner, &mut taken);
        }
        let mut list = List { call: self, at: HEAD, packets: 0 };
        let pieces = taken.len();
        for piece in taken.drain(..) {
            let memory = core::iter::once(Memory::Piece(piece));
            let first = inner.lent.lend(Loan::Packet(self.object.token()), id, memory);
            // SAFETY: the caller's promise.
            unsafe { list.add(&inner.lent, first) };
        }
        inner.lent.taken = taken;
        inner.flush_unless_gathering(at);
        lane.note(inner, now);
        match result {
            Ok(None) => Found::ToCopy,
            Ok(Some(0)) => Found::Done(Ok(ZeroCopied::Ended)),
            Ok(Some(bytes)) => {
                let peer = self.object.control.lock().remote.or_else(|| inner.stack.remote(id));
                let peer = peer.unwrap_or(Endpoint::new(core::net::Ipv4Addr::UNSPECIFIED, 0));
                // SAFETY: as above.
                Found::Done(unsafe { self.told(list, peer, bytes, pieces, false) })
            }
            Err(RecvError::WouldBlock) => Found::Nothing,
            Err(RecvError::NoSocket) => Found::ToCopy,
            Err(error) => Found::Done(fail(error.errno())),
        }
    }

    /// What came through the kernel can only be copied.
    fn look_at_shadow(&self, now: u64) -> Found {
        let object = self.object;
        if !udp::is_shadow_due(object, now) {
            return Found::Nothing;
        }
        match sys::poll::readable(object.shadow(self.fd)) {
            true => {
                object.shadow_ready.store(true, Ordering::Relaxed);
                Found::ToCopy
            }
            false => Found::Nothing,
        }
    }

    fn may_hold(&self, lent: &Lent, pieces: usize) -> bool {
        lent.has_room(self.object.extra_or_new().lent.load(Ordering::Relaxed), pieces)
    }

    /// Ends the list and counts what is in it.
    unsafe fn told(
        &self,
        list: List<'_>,
        from: Endpoint,
        bytes: usize,
        pieces: usize,
        truncated: bool,
    ) -> Answer<ZeroCopied> {
        // SAFETY: the buffer has room for the head, which `receive` checked.
        unsafe { self.buffer.cast::<size_t>().write_unaligned(list.packets) };
        self.object.extra_or_new().holds(self.object, pieces as i32);
        self.object.counts().rx_zero_copied.add(list.packets as u64);
        counts::received(self.object.counts(), bytes);
        // SAFETY: the caller's promise.
        unsafe { address::write(from, self.from, self.from_len) }?;
        Ok(ZeroCopied::Lent(bytes as ssize_t, truncated))
    }
}

/// Pieces of a stream that one call lends.
const MOST: usize = 64;

/// The list in the program's buffer, as it grows.
struct List<'a> {
    call: &'a Call,
    at: usize,
    packets: usize,
}

impl List<'_> {
    /// Adds a packet. True if the buffer had no room for all its pieces.
    ///
    /// # Safety
    /// The call's buffer is as large as it says.
    unsafe fn add(&mut self, lent: &Lent, first: u32) -> bool {
        let head = self.at;
        self.at += PACKET;
        let mut written = 0;
        let mut truncated = false;
        for (_, bytes) in lent.pieces(first) {
            if self.at + PIECE > self.call.size {
                truncated = true;
                break;
            }
            let piece = iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            // SAFETY: just checked.
            unsafe { self.call.buffer.add(self.at).cast::<iovec>().write_unaligned(piece) };
            self.at += PIECE;
            written += 1;
        }
        let packet_id = core::ptr::without_provenance_mut(lent.name(first) as usize);
        // SAFETY: callers see to it that there is room for one more.
        unsafe {
            self.call
                .buffer
                .add(head)
                .cast::<Packet>()
                .write_unaligned(Packet { packet_id, pieces: written });
        }
        self.packets += 1;
        truncated
    }
}

/// free_packets: the first that was not lent to this socket ends it.
///
/// # Safety
/// `packets` is a list of `count` packets as recvfrom_zcopy wrote it.
pub unsafe fn free_packets(fd: c_int, packets: *const c_void, count: size_t) -> Answer<c_int> {
    let (runtime, object) = ours(fd).or_else(|_: Stop| fail(libc::EINVAL))?;
    let Some(extra) = object.extra() else {
        return if object.leg().is_some() { fail(libc::ENOENT) } else { fail(libc::EINVAL) };
    };
    message::check(packets, count)?;
    // SAFETY: the caller's promise.
    let mut names = unsafe { names(packets.cast(), count) }.peekable();
    while let Some(&name) = names.peek() {
        let Some(name) = name else { return fail(libc::EINVAL) };
        let slot = Lent::slot_of(name);
        let Some(lane) = slot.and_then(|slot| runtime.lane(slot)) else { return fail(libc::ENOENT) };
        let mut guard = lane.lock();
        let inner = &mut *guard;
        let (mut freed, mut outcome) = (0, Ok(0));
        let mut of_stream: Option<Returned> = None;
        let is_here = |name: &Option<u64>| name.is_some_and(|name| Lent::slot_of(name) == slot);
        while let Some(name) = names.next_if(is_here).flatten() {
            let Some((returned, pieces)) = inner.lent.give_back(name, object.token()) else {
                outcome = fail(libc::ENOENT);
                break;
            };
            freed += pieces as i32;
            match &mut of_stream {
                Some(sum) if sum.socket == returned.socket => sum.bytes += returned.bytes,
                // What a stream gets back may open its window; of datagrams nothing follows.
                _ if object.kind() == Kind::Stream => {
                    of_stream.replace(returned).into_iter().for_each(|earlier| returns(inner, earlier));
                }
                _ => {}
            }
        }
        extra.holds(object, -freed);
        if let Some(returned) = of_stream {
            returns(inner, returned);
            lane.publish(inner);
        }
        drop(guard);
        outcome?;
    }
    Ok(0)
}

fn returns(inner: &mut Inner, returned: Returned) {
    let now = Instant(sys::clock::now());
    inner.stack.tcp_give_back(now, returned.socket, returned.bytes, &mut Tx(&mut inner.device));
    inner.flush_unless_gathering(now);
}

/// The names in a list of packets; `None` for one with more pieces than there can be.
///
/// # Safety
/// As `free_packets`; who takes the next has found that the one before was lent.
unsafe fn names(packets: *const u8, count: usize) -> impl Iterator<Item = Option<u64>> {
    let mut at = packets;
    (0..count).map(move |_| {
        // SAFETY: within the list, by the pieces that each before says it has.
        let packet = unsafe { at.cast::<Packet>().read_unaligned() };
        if packet.pieces > sys::linux::UIO_MAXIOV {
            return None;
        }
        at = at.wrapping_add(PACKET + packet.pieces * PIECE);
        Some(packet.packet_id.addr() as u64)
    })
}
