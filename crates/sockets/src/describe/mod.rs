//! What describes sockets rather than counts: written by the worker twice a second and when a socket is closed, so that
//! data calls do not pay for it. And what readers wish of the process.

mod standing;

use crate::address;
use crate::counts::{self, judged, publish_polled, segment};
use crate::fd_table;
use crate::lane::{Inner, Lane, capture};
use crate::object::room::Room;
use crate::object::{Kind, Object};
use crate::runtime::{self, Runtime};
use core::sync::atomic::{AtomicBool, Ordering};
use stack::Instant;
use stack::tcp::State;
use stats::segment::address as address_word;
use stats::{Socket as Block, flag, report};
use std::ffi::CString;

/// The process is ending, and everything was said.
static ENDED: AtomicBool = AtomicBool::new(false);

/// Whether this process has emptied VMA_STATS_FILE.
static FILE_BEGUN: AtomicBool = AtomicBool::new(false);

/// Writes what describes a socket. Skips what others hold just now.
pub(crate) fn describe(object: &'static Object) {
    let block = object.counts();
    if block.fd.value() == 0 {
        return;
    }
    let nonblocking = object.nonblocking.load(Ordering::Relaxed);
    let kept = block.flags.value() & !flag::NONBLOCKING;
    block.flags.set(kept | if nonblocking { flag::NONBLOCKING } else { 0 });
    if block.inode.value() == 0 {
        let fd = object.fd.load(Ordering::Relaxed);
        block.inode.set(sys::identity::identity(fd).map_or(0, |identity| identity.inode));
    }
    if let Some(control) = object.control.try_lock() {
        block.local.set(control.local.map_or(0, address_word));
        block.remote.set(control.remote.map_or(0, address_word));
    }
    match object.kind() {
        Kind::Udp => describe_udp(object, block),
        Kind::Carried | Kind::Memory => describe_carried(object, block),
        _ => describe_tcp(object, block),
    }
}

/// What the kernel carries and may move: only the kernel knows its names, and how it is judged changes without a move.
fn describe_carried(object: &'static Object, block: &Block) {
    let Some(runtime) = runtime::get() else { return };
    let fd = object.fd.load(Ordering::Relaxed);
    block.local.set(address::of_shadow(&runtime.os, fd).map_or(0, address_word));
    block.remote.set(address::peer_of_shadow(&runtime.os, fd).map_or(0, address_word));
    let state = [0u8; 1];
    if let Ok([state]) = sys::socket::option(fd, libc::IPPROTO_TCP, libc::TCP_INFO, state) {
        block.tcp_state.set(number_of_kernels(state));
    }
    if object.kind() == Kind::Carried
        && !object.room().is_some_and(Room::looks)
        && runtime.sdp.is_none()
        && let Some((verdict, seen)) = standing::standing(runtime, object)
    {
        judged(block, verdict, seen);
    }
}

/// RFC 9293's state, of the kernel's number (TCP_ESTABLISHED ... of tcp_states.h).
fn number_of_kernels(state: u8) -> u64 {
    match state {
        1 => number(State::Established),
        2 => number(State::SynSent),
        3 | 12 => number(State::SynReceived),
        4 => number(State::FinWait1),
        5 => number(State::FinWait2),
        6 => number(State::TimeWait),
        8 => number(State::CloseWait),
        9 => number(State::LastAck),
        10 => number(State::Listen),
        11 => number(State::Closing),
        _ => number(State::Closed),
    }
}

/// The lane, though a program that polls has it nearly always.
fn soon(lane: &Lane) -> Option<sys::MutexGuard<'_, Inner>> {
    lane.lock_until(sys::clock::now() + 1_000_000)
}

fn describe_udp(object: &'static Object, block: &Block) {
    let (mut packets, mut bytes, mut dropped, mut limit) = (0, 0, 0, 0);
    for (lane, id) in object.legs() {
        let Some(inner) = soon(lane) else { return };
        let queued = inner.stack.udp_queued(id).unwrap_or_default();
        packets += queued.packets as u64;
        bytes += queued.bytes as u64;
        dropped += inner.stack.udp_dropped(id);
        limit = inner.stack.udp_options(id).map_or(limit, |options| u64::from(options.receive_buffer));
        block.lane.set(lane.slot as u64 + 1);
    }
    block.rx_queued_packets.set(packets);
    block.rx_queued_bytes.set(bytes);
    block.rx_queued_packets_max.seen(packets);
    block.rx_queued_bytes_max.seen(bytes);
    block.rx_dropped_packets.follow(dropped);
    block.rx_bytes_limit.set(limit);
}

fn describe_tcp(object: &'static Object, block: &Block) {
    let Some((lane, id)) = object.leg() else { return };
    let Some(inner) = soon(lane) else { return };
    block.lane.set(lane.slot as u64 + 1);
    if let Some(state) = inner.stack.tcp_state(id) {
        block.tcp_state.set(number(state));
    }
    if let Some(local) = inner.stack.local(id) {
        block.local.set(address_word(local));
    }
    if let Some(queued) = inner.stack.tcp_queued(id) {
        block.rx_queued_bytes.set(queued.receive as u64);
        block.rx_queued_bytes_max.seen(queued.receive as u64);
        block.tx_queued_bytes.set(queued.send as u64);
    }
    if let Some(info) = inner.stack.tcp_info(Instant(sys::clock::now()), id) {
        block.tx_retransmits.follow(u64::from(info.total_retrans));
        block.rx_bytes_limit.set(u64::from(info.rcv_ssthresh));
    }
}

