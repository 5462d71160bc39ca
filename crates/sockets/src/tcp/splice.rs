//! splice(2) between a pipe of the application and a connection. The kernel moves pages; here bytes are copied, and the
//! answers are the kernel's: a pipe that is full, or a window that is closed, must not cost a byte.
//!
//! Only splice(2) itself says how much a pipe takes without blocking, whatever its O_NONBLOCK. So bytes for a pipe go
//! through one of our own and are moved from there; they leave the connection once they have arrived. Of a pipe no more
//! is read than the engine has room for. Where it has none, or the connection fails, bytes are looked at with tee(2),
//! and leave the pipe once the engine has taken them.

use crate::answer::{Answer, Stop};
use crate::counts;
use crate::errno::fail;
use crate::lane::{Inner, Tx};
use crate::object::Object;
use crate::part::{Outcome, Progress, raised};
use crate::runtime::Runtime;
use crate::wait::Lanes;
use crate::wait::block::{self, Wait};
use crate::wait::moves::Watched;
use core::cell::Cell;
use core::sync::atomic::Ordering;
use libc::{EAGAIN, c_int, c_uint, pollfd, ssize_t};
use stack::tcp::Take;
use stack::{Instant, RecvError};
use std::cell::RefCell;
use sys::Fd;

/// Bytes moved at a time: what a pipe holds.
const PIECE: usize = 1 << 16;

/// Bytes looked at where the engine may take none of them.
const GLANCE: usize = 1 << 14;

/// A pipe of ours, empty between calls, and as much memory.
struct Between {
    process: i32,
    read: Fd,
    write: Fd,
    bytes: Vec<u8>,
}

thread_local! {
    /// Kept between calls. Taken out while in use: a wait may run signal handlers, which may splice.
    static BETWEEN: RefCell<Option<Between>> = const { RefCell::new(None) };
}

/// Why a step moved nothing.
enum Stuck {
    /// The application's pipe: full, or nobody reads it.
    Pipe(i32),
    /// The connection.
    Socket(RecvError),
    /// The next byte is the urgent one, where splice(2) stops until recv(2) has passed over it.
    Mark,
}

/// One call of splice(2), between a connection and a pipe.
pub(crate) struct Splice {
    pub runtime: &'static Runtime,
    pub object: &'static Object,
    pub pipe: c_int,
    pub count: usize,
    pub flags: c_uint,
}

impl Splice {
    /// From the connection to the pipe: what is there, or comes first, as far as the pipe has room. 0: end of stream,
    /// or, if the call might block, the urgent mark.
    pub(crate) fn receive(&self) -> Answer<ssize_t> {
        let Splice { runtime, object, pipe, count, .. } = *self;
        Between::with(|between| {
            let mut total = 0;
            loop {
                let mut step = |now| between.step(object, pipe, count - total, now);
                let moved = match step(sys::clock::now()) {
                    Err(Stuck::Socket(RecvError::WouldBlock)) if total == 0 => {
                        if object.nonblocking.load(Ordering::Relaxed) {
                            return fail(EAGAIN);
                        }
                        let one = [object];
                        let outcome = block::until(runtime, &Wait::to_receive(runtime, &one, &[]), |now| {
                            let moved = step(now);
                            (!matches!(moved, Err(Stuck::Socket(RecvError::WouldBlock)))).then_some(moved)
                        });
                        match outcome {
                            Ok(moved) => moved,
                            Err(stopped) => return stopped.answer(),
                        }
                    }
                    moved => moved,
                };
                match moved {
                    Ok(0) => return Ok(total as ssize_t),
                    Ok(moved) => total += moved,
                    Err(_) if total > 0 => return Ok(total as ssize_t),
                    Err(Stuck::Mark) if object.nonblocking.load(Ordering::Relaxed) => return fail(EAGAIN),
                    Err(Stuck::Mark) => return Ok(0),
                    Err(Stuck::Pipe(EAGAIN)) if self.may_block() => self.await_pipe(libc::POLLOUT)?,
                    Err(Stuck::Pipe(errno)) => return fail(errno),
                    Err(Stuck::Socket(RecvError::NoSocket)) => return super::over(),
                    Err(Stuck::Socket(error)) => return fail(error.errno()),
                }
                if total == count {
                    return Ok(total as ssize_t);
                }
            }
        })
    }

    /// From the pipe to the connection: what the pipe holds, or gets first. 0: nobody writes to the pipe any more.
    pub(crate) fn send(&self) -> Answer<ssize_t> {
        let Splice { runtime, object, pipe, count, flags } = *self;
        let more = if flags & libc::SPLICE_F_MORE != 0 { libc::MSG_MORE } else { 0 };
        Between::with(|between| {
            let mut total = 0;
            let mut progress = Progress::new();
            while total < count {
                let want = PIECE.min(count - total);
                let fetch = |into: &mut [u8]| sys::pipe::read_now(pipe, into).unwrap_or(0);
                let sent = super::send_fetched(object, &mut between.bytes[..want], more, fetch);
                if sent > 0 {
                    total += sent;
                    continue;
                }
                let held = match between.peek(pipe, count - total) {
                    Ok(0) => break,
                    Ok(held) => held,
                    Err(_) if total > 0 => break,
                    Err(EAGAIN) if self.may_block() => {
                        self.await_pipe(libc::POLLIN)?;
                        continue;
                    }
                    Err(errno) => return fail(errno),
                };
                let mut data = &between.bytes[..held];
                progress.begin_piece();
                let part = super::send(runtime, object, &mut data, more, &mut progress);
                let sent = held - data.len();
                progress.begins &= sent == 0;
                match part {
                    Outcome::Done(Err(_)) | Outcome::Moved if sent == 0 && total > 0 => break,
                    Outcome::Done(Err(stop)) if sent == 0 => return Err(raised(stop, 0)),
                    Outcome::Moved if sent == 0 => return super::over(),
                    _ => {}
                }
                // They are there: it does not block.
                let _ = sys::fd::read(pipe, &mut between.bytes[..sent]);
                total += sent;
                if sent < held {
                    break;
                }
            }
            Ok(total as ssize_t)
        })
    }

