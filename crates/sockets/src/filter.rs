//! The receive callback: the program looks at each packet before it can be read, and says what becomes of it.
//!
//! It is asked in the thread of a call that receives, or waits for something to receive, with no lock held: it may use
//! all socket calls. What arrives meanwhile, or while nobody calls, waits in the engine's queue behind what passed, and
//! is bounded like all that waits. One thread at a time asks for a socket; to others, and to calls that the callback
//! makes itself, there is what passed before.

use crate::abi::{Info, PACKET_DROP, PACKET_HOLD};
use crate::address;
use crate::lane::{Frame, Lane, Tx};
use crate::lent::{Loan, Memory};
use crate::object::{Extra, Filter, Kind, Object};
use crate::runtime::{self, Runtime};
use core::ptr::null_mut;
use core::sync::atomic::Ordering;
use libc::{c_int, iovec};
use stack::udp::Datagram;
use stack::{Endpoint, Frame as _, Instant, SocketId};

/// Pieces of a packet that the callback is shown: 64 KiB in the smallest frames.
const PIECES: usize = 64;

/// A leg begins or ends to hold back what was not seen.
pub(crate) fn begin(lane: &Lane, id: SocketId, kind: Kind, on: bool) {
    let mut inner = lane.lock();
    match kind {
        Kind::Udp => inner.stack.udp_filter(id, on),
        Kind::Stream => inner.stack.tcp_filter(id, on),
        _ => {}
    }
}

/// A leg was added to a socket, which may be filtered.
pub(crate) fn begin_on(object: &Object, lane: &Lane, id: SocketId) {
    if object.extra().is_some_and(|extra| extra.is_filtered.load(Ordering::Acquire)) {
        begin(lane, id, object.kind(), true);
    }
}

/// One thread asks.
struct Asking(&'static Extra);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.asks.store(false, Ordering::Release);
    }
}

/// Asks about all that arrived; of a stream, until something passes that can be read. Callers hold no lock.
#[cold]
pub(crate) fn vet(object: &'static Object) {
    let (Some(extra), Some(runtime)) = (object.extra(), runtime::get()) else { return };
    if extra.asks.swap(true, Ordering::Acquire) {
        return;
    }
    let _asking = Asking(extra);
    for (lane, id) in object.legs() {
        // What arrives meanwhile is an edge of its own.
        let most = lane.lock().stack.udp_queued(id).map_or(usize::MAX, |queued| queued.packets);
        let look = Look { runtime, object, extra, lane, id };
        for _ in 0..most {
            let Some(filter) = *extra.filter.lock() else { return };
            let went_on =
                if object.kind() == Kind::Udp { look.datagram(&filter) } else { look.piece(&filter) };
            if !went_on {
                break;
            }
        }
    }
}

/// Where it looks.
struct Look {
    runtime: &'static Runtime,
    object: &'static Object,
    extra: &'static Extra,
    lane: &'static Lane,
    id: SocketId,
}

impl Look {
    /// True if there was a datagram that nobody saw.
    fn datagram(&self, filter: &Filter) -> bool {
        let taken = {
            let mut inner = self.lane.lock();
            inner.stack.udp_take_unseen(self.id).map(|datagram| (datagram, inner.stack.udp_readable(self.id)))
        };
        let Some((datagram, ready)) = taken else { return false };
        let (from, to, len) = (datagram.from, datagram.to, datagram.len);
        let (datagram, name) = match self.reserve(datagram) {
            Ok(named) => named,
            Err(datagram) => (datagram, 0),
        };
        let mut pieces = Pieces::new();
        let range =
            usize::from(datagram.range.0)..usize::from(datagram.range.0) + usize::from(datagram.range.1);
        pieces.add(datagram.head.bytes().get(range).unwrap_or(&[]));
        datagram.tail.iter().for_each(|frame| pieces.add(frame.bytes()));
        let waiting = (ready.packets as u32, ready.bytes as u32);
        let verdict = self.ask(filter, &mut pieces, name, (from, to), len, waiting);
        let mut inner = self.lane.lock();
        match verdict {
            PACKET_DROP => self.object.counts().rx_filter_dropped.one(),
            PACKET_HOLD => {
                drop(inner);
                self.hold(datagram_memory(datagram).collect(), name, len);
            }
            _ => inner.stack.udp_pass(self.id, datagram),
        }
        true
    }

