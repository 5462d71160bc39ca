//! When we begin and end: constructor, first candidate socket, fork, exit, and processes in which we do nothing.
//!
//! The constructor does little, and the library works without it: constructors of other libraries may call hooks
//! before ours has run. The heavy start waits for the first socket that could be accelerated, so that `ls` under the
//! preload pays nothing.

use crate::crash;
use crate::hooks::uring;
use crate::inside::Inside;
use crate::os::{OS, pthread_testcancel};
use crate::thread::thread;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64};
use libc::c_int;
use sockets::os::Product;

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
/// Hooks pass everything through, as no rule concerns this program; a socket that asks for SDP wakes us.
const RESTING: u8 = 5;

/// Which library this is must be known before its constructor has run, and may not be an exported name, as both
/// libraries can be loaded. So the library that is not libvma.so puts a byte that is not zero into this section.
#[used]
#[unsafe(link_section = "sidestep_product")]
static PRODUCT: u8 = 0;

unsafe extern "C" {
    /// The linker's own names for the ends of the section.
    #[link_name = "__start_sidestep_product"]
    static PRODUCT_BEGIN: u8;
    #[link_name = "__stop_sidestep_product"]
    static PRODUCT_END: u8;
}

/// Whether this is libsdp.so.
#[inline]
pub(crate) fn is_sdp() -> bool {
    let (mut at, end) = (&raw const PRODUCT_BEGIN, &raw const PRODUCT_END);
    while at != end {
        // SAFETY: bytes of the section, which are constants.
        unsafe {
            if at.read_volatile() != 0 {
                return true;
            }
            at = at.add(1);
        }
    }
    false
}

/// Whether libvma.so is loaded, too: it sees the same calls, and one of the two is enough.
fn is_beside_vma() -> bool {
    unsafe extern "C" fn looks(
        library: *mut libc::dl_phdr_info,
        _: libc::size_t,
        found: *mut libc::c_void,
    ) -> c_int {
        // SAFETY: the linker's own; its name is a C string.
        let name = unsafe { core::ffi::CStr::from_ptr((*library).dlpi_name) }.to_bytes();
        if name.rsplit(|byte| *byte == b'/').next().is_some_and(|name| name.starts_with(b"libvma.so")) {
            // SAFETY: the flag below.
            unsafe { *found.cast::<bool>() = true };
        }
        0
    }
    let mut found = false;
    // SAFETY: the callback takes the flag, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(looks), (&raw mut found).cast()) };
    found
}

/// A page that the child of a fork finds zero, [`FRESH`], unless our handlers of fork put it right (MADV_WIPEONFORK):
/// in the copy that a raw clone makes of this memory nothing may be used, above all not the rings, which are shared.
#[repr(align(4096))]
struct Wiped(AtomicU8);

static WIPED: Wiped = Wiped(AtomicU8::new(FRESH));
static STATE: &AtomicU8 = &WIPED.0;
/// The same, for our handlers of fork to put it right.
static KEPT: AtomicU8 = AtomicU8::new(FRESH);
/// Whether the kernel has agreed to wipe.
static WIPES: AtomicBool = AtomicBool::new(false);

fn become_state(state: u8) {
    KEPT.store(state, Relaxed);
    STATE.store(state, Release);
}

static STARTER: AtomicI32 = AtomicI32::new(0);

/// The process that this memory belongs to; 0 until [`constructed`].
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Whether hooks ask the socket layer.
#[inline]
pub(crate) fn running() -> bool {
    STATE.load(Acquire) == RUNNING
}

