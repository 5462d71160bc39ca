//! The process's statistics: the segment that `vma_stats` reads, made on first use, and the blocks of sockets in it.
//!
//! Calls count into their socket's block with plain stores under the lane's lock; what describes a socket (state,
//! queues, addresses) is written by the worker twice a second and at the end, so that data calls do not pay for it.
//! Sockets that found no block, and everything in a process without statistics, count into blocks that nobody reads.

mod polling;
mod reasons;
mod shown;
#[cfg(test)]
mod tests;

pub(crate) use polling::{polled, publish_polled};
pub(crate) use shown::{claim_soon, in_use, part, parts, show};

use crate::answer::{Answer, Stop, Why};
use crate::describe;
use crate::kind::Kind;
use crate::locks::Rank;
use crate::runtime::{self, LANES_MAX, Runtime};
use core::cell::Cell;
use core::net::{Ipv4Addr, SocketAddrV4};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use libc::ssize_t;
use stats::segment::{address, file_name};
use stats::{About, Carrier, Segment, Socket as Block, Verdict, flag};
use std::ffi::{CStr, CString};

static NOWHERE: Segment = Segment::nowhere();
static SEGMENT: AtomicPtr<Segment> = AtomicPtr::new(core::ptr::null_mut());
/// The process that made the file, and removes it.
static OWNER: AtomicI32 = AtomicI32::new(0);
static OPENING: sys::Mutex<()> = Rank::Segment.lock(());

/// What objects without a block of their own count into.
pub(crate) static NOBODY: Block = Block::new();

/// Blocks of open descriptors that were left to the kernel: shown with their reason until they are closed.
static LEFT: AtomicPtr<Left> = AtomicPtr::new(core::ptr::null_mut());
type Left = sys::Mutex<Vec<(i32, &'static Block)>>;
static LEFT_COUNT: AtomicUsize = AtomicUsize::new(0);

/// The segment of this process; before there is one, where counts gather for it.
#[inline]
pub(crate) fn segment() -> &'static Segment {
    // SAFETY: null, or a leaked segment.
    unsafe { SEGMENT.load(Ordering::Acquire).as_ref() }.unwrap_or(&NOWHERE)
}

/// The segment, made if there is none yet.
#[inline]
pub(crate) fn made_segment() -> &'static Segment {
    // SAFETY: as above.
    match unsafe { SEGMENT.load(Ordering::Acquire).as_ref() } {
        Some(segment) => segment,
        None => runtime::get().map_or(&NOWHERE, open),
    }
}

#[cold]
fn open(runtime: &Runtime) -> &'static Segment {
    let segment = open_one(runtime);
    describe::claim_all();
    segment
}

fn open_one(runtime: &Runtime) -> &'static Segment {
    let _one = OPENING.lock();
    // SAFETY: as in `segment`.
    if let Some(segment) = unsafe { SEGMENT.load(Ordering::Acquire).as_ref() } {
        return segment;
    }
    let sockets = runtime.parameters.stats_fd_num as usize;
    let memory = memory(&runtime.parameters.stats_shmem_dir, Segment::size(LANES_MAX, sockets));
    let made = memory.and_then(|(start, length)| {
        let program = crate::settings::program_name();
        let about = About {
            pid: sys::process::pid() as u32,
            program: program.as_bytes(),
            started_ns: sys::clock::realtime(),
        };
        // SAFETY: fresh zeroed memory that stays mapped, written through the segment only.
        unsafe { Segment::create(start, length, LANES_MAX, sockets, about) }
    });
    let segment: &'static Segment = made.map_or(&NOWHERE, |segment| Box::leak(Box::new(segment)));
    segment.begin_with_nowhere();
    SEGMENT.store(core::ptr::from_ref(segment).cast_mut(), Ordering::Release);
    segment
}

