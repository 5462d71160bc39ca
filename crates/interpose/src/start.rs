//! When we begin and end: constructor, first candidate socket, fork, exit, and processes in which we do nothing.
//!
//! The constructor does little, and the library works without it: constructors of other libraries may call hooks
//! before ours has run. The heavy start waits for the first socket that could be accelerated, so that `ls` under the
//! preload pays nothing.

use crate::inside::Inside;
use crate::os::OS;
use crate::thread::thread;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8};
use libc::c_int;

/// Nothing has happened yet.
const FRESH: u8 = 0;
/// The socket layer is being started, by the thread in `STARTER`.
const STARTING: u8 = 1;
/// Hooks ask the socket layer.
const RUNNING: u8 = 2;
/// Hooks pass everything through, for good; signal handlers stay behind the relay.
const OFF: u8 = 3;
/// Set-user-ID: as if we were not there.
const PRIVILEGED: u8 = 4;

static STATE: AtomicU8 = AtomicU8::new(FRESH);
static STARTER: AtomicI32 = AtomicI32::new(0);

/// The process that this memory belongs to; 0 until [`constructed`].
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Whether hooks ask the socket layer.
#[inline]
pub(crate) fn running() -> bool {
    STATE.load(Acquire) == RUNNING
}

/// Whether hooks that do not depend on sockets (signals) do anything.
#[inline]
pub(crate) fn enabled() -> bool {
    match STATE.load(Relaxed) {
        PRIVILEGED => false,
        FRESH => !privileged(),
        _ => true,
    }
}

/// Whether this process is the one that our tables describe. A vfork child is not: it runs in its parent's memory with
/// its own descriptors, and what it closes or duplicates must not change what its parent's numbers mean. Costs a system
/// call, so it is asked only about descriptors that mean something to us.
pub(crate) fn own_process() -> bool {
    // SAFETY: no arguments. libc keeps no copy: this asks the kernel, which is the point.
    unsafe { libc::getpid() == PROCESS.load(Relaxed) }
}

/// A program that runs with more rights than who started it: nobody may choose a library for it by environment.
fn privileged() -> bool {
    // SAFETY: reads the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The constructor of the library. May run after hooks were called, and may be called again.
pub extern "C" fn constructed() {
    if privileged() {
        STATE.store(PRIVILEGED, Relaxed);
        return;
    }
    // Before the program can close or replace it.
    logger::target::remember_stderr();
    // SAFETY: no arguments.
    let process = unsafe { libc::getpid() };
    if PROCESS.compare_exchange(0, process, Relaxed, Relaxed).is_ok() {
        // SAFETY: functions of this library, which is linked to stay loaded.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(forked_child)) };
        // quick_exit ends by libc's own `_exit`. The first that is registered runs last.
        // SAFETY: as above.
        unsafe { __cxa_at_quick_exit(quickly_ending, core::ptr::null_mut()) };
    }
}

unsafe extern "C" {
    /// What `at_quick_exit` is in libc's static part.
    fn __cxa_at_quick_exit(
        function: extern "C" fn(*mut libc::c_void),
        library: *mut libc::c_void,
    ) -> libc::c_int;
}

extern "C" fn quickly_ending(_: *mut libc::c_void) {
    ending();
}

/// The process ends, by the destructor of the library, `_exit`, quick_exit or a signal: peers are told, and pending data
/// gets its time to leave. The application's other threads do not get to see how their connections end, as they would not
/// with the kernel's.
pub extern "C" fn ending() {
    if running() && own_process() {
        ENDING.store(sys::process::tid(), Relaxed);
        let _inside = Inside::enter();
        crate::guard::run(sockets::calls::exiting);
        ENDED.store(true, Relaxed);
    }
}

/// The thread that ends the process; 0: none does.
static ENDING: AtomicI32 = AtomicI32::new(0);
/// It has done so, for our part.
static ENDED: AtomicBool = AtomicBool::new(false);

/// Asked by each call before it returns to the application, or lets the kernel answer: does not return if another thread
/// ends the process.
#[inline]
pub(crate) fn stay_if_ending() {
    if ENDING.load(Relaxed) != 0 {
        stay();
    }
}

#[cold]
fn stay() {
    /// Longer than any end takes.
    const PATIENCE_MS: u32 = 30_000;
    /// And after ours: a destructor of another library may wait for this thread.
    const AFTERWARDS_MS: u32 = 1000;
    if ENDING.load(Relaxed) == sys::process::tid() {
        return;
    }
    let mut left = PATIENCE_MS;
    while left > 0 {
        if ENDED.load(Relaxed) {
            left = left.min(AFTERWARDS_MS);
        }
        sys::thread::sleep(1_000_000);
        left -= 1;
    }
}

/// Another program takes the place of this one, in all probability. Asked only in a process of our own.
pub(crate) fn executing() {
    crate::guard::run(sockets::calls::executing);
}

/// Before the first socket or epoll set that could be accelerated: starts the socket layer, once. Other threads wait
/// for it; what the starting thread itself calls meanwhile passes through.
#[inline]
pub(crate) fn ensure() -> bool {
    running() || begin()
}

#[cold]
fn begin() -> bool {
    constructed();
    // SAFETY: no arguments.
    let me = unsafe { libc::gettid() };
    match STATE.compare_exchange(FRESH, STARTING, Acquire, Acquire) {
        Ok(_) if !own_process() => {
            STATE.store(FRESH, Release);
            false
        }
        Ok(_) => {
            STARTER.store(me, Relaxed);
            quiet_panics();
            let started = crate::guard::run(|| sockets::calls::start(OS)).is_some();
            STATE.store(if started { RUNNING } else { OFF }, Release);
            started
        }
        Err(STARTING) if STARTER.load(Relaxed) != me => {
            while STATE.load(Acquire) == STARTING {
                // SAFETY: no arguments.
                unsafe { libc::sched_yield() };
            }
            running()
        }
        Err(_) => running(),
    }
}

/// A panic says one line in our log: std's own report would come back in through our hooks, and read files for a
/// backtrace.
fn quiet_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let at = panic.location().map_or(("?", 0), |place| (place.file(), place.line()));
        let what = panic.payload_as_str().unwrap_or("panic");
        logger::error!("internal error at {}:{}, please report: {what}", at.0, at.1);
    }));
}

