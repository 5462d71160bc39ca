//! A connection that the child of a fork uses: bytes pumped between the parent's engine and a socket pair.
//!
//! A connection lives in the engine of the process that made it. A child that uses one it inherited claims it, with a
//! message to its parent, and gets one end of a pair of Unix sockets in place of the shadow; the parent's worker pumps.
//! So the classic server (accept, fork, the child serves, the parent closes) is correct, if not fast:
//!
//! ```text
//!   child: descriptor --- Unix sockets --- worker of the parent --- engine --- wire
//! ```
//!
//! The other way round, a process that closes a listener hands the connections that wait there to the others that
//! listen: over a connection to the shadow, which they share. Whom it comes from in truth is told in the arena, and the
//! one who accepts it shows that to the application. So a server may replace its workers under load.
//!
//! While a child may still claim a connection, or has, the parent's close does not end it.

use crate::Stop;
use crate::address;
use crate::fd_table;
use crate::lane::Lane;
use crate::object::{Kind, Object};
use crate::offload;
use crate::runtime::Runtime;
use crate::tcp;
use core::sync::atomic::{AtomicBool, Ordering};
use libc::c_int;
use stack::{Ready, RecvError, SocketId};
use std::net::SocketAddrV4;
use sys::Fd;
use sys::poll::pollfd;

/// Bytes under way in one direction.
const BUFFER: usize = 1 << 16;

/// All of it, in the runtime.
pub(crate) struct Relays {
    state: sys::Mutex<State>,
    /// In a child: where connections of the parent are claimed.
    parent: sys::Mutex<Option<Fd>>,
    /// That channel is shared with children of ours: only its end tells that a connection is not wanted.
    is_shared: AtomicBool,
    /// Something is in `state`: the worker has more to look at.
    busy: AtomicBool,
    /// Connections are being relayed: their packets are the worker's business.
    pumping: AtomicBool,
    /// Connections were handed over, and end with this process.
    has_handed_over: AtomicBool,
}

/// What the lock protects.
#[derive(Default)]
pub(crate) struct State {
    /// Made before a fork: our end, the child's, and who we are.
    pending: Option<(Channel, Fd, i32)>,
    channels: Vec<Channel>,
    pumps: Vec<Pump>,
    leaving: Vec<Leaving>,
    /// Connections that this process closed and a child may use, with what keeps their ports reserved.
    kept: Vec<(&'static Object, Option<Fd>)>,
}

/// A child, or several generations, and what they may claim.
struct Channel {
    fd: Fd,
    objects: Vec<&'static Object>,
}

/// A listener that the application closed: connections that were on their way to it are handed to others.
struct Leaving {
    lane: &'static Lane,
    id: SocketId,
    until: u64,
}

/// How long a process that ends goes on relaying, nanoseconds.
const EXIT_NS: u64 = 3_000_000_000;

/// How long a handshake may take that began before its listener was closed, nanoseconds.
const LEAVING_NS: u64 = 200_000_000;

/// One connection in use elsewhere.
struct Pump {
    object: &'static Object,
    far: Fd,
    to_far: Pipe,
    to_near: Pipe,
}

#[derive(Default)]
struct Pipe {
    bytes: Vec<u8>,
    from: usize,
    /// The source has ended.
    ended: bool,
    /// The sink knows.
    told: bool,
}

impl Pipe {
    fn is_empty(&self) -> bool {
        self.from == self.bytes.len()
    }
}

impl Relays {
    pub(crate) fn new() -> Relays {
        Relays {
            state: sys::Mutex::new(State::default()),
            parent: sys::Mutex::new(None),
            is_shared: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            pumping: AtomicBool::new(false),
            has_handed_over: AtomicBool::new(false),
        }
    }

    // forking