/// Memory for the segment: the file that readers look for, else ordinary memory (VMA_STATS_FILE is written from it).
fn memory(directory: &str, length: usize) -> Option<(NonNull<u8>, usize)> {
    let file = if directory.is_empty() { Err(0) } else { make_own_file(directory, length) };
    let mapping = match file {
        Ok(file) => sys::memory::Mapping::shared(file.raw(), length, 0, false),
        Err(errno) => {
            if errno != 0 {
                // Asked for by name it is a loss, by default it is not.
                let asked = directory != config::Parameters::default().stats_shmem_dir;
                let level = if asked { logger::Level::Warning } else { logger::Level::Debug };
                if logger::enabled(level) {
                    logger::write(
                        level,
                        format_args!(
                            "VMA_STATS_SHMEM_DIR={directory}: no file for vma_stats can be made ({why})",
                            why = sys::Errno(errno)
                        ),
                    );
                }
            }
            sys::memory::Mapping::anonymous(length)
        }
    }
    .ok()?;
    let place = (mapping.start(), mapping.length());
    // Mapped until the process ends.
    core::mem::forget(mapping);
    Some(place)
}

/// A file beside the statistics. `None`: there is no such place.
pub(crate) fn path(directory: &str, name: &str) -> Option<CString> {
    (!directory.is_empty())
        .then(|| CString::new(format!("{}/{name}", directory.trim_end_matches('/'))).ok())?
}

fn own_path(directory: &str) -> Option<CString> {
    path(directory, &file_name(sys::process::pid() as u32))
}

fn make_own_file(directory: &str, length: usize) -> Result<sys::Fd, i32> {
    let path = own_path(directory).ok_or(libc::EINVAL)?;
    let file = make_file(&path, length, 0o644)?;
    OWNER.store(sys::process::pid(), Ordering::Relaxed);
    Ok(file)
}

/// A new file: what an earlier process of our number left is removed, and nobody's link is followed.
pub(crate) fn make_file(path: &CStr, length: usize, mode: u32) -> Result<sys::Fd, i32> {
    let _ = sys::file::unlink(path);
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    let file = sys::file::open(path, flags, mode)?;
    // With its memory reserved: a full file system must not become a SIGBUS in somebody's program.
    if let Err(errno) = sys::file::reserve(file.raw(), length as u64) {
        let _ = sys::file::unlink(path);
        return Err(errno);
    }
    Ok(file)
}

/// A block for a socket.
pub(crate) fn claim(kind: Kind, fd: i32, nonblocking: bool) -> &'static Block {
    let block = made_segment().claim_socket(fd);
    if block.fd.value() != 0 {
        block.flags.set(flags(kind, nonblocking));
        if kind == Kind::Carried {
            begins_in_kernel(block);
        }
    }
    block
}

/// The kernel carries the socket until it has shown that it gains.
pub(crate) fn begins_in_kernel(block: &Block) {
    if block.fd.value() != 0 {
        set_carrier(block, Carrier::Kernel);
        judged(block, Verdict::TooFewCalls, (0, 0));
    }
}

/// A socket that was to begin in the kernel, as all do, begins on the wire.
pub(crate) fn begins_on_wire(block: &Block) {
    if block.fd.value() != 0 {
        block.carrier.set(Carrier::None as u64);
        judged(block, Verdict::Undecided, (0, 0));
    }
}

/// The socket's carrier from now on.
fn set_carrier(block: &Block, carrier: Carrier) {
    let before = Carrier::from_number(block.carrier.value());
    if before == carrier {
        return;
    }
    block.carrier_moves.add(u64::from(before != Carrier::None));
    block.carrier.set(carrier as u64);
    block.carrier_since_ns.set(sys::clock::realtime());
}

/// The ends of a socket that moves, for readers that come before the worker has described it.
pub(crate) fn named(block: &Block, local: SocketAddrV4, remote: Option<SocketAddrV4>) {
    if block.fd.value() != 0 {
        block.local.set(address(local));
        block.remote.set(remote.map_or(0, address));
    }
}

/// Why the socket is on the carrier that it is on; `seen`: the calls that were judged by, and their bytes.
#[cold]
pub(crate) fn judged(block: &Block, verdict: Verdict, seen: (u32, u64)) {
    if block.fd.value() != 0 {
        block.verdict.set(verdict as u64);
        block.verdict_calls.set(u64::from(seen.0));
        block.verdict_bytes.set(seen.1);
    }
}

/// A connection meets its peer in memory from now on. Whether there is somebody to read of it.
#[cold]
pub(crate) fn in_memory(block: &Block) -> bool {
    segment().process().moves_to_memory.add(1);
    let is_read = block.fd.value() != 0;
    if is_read {
        block.flags.set(block.flags.value() | flag::ACCELERATED);
        set_carrier(block, Carrier::Memory);
        judged(block, Verdict::MetPeer, (0, 0));
    }
    is_read
}

