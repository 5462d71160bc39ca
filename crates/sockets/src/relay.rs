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

mod handover;
mod pump;

use crate::fd_table;
use crate::object::{Kind, Object};
use crate::runtime::Runtime;
use crate::tcp;
use core::sync::atomic::{AtomicBool, Ordering};
use handover::Leaving;
use libc::c_int;
use pump::Pump;
use sys::Fd;
use sys::poll::pollfd;

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

/// How long a process that ends goes on relaying, nanoseconds.
const EXIT_NS: u64 = 3_000_000_000;

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
            object.shadow_changed.store(true, Ordering::Relaxed);
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
                    pumps.push(Pump::new(object, far));
                }
                None => released.push(object),
            }
        }
        true
    }
}