    /// Before a fork: connections that the child may claim are held for it. The lock is kept until both processes are
    /// there.
    pub(crate) fn fork_begins(&self) -> sys::MutexGuard<'_, State> {
        self.is_shared.store(true, Ordering::Relaxed);
        let mut objects: Vec<&'static Object> = Vec::new();
        for fd in 0..fd_table::end() {
            let Some(object) = fd_table::socket(fd).filter(|object| object.kind() == Kind::Stream) else {
                continue;
            };
            if !objects.iter().any(|known| core::ptr::eq(*known, object)) {
                objects.push(object);
            }
        }
        let mut state = self.state.lock();
        state.pending = None;
        if objects.is_empty() {
            return state;
        }
        let Ok((ours, theirs)) = sys::socket::pair(libc::SOCK_SEQPACKET) else { return state };
        for object in &objects {
            object.holders.fetch_add(1, Ordering::AcqRel);
        }
        state.pending = Some((Channel { fd: ours, objects }, theirs, sys::process::pid()));
        state
    }

    /// After the fork, in the parent (in the child it does nothing).
    pub(crate) fn fork_done(&self, runtime: &'static Runtime) {
        let mut state = self.state.lock();
        if state.pending.as_ref().is_none_or(|(_, _, pid)| *pid != sys::process::pid()) {
            return;
        }
        if let Some((channel, _, _)) = state.pending.take() {
            state.channels.push(channel);
            self.busy.store(true, Ordering::Release);
            drop(state);
            runtime.worker.look();
        }
    }

    /// In the child: what the parent relays is the parent's. True: connections can be claimed.
    pub(crate) fn after_fork(&self, child: &sys::InChild) -> bool {
        self.parent.force_unlock(child);
        // With the rest go our copies of the parent's descriptors.
        let pending = core::mem::take(&mut *self.state.lock()).pending;
        self.busy.store(false, Ordering::Relaxed);
        self.pumping.store(false, Ordering::Relaxed);
        if let Some((ours, theirs, _)) = pending {
            drop(ours);
            *self.parent.lock() = Some(theirs);
            self.is_shared.store(false, Ordering::Relaxed);
            return true;
        }
        false
    }

    // in the child

    /// The child uses a connection of its parent: from now on its descriptors are one end of a socket pair.
    #[cold]
    pub(crate) fn claim(&self, runtime: &Runtime, object: &'static Object) {
        object.set_kind(Kind::Relayed);
        let Ok((near, far)) = sys::socket::pair(libc::SOCK_STREAM) else { return };
        let token = object.token().to_ne_bytes();
        let sent = match &*self.parent.lock() {
            Some(parent) => sys::socket::send_descriptors(parent.raw(), &token, &[far.raw()]).is_ok(),
            None => false,
        };
        let fd = object.fd.load(Ordering::Relaxed);
        if sent {
            logger::debug!("fd {fd}: used in the child of a fork: relayed by the parent");
        } else {
            logger::warning!(
                "fd {fd}: the process that made this connection is gone, and the connection with it"
            );
        }
        if object.nonblocking.load(Ordering::Relaxed) {
            let _ = sys::fd::fcntl(near.raw(), libc::F_SETFL, libc::O_NONBLOCK as usize);
        }
        fd_table::each_of(object, |fd| {
            let flags = sys::fd::fcntl(fd, libc::F_GETFD, 0).unwrap_or(0);
            let cloexec = if flags & libc::FD_CLOEXEC != 0 { libc::O_CLOEXEC } else { 0 };
            runtime.os.duplicate_onto(near.raw(), fd, cloexec);
        });
    }

    /// The child closes a connection that it did not use.
    pub(crate) fn decline(&self, object: &'static Object) {
        if self.is_shared.load(Ordering::Relaxed) {
            return;
        }
        if let Some(parent) = &*self.parent.lock() {
            let _ = sys::socket::send(
                parent.raw(),
                &object.token().to_ne_bytes(),
                libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
            );
        }
    }

    // in the parent

    /// The application closes a connection. True: it is held for others, and its end comes later.
    pub(crate) fn keep(&self, object: &'static Object, fd: c_int) -> bool {
        if object.holders.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut state = self.state.lock();
        if object.holders.load(Ordering::Acquire) == 0 {
            return false;
        }
        state.kept.push((object, Fd::duplicate_of(fd).ok()));
        true
    }

