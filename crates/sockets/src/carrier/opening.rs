//! Opening an interface takes tens of milliseconds, and costs its other traffic. So it begins when what the kernel
//! carries has shown that it gains, and beside the program: that goes on in the kernel until it is open.

use crate::runtime::Runtime;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// Calls of sockets that might move, all together, before an interface is opened: what they gain on the wire is then of
/// the order of what opening costs.
const CALLS: u32 = 256;

/// Interfaces, one at a time.
pub(crate) struct Opening {
    /// Since one was opened.
    calls: AtomicU32,
    is_under_way: AtomicBool,
    /// The thread that opens, or was the last to do so; 0: there was none.
    thread: AtomicI32,
}

impl Opening {
    pub(crate) const fn new() -> Opening {
        Opening { calls: AtomicU32::new(0), is_under_way: AtomicBool::new(false), thread: AtomicI32::new(0) }
    }

    /// In the child of a fork, which opens lanes of its own.
    pub(crate) fn after_fork(&self) {
        self.calls.store(0, Ordering::Relaxed);
        self.is_under_way.store(false, Ordering::Relaxed);
        self.thread.store(0, Ordering::Relaxed);
    }

    /// A socket made `calls` more, and would move if these interfaces were open: they are opened, if it is time.
    pub(super) fn note(&self, runtime: &'static Runtime, calls: u32, links: &[u32]) {
        let before = self.calls.fetch_add(calls, Ordering::Relaxed);
        if before.saturating_add(calls) >= CALLS && !self.is_under_way.swap(true, Ordering::AcqRel) {
            begin(runtime, links.to_vec());
        }
    }

    fn end(&self) {
        self.calls.store(0, Ordering::Relaxed);
        self.is_under_way.store(false, Ordering::Release);
    }

    /// Returns when no thread opens an interface, or after [`PATIENCE_NS`]: the process is about to end, or to give up
    /// what that thread would keep.
    pub(crate) fn wait(&self) {
        let end = sys::clock::now() + PATIENCE_NS;
        while self.is_running() && sys::clock::now() < end {
            sys::thread::sleep(LOOKS_NS);
        }
    }

    fn is_running(&self) -> bool {
        let thread = self.thread.load(Ordering::Acquire);
        // Libc's end of the thread comes before the kernel's.
        self.is_under_way.load(Ordering::Acquire) || thread != 0 && sys::process::has_thread(thread)
    }
}

fn begin(runtime: &'static Runtime, links: Vec<u32>) {
    let opening = &runtime.opening;
    let open = move || {
        opening.thread.store(sys::process::tid(), Ordering::Release);
        for link in links {
            let _ = runtime.lane_for_link(link);
        }
        opening.end();
    };
    if sys::thread::spawn("sidestep", open).is_err() {
        // It is tried again with the next calls.
        opening.end();
    }
}

/// Opening takes some tens of milliseconds; a driver that takes its link down, longer. Nanoseconds.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Between two looks, nanoseconds.
const LOOKS_NS: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_of_a_fork_begins_anew() {
        let opening = Opening::new();
        opening.is_under_way.store(true, Ordering::Relaxed);
        opening.calls.store(CALLS, Ordering::Relaxed);
        opening.after_fork();
        assert!(!opening.is_running() && opening.calls.load(Ordering::Relaxed) == 0);
    }
}
