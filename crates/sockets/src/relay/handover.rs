//! A listener's connections for the others that listen: when its process closes it, or leaves its clients to children.

use super::pump::Pump;
use super::{Relays, State, UNDER_WAY_NS};
use crate::address;
use crate::lane::Lane;
use crate::object::{Kind, Object};
use crate::offload;
use crate::runtime::Runtime;
use crate::tcp;
use core::sync::atomic::Ordering;
use stack::{Ready, SocketId};
use std::net::SocketAddrV4;
use sys::Fd;

/// A listener that the application closed: connections that were on their way to it are handed to others.
pub(super) struct Leaving {
    lane: &'static Lane,
    id: SocketId,
    since: u64,
}

impl Relays {
    /// The application closes a listener that others share: its legs stay for a while, without new clients. False: it
    /// would take longer than `patience` to get at the lock.
    pub(crate) fn hand_over(
        &self,
        runtime: &'static Runtime,
        listener: &'static Object,
        patience: u64,
    ) -> bool {
        let Some(mut state) = self.state.lock_until(patience) else { return false };
        for (lane, id) in listener.legs() {
            if let Some(mut inner) = lane.lock_until(patience) {
                inner.stack.set_token(id, 0);
                state.leaving.push(Leaving { lane, id, since: sys::clock::now() });
            }
        }
        listener.drop_legs();
        self.has_handed_over.store(true, Ordering::Relaxed);
        self.busy.store(true, Ordering::Release);
        self.pumping.store(true, Ordering::Relaxed);
        drop(state);
        runtime.worker.look();
        true
    }

    /// Whether somebody serves connections that were handed over, or may begin to: another process listens on the port.
    pub(crate) fn have_takers(&self) -> bool {
        let Some(state) = self.state.try_lock() else { return true };
        state.pumps.iter().any(|pump| {
            let flow =
                pump.object.control.lock().flows.first().map(|(_, flow)| xdp::Flow { remote: None, ..*flow });
            let mut lanes = pump.object.legs().map(|(lane, _)| lane);
            pump.is_served || flow.is_some_and(|flow| lanes.any(|lane| lane.lock().device.has_others(&flow)))
        })
    }

    /// The process ends: who has not been served, or not to the end, hears of it now.
    pub(crate) fn abandon(&self, patience: u64) {
        let Some(mut state) = self.state.lock_until(patience) else { return };
        let State { pumps, leaving, .. } = &mut *state;
        let relayed = pumps.drain(..).flat_map(|pump| pump.object.legs().collect::<Vec<_>>());
        let queued = leaving.drain(..).map(|leaving| (leaving.lane, leaving.id));
        for (lane, id) in relayed.chain(queued) {
            if let Some(mut inner) = lane.lock_until(patience) {
                tcp::abort_in(&mut inner, id, stack::Instant(sys::clock::now()));
            }
        }
    }

    /// Clients that wait in the queues of listeners which other processes have, too, go there: from one that rests,
    /// since its process leaves clients to the children that it forked, once any of those listens; from any other when
    /// its process has not accepted for a while. It serves somebody, or waits for its turn to accept. By the worker;
    /// when it is to look again.
    pub(crate) fn relieve(&self, runtime: &'static Runtime, now: u64) -> u64 {
        let wake = runtime.worker.descriptor();
        let mut again = u64::MAX;
        runtime.resting.each(|object| {
            // Who holds the lock may be about to accept.
            let waits =
                |(lane, id): (&Lane, _)| lane.try_lock().map(|inner| inner.stack.ready(id).has(Ready::IN));
            let Some(waiting) = object.legs().map(waits).collect::<Option<Vec<_>>>() else { return };
            if !waiting.contains(&true) {
                object.waits_since.store(0, Ordering::Relaxed);
                return;
            }
            if !object.resting.load(Ordering::Acquire) {
                let since = match object.waits_since.load(Ordering::Relaxed) {
                    0 => now,
                    since => since,
                };
                if now < since + WAITING_NS {
                    object.waits_since.store(since, Ordering::Relaxed);
                    again = again.min(since + WAITING_NS);
                    return;
                }
            }
            let flow = object.control.lock().flows.first().map(|(_, flow)| *flow);
            let mut state = self.state.lock();
            let mut passed = false;
            for (lane, id) in object.legs() {
                if !flow.is_some_and(|flow| lane.lock().device.has_others(&flow)) {
                    continue;
                }
                let State { pumps, kept, .. } = &mut *state;
                Leaving { lane, id, since: 0 }.pass_on(runtime, pumps, kept, wake);
                passed = true;
            }
            if passed {
                if !object.resting.load(Ordering::Acquire) {
                    state.note_waiting(runtime, object);
                }
                self.has_handed_over.store(true, Ordering::Relaxed);
                self.busy.store(true, Ordering::Release);
                self.pumping.store(true, Ordering::Relaxed);
            }
            object.waits_since.store(0, Ordering::Relaxed);
        });
        again
    }
}

impl Leaving {
    /// False: its time is over.
    pub(super) fn serve(
        &self,
        runtime: &'static Runtime,
        pumps: &mut Vec<Pump>,
        kept: &mut Vec<(&'static Object, Option<Fd>)>,
        wake: i32,
        now: u64,
    ) -> bool {
        self.lane.turn(now);
        self.pass_on(runtime, pumps, kept, wake);
        let age = now.saturating_sub(self.since);
        let is_awaited =
            age < UNDER_WAY_NS || age < LEAVING_NS && self.lane.lock().stack.tcp_handshakes(self.id) > 0;
        if !is_awaited {
            tcp::abort(self.lane, self.id);
        }
        is_awaited
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
            pumps.push(Pump::new(object, far));
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

/// So long a client waits for the process whose lane it came to, before it is passed on to the others.
const WAITING_NS: u64 = 5_000_000;

/// How long a handshake may take that began before its listener was closed, nanoseconds.
const LEAVING_NS: u64 = 200_000_000;