/// First half of a fork: from here to the second half the socket layer's locks are ours, and handlers wait.
extern "C" fn before_fork() {
    if running() && own_process() {
        let inside = Inside::enter();
        thread().forking.set(true);
        crate::guard::run(sockets::calls::fork_begins);
        inside.suspend();
    }
}

/// Second half, in the parent.
extern "C" fn after_fork() {
    if thread().forking.replace(false) {
        let _inside = Inside::resume();
        crate::guard::run(sockets::calls::fork_done);
    }
}

/// Second half, in the child. It has one thread, so nothing comes between releasing the locks and letting go of what is
/// the parent's.
extern "C" fn forked_child() {
    // SAFETY: no arguments.
    PROCESS.store(unsafe { libc::getpid() }, Relaxed);
    ENDING.store(0, Relaxed);
    ENDED.store(false, Relaxed);
    let _inside = match thread().forking.replace(false) {
        true => {
            let inside = Inside::resume();
            crate::guard::run(sockets::calls::fork_done);
            inside
        }
        false => Inside::enter(),
    };
    if running() {
        crate::guard::run(sockets::calls::forked_child);
    } else if STATE.load(Relaxed) == STARTING {
        // The thread that was starting is not in the child, and what it left is half done.
        STATE.store(OFF, Relaxed);
    }
}

/// In the child of `_Fork`, where only what is safe in signal handlers may be done: locks, malloc's too, may be held by
/// threads that are not here. Everything is the kernel's from now on: its sockets are the shadows of ours.
pub(crate) fn bare_child() {
    // SAFETY: no arguments.
    PROCESS.store(unsafe { libc::getpid() }, Relaxed);
    if matches!(STATE.load(Relaxed), RUNNING | STARTING) {
        STATE.store(OFF, Relaxed);
    }
}

/// The kernel gave out a descriptor by a call that makes no socket of ours. Returns it.
pub(crate) fn gave(fd: c_int) -> c_int {
    if fd >= 0 && running() && sockets::calls::knows(fd) && own_process() {
        sockets::calls::recycled(fd);
    }
    fd
}