/// It is the kernel's again.
#[cold]
pub(crate) fn from_memory(block: &Block, why: Verdict) {
    segment().process().moves_from_memory.add(1);
    if block.fd.value() != 0 {
        block.flags.set(block.flags.value() & !flag::ACCELERATED);
        set_carrier(block, Carrier::Kernel);
        judged(block, why, (0, 0));
    }
}

/// A receive, or else a send, moved `bytes` in the kernel, which carries the socket.
#[inline]
pub(crate) fn in_kernel(block: &Block, bytes: usize, is_receive: bool) {
    let (calls, sum) = match is_receive {
        true => (&block.rx_os_packets, &block.rx_os_bytes),
        false => (&block.tx_os_packets, &block.tx_os_bytes),
    };
    calls.add_loosely(1);
    sum.add_loosely(bytes as u64);
}

fn flags(kind: Kind, nonblocking: bool) -> u64 {
    let protocol = if kind == Kind::Udp { 0 } else { flag::TCP };
    protocol | if nonblocking { flag::NONBLOCKING } else { 0 }
}

/// A socket is a member of a multicast group now, or no more.
pub(crate) fn member(block: &'static Block, group: Ipv4Addr, joined: bool) {
    segment().member(block, group, joined);
}

/// Whether the socket's own multicast comes back to this host (IP_MULTICAST_LOOP).
pub(crate) fn loops(block: &Block, on: bool) {
    if block.fd.value() != 0 {
        let others = block.flags.value() & !flag::MC_LOOP;
        block.flags.set(others | if on { flag::MC_LOOP } else { 0 });
    }
}

/// A receive took `bytes` from the engine. Under the lane's lock.
#[inline]
pub(crate) fn received(block: &Block, bytes: usize) {
    block.rx_packets.one();
    block.rx_bytes.add(bytes as u64);
    receives(block);
}

/// A receive took `bytes` from memory.
#[inline]
pub(crate) fn received_in_memory(block: &Block, bytes: usize) {
    block.rx_memory_packets.one();
    block.rx_memory_bytes.add(bytes as u64);
    receives(block);
}

#[inline]
fn receives(block: &Block) {
    if block.rx_thread.value() == 0 {
        name_thread(&block.rx_thread);
    }
}

/// The engine took `bytes` of a send; `begins` the call. Under the lane's lock.
#[inline]
pub(crate) fn sent(block: &Block, bytes: usize, begins: bool) {
    block.tx_packets.add(u64::from(begins));
    block.tx_bytes.add(bytes as u64);
    sends(block);
}

/// Memory took `bytes` of a send; `begins` the call.
#[inline]
pub(crate) fn sent_in_memory(block: &Block, bytes: usize, begins: bool) {
    block.tx_memory_packets.add(u64::from(begins));
    block.tx_memory_bytes.add(bytes as u64);
    sends(block);
}

#[inline]
fn sends(block: &Block) {
    if block.tx_thread.value() == 0 {
        name_thread(&block.tx_thread);
    }
}

#[cold]
fn name_thread(cell: &stats::State) {
    let known = THREAD.get();
    let thread = if known == 0 { sys::process::tid() as u64 } else { known };
    THREAD.set(thread);
    cell.set(thread);
}

