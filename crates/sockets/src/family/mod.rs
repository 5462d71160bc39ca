//! What several processes have of a fork, beside what the kernel has for them anyway.
//!
//! A connection lives in the engine of the process that made it. A child that uses one it inherited claims it
//! (`claim.rs`), with a message to its parent. The parent's worker moves it into the kernel (tcp/repair.rs): the
//! shadow, which both have, becomes the connection, and both use it directly from then on. While a child may still
//! claim a connection the parent's close does not end it, nor does its exit: what children may claim then moves, too. A
//! UDP socket that the child receives by is claimed in the same way, with what waits in the engine.
//!
//! A listener is the kernel's before the first child is there (`listeners.rs`). What children have no privilege for,
//! the parent does for them (`lending.rs`).

mod claim;
mod lending;
mod listeners;

pub(crate) use listeners::{accepted, is_shared_out, room_for_name, share};

use crate::answer::Why;
use crate::background::BACKGROUND;
use crate::fd_table;
use crate::locks::Rank;
use crate::object::{Kind, Object, Pin};
use crate::runtime::Runtime;
use crate::tcp::{self, Moved};
use crate::turn::await_under_way;
use crate::udp_legs;
pub(crate) use claim::Patience;
use claim::{Channel, Claimables};
use core::sync::atomic::{AtomicBool, Ordering};
use libc::c_int;
use std::collections::BTreeMap;
use sys::Fd;
use sys::poll::pollfd;

/// What this process and its relatives have together.
pub(crate) static FAMILY: Family = Family::new();

/// All of it.
pub(crate) struct Family {
    state: sys::Mutex<State>,
    /// In a child: where sockets of the parent are claimed, and of its parents before it; the nearest last.
    parents: sys::Mutex<Vec<Fd>>,
    /// In a child: what was claimed and is not answered yet, with our end of the pair.
    claims: sys::Mutex<Vec<(&'static Object, Fd)>>,
    /// The last channel is shared with children of ours: only its end tells that a connection is not wanted.
    is_shared: AtomicBool,
    /// Something is in `state`: the worker has more to look at.
    busy: AtomicBool,
}

/// What the lock protects.
#[derive(Default)]
pub(crate) struct State {
    /// Made before a fork: our end, and the child's.
    pending: Option<(Channel, Fd)>,
    channels: Vec<Channel>,
    /// Connections that this process closed and a child may use, by their tokens, with their shadows, which keep their
    /// ports reserved.
    kept: BTreeMap<u64, Option<Fd>>,
    /// Connections that moved into the kernel, until when the engine may still be given packets of theirs.
    moved: Vec<(u64, Moved)>,
    leaving: Vec<listeners::Leaving>,
    /// What this process does for its children, from the first fork on that it may matter to.
    lending: Option<lending::Lending>,
}

impl State {
    const fn new() -> State {
        State {
            pending: None,
            channels: Vec::new(),
            kept: BTreeMap::new(),
            moved: Vec::new(),
            leaving: Vec::new(),
            lending: None,
        }
    }
}

impl Family {
    const fn new() -> Family {
        Family {
            state: Rank::Family.lock(State::new()),
            parents: Rank::Parents.lock(Vec::new()),
            claims: Rank::Claims.lock(Vec::new()),
            is_shared: AtomicBool::new(false),
            busy: AtomicBool::new(false),
        }
    }

    // forking

    /// Before a fork, without a lock: the listeners that the child will have are the kernel's.
    pub(crate) fn before_fork(&self, runtime: &'static Runtime) {
        for object in (0..fd_table::end()).filter_map(fd_table::socket) {
            if object.kind() == Kind::Listener {
                self.busy.store(true, Ordering::Release);
                self.state.lock().leave_engine(runtime, object);
                BACKGROUND.look();
            }
        }
    }

    /// Before a fork: its lock, which is kept until both processes are there.
    pub(crate) fn before_fork_begins(&self) -> sys::MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Before a fork that nothing is in the way of: what the child may claim is held for it. `lends`: it may want
    /// something of this process.
    pub(crate) fn fork_begins(&self, state: &mut State, lends: bool) {
        self.is_shared.store(true, Ordering::Relaxed);
        let in_engine =
            (0..fd_table::end()).filter_map(fd_table::socket).filter(|object| is_in_engine(object));
        let objects = Claimables::new(in_engine);
        objects.each(|object| object.shadow_changed.store(true, Ordering::Relaxed));
        state.pending = None;
        if lends {
            state.lend();
        }
        if objects.is_empty() {
            return;
        }
        let Ok((ours, theirs)) = sys::socket::pair(libc::SOCK_SEQPACKET) else { return };
        objects.each(|object| _ = object.holders.fetch_add(1, Ordering::AcqRel));
        state.pending = Some((Channel { fd: ours, objects }, theirs));
    }

