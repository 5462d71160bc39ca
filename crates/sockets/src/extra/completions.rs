//! socketxtreme (VMA_SOCKETXTREME=1): the program asks a ring what happened on all its sockets, and gets the
//! packets with the answer. A listener's connections are accepted on the way.

use crate::abi::{Buff, Completion, EVENT_ACCEPTED, EVENT_PACKET, PacketDescription};
use crate::address;
use crate::answer::{Answer, Stop};
use crate::counts;
use crate::errno::fail;
use crate::fd_table;
use crate::filter::{self, datagram_memory};
use crate::lane::{Lane, Tx};
use crate::lent::{Loan, Memory};
use crate::message;
use crate::object::{Kind, Object};
use crate::runtime::{self, Runtime};
use crate::tcp;
use core::ptr::null_mut;
use core::sync::atomic::Ordering;
use libc::{c_int, c_uint, timespec};
use stack::{Endpoint, Instant, Ready, RecvError, SocketId};
use std::net::Ipv4Addr;

/// Bytes of one packet of completions: its length has 16 bits.
const BYTES_MAX: usize = 65_535;
/// Pieces of one packet of completions.
const PIECES_MAX: usize = 64;
/// Edges that a completion tells after all that waits to be read.
const ENDS: Ready = Ready(Ready::RDHUP.0 | Ready::HUP.0 | Ready::ERR.0);

/// EOPNOTSUPP unless VMA_SOCKETXTREME=1.
fn switched_on() -> Answer<&'static Runtime> {
    match runtime::get() {
        Some(runtime) if runtime.parameters.socketxtreme => Ok(runtime),
        _ => {
            static TOLD: logger::Once = logger::Once::new();
            if TOLD.first() {
                logger::warning!("socketxtreme: called without VMA_SOCKETXTREME=1; set it and try again");
            }
            fail(libc::EOPNOTSUPP)
        }
    }
}

/// socketxtreme_poll: never waits.
///
/// # Safety
/// `completions` has room for `count`.
pub unsafe fn poll(ring: c_int, completions: *mut Completion, count: c_uint) -> Answer<c_int> {
    let runtime = switched_on()?;
    let lane = runtime.lanes().find(|lane| lane.descriptors.first() == Some(&ring));
    let Some(lane) = lane else { return fail(libc::EBADFD) };
    message::check_room(completions, count as usize)?;
    lane.turn(sys::clock::now());
    let mut told = 0;
    // Each socket has one turn, so that the busiest does not speak alone.
    let mut left = lane.lock().completions.waiting.len();
    while told < count as usize && left > 0 {
        left -= 1;
        let Some(token) = lane.lock().completions.waiting.pop_front() else { break };
        // SAFETY: the queue holds tokens of objects only.
        let Some(object) = (unsafe { Object::of_token(token) }) else { continue };
        let Some(extra) = object.extra() else { continue };
        extra.is_queued.store(false, Ordering::Relaxed);
        let Some(id) = object.leg_on(lane) else { continue };
        let turn = Turn { runtime, lane, object, id };
        while told < count as usize {
            let Some(completion) = turn.next() else { break };
            // SAFETY: the caller's promise.
            unsafe { completions.add(told).write_unaligned(completion) };
            object.counts().rx_completions.one();
            told += 1;
        }
        // No room for what it tells, or nothing more may be lent for now.
        if turn.has_more() {
            lane.lock().completions.edge(object, Ready::default());
        }
    }
    Ok(told as c_int)
}

struct Turn {
    runtime: &'static Runtime,
    lane: &'static Lane,
    object: &'static Object,
    id: SocketId,
}

impl Turn {
    fn has_more(&self) -> bool {
        let edges = self.object.extra().map_or(0, |extra| extra.edges.load(Ordering::Relaxed));
        let inner = self.lane.lock();
        let waits = match inner.stack.tcp_queued(self.id) {
            Some(queued) => queued.unread > 0,
            None => inner.stack.ready(self.id).has(Ready::IN),
        };
        edges != 0 || waits
    }

    /// The next that the socket has to tell.
    fn next(&self) -> Option<Completion> {
        if self.object.is_filtered() {
            filter::vet(self.object);
        }
        match self.object.kind() {
            Kind::Udp => self.datagram().or_else(|| self.edges(Ready::default())),
            Kind::Listener => self.accept(),
            Kind::Stream => self.stream(),
            _ => None,
        }
    }

    /// A completion without anything in it.
    fn blank(&self, peer: Option<Endpoint>) -> Completion {
        let none = timespec { tv_sec: 0, tv_nsec: 0 };
        let nobody = Endpoint::new(Ipv4Addr::UNSPECIFIED, 0);
        Completion {
            packet: PacketDescription { buffers: 0, total_len: 0, list: null_mut(), hardware_time: none },
            events: 0,
            user_data: self.object.extra_or_new().user_data(self.object),
            src: address::to_sockaddr(peer.unwrap_or(nobody)),
            listen_fd: -1,
        }
    }

    fn datagram(&self) -> Option<Completion> {
        let mut guard = self.lane.lock();
        let inner = &mut *guard;
        if !inner.lent.has_room(0, PIECES_MAX) {
            return None;
        }
        let datagram = inner.stack.udp_recv(self.id).ok()?;
        let (from, len) = (datagram.from, datagram.len);
        let first = inner.lent.lend(Loan::Buffer, self.id, datagram_memory(datagram));
        let mut completion = self.blank(Some(from));
        fill(&mut completion, inner.lent.describe(first));
        counts::received(self.object.counts(), len);
        Some(completion)
    }

