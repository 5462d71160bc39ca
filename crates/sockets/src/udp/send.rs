//! Sending datagrams.

use super::ancillary::{self, Asked};
use super::autobind;
use crate::answer::{Answer, Stop, Why};
use crate::carrier;
use crate::counts;
use crate::errno::fail;
use crate::fd_table;
use crate::lane::{Inner, Lane, Tx};
use crate::message::Buffers;
use crate::object::in_flight::InFlight;
use crate::object::{Object, Pin};
use crate::offload;
use crate::runtime::Runtime;
use crate::spin::Budget;
use crate::udp_legs::way_to;
use crate::wait::block::{self, Stopped, Wait};
use config::Role;
use core::sync::atomic::Ordering;
use libc::{c_int, ssize_t};
use stack::{Instant, SendError, SocketId, Source};
use std::net::{Ipv4Addr, SocketAddrV4};
use sys::linux::MSG_PROBE;

/// Flags that have no accelerated form: the kernel sends such a datagram, from the same port.
const KERNEL_FLAGS: c_int = libc::MSG_OOB | libc::MSG_MORE | MSG_PROBE | libc::MSG_DONTROUTE;

/// In the place of a lane in `last_route`: the kernel sends to this group.
const KERNEL: u64 = 0xffff;

/// Sends one datagram, to `to` or to the peer.
#[inline]
pub(crate) fn send(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    to: Option<SocketAddrV4>,
    data: &mut Buffers<'_>,
    flags: c_int,
    asked: &Asked,
) -> Answer<ssize_t> {
    if flags & KERNEL_FLAGS != 0 || object.shut.load(Ordering::Relaxed) & 2 != 0 {
        // What was begun in the kernel with MSG_MORE ends there, with the first datagram without it.
        if flags & libc::MSG_MORE != 0 {
            object.ancillary.fetch_or(ancillary::MORE, Ordering::Relaxed);
        }
        return Err(Stop::Kernel(Why::NotOurs));
    }
    if object.ancillary.load(Ordering::Relaxed) & ancillary::KERNEL_SENDS != 0 {
        object.ancillary.fetch_and(!ancillary::MORE, Ordering::Relaxed);
        return Err(Stop::Kernel(Why::NotOurs));
    }
    if carrier::waits(object) {
        late(runtime, object, fd, to, data.remaining());
        // Where it was left to the kernel, the object may be another socket's.
        if !fd_table::names(fd, object) || object.leg().is_none() && carrier::waits(object) {
            return Err(Stop::Kernel(Why::NotOurs));
        }
    }
    carrier::datagram_on_wire(data.remaining());
    let (lane, source) = match to {
        None => match object.leg() {
            Some((lane, _)) => (lane, None),
            None => return Err(Stop::Kernel(Why::NotOurs)),
        },
        Some(to) => {
            let (lane, source) = route(runtime, object, to)?;
            if object.leg().is_none() {
                gets_legs(runtime, object, fd)?;
            }
            (object.lane_beside(lane), Some(source))
        }
    };
    if *asked != Asked::default() && !possible(lane, asked) {
        return Err(Stop::Kernel(Why::NotOurs));
    }
    let now = sys::clock::now();
    match transmit(object, lane, source, to, data, asked, now) {
        Err(SendError::WouldBlock) => {
            wait_and_send(runtime, object, fd, lane, source, to, data, flags, asked)
        }
        result => answer(result),
    }
}

/// The first datagram of a socket that was never bound gives it legs. One that another thread has just taken to the
/// kernel has none either, and is the kernel's to send for.
#[cold]
fn gets_legs(runtime: &'static Runtime, object: &'static Object, fd: c_int) -> Answer<()> {
    let Some(pin) = Pin::by(object, fd) else { return Err(Stop::Kernel(Why::NotOurs)) };
    let _alone = InFlight::changes(object);
    match object.leg() {
        None if carrier::waits(object) || !fd_table::names(fd, object) => Err(Stop::Kernel(Why::NotOurs)),
        None => autobind(runtime, &pin, fd),
        Some(_) => Ok(()),
    }
}

/// The kernel sends for a socket that begins there, unless it moves now. What a rule demands moves with its first
/// datagram.
fn late(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    to: Option<SocketAddrV4>,
    bytes: usize,
) {
    if to.is_none_or(|to| !carrier::is_due_at_once(runtime, object, to)) {
        carrier::datagram(runtime, object, fd, bytes, || to.or_else(|| object.control.lock().remote));
    }
}

/// Whether a lane can do what control messages ask for.
#[cold]
fn possible(lane: &Lane, asked: &Asked) -> bool {
    (asked.link == 0 || asked.link == lane.link)
        && asked.source.is_none_or(|source| lane.lock().addresses.contains(&source))
}

fn answer(result: Result<usize, SendError>) -> Answer<ssize_t> {
    match result {
        Ok(sent) => Ok(sent as ssize_t),
        // Neither peer nor address; the leg is gone (a race with close or connect): the kernel's own answer. Or the way
        // is another interface's, which the kernel's socket takes.
        Err(SendError::NotConnected | SendError::NoSocket | SendError::Elsewhere) => {
            Err(Stop::Kernel(Why::NotOurs))
        }
        Err(error) => fail(error.errno()),
    }
}

