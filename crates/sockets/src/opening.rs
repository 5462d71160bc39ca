//! Opening an interface takes tens of milliseconds, and costs its other traffic. So it begins when what the kernel
//! carries has shown that it gains, and beside the program: that goes on in the kernel until it is open, and asks the
//! kernel nothing meanwhile. Questions about routes and addresses wait for the lock that attaching a program holds
//! (RTNL), which takes hundreds of milliseconds where others have the processors.

use crate::background::BACKGROUND;
use crate::lane::Lane;
use crate::runtime::Runtime;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// Calls of sockets that might move, all together, before an interface is opened: what they gain on the wire is then of
/// the order of what opening costs.
const CALLS: u32 = 256;

/// Interfaces that sockets wait for at a time; those beyond are found again by the next look.
const WANTED: usize = 8;

/// Interfaces, one at a time.
pub(crate) struct Opening {
    /// Those that sockets were found to wait for; 0: none.
    wanted: [AtomicU32; WANTED],
    /// Since one was opened.
    calls: AtomicU32,
    is_under_way: AtomicBool,
    count: AtomicU32,
    /// The thread that opens, or was the last to do so; 0: there was none.
    thread: AtomicI32,
}

/// Those of this process.
pub(crate) static OPENING: Opening = Opening::new();

impl Opening {
    const fn new() -> Opening {
        Opening {
            wanted: [const { AtomicU32::new(0) }; WANTED],
            calls: AtomicU32::new(0),
            is_under_way: AtomicBool::new(false),
            count: AtomicU32::new(0),
            thread: AtomicI32::new(0),
        }
    }

    /// In the child of a fork, which opens lanes of its own.
    pub(crate) fn after_fork(&self) {
        drop(self.take_wanted());
        self.calls.store(0, Ordering::Relaxed);
        self.is_under_way.store(false, Ordering::Relaxed);
        self.thread.store(0, Ordering::Relaxed);
    }

    /// A socket is due for a look at where it would stand, `calls` after the last one. True: it goes on in the kernel
    /// without one, as an interface is being opened, or as it was found to wait for one (`has_looked`).
    pub(crate) fn goes_on(&self, runtime: &'static Runtime, calls: u32, has_looked: bool) -> bool {
        self.goes_on_or(calls, has_looked, |links| begin(runtime, links))
    }

    fn goes_on_or(&self, calls: u32, has_looked: bool, begin: impl FnOnce(Vec<u32>)) -> bool {
        if self.is_under_way() {
            return true;
        }
        if !has_looked || self.wanted.iter().all(|link| link.load(Ordering::Relaxed) == 0) {
            return false;
        }
        self.note_calls(calls, begin);
        true
    }

    /// A socket made `calls`, and would move if these interfaces were open: they are opened, if it is time.
    pub(crate) fn note(&self, runtime: &'static Runtime, calls: u32, links: &[u32]) {
        self.want(links);
        self.note_calls(calls, |links| begin(runtime, links));
    }

    /// An interface is being opened.
    pub(crate) fn is_under_way(&self) -> bool {
        self.is_under_way.load(Ordering::Acquire)
    }

    /// How often that was over.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Interfaces whose program is off get it on again, without waiting for calls.
    pub(crate) fn put_on(&self, runtime: &'static Runtime) {
        let is_off = |lane: &&Lane| lane.hook.is_off() && !lane.is_fenced();
        let links: Vec<u32> = runtime.lanes().filter(is_off).map(|lane| lane.link).collect();
        self.want(&links);
        if !links.is_empty() && !self.is_under_way.swap(true, Ordering::AcqRel) {
            begin(runtime, self.take_wanted());
        }
    }

    /// A child of this process wants a lane on an interface, which is opened now.
    pub(crate) fn for_child(&self, runtime: &'static Runtime, link: u32) {
        self.note(runtime, CALLS, &[link]);
    }

    fn want(&self, links: &[u32]) {
        for link in links {
            for place in &self.wanted {
                match place.compare_exchange(0, *link, Ordering::AcqRel, Ordering::Acquire) {
                    Err(other) if other != *link => {}
                    _ => break,
                }
            }
        }
    }

    fn note_calls(&self, calls: u32, begin: impl FnOnce(Vec<u32>)) {
        let before = self.calls.fetch_add(calls, Ordering::Relaxed);
        if before.saturating_add(calls) >= CALLS && !self.is_under_way.swap(true, Ordering::AcqRel) {
            begin(self.take_wanted());
        }
    }

    fn take_wanted(&self) -> Vec<u32> {
        self.wanted.iter().map(|link| link.swap(0, Ordering::AcqRel)).filter(|link| *link != 0).collect()
    }

    fn end(&self) {
        // Whoever was found to wait looks again: what it waited for may be open.
        drop(self.take_wanted());
        self.calls.store(0, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
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
        self.is_under_way() || thread != 0 && sys::process::has_thread(thread)
    }
}

fn begin(runtime: &'static Runtime, links: Vec<u32>) {
    let open = move || {
        OPENING.thread.store(sys::process::tid(), Ordering::Release);
        let begun = sys::clock::now();
        for link in links {
            let _ = runtime.lane_for_link(link);
        }
        logger::debug!("opened beside the program in {} us", (sys::clock::now() - begun) / 1000);
        OPENING.end();
        // Children may wait for it.
        BACKGROUND.look();
    };
    if sys::thread::spawn("sidestep", open).is_err() {
        // It is tried again with the next calls.
        OPENING.end();
    }
}

/// Opening takes some tens of milliseconds; a driver that takes its link down, longer. Nanoseconds.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Between two looks, nanoseconds.
const LOOKS_NS: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    const WAITS: bool = true;

    #[test]
    fn what_waits_for_an_interface_asks_nothing_until_that_was_opened() {
        let opening = Opening::new();
        let begun = core::cell::RefCell::new(Vec::new());
        let calls = |calls, waits| opening.goes_on_or(calls, waits, |links| *begun.borrow_mut() = links);
        assert!(!calls(16, !WAITS) && !calls(16, WAITS), "nobody was found to wait: each looks");
        opening.want(&[3, 5]);
        opening.want(&[5]);
        assert!(!calls(16, !WAITS), "another socket looks once");
        while begun.borrow().is_empty() {
            assert!(calls(16, WAITS));
        }
        assert_eq!(*begun.borrow(), [3, 5]);
        assert_eq!(opening.calls.load(Ordering::Relaxed), CALLS);
        assert!(calls(16, WAITS) && calls(16, !WAITS), "nobody looks while it is being opened");
        opening.want(&[3]);
        opening.end();
        assert!(!calls(16, WAITS), "it is open: who waited looks");
    }

    #[test]
    fn a_child_of_a_fork_begins_anew() {
        let opening = Opening::new();
        opening.is_under_way.store(true, Ordering::Relaxed);
        opening.calls.store(CALLS, Ordering::Relaxed);
        opening.want(&[3]);
        opening.after_fork();
        assert!(opening.take_wanted().is_empty());
        assert!(!opening.is_running() && opening.calls.load(Ordering::Relaxed) == 0);
    }
}
