//! VMA's extra API: what its functions mean. How C calls them is `interpose`'s; on which sockets they do what, for its
//! users, is docs/extra-api.md.
//!
//! Reading order: [`crate::abi`] (the header's layout), `lent.rs` beside this room (packets that the program has),
//! `zero_copy`, `filter` (the receive callback), `completions` (socketxtreme), `rehearse` (dummy sends, network headers),
//! `rings`, `options`.
//!
//! Of a socket without any of this, its cost is one look at a pointer that is null.

mod completions;
mod filter;
mod options;
mod rehearse;
mod rings;
mod zero_copy;

pub use completions::{free_buff, free_packet_descriptions, poll, ref_buff};
pub use filter::register;
pub use options::{ioctl, ring_profile};
pub use rehearse::network_header;
pub use rings::{modify_ring, rings_fds, rings_num, tx_ring_fd};
pub use zero_copy::{ZeroCopied, free_packets, receive};

pub(crate) use completions::Queue;
pub(crate) use filter::{begin_on, vet};
pub(crate) use options::{get, is_option, set};
pub(crate) use rehearse::send;

use crate::answer::Answer;
use crate::calls;
use crate::carrier;
use crate::errno::fail;
use crate::fd_table;
use crate::locks::Rank;
use crate::object::{Kind, Object};
use crate::runtime::{Asked, Runtime};
use crate::{counts, runtime};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use libc::{c_int, pthread_t};

/// What few sockets have: made with the first use of the API on one, and kept with its object.
pub(crate) struct Extra {
    /// The program filters what arrives.
    is_filtered: AtomicBool,
    filter: sys::Mutex<Option<filter::Filter>>,
    /// A thread asks the filter.
    asks: AtomicBool,
    /// Pieces that it was lent as packets.
    lent: AtomicU32,
    user_data: AtomicU64,
    has_user_data: AtomicBool,
    flow_tag: AtomicU32,
    /// SO_VMA_RING_ALLOC_LOGIC: the number of the logic plus 1, and in the lower half the user's; 0: not set.
    lane: AtomicU64,
    /// Edges that no completion has told yet, and whether the socket waits for its turn to tell.
    edges: AtomicU32,
    is_queued: AtomicBool,
}

impl Default for Extra {
    fn default() -> Extra {
        Extra {
            is_filtered: AtomicBool::new(false),
            filter: Rank::Extra.lock(None),
            asks: AtomicBool::new(false),
            lent: AtomicU32::new(0),
            user_data: AtomicU64::new(0),
            has_user_data: AtomicBool::new(false),
            flow_tag: AtomicU32::new(0),
            lane: AtomicU64::new(0),
            edges: AtomicU32::new(0),
            is_queued: AtomicBool::new(false),
        }
    }
}

impl Extra {
    #[inline]
    pub(crate) fn is_filtered(&self) -> bool {
        self.is_filtered.load(Ordering::Acquire)
    }

    /// The socket is closed. What it was lent as packets is taken back: nobody could return it.
    pub(crate) fn clear(&self, object: &'static Object) {
        if self.lent.swap(0, Ordering::Relaxed) > 0 {
            let lanes = runtime::get().into_iter().flat_map(|runtime| runtime.lanes());
            lanes.for_each(|lane| lane.lock().lent.take_all_back(object.token()));
        }
        *self.filter.lock() = None;
        for flag in [&self.is_filtered, &self.asks, &self.has_user_data, &self.is_queued] {
            flag.store(false, Ordering::Relaxed);
        }
        self.user_data.store(0, Ordering::Relaxed);
        self.flow_tag.store(0, Ordering::Relaxed);
        self.lane.store(0, Ordering::Relaxed);
        self.edges.store(0, Ordering::Relaxed);
    }

    /// In the child of a fork: what the parent's threads did with it is over, and what it was lent is the parent's.
    pub(crate) fn after_fork(&self, child: &sys::InChild) {
        self.filter.take_over(child);
        self.asks.store(false, Ordering::Relaxed);
        self.lent.store(0, Ordering::Relaxed);
        self.is_queued.store(false, Ordering::Relaxed);
    }

    /// What completions call the socket.
    fn user_data(&self, object: &Object) -> u64 {
        match self.has_user_data.load(Ordering::Relaxed) {
            true => self.user_data.load(Ordering::Relaxed),
            false => object.fd.load(Ordering::Relaxed) as u64,
        }
    }

    /// The lane that the socket asks for.
    pub(crate) fn asked_lane(&self) -> Option<Asked> {
        let asked = self.lane.load(Ordering::Relaxed);
        let logic = (asked >> 32).checked_sub(1)?;
        Asked::of(logic as u32, asked as u32)
    }

    /// So many pieces more, or less, are lent.
    fn holds(&self, object: &Object, change: i32) {
        let now = match change {
            0.. => self.lent.fetch_add(change as u32, Ordering::Relaxed) + change as u32,
            _ => self.lent.fetch_sub(change.unsigned_abs(), Ordering::Relaxed) - change.unsigned_abs(),
        };
        object.counts().rx_zero_copy.set(u64::from(now));
    }
}

/// A socket that the engine carries; EINVAL for any other. One that the kernel carries and that could move moves first.
fn accelerated(fd: c_int) -> Answer<(&'static Runtime, &'static Object)> {
    let (runtime, object) = calls::hearing(fd).or_else(|_| fail(libc::EINVAL))?;
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
        fd => vec![calls::ours(fd).or_else(|_| fail(libc::EINVAL))?.1],
    };
    for object in known {
        for line in counts::text(object).lines() {
            if logger::enabled(level) {
                logger::write(level, format_args!("{line}"));
            }
        }
    }
    Ok(0)
}
