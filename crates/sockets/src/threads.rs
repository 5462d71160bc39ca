//! Processes for which nothing that can be counted beforehand tells which carrier serves them better: several threads
//! use connections, and wait for each other at one lane; or one does that waits for its processor, where each call
//! costs what others would do meanwhile. So it is tried (`trial.rs`). What is compared is work in a time: of the clock
//! where threads work side by side, of the processor where that is what lacks. A process that is neither is never
//! tried, and pays a look for it.

mod trial;

use crate::locks::Rank;
use crate::opening::OPENING;
use crate::runtime::{self, Runtime};
use config::Carrier;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use stats::Verdict;
use trial::{Side, Trial, Work};

/// A thread that made so many calls with data is one of those who use connections.
const STEADY: u32 = 16;
/// Bytes that a call counts for at most: bulk beside it would drown what is compared.
const BYTES_MOST: usize = 8192;
/// In percent of the time for which a thread had a processor: who waited for one so long shares it with others.
const WAITS: u64 = 50;
/// Less says nothing, nanoseconds: the kernel adds up at ticks what a thread ran, and at once what it waited.
const WAITS_LEAST_NS: u64 = 4_000_000;

/// Between two questions how long it waited: less says nothing. Nanoseconds.
const ASK_NS: u64 = 10_000_000;

/// Nobody has tried.
const FREE: u8 = 0;
const KERNEL: u8 = 1;
const WIRE: u8 = 2;

/// Those of this process.
pub(crate) static THREADS: Threads = Threads {
    count: AtomicU32::new(0),
    stand: AtomicU8::new(FREE),
    is_trying: AtomicBool::new(false),
    was_tried: AtomicBool::new(false),
    is_counting: AtomicBool::new(false),
    until: AtomicU64::new(u64::MAX),
    work: AtomicU64::new(0),
    trial: Rank::Trial.lock(Tried::new()),
};

/// See the module's page.
pub(crate) struct Threads {
    count: AtomicU32,
    /// Who carries, as the trial says.
    stand: AtomicU8,
    is_trying: AtomicBool,
    /// A trial has ended.
    was_tried: AtomicBool,
    is_counting: AtomicBool,
    /// When the trial goes on.
    until: AtomicU64,
    /// Calls and bytes of this window: 24 bits above 40.
    work: AtomicU64,
    trial: sys::Mutex<Tried>,
}

struct Tried {
    trial: Trial,
    /// Work is compared by the processor's time.
    by_processor: bool,
    /// When the phase began, by that time.
    began: u64,
    /// What one who is alone has had of its processor, when it was asked last.
    schedule: sys::thread::Schedule,
    asked: u64,
    /// How often interfaces had been opened by then.
    openings: u32,
}

impl Default for Tried {
    fn default() -> Tried {
        Tried::new()
    }
}

impl Tried {
    const fn new() -> Tried {
        let schedule = sys::thread::Schedule { ran: 0, waited: 0 };
        Tried { trial: Trial::new(), by_processor: false, began: 0, schedule, asked: 0, openings: 0 }
    }

    fn time(&self, now: u64) -> u64 {
        if self.by_processor { sys::clock::process_time() } else { now }
    }

    /// Whether the caller, which is alone in its process, had to wait for its processor since it was asked last. False
    /// where that was just now, /proc does not tell, or an interface was opened meanwhile: our own thread may have had
    /// it.
    fn shares_processor(&mut self, now: u64) -> bool {
        if now.saturating_sub(self.asked) < ASK_NS {
            return false;
        }
        self.asked = now;
        let Some(schedule) = sys::thread::schedule() else { return false };
        let before = core::mem::replace(&mut self.schedule, schedule);
        let openings = OPENING.count();
        if core::mem::replace(&mut self.openings, openings) != openings || OPENING.is_under_way() {
            return false;
        }
        let ran = schedule.ran.saturating_sub(before.ran);
        let waited = schedule.waited.saturating_sub(before.waited);
        waited >= WAITS_LEAST_NS && waited.saturating_mul(100) >= ran.saturating_mul(WAITS)
    }
}

