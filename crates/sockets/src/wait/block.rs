//! Spin, then sleep: the one place for every blocking call.

use super::Lanes;
use super::sharing;
use super::spin::Budget;
use super::using::Using;
use crate::counts;
use crate::object::Object;
use crate::os::Os;
use crate::runtime::Runtime;
use config::Parameters;
use core::sync::atomic::{AtomicU32, Ordering};
use libc::pollfd;
use std::cell::RefCell;

/// Attempts between two looks at cancellation and signals while spinning.
const ATTEMPTS_PER_LOOK: u32 = 16;

/// What a call waits for, and how.
pub(crate) struct Wait<'a> {
    /// Sockets whose edges wake a sleeper.
    pub objects: &'a [&'static Object],
    /// Lanes to sleep on.
    pub lanes: Lanes,
    /// The epoll set that is waited on: its private set holds the lanes' descriptors already.
    pub set: Option<&'static super::epoll::Set>,
    /// The kernel's descriptors to sleep on too.
    pub kernel: &'a [pollfd],
    /// When to give up, nanoseconds of `sys::clock`; `None`: never.
    pub deadline: Option<u64>,
    /// How long to spin.
    pub budget: Budget,
    /// Where an adaptive budget is remembered.
    pub memory: &'a AtomicU32,
    /// Whether SA_RESTART lets the call go on (recv and its like, without a socket timeout).
    pub restartable: bool,
    /// Signal mask while waiting (ppoll, pselect, epoll_pwait).
    pub mask: Option<u64>,
    /// Where it is counted whether polling was worth it.
    pub polling: Polling,
}

impl<'a> Wait<'a> {
    /// Of a call that receives or accepts on one socket; `kernel`: its shadow, where that contributes.
    pub(crate) fn to_receive(
        runtime: &Runtime,
        one: &'a [&'static Object; 1],
        kernel: &'a [pollfd],
    ) -> Wait<'a> {
        let timeout = one[0].receive_timeout.load(Ordering::Relaxed);
        Wait { kernel, polling: Polling::Receive(one[0].counts()), ..Wait::of_one(runtime, one, timeout) }
    }

    /// Of a call that sends or connects on one socket.
    pub(crate) fn to_send(runtime: &Runtime, one: &'a [&'static Object; 1]) -> Wait<'a> {
        Wait::of_one(runtime, one, one[0].send_timeout.load(Ordering::Relaxed))
    }

    /// `timeout`: SO_RCVTIMEO or SO_SNDTIMEO; with one, SA_RESTART does not restart (signal(7)).
    fn of_one(runtime: &Runtime, one: &'a [&'static Object; 1], timeout: u64) -> Wait<'a> {
        Wait {
            objects: one,
            lanes: Lanes::of(one[0]),
            set: None,
            kernel: &[],
            deadline: (timeout > 0).then(|| sys::clock::now() + timeout),
            budget: runtime.receive_budget(),
            memory: &one[0].spin,
            restartable: timeout == 0,
            mask: None,
            polling: Polling::Uncounted,
        }
    }
}

/// Where a wait counts its polling: that it found something, or gave up and slept.
#[derive(Clone, Copy)]
pub(crate) enum Polling {
    /// A receive or accept of this socket.
    Receive(&'static stats::Socket),
    /// poll and select.
    Poll,
    /// epoll_wait.
    Epoll,
    /// Nowhere.
    Uncounted,
}

impl Polling {
    /// Attempts between two yields of the processor (VMA_RX_POLL_YIELD, VMA_SELECT_POLL_YIELD); 0: none.
    fn yield_every(self, parameters: &Parameters) -> u32 {
        match self {
            Polling::Receive(_) => parameters.rx_poll_yield,
            Polling::Poll | Polling::Epoll => u32::from(parameters.select_poll_yield),
            Polling::Uncounted => 0,
        }
    }

    fn found(self) {
        let process = || counts::segment().process();
        match self {
            Polling::Receive(block) => block.rx_poll_hit.one(),
            Polling::Poll => process().poll_hits.one(),
            Polling::Epoll => process().epoll_hits.one(),
            Polling::Uncounted => {}
        }
    }

    fn gave_up(self) {
        let process = || counts::segment().process();
        match self {
            Polling::Receive(block) => block.rx_poll_miss.one(),
            Polling::Poll => process().poll_misses.one(),
            Polling::Epoll => process().epoll_misses.one(),
            Polling::Uncounted => {}
        }
    }
}

/// Why a wait ended without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// A signal handler ran (EINTR).
    Interrupted,
    /// The deadline passed.
    TimedOut,
}

impl Stopped {
    /// What a call on one socket fails with.
    pub(crate) fn errno(self) -> i32 {
        match self {
            Stopped::Interrupted => libc::EINTR,
            Stopped::TimedOut => libc::EAGAIN,
        }
    }
}