/// Hands the datagram to the engine of `lane`.
#[inline]
fn transmit(
    object: &Object,
    lane: &'static Lane,
    source: Option<Ipv4Addr>,
    to: Option<SocketAddrV4>,
    data: &mut Buffers<'_>,
    asked: &Asked,
    now: u64,
) -> Result<usize, SendError> {
    let Some(id) = object.leg_on(lane) else { return Err(SendError::NoSocket) };
    lane.briefly(|inner| {
        inner.take_in(now);
        let Some(to) = to.or_else(|| inner.stack.remote(id)) else { return Err(SendError::NotConnected) };
        // A socket bound to one address sends from it.
        let bound = inner.stack.local(id).is_some_and(|local| !local.ip().is_unspecified());
        let from = asked.source.or(if bound { None } else { source });
        let before = set_for_one(inner, id, asked);
        let result = inner.stack.udp_send(Instant(now), id, from, to, data, &mut Tx(&mut inner.device));
        if let Some((ttl, multicast_ttl, tos)) = before {
            inner.stack.udp_configure(id, |options| {
                (options.ttl, options.multicast_ttl, options.tos) = (ttl, multicast_ttl, tos);
            });
        }
        if let Ok(sent) = result {
            counts::sent(object.counts(), sent, true);
        }
        inner.sent(now);
        lane.note(inner, now);
        result
    })
}

/// Sets what one datagram is to have of its own; returns what the socket had.
#[inline]
fn set_for_one(inner: &mut Inner, id: SocketId, asked: &Asked) -> Option<(u8, u8, u8)> {
    if asked.ttl.is_none() && asked.tos.is_none() {
        return None;
    }
    let before = inner.stack.udp_options(id).map(|had| (had.ttl, had.multicast_ttl, had.tos));
    inner.stack.udp_configure(id, |options| {
        options.ttl = asked.ttl.unwrap_or(options.ttl);
        options.multicast_ttl = asked.ttl.unwrap_or(options.multicast_ttl);
        options.tos = asked.tos.unwrap_or(options.tos);
    });
    before
}

/// The lane for an unconnected send, remembered for the next one to the same destination.
#[inline]
fn route(
    runtime: &'static Runtime,
    object: &'static Object,
    to: SocketAddrV4,
) -> Answer<(&'static Lane, Ipv4Addr)> {
    if to.port() == 0 {
        return Err(Stop::Kernel(Why::NotOurs));
    }
    let generation = runtime.route_generation.load(Ordering::Relaxed) as u16;
    let key = u64::from(u32::from(*to.ip())) << 32 | u64::from(generation) << 16;
    let last = object.last_route.load(Ordering::Relaxed);
    let source = object.last_source.load(Ordering::Relaxed);
    // Each word names its destination, so that words of two threads' sends are never mixed.
    if last & !0xffff == key && (source >> 32) as u32 == u32::from(*to.ip()) && last & 0xffff == KERNEL {
        return Err(Stop::Kernel(Why::GroupAddress));
    }
    if last & !0xffff == key
        && (source >> 32) as u32 == u32::from(*to.ip())
        && let Some(lane) = (last & 0xffff).checked_sub(1).and_then(|slot| runtime.lane(slot as usize))
        && !lane.is_fenced()
    {
        return Ok((lane, Ipv4Addr::from(source as u32)));
    }
    let local = object.control.lock().local;
    let decided = offload::allowed(runtime, Role::UdpSender, local, Some(to))
        .and_then(|()| way_to(runtime, object, *to.ip()));
    match decided {
        Ok((lane, source)) => {
            let words = u64::from(u32::from(*to.ip())) << 32 | u64::from(u32::from(source));
            object.last_source.store(words, Ordering::Relaxed);
            object.last_route.store(key | (lane.slot as u64 + 1), Ordering::Relaxed);
            Ok((lane, source))
        }
        Err(why) => {
            if to.ip().is_multicast() {
                object.last_source.store(u64::from(u32::from(*to.ip())) << 32, Ordering::Relaxed);
                object.last_route.store(key | KERNEL, Ordering::Relaxed);
            }
            let told = core::mem::replace(&mut object.control.lock().told, true);
            if !told {
                runtime
                    .count(why, format_args!("UDP send to {to} (fd {})", object.fd.load(Ordering::Relaxed)));
            }
            if runtime.refuses(why) {
                return fail(libc::EPROTONOSUPPORT);
            }
            Err(Stop::Kernel(why))
        }
    }
}

/// The transmit side is full: waits for room, if the caller may block.
#[cold]
#[allow(clippy::too_many_arguments)]
fn wait_and_send(
    runtime: &'static Runtime,
    object: &'static Object,
    fd: c_int,
    lane: &'static Lane,
    source: Option<Ipv4Addr>,
    to: Option<SocketAddrV4>,
    data: &mut Buffers<'_>,
    flags: c_int,
    asked: &Asked,
) -> Answer<ssize_t> {
    if !object.may_wait(flags) {
        return fail(libc::EAGAIN);
    }
    let one = [object];
    let wait = Wait { budget: Budget::Fixed(1_000_000), ..Wait::to_send(runtime, &one) };
    let sent = block::until(runtime, &wait, |now| {
        lane.turn(now);
        debug_assert!(data.remaining() == data.left());
        match transmit(object, lane, source, to, data, asked, now) {
            Err(SendError::WouldBlock) => None,
            result => Some(answer(result)),
        }
    });
    match sent {
        Ok(answer) => answer,
        Err(Stopped::Moved) => send(runtime, object, fd, to, data, flags, asked),
        Err(stopped) => stopped.answer(),
    }
}