    /// True if something came next that nobody saw and that did not pass.
    fn piece(&self, filter: &Filter) -> bool {
        let taken = {
            let mut inner = self.lane.lock();
            let ends = inner.stack.remote(self.id).zip(inner.stack.local(self.id));
            inner.stack.tcp_take_unseen(self.id).zip(ends)
        };
        let Some((piece, ends)) = taken else { return false };
        let len = piece.bytes().len();
        let (piece, name) = match self.reserve(piece) {
            Ok(named) => named,
            Err(piece) => (piece, 0),
        };
        let mut pieces = Pieces::new();
        pieces.add(piece.bytes());
        let verdict = self.ask(filter, &mut pieces, name, ends, len, (0, 0));
        let at = Instant(sys::clock::now());
        let mut guard = self.lane.lock();
        let inner = &mut *guard;
        match verdict {
            PACKET_DROP | PACKET_HOLD => {
                let holds = verdict == PACKET_HOLD;
                inner.stack.tcp_skip(at, self.id, len as u32, holds, &mut Tx(&mut inner.device));
                inner.flush_unless_gathering(at);
                drop(guard);
                if holds {
                    self.hold(core::iter::once(Memory::Piece(piece)).collect(), name, len);
                } else {
                    self.object.counts().rx_filter_dropped.one();
                }
                true
            }
            _ => {
                inner.stack.tcp_pass(self.id, piece);
                false
            }
        }
    }

    /// The name under which the program can hold it, if it may hold any more.
    fn reserve<T>(&self, what: T) -> Result<(T, u64), T> {
        let mut inner = self.lane.lock();
        if !inner.lent.has_room(self.extra.lent.load(Ordering::Relaxed), PIECES) {
            return Err(what);
        }
        let name = inner.lent.reserve(Loan::Packet(self.object.token()), self.id);
        Ok((what, name))
    }

    /// The program holds it from now on; what it has no name for is dropped.
    fn hold(&self, memory: Vec<Memory>, name: u64, len: usize) {
        let pieces = memory.len() as i32;
        let mut inner = self.lane.lock();
        if name != 0 && inner.lent.fill(name, memory) {
            self.extra.holds(self.object, pieces);
            self.object.counts().rx_filter_held.one();
            return;
        }
        self.object.counts().rx_filter_dropped.one();
        if self.object.kind() == Kind::Stream {
            let inner = &mut *inner;
            let at = Instant(sys::clock::now());
            inner.stack.tcp_give_back(at, self.id, len as u32, &mut Tx(&mut inner.device));
        }
    }

    /// Calls the program.
    fn ask(
        &self,
        filter: &Filter,
        pieces: &mut Pieces,
        name: u64,
        (from, to): (Endpoint, Endpoint),
        len: usize,
        (ready_packets, ready_bytes): (u32, u32),
    ) -> c_int {
        let (mut src, mut dst) = (address::to_sockaddr(from), address::to_sockaddr(to));
        let time = sys::clock::realtime();
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let mut info = Info {
            struct_sz: size_of::<Info>(),
            packet_id: core::ptr::without_provenance_mut(name as usize),
            src: &raw mut src,
            dst: &raw mut dst,
            payload_sz: len,
            ready_packets,
            ready_bytes,
            hardware_time: none,
            software_time: libc::timespec {
                tv_sec: (time / 1_000_000_000) as libc::time_t,
                tv_nsec: (time % 1_000_000_000) as libc::c_long,
            },
        };
        let fd = self.object.fd.load(Ordering::Relaxed);
        let context = core::ptr::with_exposed_provenance_mut(filter.context);
        let mut verdict = PACKET_DROP;
        (self.runtime.os.outside)(&mut || {
            // SAFETY: the program's function, with what the header promises; the pieces live in what the caller owns.
            verdict = unsafe {
                (filter.callback)(fd, pieces.count, pieces.list.as_mut_ptr(), &raw mut info, context)
            };
        });
        if verdict != PACKET_HOLD && name != 0 {
            self.lane.lock().lent.give_back(name, self.object.token());
        }
        verdict
    }
}

/// What the callback is shown.
struct Pieces {
    list: [iovec; PIECES],
    count: usize,
}

impl Pieces {
    fn new() -> Pieces {
        Pieces { list: [const { iovec { iov_base: null_mut(), iov_len: 0 } }; PIECES], count: 0 }
    }

    fn add(&mut self, bytes: &[u8]) {
        if let Some(place) = self.list.get_mut(self.count) {
            *place = iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            self.count += 1;
        }
    }
}

/// The payload of a datagram, piece by piece.
pub(crate) fn datagram_memory(datagram: Datagram<Frame>) -> impl DoubleEndedIterator<Item = Memory> {
    let Datagram { mut head, range, tail, .. } = datagram;
    let start = usize::from(range.0);
    head.narrow(start..start + usize::from(range.1));
    core::iter::once(head).chain(tail).map(Memory::Frame)
}