/// Attempts until one succeeds. `attempt` takes turns and is given the time; it must not block.
pub(crate) fn until<T>(
    runtime: &'static Runtime,
    wait: &Wait<'_>,
    mut attempt: impl FnMut(u64) -> Option<T>,
) -> Result<T, Stopped> {
    let os = &runtime.os;
    let _using = Using::begin(wait.objects);
    let begun = sys::clock::now();
    let signals = Signals { before: (os.handled)(), restartable: wait.restartable };
    let mut spin = wait.budget.begin(wait.memory, begun);
    let mut now = begun;
    let mut attempts = 0u32;
    let mut slept = false;
    let yield_every = wait.polling.yield_every(&runtime.parameters);
    let result = loop {
        if let Some(done) = attempt(now) {
            if attempts == 0 {
                spin.found(now);
            } else if !slept {
                wait.polling.found();
                counts::polled(runtime, now - begun);
            }
            break Ok(done);
        }
        if wait.deadline.is_some_and(|deadline| now >= deadline) {
            break Err(Stopped::TimedOut);
        }
        attempts += 1;
        if yield_every > 0 && attempts.is_multiple_of(yield_every) {
            sys::process::yield_now();
        }
        if attempts.is_multiple_of(ATTEMPTS_PER_LOOK) {
            // No lock is held here.
            os.cancellation_point();
        }
        if signals.interrupt(os) {
            break Err(Stopped::Interrupted);
        }
        if slept || !spin.goes_on(now) {
            if !slept {
                wait.polling.gave_up();
                counts::polled(runtime, now - begun);
            }
            slept = true;
            match sleep(runtime, wait, &signals, &mut attempt) {
                Some(result) => break result,
                None => attempts = 0,
            }
        }
        now = sys::clock::now();
    };
    if result.is_ok() {
        wait.budget.learn(wait.memory, sys::clock::now() - begun);
    }
    result
}

struct Signals {
    before: crate::os::Handled,
    restartable: bool,
}

impl Signals {
    #[inline]
    fn interrupt(&self, os: &Os) -> bool {
        let now = (os.handled)();
        if self.restartable {
            now.without_restart != self.before.without_restart
        } else {
            now.all != self.before.all
        }
    }
}

/// Undoes, in any case (cancellation unwinds through here), what a sleep set up.
struct Asleep<'a> {
    wait: &'a Wait<'a>,
    eventfd: i32,
    mask: u64,
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        for object in self.wait.objects {
            object.watch.remove_sleeper(self.eventfd);
        }
        for lane in self.wait.lanes.each() {
            lane.sleepers.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(set) = self.wait.set {
            set.awake();
        }
        sys::thread::set_mask(self.mask);
    }
}

/// Sleeps once. `None`: awake, try again.
fn sleep<T>(
    runtime: &Runtime,
    wait: &Wait<'_>,
    signals: &Signals,
    attempt: &mut impl FnMut(u64) -> Option<T>,
) -> Option<Result<T, Stopped>> {
    let os = &runtime.os;
    let eventfd = thread_eventfd();
    for object in wait.objects {
        object.watch.add_sleeper(eventfd);
    }
    for lane in wait.lanes.each() {
        lane.sleepers.fetch_add(1, Ordering::SeqCst);
        lane.counts.interrupts_requested.one();
    }
    if let Some(set) = wait.set {
        set.falls_asleep();
    }
    // Handlers that run from here to the sleep would be missed: signals stay blocked until the sleep itself.
    let asleep = Asleep { wait, eventfd, mask: sys::thread::set_mask(u64::MAX) };
    if signals.interrupt(os) {
        return Some(Err(Stopped::Interrupted));
    }
    let now = sys::clock::now();
    if let Some(done) = attempt(now) {
        return Some(Ok(done));
    }
    let mut fds: Vec<pollfd> = FDS.with(|fds| core::mem::take(&mut *fds.borrow_mut()));
    fds.clear();
    fds.extend_from_slice(wait.kernel);
    if let ([object], [_]) = (wait.objects, wait.kernel)
        && object.ending.load(Ordering::SeqCst)
    {
        // Closed by another thread: the number that the call came with may be another file's now.
        let shadow = object.fd.load(Ordering::SeqCst);
        fds.iter_mut().filter(|polled| polled.fd >= 0).for_each(|polled| polled.fd = shadow);
    }
    fds.push(pollfd { fd: eventfd, events: libc::POLLIN, revents: 0 });
    for lane in wait.lanes.each().filter(|_| wait.set.is_none_or(|set| set.is_nested())) {
        fds.extend(lane.descriptors.iter().map(|fd| pollfd { fd: *fd, events: libc::POLLIN, revents: 0 }));
    }
    for lane in wait.lanes.each() {
        lane.before_sleep(runtime, now);
    }
    let left = wait.deadline.map(|deadline| deadline.saturating_sub(now));
    let _ = os.poll_all(&mut fds, left, Some(wait.mask.unwrap_or(asleep.mask)));
    drop(asleep);
    let now = sys::clock::now();
    sharing::slept(now);
    for lane in wait.lanes.each() {
        lane.after_sleep(now);
    }
    // What comes between the poll and here wakes the next sleep for nothing, once.
    if fds.get(wait.kernel.len()).is_some_and(|own| own.revents != 0) {
        sys::fd::clear(eventfd);
    }
    FDS.with(|kept| *kept.borrow_mut() = fds);
    if signals.interrupt(os) {
        return match attempt(sys::clock::now()) {
            // As the kernel: what is ready wins over the signal.
            Some(done) => Some(Ok(done)),
            None => Some(Err(Stopped::Interrupted)),
        };
    }
    None
}

thread_local! {
    /// Reused between sleeps.
    static FDS: RefCell<Vec<pollfd>> = const { RefCell::new(Vec::new()) };
    static WAKE: RefCell<Option<sys::Fd>> = const { RefCell::new(None) };
}

/// The eventfd that wakes this thread, made on first use.
fn thread_eventfd() -> i32 {
    WAKE.with(|wake| {
        let mut wake = wake.borrow_mut();
        if wake.is_none() {
            *wake = sys::fd::eventfd().ok();
        }
        // Without an eventfd (descriptors exhausted) the sleep is a poll on -1: the wake-ups of packets remain.
        wake.as_ref().map_or(-1, sys::Fd::raw)
    })
}

/// In the child of a fork: the eventfd of the thread that forked is the parent's.
pub(crate) fn after_fork() {
    WAKE.with(|wake| *wake.borrow_mut() = None);
}