    /// After the fork, in the parent. True: there is to be a background thread.
    pub(crate) fn fork_done(&self) -> bool {
        let mut state = self.state.lock();
        let lends = state.lends_anew();
        let channel = state.pending.take().map(|(channel, _)| channel);
        let is_new = lends || channel.is_some();
        state.channels.extend(channel);
        if is_new {
            self.busy.store(true, Ordering::Release);
            drop(state);
            BACKGROUND.look();
        }
        lends
    }

    /// In the child: what was claimed of the parent is the parent's.
    pub(crate) fn after_fork(&self, child: &sys::InChild) {
        self.parents.take_over(child);
        self.claims.take_over(child);
        self.claims.lock().clear();
        // With the rest go our copies of the parent's descriptors.
        let State { pending, lending, .. } = core::mem::take(&mut *self.state.lock());
        self.has_parent(lending);
        if let Some((ours, theirs)) = pending {
            drop(ours);
            let mut parents = self.parents.lock();
            // Nothing comes by them but the end: of those whose process has ended nothing can be claimed.
            parents.retain(|parent| !sys::poll::readable(parent.raw()));
            parents.push(theirs);
            self.is_shared.store(false, Ordering::Relaxed);
        }
    }

    // in the parent

    /// The application closes a socket. True: a connection that is held for others, and its end comes later.
    pub(crate) fn keep(&self, object: &'static Object, fd: c_int) -> bool {
        if object.holders.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut state = self.state.lock();
        if object.holders.load(Ordering::Acquire) == 0 {
            return false;
        }
        if object.kind() == Kind::Udp {
            udp_legs::detach(object);
            state.is_everybodys(object);
            return false;
        }
        state.kept.insert(object.token(), Fd::duplicate_of(fd).ok());
        true
    }

    /// Moves a connection into the kernel. False: it cannot be.
    pub(crate) fn to_kernel(&self, runtime: &'static Runtime, object: &'static Object, why: Why) -> bool {
        let Some(_pin) = Pin::known(object) else { return false };
        self.busy.store(true, Ordering::Release);
        self.state.lock().move_to_kernel(runtime, object, why)
    }

    /// Moves a connection into the kernel, from where it may come back. False: it cannot be moved.
    pub(crate) fn to_carried(&self, runtime: &'static Runtime, object: &'static Object, fd: i32) -> bool {
        let Some(_pin) = Pin::by(object, fd) else { return false };
        self.busy.store(true, Ordering::Release);
        self.state.lock().carry(runtime, object, fd)
    }

    /// As for a connection that moved: its flow was the engine's for a moment.
    pub(crate) fn remember(&self, moved: Moved) {
        self.busy.store(true, Ordering::Release);
        self.state.lock().remember(moved);
    }

    /// At the exit of the process: what children may claim goes to the kernel, and nothing is done for them any more.
    pub(crate) fn leave_to_children(&self, runtime: &'static Runtime, patience: u64) {
        if self.is_busy()
            && let Some(mut state) = self.state.lock_until(patience)
        {
            state.lending = None;
            state.leave_to_children(runtime);
            drop(state);
            await_under_way(runtime);
        }
    }

    /// Is there anything for the worker?
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// What the worker sleeps on.
    pub(crate) fn watch(&self, fds: &mut Vec<pollfd>) {
        let state = self.state.lock();
        fds.extend(state.channels.iter().map(|channel| pollfd {
            fd: channel.fd.raw(),
            events: libc::POLLIN,
            revents: 0,
        }));
        state.watch_children(fds);
    }

    /// Messages of children, and connections whose move is over. By the worker.
    pub(crate) fn serve(&self, runtime: &'static Runtime) {
        if !self.is_busy() {
            return;
        }
        let mut state = self.state.lock();
        let now = sys::clock::now();
        state.hear(runtime);
        state.serve_children(runtime);
        state.moved.retain(|(until, moved)| {
            if now >= *until {
                moved.end();
            }
            now < *until
        });
        state.serve_leaving(runtime);
        let is_busy = !state.channels.is_empty()
            || !state.moved.is_empty()
            || !state.leaving.is_empty()
            || state.lending.is_some();
        self.busy.store(is_busy, Ordering::Release);
    }
}

/// Whether a child would have to claim it.
fn is_in_engine(object: &Object) -> bool {
    match object.kind() {
        Kind::Stream => true,
        Kind::Udp => object.leg().is_some(),
        _ => false,
    }
}

impl State {
    /// One user less; the last one ends a connection that the application closed.
    fn release(&mut self, runtime: &'static Runtime, object: &'static Object) {
        if object.holders.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let Some(shadow) = self.kept.remove(&object.token()) else { return };
        tcp::close(runtime, object, shadow.as_ref().map_or(-1, Fd::raw));
        object.release();
    }
}