    fn stream(&self) -> Option<Completion> {
        let at = Instant(sys::clock::now());
        let mut guard = self.lane.lock();
        let inner = &mut *guard;
        let mut taken = core::mem::take(&mut inner.lent.taken);
        let room = if inner.lent.has_room(0, PIECES_MAX) { PIECES_MAX } else { 0 };
        let result =
            inner.stack.tcp_take(at, self.id, (room, BYTES_MAX), &mut taken, &mut Tx(&mut inner.device));
        let mut completion = self.blank(inner.stack.remote(self.id));
        if !taken.is_empty() {
            let first = inner.lent.lend(Loan::Buffer, self.id, taken.drain(..).map(Memory::Piece));
            fill(&mut completion, inner.lent.describe(first));
        }
        inner.lent.taken = taken;
        inner.flush_unless_gathering(at);
        let ready = inner.stack.ready(self.id);
        drop(guard);
        match result {
            Ok(Some(bytes @ 1..)) => {
                counts::received(self.object.counts(), bytes);
                Some(completion)
            }
            // Something waits that is not for now: urgent, or too much is lent. What is written behind it waits, too.
            Ok(None) => None,
            Ok(_) | Err(RecvError::Failed(_)) => self.edges(ready),
            Err(_) => self.edges(Ready(ready.0 & !ENDS.0)),
        }
    }

    /// What became of the socket beside what it received; `ends`: the end that has come and that nobody was told.
    fn edges(&self, ends: Ready) -> Option<Completion> {
        let edges = &self.object.extra()?.edges;
        let told = if ends.any(ENDS) { u32::MAX } else { !u32::from(ENDS.0) };
        let had = Ready((edges.fetch_and(!told, Ordering::Relaxed) & told) as u8);
        let mut events = 0;
        for (edge, bits) in [
            (Ready::OUT, libc::EPOLLOUT),
            (Ready::RDHUP, libc::EPOLLIN | libc::EPOLLRDHUP),
            (Ready::HUP, libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP),
            (Ready::ERR, libc::EPOLLIN | libc::EPOLLERR | libc::EPOLLHUP),
        ] {
            events |= if had.has(edge) { bits } else { 0 };
        }
        if events == 0 {
            return None;
        }
        let peer = self.lane.lock().stack.remote(self.id).or(self.object.control.lock().remote);
        Some(Completion { events: events as u32 as u64, ..self.blank(peer) })
    }

    fn accept(&self) -> Option<Completion> {
        self.object.extra()?.edges.store(0, Ordering::Relaxed);
        if !self.lane.lock().stack.ready(self.id).has(Ready::IN) {
            return None;
        }
        let fd = tcp::accept_ready(self.runtime, self.object, self.lane, self.id)?.ok()?;
        let child = fd_table::socket(fd)?;
        let peer = child.control.lock().remote;
        // What came before it was accepted is told with its first turn.
        self.lane.lock().completions.edge(child, Ready::IN);
        Some(Completion {
            events: EVENT_ACCEPTED,
            user_data: child.extra_or_new().user_data(child),
            listen_fd: self.object.fd.load(Ordering::Relaxed),
            ..self.blank(peer)
        })
    }
}

fn fill(completion: &mut Completion, (list, buffers, bytes): (*mut Buff, usize, usize)) {
    completion.events |= EVENT_PACKET;
    completion.packet.list = list;
    completion.packet.buffers = buffers;
    completion.packet.total_len = bytes as u16;
}

/// The lane that lent a buffer, and what `with` says of it there.
fn lender<T>(runtime: &'static Runtime, mut with: impl FnMut(&'static Lane) -> Option<T>) -> Answer<T> {
    runtime.lanes().find_map(&mut with).ok_or(Stop::Errno(libc::EINVAL))
}

/// One less holds a buffer; how many do.
fn let_go(lane: &'static Lane, address: usize) -> Option<u32> {
    let mut guard = lane.lock();
    let inner = &mut *guard;
    let (left, returned) = inner.lent.let_go(address)?;
    if let Some(returned) = returned {
        let at = Instant(sys::clock::now());
        inner.stack.tcp_give_back(at, returned.socket, returned.bytes, &mut Tx(&mut inner.device));
        inner.flush_unless_gathering(at);
        lane.publish(inner);
    }
    Some(left)
}

/// socketxtreme_free_vma_packets: all buffers of each. Ends with EINVAL at the first that is not lent.
///
/// # Safety
/// `packets` has `count` descriptions.
pub unsafe fn free_packet_descriptions(packets: *const PacketDescription, count: c_int) -> Answer<c_int> {
    let runtime = switched_on()?;
    if count < 0 || packets.is_null() {
        return fail(libc::EINVAL);
    }
    message::check(packets, count as usize)?;
    for at in 0..count as usize {
        // SAFETY: the caller's promise.
        let mut next = Some(unsafe { packets.add(at).read_unaligned() }.list.addr());
        while let Some(address) = next {
            // By our own list: what the program wrote into its own is not looked at.
            let (lane, following) =
                lender(runtime, |lane| Some((lane, lane.lock().lent.following(address)?)))?;
            let_go(lane, address);
            next = following;
        }
    }
    Ok(0)
}

/// socketxtreme_ref_vma_buff.
pub fn ref_buff(buffer: *const Buff) -> Answer<c_int> {
    let runtime = switched_on()?;
    lender(runtime, |lane| lane.lock().lent.hold(buffer.addr())).map(|holders| holders as c_int)
}

/// socketxtreme_free_vma_buff.
pub fn free_buff(buffer: *const Buff) -> Answer<c_int> {
    let runtime = switched_on()?;
    lender(runtime, |lane| let_go(lane, buffer.addr())).map(|holders| holders as c_int)
}