    /// Whether the call may wait for the pipe. (For the socket its own O_NONBLOCK counts alone.)
    fn may_block(&self) -> bool {
        self.flags & libc::SPLICE_F_NONBLOCK == 0
            && sys::fd::fcntl(self.pipe, libc::F_GETFL, 0).is_ok_and(|flags| flags & libc::O_NONBLOCK == 0)
    }

    /// Waits until the pipe has bytes, or room, or will have none for ever. The timeouts of the socket are not the
    /// pipe's.
    fn await_pipe(&self, events: i16) -> Answer<()> {
        let one = [self.object];
        let kernel = [pollfd { fd: self.pipe, events, revents: 0 }];
        let of_socket = Wait::to_send(self.runtime, &one);
        let wait = Wait {
            watched: Watched::default(),
            moves: 0,
            lanes: Lanes::default(),
            kernel: &kernel,
            deadline: None,
            restartable: Cell::new(true),
            ..of_socket
        };
        let ready = |_| (sys::poll::poll(&mut kernel.clone(), Some(0), None) == Ok(1)).then_some(());
        block::until(self.runtime, &wait, ready).or_else(block::Stopped::answer)
    }
}

impl Between {
    fn with(body: impl FnOnce(&mut Between) -> Answer<ssize_t>) -> Answer<ssize_t> {
        let kept = BETWEEN.try_with(|between| between.borrow_mut().take()).ok().flatten();
        // After a fork it would be shared with the parent.
        let mut between = match kept.filter(|between| between.process == sys::process::pid()) {
            Some(between) => between,
            None => Between::new().map_err(Stop::Errno)?,
        };
        let answer = body(&mut between);
        let _ = BETWEEN.try_with(|kept| *kept.borrow_mut() = Some(between));
        answer
    }

    fn new() -> sys::Result<Between> {
        let (read, write) = sys::pipe::pair()?;
        Ok(Between { process: sys::process::pid(), read, write, bytes: vec![0; PIECE] })
    }

    /// Moves what the connection has and the pipe takes. The lane's lock is held from the look at the bytes to their
    /// leaving, so that no other thread reads them too.
    fn step(&mut self, object: &Object, pipe: c_int, want: usize, now: u64) -> Result<usize, Stuck> {
        let Some((lane, id)) = object.leg() else { return Err(Stuck::Socket(RecvError::NoSocket)) };
        let at = Instant(now);
        let want = want.min(PIECE);
        let mut guard = lane.lock();
        let inner = &mut *guard;
        let mut look = |inner: &mut Inner| {
            if inner.stack.tcp_at_mark(id)
                && inner.stack.tcp_queued(id).is_some_and(|queued| queued.unread > 0)
            {
                return Err(Stuck::Mark);
            }
            let (mut into, tx) = (&mut self.bytes[..want], &mut Tx(&mut inner.device));
            inner.stack.tcp_recv(at, id, &mut into, Take::Peek(0), tx).map_err(Stuck::Socket)
        };
        let mut seen = look(inner);
        if matches!(seen, Err(Stuck::Socket(RecvError::WouldBlock))) {
            inner.turn(now);
            seen = look(inner);
        }
        let moved = match seen {
            Ok(seen @ 1..) => self.push(pipe, seen),
            other => other,
        };
        if let Ok(moved @ 1..) = moved {
            let mut passed = &mut self.bytes[..moved];
            let tx = &mut Tx(&mut inner.device);
            let _ = inner.stack.tcp_recv(at, id, &mut passed, Take::Discard, tx);
            counts::received(object.counts(), moved);
        }
        inner.flush(at);
        lane.note(inner, now);
        moved
    }

    /// The first `count` of our bytes into the application's pipe, as far as they fit.
    fn push(&mut self, pipe: c_int, count: usize) -> Result<usize, Stuck> {
        let put = sys::fd::write(self.write.raw(), &self.bytes[..count]).map_err(Stuck::Pipe)?;
        let moved = sys::pipe::splice(self.read.raw(), pipe, put);
        self.empty(put - moved.unwrap_or(0));
        moved.map_err(Stuck::Pipe)
    }

    /// The first bytes of the application's pipe, which stay there; how many.
    fn peek(&mut self, pipe: c_int, want: usize) -> sys::Result<usize> {
        let held = sys::pipe::tee(pipe, self.write.raw(), want.min(GLANCE))?;
        Ok(self.empty(held))
    }

    /// Takes `count` bytes, all that there are, out of our pipe; how many.
    fn empty(&mut self, count: usize) -> usize {
        let mut got = 0;
        while got < count {
            match sys::fd::read(self.read.raw(), &mut self.bytes[got..count]) {
                Ok(more @ 1..) => got += more,
                _ => break,
            }
        }
        got
    }
}