    /// The application closes a listener that others share: its legs stay for a while, without new clients.
    pub(crate) fn hand_over(&self, runtime: &'static Runtime, listener: &'static Object) {
        let mut state = self.state.lock();
        for (lane, id) in listener.legs() {
            lane.lock().stack.set_token(id, 0);
            state.leaving.push(Leaving { lane, id, until: sys::clock::now() + LEAVING_NS });
        }
        listener.drop_legs();
        self.has_handed_over.store(true, Ordering::Relaxed);
        self.busy.store(true, Ordering::Release);
        self.pumping.store(true, Ordering::Relaxed);
        drop(state);
        runtime.worker.look();
    }

    /// A listener that rests, since its process leaves clients to the children that it forked, may hold some that came
    /// before any child listened: now that one does, they go there. By the worker, now and then.
    pub(crate) fn relieve(&self, runtime: &'static Runtime, wake: i32) {
        if runtime.resting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut state = self.state.lock();
        for object in (0..fd_table::end()).filter_map(fd_table::socket) {
            if object.kind() != Kind::Listener || !object.resting.load(Ordering::Relaxed) {
                continue;
            }
            let flow = object.control.lock().flows.first().map(|(_, flow)| *flow);
            for (lane, id) in object.legs() {
                let waits = {
                    let inner = lane.lock();
                    inner.stack.ready(id).has(Ready::IN)
                        && flow.is_some_and(|flow| inner.device.has_others(&flow))
                };
                if waits {
                    let State { pumps, kept, .. } = &mut *state;
                    Leaving { lane, id, until: u64::MAX }.pass_on(runtime, pumps, kept, wake);
                    self.has_handed_over.store(true, Ordering::Relaxed);
                    self.busy.store(true, Ordering::Release);
                    self.pumping.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    /// At the exit of the process: connections that were handed over get time to end.
    pub(crate) fn exiting(&self) {
        let deadline = sys::clock::now() + EXIT_NS;
        while self.has_handed_over.load(Ordering::Relaxed)
            && self.are_pumping()
            && sys::clock::now() < deadline
        {
            sys::thread::sleep(1_000_000);
        }
    }

    /// Is there anything for the worker?
    #[inline]
    pub(crate) fn are_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// Must the worker take packets in as they come?
    #[inline]
    pub(crate) fn are_pumping(&self) -> bool {
        self.pumping.load(Ordering::Relaxed)
    }

    /// What the worker sleeps on.
    pub(crate) fn watch(&self, fds: &mut Vec<pollfd>) {
        let state = self.state.lock();
        fds.extend(state.channels.iter().map(|channel| pollfd {
            fd: channel.fd.raw(),
            events: libc::POLLIN,
            revents: 0,
        }));
        for pump in &state.pumps {
            let mut events = 0;
            if !pump.to_far.is_empty() {
                events |= libc::POLLOUT;
            }
            if pump.to_near.is_empty() && !pump.to_near.ended {
                events |= libc::POLLIN;
            }
            // Without interest the end of the far side would be told again and again.
            let fd = if events == 0 && pump.to_near.ended { -1 } else { pump.far.raw() };
            fds.push(pollfd { fd, events, revents: 0 });
        }
    }

    /// Messages of children, and bytes as far as they go. By the worker.
    pub(crate) fn serve(&self, runtime: &'static Runtime, wake: i32) {
        let mut state = self.state.lock();
        let mut released = Vec::new();
        let now = sys::clock::now();
        let State { channels, pumps, leaving, kept, .. } = &mut *state;
        leaving.retain(|leaving| leaving.serve(runtime, pumps, kept, wake, now));
        channels.retain_mut(|channel| channel.serve(pumps, &mut released, wake));
        pumps.retain_mut(|pump| {
            let goes_on = pump.step(runtime);
            if !goes_on {
                pump.object.watch.remove_sleeper(wake);
                released.push(pump.object);
            }
            goes_on
        });
        for object in released {
            state.release(runtime, object);
        }
        let pumping = !state.pumps.is_empty() || !state.leaving.is_empty();
        self.pumping.store(pumping, Ordering::Relaxed);
        self.busy.store(pumping || !state.channels.is_empty(), Ordering::Release);
    }
}

impl State {
    /// One user less; the last one ends a connection that the application closed.
    fn release(&mut self, runtime: &'static Runtime, object: &'static Object) {
        if object.holders.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let Some(at) = self.kept.iter().position(|(kept, _)| core::ptr::eq(*kept, object)) else { return };
        let (_, shadow) = self.kept.swap_remove(at);
        tcp::close(runtime, object, shadow.as_ref().map_or(-1, Fd::raw));
        object.release();
    }
}

impl Leaving {
    /// False: its time is over.
    fn serve(
        &self,
        runtime: &'static Runtime,
        pumps: &mut Vec<Pump>,
        kept: &mut Vec<(&'static Object, Option<Fd>)>,
        wake: i32,
        now: u64,
    ) -> bool {
        self.lane.turn(now);
        self.pass_on(runtime, pumps, kept, wake);
        if now >= self.until {
            tcp::abort(self.lane, self.id);
        }
        now < self.until
    }

    /// Connections that wait in the listener's queue go to the others that listen.
    fn pass_on(
        &self,
        runtime: &'static Runtime,
        pumps: &mut Vec<Pump>,
        kept: &mut Vec<(&'static Object, Option<Fd>)>,
        wake: i32,
    ) {
        loop {
            let accepted = {
                let inner = &mut *self.lane.lock();
                inner.stack.tcp_accept(self.id).map(|id| (id, inner.stack.local(id), inner.stack.remote(id)))
            };
            let Some((id, local, remote)) = accepted else { break };
            let far = match (local, remote) {
                (Some(local), Some(remote)) => self.to_shadow(runtime, local, remote),
                _ => None,
            };
            let (Some(far), Some(local), Some(remote)) = (far, local, remote) else {
                tcp::abort(self.lane, id);
                continue;
            };
            let object = Object::new(Kind::TcpIdle, -1, true);
            object.fds.store(0, Ordering::Relaxed);
            object.holders.store(1, Ordering::Relaxed);
            {
                let mut control = object.control.lock();
                control.remote = Some(remote);
                object.add_leg(self.lane, id);
            }
            self.lane.lock().stack.set_token(id, object.token());
            let _ = offload::steer(object, self.lane, 0, libc::IPPROTO_TCP as u8, local, Some(remote));
            object.set_kind(Kind::Stream);
            object.watch.add_sleeper(wake);
            kept.push((object, None));
            pumps.push(Pump { object, far, to_far: Pipe::default(), to_near: Pipe::default() });
        }
    }

    /// A kernel connection to the shadow, which is shared by those who listen, announced as what it stands for.
    fn to_shadow(&self, runtime: &Runtime, local: SocketAddrV4, remote: SocketAddrV4) -> Option<Fd> {
        let fd = sys::socket::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0).ok()?;
        sys::socket::bind(fd.raw(), &address::to_sockaddr(SocketAddrV4::new(*local.ip(), 0))).ok()?;
        let own = address::of_shadow(&runtime.os, fd.raw()).ok()?;
        if !self.lane.lock().device.offer(own.port(), remote) {
            return None;
        }
        match sys::socket::connect(fd.raw(), &address::to_sockaddr(local)) {
            Ok(()) | Err(libc::EINPROGRESS) => Some(fd),
            Err(_) => {
                let _ = self.lane.lock().device.take_offer(own.port());
                None
            }
        }
    }
}

impl Channel {
    /// False: nobody is at the other end any more.
    fn serve(&mut self, pumps: &mut Vec<Pump>, released: &mut Vec<&'static Object>, wake: i32) -> bool {
        let mut token = [0u8; 8];
        while sys::poll::readable(self.fd.raw()) {
            let mut descriptors = Vec::new();
            let got = sys::socket::receive_descriptors(self.fd.raw(), &mut token, &mut descriptors, 0);
            if got != Ok(8) {
                released.append(&mut self.objects);
                return false;
            }
            let token = u64::from_ne_bytes(token);
            let Some(at) = self.objects.iter().position(|object| object.token() == token) else { continue };
            let object = self.objects.swap_remove(at);
            match descriptors.pop() {
                Some(far) => {
                    object.watch.add_sleeper(wake);
                    pumps.push(Pump { object, far, to_far: Pipe::default(), to_near: Pipe::default() });
                }
                None => released.push(object),
            }
        }
        true
    }
}

impl Pump {
    /// Moves what can be moved. False: it is over.
    fn step(&mut self, runtime: &'static Runtime) -> bool {
        while self.out() | self.back(runtime) {}
        let near_over = self.to_far.ended && self.to_far.told;
        let far_over = self.to_near.ended && self.to_near.told;
        if near_over && far_over {
            return false;
        }
        // The child closed, not only shut down: nobody reads any more. What it wrote before comes first.
        let mut far = [pollfd { fd: self.far.raw(), events: 0, revents: 0 }];
        let gone = sys::poll::poll(&mut far, Some(0), None) == Ok(1)
            && far[0].revents & (libc::POLLHUP | libc::POLLERR) != 0;
        !(gone && far_over)
    }

    /// From the engine to the far side. True: something moved.
    fn out(&mut self) -> bool {
        let pipe = &mut self.to_far;
        let mut moved = false;
        if pipe.is_empty() && !pipe.ended {
            pipe.bytes.resize(BUFFER, 0);
            let got = tcp::take_now(self.object, &mut pipe.bytes);
            pipe.from = 0;
            pipe.bytes.truncate(got.unwrap_or(0));
            pipe.ended = got != Err(RecvError::WouldBlock) && pipe.bytes.is_empty();
            moved = !pipe.is_empty();
        }
        while !pipe.is_empty() {
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            match sys::socket::send(self.far.raw(), &pipe.bytes[pipe.from..], flags) {
                Ok(n) => pipe.from += n,
                Err(libc::EAGAIN | libc::EINTR | libc::ENOTCONN) => return false,
                Err(_) => {
                    // The child reads no more.
                    pipe.from = pipe.bytes.len();
                    pipe.ended = true;
                }
            }
        }
        if pipe.ended && !pipe.told {
            shut_down(self.far.raw());
            pipe.told = true;
        }
        moved && !pipe.ended
    }

    /// From the far side to the engine. True: something moved.
    fn back(&mut self, runtime: &'static Runtime) -> bool {
        let pipe = &mut self.to_near;
        let mut moved = false;
        if pipe.is_empty() && !pipe.ended {
            pipe.bytes.resize(BUFFER, 0);
            pipe.from = 0;
            let got = sys::socket::receive(self.far.raw(), &mut pipe.bytes, libc::MSG_DONTWAIT);
            pipe.bytes.truncate(got.unwrap_or(0));
            let later = matches!(got, Err(libc::EAGAIN | libc::EINTR | libc::ENOTCONN));
            pipe.ended = !later && pipe.bytes.is_empty();
            moved = !pipe.is_empty();
        }
        while !pipe.is_empty() {
            let mut rest = &pipe.bytes[pipe.from..];
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            match tcp::send(runtime, self.object, &mut rest, flags) {
                Ok(n) => pipe.from += n as usize,
                Err(Stop::Errno(libc::EAGAIN)) => return false,
                Err(_) => {
                    pipe.from = pipe.bytes.len();
                    pipe.ended = true;
                    pipe.told = true;
                }
            }
        }
        if pipe.ended && !pipe.told {
            pipe.told = true;
            // What only the child's copy of the descriptor closes is not the connection's end while we have one.
            if self.object.fds.load(Ordering::Acquire) == 0 || !is_gone(self.far.raw()) {
                let _ = tcp::shutdown(self.object, libc::SHUT_WR);
            }
        }
        moved && !pipe.ended
    }
}

/// The far side closed, rather than shut down one direction.
fn is_gone(fd: i32) -> bool {
    let mut one = [pollfd { fd, events: 0, revents: 0 }];
    sys::poll::poll(&mut one, Some(0), None) == Ok(1) && one[0].revents & libc::POLLHUP != 0
}

fn shut_down(fd: i32) {
    let _ = sys::socket::shutdown(fd, libc::SHUT_WR);
}
