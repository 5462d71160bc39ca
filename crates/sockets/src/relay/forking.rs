//! Listeners that are left to the kernel's socket, which listens beside the engine anyway.
//!
//! - A server that forks for each connection: each of its connections moves into the kernel when the child uses it, so
//!   it costs more than one that was the kernel's from the start.
//! - One whose descriptor is passed to another process (haproxy's at a reload), which may accept from it.
//! - Workers that let clients wait while others could serve them: the kernel's queue is everybody's, that of a lane its
//!   process' own.

use super::{Relays, State};
use crate::answer::Why;
use crate::fd_table;
use crate::lane::Lane;
use crate::object::{Kind, Object};
use crate::offload;
use crate::runtime::Runtime;
use core::sync::atomic::Ordering;
use std::net::SocketAddrV4;

/// What a connection that a child claims adds to its listener's level. Each that is accepted takes one off, so it only
/// rises where children use more than half of them.
const CLAIMED: u32 = 2;
/// The level at which the listener is left to the kernel.
const ENOUGH: u32 = 8;
/// In place of the level: it was.
const LEFT: u32 = u32::MAX;

/// How long a handshake may take that began before the listener was left to the kernel, nanoseconds.
const HANDSHAKE_NS: u64 = 3_000_000_000;

/// The listener has accepted a connection.
#[inline]
pub(crate) fn accepted(listener: &Object) {
    listener.waits_since.store(0, Ordering::Relaxed);
    let level = listener.forked.load(Ordering::Relaxed);
    if level != 0 && level != LEFT {
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = listener.forked.compare_exchange(level, level - 1, success, failure);
    }
}

/// Whether new connections of a listener are the kernel's.
pub(crate) fn is_left(listener: &Object) -> bool {
    listener.forked.load(Ordering::Relaxed) == LEFT
}

impl Relays {
    /// A listener's descriptor is passed to another process: its clients are the kernel's from now on, which both have,
    /// but for those that have begun here.
    pub(crate) fn leave_passed(&self, runtime: &'static Runtime, listener: &'static Object) {
        if !is_left(listener) {
            self.state.lock().leave(listener);
            self.busy.store(true, Ordering::Release);
            runtime.worker.look();
        }
    }
}

impl State {
    /// A child uses a connection that was accepted at `local`.
    pub(super) fn note_forking(&mut self, runtime: &Runtime, local: SocketAddrV4) {
        let Some(listener) = listener_at(local).filter(|listener| !is_left(listener)) else { return };
        if listener.forked.fetch_add(CLAIMED, Ordering::Relaxed) + CLAIMED < ENOUGH {
            return;
        }
        if steered(listener).iter().any(|(lane, flow)| lane.lock().device.has_others(flow)) {
            // Workers share it, which serve by themselves.
            return;
        }
        let fd = listener.fd.load(Ordering::Relaxed);
        runtime
            .count(Why::Inherited, format_args!("connections of a listener (fd {fd}) that forks for each"));
        self.leave(listener);
    }

    /// New connections are the kernel's; what the engine began ends there.
    fn leave(&mut self, listener: &'static Object) {
        listener.resting.store(false, Ordering::Release);
        listener.forked.store(LEFT, Ordering::Relaxed);
        for (lane, flow) in steered(listener) {
            lane.lock().device.leave_new_to_kernel(&flow);
        }
        self.left.push((sys::clock::now() + HANDSHAKE_NS, listener));
    }

    /// Clients of a listener waited while its process did something else, and others were there to serve them.
    pub(super) fn note_waiting(&mut self, runtime: &Runtime, listener: &'static Object) {
        let was_left = is_left(listener);
        if !was_left && listener.forked.fetch_add(CLAIMED, Ordering::Relaxed) + CLAIMED < ENOUGH {
            return;
        }
        listener.forked.store(LEFT, Ordering::Relaxed);
        for (lane, flow) in steered(listener) {
            lane.lock().device.leave_new_to_kernel(&flow);
        }
        if !was_left {
            let fd = listener.fd.load(Ordering::Relaxed);
            runtime.count(Why::Shared, format_args!("clients of a listener (fd {fd})"));
        }
    }

    /// Handshakes that the engine began have ended.
    pub(super) fn leave_listeners(&mut self, now: u64) {
        self.left.retain(|(until, listener)| {
            if now >= *until && listener.kind() == Kind::Listener && is_left(listener) {
                offload::unsteer(listener);
            }
            now < *until
        });
    }
}

/// The entries of a listener, and the lanes that they name.
fn steered(listener: &'static Object) -> Vec<(&'static Lane, xdp::Flow)> {
    let flows = listener.control.lock().flows.clone();
    let legs: Vec<_> = listener.legs().collect();
    flows.iter().filter_map(|(leg, flow)| Some((legs.get(usize::from(*leg))?.0, *flow))).collect()
}

fn listener_at(local: SocketAddrV4) -> Option<&'static Object> {
    let hears = |bound: SocketAddrV4| {
        bound.port() == local.port() && (bound.ip().is_unspecified() || bound.ip() == local.ip())
    };
    let is_it =
        |object: &&Object| object.kind() == Kind::Listener && object.control.lock().local.is_some_and(hears);
    (0..fd_table::end()).filter_map(fd_table::socket).find(is_it)
}
