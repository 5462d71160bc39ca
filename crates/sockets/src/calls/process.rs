//! The process as a whole: start, fork, exec, and a panic of ours. Its end is in `ending.rs`.

use super::passing::is_close_on_exec;
use crate::answer::Why;
use crate::background::BACKGROUND;
use crate::carrier;
use crate::counts;
use crate::device;
use crate::ending::{self, ENDING, LOCKS_WAIT_NS};
use crate::extra;
use crate::family::{self, FAMILY, Patience};
use crate::fd_table::{self, Entry};
use crate::lanes;
use crate::memory;
use crate::object::{self, Kind, Object};
use crate::offload;
use crate::opening::OPENING;
use crate::os::{Os, Product};
use crate::runtime::{self, Runtime};
use crate::sdp_rules::Sdp;
use crate::tcp;
use crate::threads;
use crate::turn;
use crate::udp_legs;
use crate::wait::{epoll, in_memory, waker};
use crate::worker;
use core::sync::atomic::{AtomicPtr, Ordering};
use stack::SocketError;
use sys::MutexGuard;

/// Called once, before the first candidate socket or epoll set is made: configuration, logging; devices are opened
/// lazily. Never fails: what cannot be done is left to the kernel. False: so is everything, and no call needs to ask.
pub fn start(product: Product, os: Os) -> bool {
    let (runtime, is_new) = runtime::start(product, os);
    if is_new {
        device::look_for_named(runtime);
    }
    !runtime.sdp.as_ref().is_some_and(Sdp::rests)
}

/// A lane was opened: the background thread is started on the first one, and told of further ones.
pub fn opened() {
    if let Some(runtime) = runtime::get() {
        worker::wake_or_start(runtime);
    }
}

/// VMA_HANDLE_SIGSEGV.
pub fn tells_of_crashes() -> bool {
    runtime::get().is_some_and(|runtime| runtime.parameters.handle_sigsegv)
}

/// Locks that the child needs to find free.
struct ForkLocks {
    _copying: sys::Copying,
    _family: MutexGuard<'static, family::State>,
    _runtime: lanes::Locks<'static>,
    _debts: in_memory::Locked,
    _objects: MutexGuard<'static, Vec<&'static Object>>,
    _sets: MutexGuard<'static, Vec<&'static epoll::Set>>,
    _spares: MutexGuard<'static, Vec<tcp::Spare>>,
    _keeper: keeper::client::Forking,
}

/// The keeper answers within some microseconds, or is waited for with no lock of ours held.
const KEEPER_NS: u64 = 2_000_000;

impl ForkLocks {
    /// `None`: somebody waits for a driver or a peer with one of them, and all others would wait with this thread.
    fn take(runtime: &'static Runtime, lends: bool) -> Option<ForkLocks> {
        let mut family = FAMILY.before_fork_begins();
        let (runtime, debts) = runtime.fork_begins(in_memory::lock_debts)?;
        let (objects, sets, spares) = (object::lock_free(), epoll::lock_free(), tcp::SPARES.fork_begins());
        let keeper = keeper::client::fork_begins(sys::clock::now() + KEEPER_NS)?;
        FAMILY.fork_begins(&mut family, lends);
        Some(ForkLocks {
            _family: family,
            _runtime: runtime,
            _debts: debts,
            _objects: objects,
            _sets: sets,
            _spares: spares,
            _keeper: keeper,
            // Last: who makes or closes a descriptor waits for none of the others.
            _copying: sys::Copying::begin(),
        })
    }
}

/// Held from `fork_begins` until the fork is done, by the thread that forks and by its copy in the child; a box. Who
/// has these locks is the only one that writes here.
static FORKING: AtomicPtr<(ForkLocks, memory::NoMeetings)> = AtomicPtr::new(core::ptr::null_mut());

fn release_fork_locks() {
    let locks = FORKING.swap(core::ptr::null_mut(), Ordering::AcqRel);
    if !locks.is_null() {
        // SAFETY: `fork_begins` made it in this thread, and it is taken out once.
        drop(unsafe { Box::from_raw(locks) });
    }
}

/// Before fork, in the parent: takes our locks, so that the child finds them free. one of the next two follows.
pub fn fork_begins() {
    if let Some(runtime) = runtime::get() {
        let none_meet = memory::before_fork(runtime);
        FAMILY.before_fork(runtime);
        let lends = carrier::before_fork(runtime);
        // Who makes a thread has signals blocked, by libc if not by us. So not after the fork: see `without_handlers`
        // of sys for what the child's end would do then.
        if lends && !BACKGROUND.is_running() {
            worker::wake_or_start(runtime);
        }
        let locks = loop {
            runtime.before_fork();
            keeper::client::before_fork();
            if let Some(locks) = ForkLocks::take(runtime, lends) {
                break locks;
            }
        };
        FORKING.store(Box::into_raw(Box::new((locks, none_meet))), Ordering::Release);
    }
}

/// After fork, in the child: releases what `fork_begins` took, which this copy of its thread holds.
pub fn fork_done_in_child() {
    release_fork_locks();
}

/// The same in the parent.
pub fn fork_done() {
    release_fork_locks();
    if FAMILY.fork_done() && !BACKGROUND.is_running() {
        FAMILY.stop_lending();
    }
}

