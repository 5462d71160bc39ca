//! Calls by which a program gives up what it may do: privileges, system calls, namespaces, ports.
//!
//! Most of them concern the calling thread, or take a process of one thread. A program that has one must not notice the
//! background thread: it ends before such a call, and a new one, which has what its maker has, goes on after it.

use crate::answer::Why;
use crate::background::BACKGROUND;
use crate::ending;
use crate::expel::expel;
use crate::family::FAMILY;
use crate::fd_table;
use crate::opening::OPENING;
use crate::runtime::{self, Runtime};
use crate::worker;
use core::sync::atomic::Ordering;

/// Makes a call that changes what the calling thread may do, or where it is.
pub fn confine(call: impl FnOnce()) {
    if runtime::get().is_none() {
        return call();
    }
    OPENING.wait();
    // Beside other threads of the application this one is another that keeps what it has.
    let stopped = BACKGROUND.is_running() && is_alone() && worker::stop();
    call();
    if stopped {
        worker::resume();
    }
}

/// Whether the application has one thread. (Without /proc nobody knows: a program in such a place is more likely to be
/// small.)
pub(super) fn is_alone() -> bool {
    let ours = u32::from(BACKGROUND.is_running());
    sys::process::threads().is_none_or(|threads| threads <= 1 + ours)
}

/// The program changes its root: files that are read when they are needed may not be there then.
pub fn leaving_files() {
    if let Some(runtime) = runtime::get() {
        runtime.tcp_settings();
    }
}

/// Makes a call that filters system calls (seccomp); it tells whether they are filtered now. What we call is not what
/// the program has in mind, and may end it. So all sockets are the kernel's before. True: nothing of ours may be done
/// any more, and nothing is left to do.
pub fn filter(call: impl FnOnce() -> bool) -> bool {
    let Some(runtime) = runtime::get() else { return call() };
    let was_confined = runtime.confined.swap(true, Ordering::AcqRel);
    OPENING.wait();
    let stopped = worker::stop();
    FAMILY.stop_lending();
    let stay = expel_all(runtime);
    let is_needed = stopped && stay > 0;
    if is_needed {
        logger::warning!(
            "seccomp: {stay} connections cannot move into the kernel, and stay accelerated: the filter must allow what \
             Sidestep calls, and does not hold for its background thread"
        );
        worker::resume();
    }
    let is_filtered = call();
    if !is_filtered {
        runtime.confined.store(was_confined, Ordering::Release);
        if !is_needed {
            worker::resume();
        }
    }
    is_filtered && stay == 0
}

/// TCP ports are the kernel's to allow from now on (Landlock): new sockets are left to it, and those without a
/// connection.
pub fn confine_ports() {
    let Some(runtime) = runtime::get() else { return };
    runtime.confined.store(true, Ordering::Release);
    for fd in 0..fd_table::end() {
        if let Some(object) = fd_table::socket(fd).filter(|object| object.leg().is_none()) {
            expel(runtime, object, Why::Confined);
        }
    }
}

/// How many connections stay.
fn expel_all(runtime: &'static Runtime) -> usize {
    let mut stay = 0;
    for fd in 0..fd_table::end() {
        if let Some(object) = fd_table::socket(fd) {
            stay += usize::from(!expel(runtime, object, Why::Confined));
        }
    }
    if stay == 0 && runtime.lanes().next().is_some() {
        // Closed connections, and those that children hold.
        ending::drain_connections(runtime);
    }
    stay
}
