//! VMA's extra API: what its functions mean. How C calls them is `interpose`'s; on which sockets they do what, for its
//! users, is docs/extra-api.md.
//!
//! Reading order: [`crate::abi`] (the header's layout), `lent.rs` and `filter.rs` below this room (packets that the
//! program has, the receive callback), `zero_copy`, `completions` (socketxtreme), `rehearse` (dummy sends, network
//! headers), `rings`, `options`.
//!
//! Of a socket without any of this, its cost is one look at a pointer that is null.

mod completions;
mod options;
mod rehearse;
mod rings;
mod zero_copy;

pub use completions::{free_buff, free_packet_descriptions, poll, ref_buff};
pub use options::{ioctl, ring_profile};
pub use rehearse::network_header;
pub use rings::{modify_ring, rings_fds, rings_num, tx_ring_fd};
pub use zero_copy::{ZeroCopied, free_packets, receive};

pub(crate) use options::{get, is_option, set};
pub(crate) use rehearse::send;

use crate::abi::ReceiveCallback;
use crate::answer::Answer;
use crate::carrier;
use crate::describe;
use crate::errno::fail;
use crate::fd_table;
use crate::filter;
use crate::locks::Rank;
use crate::lookup::{hearing, ours};
use crate::object::{Filter, Kind, Object};
use crate::runtime;
use crate::runtime::Runtime;
use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};
use libc::{c_int, pthread_t};

/// register_recv_callback; `None` takes it away. What waits to be read when it begins is filtered, too.
pub fn register(fd: c_int, callback: Option<ReceiveCallback>, context: *mut c_void) -> Answer<c_int> {
    let (_, object) = accelerated(fd)?;
    let extra = object.extra_or_new();
    *extra.filter.lock() = callback.map(|callback| Filter { callback, context: context.expose_provenance() });
    extra.is_filtered.store(callback.is_some(), Ordering::Release);
    for (lane, id) in object.legs() {
        filter::begin(lane, id, object.kind(), callback.is_some());
    }
    Ok(0)
}

/// A socket that the engine carries; EINVAL for any other. One that the kernel carries and that could move moves first.
fn accelerated(fd: c_int) -> Answer<(&'static Runtime, &'static Object)> {
    let (runtime, object) = hearing(fd).or_else(|_| fail(libc::EINVAL))?;
    demand(runtime, object, fd);
    // What may not move was left to the kernel, and the object may be another socket's.
    if object.leg().is_some() && fd_table::names(fd, object) {
        Ok((runtime, object))
    } else {
        fail(libc::EINVAL)
    }
}

/// Who uses the API on a socket wants it accelerated: if the kernel carries it, and it can move, it does now.
#[inline]
fn demand(runtime: &'static Runtime, object: &'static Object, fd: c_int) {
    match object.kind() {
        Kind::Carried => carrier::demand(runtime, object, fd),
        Kind::Udp => carrier::demand_datagrams(runtime, object, fd),
        _ => {}
    }
}

/// Threads that chose for themselves whether their sockets may be accelerated.
static THREADS: sys::Mutex<Vec<(pthread_t, bool)>> = Rank::Extra.lock(Vec::new());
static THREADS_COUNT: AtomicUsize = AtomicUsize::new(0);

/// thread_offload: sockets that a thread makes from now on may be accelerated, or not, whatever VMA_OFFLOADED_SOCKETS
/// says.
pub fn thread_offload(offload: bool, thread: pthread_t) -> Answer<c_int> {
    let mut threads = THREADS.lock();
    threads.retain(|(known, _)| *known != thread);
    threads.push((thread, offload));
    THREADS_COUNT.store(threads.len(), Ordering::Release);
    Ok(0)
}

/// Whether sockets of this thread may be accelerated; `otherwise`: of a thread that did not choose.
#[inline]
pub(crate) fn thread_offloads(otherwise: bool) -> bool {
    if THREADS_COUNT.load(Ordering::Acquire) == 0 {
        return otherwise;
    }
    // SAFETY: no arguments.
    let me = unsafe { libc::pthread_self() };
    THREADS.lock().iter().find(|(thread, _)| *thread == me).map_or(otherwise, |(_, offload)| *offload)
}

/// In the child of a fork: another thread of the parent may have held the lock.
pub(crate) fn after_fork(child: &sys::InChild) {
    THREADS.take_over(child);
    options::after_fork(child);
}

/// add_conf_rule: a line of libvma.conf, before all others of its role. Sockets that were decided about stay as they
/// are.
pub fn add_conf_rule(line: &str) -> Answer<c_int> {
    let Some(runtime) = runtime::get() else { return fail(libc::ENODEV) };
    let added = runtime.rules.lock().add_first(line);
    match added {
        Ok(()) => {
            logger::debug!("rule added by the program: {line}");
            // What was remembered of destinations was decided by the old ones.
            runtime.forget_routes();
            Ok(0)
        }
        Err(notice) => {
            logger::warning!("add_conf_rule: {notice}");
            fail(libc::EINVAL)
        }
    }
}

/// dump_fd_stats: logs what is known of a socket, or with fd 0 of all.
pub fn dump_fd_stats(fd: c_int, level: c_int) -> Answer<c_int> {
    let level = logger::Level::from_number(level);
    let known: Vec<&'static Object> = match fd {
        0 => (0..fd_table::end()).filter_map(fd_table::socket).collect(),
        fd => vec![ours(fd).or_else(|_| fail(libc::EINVAL))?.1],
    };
    for object in known {
        for line in describe::text(object).lines() {
            if logger::enabled(level) {
                logger::write(level, format_args!("{line}"));
            }
        }
    }
    Ok(0)
}