/// The gate of calls that are cancellation points: they test also when they do not wait, before anything of ours is
/// entered. Genuine ones do so by themselves.
#[inline]
pub(crate) fn cancellable() -> bool {
    let running = running();
    if running {
        // SAFETY: no arguments.
        unsafe { pthread_testcancel() };
    }
    running
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

/// Whether what this memory says of signals is another process's: its parent's, in a vfork child. Holds before anything
/// is started, too.
pub(crate) fn is_guest() -> bool {
    PROCESS.load(Relaxed) != 0 && !own_process()
}

/// Whether this is a vfork child, which runs in the memory of its parent.
pub(crate) fn is_in_parents_memory() -> bool {
    running() && WIPES.load(Relaxed) && !own_process()
}

/// In a vfork child: whether a number is still the file that it is for the parent.
pub(crate) fn is_as_in_parent(fd: c_int) -> bool {
    let parents = sys::identity::identity_in(PROCESS.load(Relaxed), fd);
    parents.is_ok() && parents == sys::identity::identity(fd)
}

/// A program that runs with more rights than who started it: nobody may choose a library for it by environment.
fn privileged() -> bool {
    // SAFETY: reads the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The constructor of the library. May run after hooks were called, and may be called again.
pub extern "C" fn constructed() {
    if privileged() {
        become_state(PRIVILEGED);
        return;
    }
    // Before the program can close or replace it.
    logger::target::remember_stderr();
    // SAFETY: no arguments.
    let process = unsafe { libc::getpid() };
    if PROCESS.compare_exchange(0, process, Relaxed, Relaxed).is_ok() {
        crate::genuine::find_early();
        sys::fd::make_room();
        WIPES.store(sys::memory::wipe_on_fork(&WIPED).is_ok(), Relaxed);
        allocator_comes_first();
        // SAFETY: functions of this library, which is linked to stay loaded.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(forked_child)) };
        // quick_exit ends by libc's own `_exit`. The first that is registered runs last.
        // SAFETY: as above.
        unsafe { __cxa_at_quick_exit(quickly_ending, core::ptr::null_mut()) };
    }
}

/// An allocator that is linked into the program registers its fork handlers when it is used first, and holds its locks
/// between them. Ours allocate; so they must lie within: prepare before it, and go on after it, in the child too.
fn allocator_comes_first() {
    drop(core::hint::black_box(Box::new(0u8)));
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

/// The process ends, by the destructor of the library, `_exit`, quick_exit or a signal: peers are told, and pending
/// data gets its time to leave. The application's other threads do not get to see how their connections end, as they
/// would not with the kernel's.
pub extern "C" fn ending() {
    if running() && own_process() {
        ENDING.store(sys::process::tid(), Relaxed);
        let _inside = Inside::enter();
        crate::guard::run(sockets::calls::exiting);
        ENDED.store(sys::clock::now().max(1), Relaxed);
    }
}

/// The thread that ends the process; 0: none does.
static ENDING: AtomicI32 = AtomicI32::new(0);
/// When that thread had told all peers, in nanoseconds of our clock; 0: it has not yet.
static ENDED: AtomicU64 = AtomicU64::new(0);

/// Whether another thread ends the process. Asked by each call before it returns to the application, or lets the kernel
/// answer.
#[inline]
pub(crate) fn is_ending() -> bool {
    ENDING.load(Relaxed) != 0
}

/// Waits until the ending thread has told all peers, and longer if the call `shows_end`.
#[cold]
pub(crate) fn stay(shows_end: bool) {
    /// Longer than any end takes.
    const PATIENCE_NS: u64 = 30_000_000_000;
    /// After ours, in all: a destructor of another library may wait for this thread.
    const AFTERWARDS_NS: u64 = 1_000_000_000;
    if ENDING.load(Relaxed) == sys::process::tid() {
        return;
    }
    let since = sys::clock::now();
    loop {
        let (ended, now) = (ENDED.load(Relaxed), sys::clock::now());
        let is_over = ended != 0 && (!shows_end || now.saturating_sub(ended) >= AFTERWARDS_NS);
        if is_over || now.saturating_sub(since) >= PATIENCE_NS {
            return;
        }
        sys::thread::sleep(1_000_000);
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

/// As [`ensure`], for a socket that asks for SDP whatever the rules say.
pub(crate) fn ensure_awake() -> bool {
    if ensure() {
        return true;
    }
    if STATE.load(Acquire) == RESTING && own_process() {
        become_state(RUNNING);
    }
    running()
}

#[cold]
fn begin() -> bool {
    // For good, and without a system call.
    if matches!(STATE.load(Acquire), OFF | PRIVILEGED | RESTING) {
        return false;
    }
    constructed();
    if is_sdp() && is_beside_vma() {
        become_state(OFF);
        return false;
    }
    let me = sys::process::tid();
    match STATE.compare_exchange(FRESH, STARTING, Acquire, Acquire) {
        Ok(_) if !own_process() => {
            become_state(FRESH);
            false
        }
        Ok(_) => {
            STARTER.store(me, Relaxed);
            KEPT.store(STARTING, Relaxed);
            quiet_panics();
            let product = if is_sdp() { Product::Sdp } else { Product::Vma };
            let asks = crate::guard::run(|| sockets::calls::start(product, OS));
            let started = asks == Some(true);
            // libvma.so looks when it opens an interface: until then it only counts calls.
            if started && is_sdp() && uring::are_unseen() {
                crate::guard::run(sockets::calls::rings_are_unseen);
            }
            if started && sockets::calls::tells_of_crashes() {
                crash::arm();
            }
            become_state(match asks {
                Some(true) => RUNNING,
                Some(false) => RESTING,
                None => OFF,
            });
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
    let is_prepared = thread().forking.replace(false);
    become_state(match KEPT.load(Relaxed) {
        // Another thread started us since the first half: it, or a third one, may have held locks of ours.
        RUNNING if !is_prepared => OFF,
        state => state,
    });
    ENDING.store(0, Relaxed);
    ENDED.store(0, Relaxed);
    let _inside = match is_prepared {
        true => {
            let inside = Inside::resume();
            crate::guard::run(sockets::calls::fork_done_in_child);
            inside
        }
        false => Inside::enter(),
    };
    if running() {
        crate::guard::run(sockets::calls::forked_child);
    } else if STATE.load(Relaxed) == STARTING {
        // The thread that was starting is not in the child, and what it left is half done.
        become_state(OFF);
    }
}

/// Before a child with a copy of this memory is made that runs no code of ours, by `_Fork` or a bare clone: what it
/// inherits is the kernel's, for both.
pub(crate) fn copying() {
    if running() && own_process() {
        let _inside = Inside::enter();
        crate::guard::run(sockets::calls::copying);
    }
}

/// In the child of `_Fork`, where only what is safe in signal handlers may be done: locks, malloc's too, may be held by
/// threads that are not here. Everything is the kernel's from now on: its sockets are the shadows of ours.
pub(crate) fn bare_child() {
    // SAFETY: no arguments.
    PROCESS.store(unsafe { libc::getpid() }, Relaxed);
    become_state(match KEPT.load(Relaxed) {
        RUNNING | STARTING => OFF,
        state => state,
    });
}

/// Nothing of ours is left to be done, and nothing may be done: from now on hooks pass everything through.
pub(crate) fn retire() {
    become_state(OFF);
}

/// The kernel gave out a descriptor by a call that makes no socket of ours. Returns it.
pub(crate) fn gave(fd: c_int) -> c_int {
    if fd >= 0 && running() && sockets::calls::knows(fd) && own_process() {
        sockets::calls::recycled(fd);
    }
    fd
}