/// RFC 9293's states in its order.
fn number(state: State) -> u64 {
    match state {
        State::Closed => 0,
        State::Listen => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::Established => 4,
        State::FinWait1 => 5,
        State::FinWait2 => 6,
        State::CloseWait => 7,
        State::Closing => 8,
        State::LastAck => 9,
        State::TimeWait => 10,
    }
}

/// All that is known of a socket, as VMA_STATS_FILE has it.
pub(crate) fn text(object: &'static Object) -> String {
    describe(object);
    words(object)
}

/// An accelerated socket is about to be closed: its last words go to VMA_STATS_FILE, and at DEBUG to the log.
pub(crate) fn last_words(runtime: &Runtime, object: &'static Object) {
    let path = &runtime.parameters.stats_file;
    let logs = logger::enabled(logger::Level::Debug);
    if path.is_empty() && !logs
        || ENDED.load(Ordering::Relaxed)
        || object.counts().fd.value() == 0
        || object.leg().is_none()
    {
        return;
    }
    describe(object);
    let text = words(object) + "\n";
    if logs {
        logger::debug!("fd {}: closed; its counters:", report::fd(object.counts()));
        text.lines().for_each(|line| logger::debug!("{line}"));
    }
    if path.is_empty() {
        return;
    }
    let begin = if FILE_BEGUN.swap(true, Ordering::Relaxed) { 0 } else { libc::O_TRUNC };
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_NOCTTY | libc::O_NONBLOCK | begin;
    let Ok(path_c) = CString::new(path.as_str()) else { return };
    match sys::file::open(&path_c, flags, 0o644) {
        Ok(file) => drop(sys::fd::write(file.raw(), text.as_bytes())),
        Err(errno) => {
            static TOLD: logger::Once = logger::Once::new();
            if TOLD.first() {
                logger::warning!(
                    "VMA_STATS_FILE={path}: cannot be opened ({why}): not written",
                    why = sys::Errno(errno)
                );
            }
        }
    }
}

/// All that is known of a socket, in lines.
fn words(object: &Object) -> String {
    let block = object.counts();
    report::socket(block, &segment().groups(block), report::Rate::TOTAL)
}

/// Describes every open socket, and does what readers wish. By the worker, twice a second.
pub(crate) fn attend(runtime: &Runtime) {
    for object in objects() {
        describe(object);
    }
    for lane in runtime.lanes() {
        if let Some(mut inner) = soon(lane) {
            inner.publish();
        }
    }
    if runtime.parameters.cpu_usage_stats {
        publish_polled(sys::clock::now());
    }
    let now = sys::clock::now();
    for lane in runtime.lanes().filter(|lane| !lane.is_fenced()) {
        capture::attend_lane(runtime, lane, now);
    }
    let control = segment().control();
    if let Some(level) = control.take_log_level() {
        logger::set_level(level);
    }
    if let Some(details) = control.take_log_details() {
        logger::set_details(details);
    }
    if let Some((fd, level)) = control.take_dump() {
        dump(fd, level);
    }
}

pub(crate) fn objects() -> impl Iterator<Item = &'static Object> {
    let own = |(fd, object): (i32, &'static Object)| {
        // Once for each socket, whatever it was duplicated to.
        (object.fd.load(Ordering::Relaxed) == fd).then_some(object)
    };
    (0..fd_table::end()).filter_map(|fd| Some((fd, fd_table::socket(fd)?))).filter_map(own)
}

fn dump(fd: i32, level: i32) {
    if level > logger::level() {
        return;
    }
    let level = logger::Level::from_number(level);
    let Some(object) = fd_table::socket(fd) else {
        logger::write(level, format_args!("fd {fd}: not an accelerated socket"));
        return;
    };
    for line in words(object).lines() {
        logger::write(level, format_args!("{line}"));
    }
}

/// Last words of every open socket.
pub(crate) fn end(runtime: &Runtime) {
    for object in objects() {
        last_words(runtime, object);
    }
    ENDED.store(true, Ordering::Relaxed);
}

/// There is a segment: sockets that the kernel carries count in it.
pub(crate) fn claim_all() {
    for object in objects().filter(|object| object.kind() == Kind::Carried) {
        object.claim_counts(object.fd.load(Ordering::Relaxed));
        describe(object);
    }
}

/// A connection meets its peer in memory from now on.
#[cold]
pub(crate) fn in_memory(object: &'static Object) {
    object.claim_counts(object.fd.load(Ordering::Relaxed));
    if counts::in_memory(object.counts()) {
        // Readers may come before a worker has named its ends, if there ever is one.
        describe(object);
    }
}