thread_local! {
    /// Calls of this thread, up to [`STEADY`].
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

impl Threads {
    /// A call on a connection moved `bytes`.
    #[inline]
    pub(crate) fn called(&self, bytes: usize) {
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
        *self.trial.lock() = Tried::new();
        self.count.store(0, Ordering::Relaxed);
        self.stand.store(FREE, Ordering::Relaxed);
        self.is_trying.store(false, Ordering::Relaxed);
    }

    /// Whether connections are the kernel's, by the trial.
    #[inline]
    pub(crate) fn is_kernels(&self) -> bool {
        self.stand.load(Ordering::Relaxed) == KERNEL
    }

    /// Whether connections are the kernel's for a while, as the trial has ended so.
    pub(crate) fn has_kernel_won(&self) -> bool {
        self.is_kernels() && !self.is_trying()
    }

    /// A trial is under way.
    #[inline]
    pub(crate) fn is_trying(&self) -> bool {
        self.is_trying.load(Ordering::Relaxed)
    }

    /// Whether several threads make calls, and nobody has looked which carrier serves them better.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.is_several() && self.stand.load(Ordering::Relaxed) == FREE
    }

    #[inline]
    fn is_several(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 1
    }

    /// Why connections are the kernel's.
    pub(crate) fn verdict(&self) -> Verdict {
        if self.was_tried.load(Ordering::Relaxed) { Verdict::Threads } else { Verdict::Untried }
    }

    /// What a connection carries has shown something. A process that has several threads, or shares a processor, is to
    /// be tried, and is the kernel's until then.
    #[cold]
    pub(crate) fn look(&self, runtime: &Runtime) {
        let by_itself = runtime.parameters.carrier == Carrier::Late;
        if by_itself || self.stand.load(Ordering::Relaxed) != FREE {
            return;
        }
        let is_several = self.is_several();
        let now = sys::clock::now();
        if let Some(mut tried) = self.trial.try_lock()
            && self.stand.load(Ordering::Relaxed) == FREE
            && (is_several || tried.shares_processor(now))
        {
            tried.by_processor = !is_several;
            let is_open = is_on_interface(runtime);
            if is_several && !is_open {
                // Most of them are the kernel's for good, and those that end soon would pay for nothing.
                tried.trial.wait(now);
            } else {
                tried.trial.begin(!is_open, now);
            }
            self.show(&mut tried, now);
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
        let Some(mut tried) = self.trial.try_lock() else { return };
        let Some(runtime) = runtime::get() else { return };
        if now < tried.trial.until() {
            // Another thread was faster.
            return;
        }
        if tried.trial.is_resting() && !self.is_worth_trying(&mut tried, now) {
            return self.give_up(&mut tried);
        }
        if tried.by_processor && self.is_several() && !tried.trial.is_resting() {
            // It had one when this trial began.
            tried.trial = Trial::new();
            tried.trial.wait(now);
            return self.show(&mut tried, now);
        }
        let is_open = is_on_interface(runtime);
        let work = self.work.load(Ordering::Relaxed);
        let time = tried.time(now).saturating_sub(tried.began);
        let work = Work { calls: (work >> 40) as u32, bytes: work & ((1 << 40) - 1), time };
        let was_opening = tried.trial.is_opening();
        tried.trial.go_on(now, work, is_open);
        if tried.trial.is_opening() {
            OPENING.put_on(runtime);
        } else if was_opening && tried.by_processor {
            // What it waited while that was opened says nothing.
            tried.shares_processor(now);
        }
        if tried.trial.is_resting() {
            let [kernel, wire] = tried.trial.sums();
            logger::debug!(
                "{} threads, by the {}'s time, tried {} times: {kernel} bytes/s by the kernel, {wire} by the wire: {:?}",
                self.count.load(Ordering::Relaxed),
                if tried.by_processor { "processor" } else { "clock" },
                tried.trial.pairs(),
                tried.trial.side()
            );
            if tried.by_processor && !tried.shares_processor(now) {
                // What its calls cost takes nothing from anybody.
                return self.give_up(&mut tried);
            }
        }
        self.show(&mut tried, now);
    }

    /// Connections are judged one by one, as ever.
    fn give_up(&self, tried: &mut Tried) {
        tried.trial = Trial::new();
        self.is_trying.store(false, Ordering::Relaxed);
        self.is_counting.store(false, Ordering::Relaxed);
        self.stand.store(FREE, Ordering::Relaxed);
    }

    /// Whether a process that was tried is to be tried again, and by which time.
    fn is_worth_trying(&self, tried: &mut Tried, now: u64) -> bool {
        tried.by_processor = !self.is_several();
        !tried.by_processor || tried.shares_processor(now)
    }

    fn show(&self, tried: &mut Tried, now: u64) {
        tried.began = tried.time(now);
        let trial = &tried.trial;
        self.work.store(0, Ordering::Relaxed);
        self.until.store(trial.until(), Ordering::Relaxed);
        self.is_trying.store(!trial.is_resting() && !trial.is_opening(), Ordering::Relaxed);
        self.was_tried.store(trial.was_won(), Ordering::Relaxed);
        self.is_counting.store(trial.is_counting(), Ordering::Relaxed);
        let stand = if trial.side() == Side::Kernel { KERNEL } else { WIRE };
        self.stand.store(stand, Ordering::Relaxed);
    }
}

/// Whether what is steered comes to this process: an interface is open, with the program on it, and none is being
/// opened.
fn is_on_interface(runtime: &Runtime) -> bool {
    !OPENING.is_under_way() && runtime.lanes().any(|lane| !lane.hook.is_off())
}