thread_local! {
    /// The number of this thread, once asked for.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// Counts a receive that got nothing; hands the answer on.
#[inline]
pub(crate) fn receive(block: &Block, answer: Answer<ssize_t>) -> Answer<ssize_t> {
    if let Err(Stop::Errno(errno)) = answer {
        if errno == libc::EAGAIN { block.rx_eagain.one() } else { block.rx_errors.one() }
    }
    answer
}

/// Counts a send that the engine did not take: `bytes` of it.
#[cold]
pub(crate) fn send_stopped(block: &Block, stop: Stop, bytes: usize) {
    match stop {
        Stop::Errno(libc::EAGAIN) => block.tx_eagain.one(),
        Stop::Errno(_) => block.tx_errors.one(),
        // The hook calls the genuine function now; it seldom fails.
        Stop::Kernel(_) => {
            block.tx_os_packets.one();
            block.tx_os_bytes.add(bytes as u64);
        }
    }
}

/// Gives an object's block back: the socket is closed.
pub(crate) fn release(block: &'static Block) {
    // A child that only uses what it inherited gets no file.
    if block.fd.value() != 0 {
        segment().release_socket(block);
    }
}

/// The descriptor that named the socket was closed, a duplicate is left.
pub(crate) fn renamed(block: &Block, fd: i32) {
    if block.fd.value() != 0 {
        block.fd.set(fd.max(0) as u64 + 1);
    }
}

/// The socket stands on its first leg; `again`: it did before, and was the kernel's since.
#[cold]
pub(crate) fn accelerated(block: &Block, again: bool) {
    static FIRST: logger::Once = logger::Once::new();
    if FIRST.first()
        && let Some(runtime) = runtime::get()
    {
        crate::settings::print_banner(&runtime.parameters);
    }
    made_segment().process().sockets_accelerated.add(u64::from(!again));
    segment().process().sockets_open.add(1);
    if block.fd.value() != 0 {
        block.flags.set(block.flags.value() | flag::ACCELERATED);
        set_carrier(block, Carrier::Wire);
        if block.verdict.value() == Verdict::Undecided as u64 {
            block.verdict.set(Verdict::AtOnce as u64);
        }
    }
}

/// The kernel carries the socket from now on, from where it may come back.
pub(crate) fn carried(block: &Block) {
    segment().process().sockets_open.subtract(1);
    if block.fd.value() != 0 {
        block.flags.set(block.flags.value() & !flag::ACCELERATED);
        set_carrier(block, Carrier::Kernel);
    }
}

/// A socket is left to the kernel for good: its block tells why until the descriptor is closed.
pub(crate) fn left(block: &'static Block, fd: i32, why: Why) {
    if block.fd.value() == 0 {
        return;
    }
    block.flags.set(block.flags.value() & !flag::ACCELERATED);
    stays(block, why);
    set_carrier(block, Carrier::Kernel);
    let mut left = list().lock();
    left.push((fd, block));
    LEFT_COUNT.store(left.len(), Ordering::Relaxed);
}

/// The kernel carries the socket for good.
pub(crate) fn stays(block: &Block, why: Why) {
    if block.fd.value() != 0 {
        block.flags.set(block.flags.value() | flag::LEFT);
        block.why.set(why as u64);
    }
}

fn list() -> &'static Left {
    static FIRST: Left = Rank::Left.lock(Vec::new());
    // SAFETY: null, or a leaked list.
    unsafe { LEFT.load(Ordering::Acquire).as_ref() }.unwrap_or(&FIRST)
}

/// Whether closing this descriptor matters here.
#[inline]
pub(crate) fn knows(fd: i32) -> bool {
    LEFT_COUNT.load(Ordering::Relaxed) != 0 && list().lock().iter().any(|(known, _)| *known == fd)
}

/// Descriptors that were left to the kernel are closed.
#[inline]
pub(crate) fn closed(range: core::ops::Range<i32>) {
    if LEFT_COUNT.load(Ordering::Relaxed) != 0 {
        forget(range);
    }
}

#[cold]
fn forget(range: core::ops::Range<i32>) {
    let mut left = list().lock();
    left.retain(|(fd, block)| {
        let stays = !range.contains(fd);
        if !stays {
            release(block);
        }
        stays
    });
    LEFT_COUNT.store(left.len(), Ordering::Relaxed);
}

/// The process ends: the file goes, if it is ours.
pub(crate) fn exiting(runtime: &Runtime) {
    if OWNER.load(Ordering::Relaxed) == sys::process::pid()
        && let Some(path) = own_path(&runtime.parameters.stats_shmem_dir)
    {
        let _ = sys::file::unlink(&path);
    }
}

/// In the child of a fork: the segment is the parent's, whose memory is shared. The child makes its own when it counts.
pub(crate) fn after_fork(child: &sys::InChild) {
    OPENING.take_over(child);
    shown::after_fork();
    THREAD.set(0);
    SEGMENT.store(core::ptr::null_mut(), Ordering::Release);
    NOWHERE.forget_nowhere();
    // A thread of the parent may have been changing the old list.
    LEFT.store(Box::leak(Box::new(Rank::Left.lock(Vec::new()))), Ordering::Release);
    LEFT_COUNT.store(0, Ordering::Relaxed);
}
