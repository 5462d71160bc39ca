//! Processes in which several threads use connections: what the wire gains them is lost again where they wait for each
//! other at one lane, and nothing that can be counted beforehand tells which way it goes. So it is tried (`trial.rs`).
//! A process with one such thread is never tried, and pays a look for it.

use super::opening::OPENING;
use super::trial::{Side, Trial, Work};
use crate::locks::Rank;
use crate::runtime;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// A thread that made so many calls with data is one of those who use connections.
const STEADY: u32 = 16;
/// Bytes that a call counts for at most: bulk beside it would drown what is compared.
const BYTES_MOST: usize = 8192;

/// Between two looks whether a trial may begin, nanoseconds.
const LOOK_NS: u64 = 5_000_000;

/// Nobody has tried.
const FREE: u8 = 0;
const KERNEL: u8 = 1;
const WIRE: u8 = 2;

/// Those of this process.
pub(crate) static THREADS: Threads = Threads {
    count: AtomicU32::new(0),
    stand: AtomicU8::new(FREE),
    is_trying: AtomicBool::new(false),
    is_counting: AtomicBool::new(false),
    until: AtomicU64::new(u64::MAX),
    work: AtomicU64::new(0),
    trial: Rank::Trial.lock(Trial::new()),
};

/// See the module's page.
pub(crate) struct Threads {
    count: AtomicU32,
    /// Who carries, as the trial says.
    stand: AtomicU8,
    is_trying: AtomicBool,
    is_counting: AtomicBool,
    /// When the trial goes on.
    until: AtomicU64,
    /// Calls and bytes of this window: 24 bits above 40.
    work: AtomicU64,
    trial: sys::Mutex<Trial>,
}

thread_local! {
    /// Calls of this thread, up to [`STEADY`].
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

impl Threads {
    /// A call on a connection moved `bytes`.
    #[inline]
    pub(super) fn called(&self, bytes: usize) {
        let calls = CALLS.get();
        if calls < STEADY {
            CALLS.set(calls + 1);
            if calls + 1 == STEADY {
                self.count.fetch_add(1, Ordering::Relaxed);
            }
        }
        if self.stand.load(Ordering::Relaxed) != FREE {
            self.carried(bytes);
        }
    }

    /// In the child of a fork: it has one thread.
    pub(crate) fn after_fork(&self, child: &sys::InChild) {
        CALLS.set(0);
        self.trial.take_over(child);
        *self.trial.lock() = Trial::new();
        self.count.store(0, Ordering::Relaxed);
        self.stand.store(FREE, Ordering::Relaxed);
        self.is_trying.store(false, Ordering::Relaxed);
    }

    /// Whether connections are the kernel's, by the trial.
    #[inline]
    pub(super) fn is_kernels(&self) -> bool {
        self.stand.load(Ordering::Relaxed) == KERNEL
    }

    /// A trial is under way.
    #[inline]
    pub(super) fn is_trying(&self) -> bool {
        self.is_trying.load(Ordering::Relaxed)
    }

    /// Whether it is time for a first trial.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 1 && self.stand.load(Ordering::Relaxed) == FREE
    }

    /// The first trial begins, with the side that carries at the moment.
    #[cold]
    pub(super) fn begin(&self, side: Side) {
        if let Some(mut trial) = self.trial.try_lock()
            && self.stand.load(Ordering::Relaxed) == FREE
        {
            trial.begin(side, sys::clock::now());
            self.show(&trial);
        }
    }

    fn carried(&self, bytes: usize) {
        if self.is_counting.load(Ordering::Relaxed) {
            self.work.fetch_add(1 << 40 | bytes.min(BYTES_MOST) as u64, Ordering::Relaxed);
        }
        let now = sys::clock::now();
        if now >= self.until.load(Ordering::Relaxed) {
            self.go_on(now);
        }
    }

    #[cold]
    fn go_on(&self, now: u64) {
        let Some(mut trial) = self.trial.try_lock() else { return };
        if trial.is_resting() && !runtime::get().is_some_and(|runtime| OPENING.are_on(runtime)) {
            // Windows of the wire need one.
            return self.until.store(now + LOOK_NS, Ordering::Relaxed);
        }
        let work = self.work.load(Ordering::Relaxed);
        let work = Work { calls: (work >> 40) as u32, bytes: work & ((1 << 40) - 1) };
        trial.go_on(now, work);
        if trial.is_resting() {
            let [kernel, wire] = trial.sums();
            let threads = self.count.load(Ordering::Relaxed);
            logger::debug!(
                "of {threads} threads, tried {} times: {kernel} bytes/s by the kernel, {wire} by the wire: {:?}",
                trial.pairs(),
                trial.side()
            );
        }
        self.show(&trial);
    }

    fn show(&self, trial: &Trial) {
        self.work.store(0, Ordering::Relaxed);
        self.until.store(trial.until(), Ordering::Relaxed);
        self.is_trying.store(!trial.is_resting(), Ordering::Relaxed);
        self.is_counting.store(trial.is_counting(), Ordering::Relaxed);
        let stand = if trial.side() == Side::Kernel { KERNEL } else { WIRE };
        self.stand.store(stand, Ordering::Relaxed);
    }
}