/// In the child of fork, right after `fork_done_in_child`, before anything else runs there: lanes and connections are
/// the parent's. The child's copies of descriptors are the kernel's sockets, or shadows; a connection of an engine's is
/// claimed from the parent (`family/claim.rs`).
pub fn forked_child() {
    let Some(runtime) = runtime::get() else { return };
    sys::clock::after_fork();
    waker::after_fork();
    // SAFETY: a fresh child has the one thread that forked, and it holds nothing any more.
    let child = &unsafe { sys::InChild::new() };
    object::after_fork(child);
    FAMILY.after_fork(child);
    ::memory::sign::after_fork(child);
    memory::forget_parent(child);
    for fd in 0..fd_table::end() {
        match fd_table::entry(fd) {
            Some(Entry::Epoll(set)) => set.after_fork(child),
            Some(Entry::Socket(object)) if carrier::after_fork(object, child) => {}
            // (A listener that another thread made since the fork began.)
            Some(Entry::Socket(object))
                if matches!(object.kind(), Kind::Listener | Kind::Udp | Kind::Inherited) =>
            {
                object.inherit(child);
            }
            Some(Entry::Socket(object)) if matches!(object.kind(), Kind::Stream | Kind::Lent) => {
                object.lend(child)
            }
            Some(Entry::Socket(object)) if object.kind() == Kind::Memory => {
                if memory::after_fork(object, child) {
                    object.price.store(u32::MAX, Ordering::SeqCst);
                    object.set_kind(Kind::Carried);
                    object.keep(child);
                } else {
                    let _ = fd_table::remove(fd);
                }
            }
            Some(Entry::Socket(_)) => drop(fd_table::remove(fd)),
            None => {}
        }
    }
    runtime.after_fork(child);
    OPENING.after_fork();
    threads::THREADS.after_fork(child);
    ENDING.after_fork();
    worker::after_fork(child);
    crate::keeper::after_fork(child);
    counts::after_fork(child);
    extra::after_fork(child);
}

/// Before exec replaces the program: connections whose descriptors the new program gets move into the kernel, and what
/// is only in this process ends, as at exit. What gets lost is told.
pub fn executing() {
    let Some(runtime) = runtime::get() else { return };
    let (mut refused, mut is_awaited) = (0, false);
    for fd in 0..fd_table::end() {
        let Some(object) = fd_table::socket(fd) else { continue };
        if matches!(object.kind(), Kind::Listener | Kind::Udp) {
            // From now on clients reach the kernel's socket, which the new program has.
            match object.kind() {
                Kind::Udp => {
                    is_awaited |= object.leg().is_some() && !is_close_on_exec(fd);
                    udp_legs::detach_queue(object);
                }
                _ => offload::unsteer(object),
            }
            refused += tcp::refuse_queued(object);
        }
    }
    if refused > 0 {
        logger::warning!("exec: {refused} connections that were not accepted yet are reset");
    }
    for fd in 0..fd_table::end() {
        if let Some(object) = fd_table::socket(fd) {
            carrier::executes(object, fd, is_close_on_exec);
        }
    }
    let (mut lost, mut first) = (0, None);
    for fd in 0..fd_table::end() {
        let Some(object) = fd_table::socket(fd).filter(|object| is_lost(object)) else { continue };
        if is_close_on_exec(fd) {
            continue;
        }
        if object.kind() == Kind::Memory {
            memory::leave_to_next(runtime, object, Why::Executed.text());
            continue;
        }
        let goes_on = match object.kind() {
            Kind::Lent => FAMILY.claim(runtime, object, Patience::Long) == Ok(true),
            Kind::Stream => FAMILY.to_kernel(runtime, object, Why::Executed),
            _ => false,
        };
        if goes_on {
            continue;
        }
        lost += 1;
        first = first.or(object.control.lock().remote.map(|remote| (fd, remote)));
    }
    // What is closed, or will be, owes its peers what they have not read.
    ending::pay_peers(runtime);
    if let Some((fd, remote)) = first {
        let others = lost - 1;
        counts::segment().process().exec_connections_lost.add(lost);
        logger::warning!(
            "exec: fd {fd}, connected to {remote}, and {others} other accelerated connections do not pass to the new \
             program; close them, or set close-on-exec"
        );
    }
    if is_awaited {
        turn::await_under_way(runtime);
    }
    let patience = sys::clock::now() + LOCKS_WAIT_NS;
    for inner in runtime.lanes().filter_map(|lane| lane.lock_until(patience)) {
        inner.device.leave_children();
    }
    // A child that only execs has nothing to end.
    if lost > 0 || runtime.lanes().next().is_some() {
        ending::drain_connections(runtime);
    }
}

/// Whether it is a connection whose state is not in the kernel.
pub(super) fn is_lost(object: &Object) -> bool {
    use stack::tcp::State::*;
    match object.kind() {
        Kind::Lent | Kind::Memory => true,
        Kind::Stream => object.engine().is_some_and(|(_, inner, id)| {
            !matches!(inner.stack.tcp_state(id), None | Some(SynSent | Closed | TimeWait))
        }),
        _ => false,
    }
}

/// A panic of ours was caught at the hook: the call fails with EIO, and nothing that it may have left half done,
/// because it held a lock, can be used again. Must not panic.
pub fn panicked() {
    let Some(runtime) = runtime::get() else { return };
    if !sys::tore() {
        counts::segment().process().panics.one();
        logger::error!("internal error: one call fails with EIO; nothing else is concerned");
        return;
    }
    runtime.fenced.store(true, Ordering::Release);
    counts::segment().process().panics.one();
    logger::error!(
        "internal error: accelerated connections end with ECONNABORTED, new sockets go to the kernel"
    );
    let patience = sys::clock::now() + LOCKS_WAIT_NS;
    for lane in runtime.lanes() {
        lane.fenced.store(true, Ordering::Release);
        // A lane whose lock the panic left held stays locked for nobody: guards unlock while unwinding.
        if let Some(mut inner) = lane.lock_until(patience) {
            inner.stack.abandon(SocketError::Aborted);
            inner.deliver_events(0);
        }
    }
}
