//! Spin, then sleep: the one place for every blocking call.

use super::Lanes;
use super::in_kernel::deadline_of;
use super::moves::{Sleeper, Watched};
use super::presence::{Mark, Presence, Using};
use crate::answer::{Answer, Stop, Why};
use crate::counts;
use crate::errno::fail;
use crate::object::Object;
use crate::os::Os;
use crate::runtime::Runtime;
use crate::spin::{Budget, sharing};
use crate::wait::in_memory;
use config::Parameters;
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};
use libc::pollfd;
use sys::Few;
use sys::poll::asked;

/// Attempts between two looks at cancellation and signals while spinning.
const ATTEMPTS_PER_LOOK: u32 = 16;

/// A wait that polls for longer than this is counted while it polls, so that readers see it.
const ACCOUNT_NS: u64 = 100_000_000;

/// What a call waits for, and how.
pub(crate) struct Wait<'a> {
    /// Sockets whose edges wake a sleeper, and polled sets.
    pub watched: Watched<'a>,
    /// How often carriers had changed when the wait looked at them: at the next change it ends.
    pub moves: u32,
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
    /// Whether SA_RESTART lets the call go on (recv and its like, without a socket timeout). Not once something was
    /// moved: as in the kernel, a handler of either kind ends the call then, with its count.
    pub restartable: Cell<bool>,
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
        let timeout = one[0].receive_timeout();
        Wait { kernel, polling: Polling::Receive(one[0].counts()), ..Wait::of_one(runtime, one, timeout) }
    }

    /// Of a call that sends or connects on one socket.
    pub(crate) fn to_send(runtime: &Runtime, one: &'a [&'static Object; 1]) -> Wait<'a> {
        Wait::of_one(runtime, one, one[0].send_timeout())
    }

    /// Of a call that other waits may have been part of: its deadline, and whether it is restartable.
    pub(crate) fn within(self, (deadline, restartable): (Option<u64>, bool)) -> Wait<'a> {
        Wait { deadline, restartable: Cell::new(restartable), ..self }
    }

    /// `timeout`: SO_RCVTIMEO or SO_SNDTIMEO; with one, SA_RESTART does not restart (signal(7)).
    fn of_one(runtime: &Runtime, one: &'a [&'static Object; 1], timeout: u64) -> Wait<'a> {
        let watched = Watched { objects: one, sets: &[] };
        let moves = watched.moves();
        Wait {
            watched,
            moves,
            lanes: Lanes::of(one[0]),
            set: None,
            kernel: &[],
            deadline: deadline_of(timeout),
            budget: runtime.receive_budget(),
            memory: &one[0].spin,
            restartable: Cell::new(timeout == 0),
            mask: None,
            polling: Polling::Uncounted,
        }
    }
}

impl Wait<'_> {
    /// Whether something else carries what is waited for since the wait looked.
    #[inline]
    fn has_moved(&self) -> bool {
        let set = self.set.map_or(0, |set| set.moves.load(Ordering::Acquire));
        self.watched.moves().wrapping_add(set) != self.moves
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
    /// Something else carries what is waited for: the caller looks again from the start.
    Moved,
}

impl Stopped {
    /// What a call on one socket answers that does not look again itself: the kernel's function does.
    pub(crate) fn answer<T>(self) -> Answer<T> {
        match self {
            Stopped::Interrupted => fail(libc::EINTR),
            Stopped::TimedOut => fail(libc::EAGAIN),
            Stopped::Moved => Err(Stop::Kernel(Why::NotOurs)),
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
    let signals = Signals::begin(os);
    let mut using = Using::begin(wait.watched.objects);
    let begun = sys::clock::now();
    let mut spin = wait.budget.begin(wait.memory, begun);
    let mut now = begun;
    let mut attempts = 0u32;
    let mut slept = false;
    // Polling until then is counted.
    let mut accounted = begun;
    let yield_every = wait.polling.yield_every(&runtime.parameters);
    let result = loop {
        if wait.has_moved() {
            break Err(Stopped::Moved);
        }
        if let Some(done) = attempt(now) {
            if attempts == 0 {
                spin.found(now);
            } else if !slept {
                wait.polling.found();
                counts::polled(runtime, now - accounted);
            }
            break Ok(done);
        }
        if wait.deadline.is_some_and(|deadline| now >= deadline) {
            // What left while it was looked at was not seen.
            break Err(if wait.has_moved() { Stopped::Moved } else { Stopped::TimedOut });
        }
        attempts += 1;
        if yield_every > 0 && attempts.is_multiple_of(yield_every) {
            sys::process::yield_now();
        }
        if attempts.is_multiple_of(ATTEMPTS_PER_LOOK) {
            // No lock is held here.
            os.cancellation_point();
            if !slept && now - accounted >= ACCOUNT_NS {
                counts::polled(runtime, now - accounted);
                accounted = now;
            }
        }
        if signals.interrupt(os, wait.restartable.get()) || !using.stands() {
            break Err(Stopped::Interrupted);
        }
        if slept || !spin.goes_on(now) {
            if !slept {
                wait.polling.gave_up();
                counts::polled(runtime, now - accounted);
            }
            slept = true;
            match sleep(runtime, wait, &signals, &mut using, &mut attempt) {
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

/// Which handlers end a wait.
pub(super) struct Signals {
    before: Cell<crate::os::Handled>,
}

impl Signals {
    #[inline]
    pub(super) fn begin(os: &Os) -> Signals {
        Signals { before: Cell::new((os.handled)()) }
    }

    /// Whether one ran since. `restartable`: of those installed without SA_RESTART; the others are behind the wait
    /// then, and end it no more when that changes.
    #[inline]
    pub(super) fn interrupt(&self, os: &Os, restartable: bool) -> bool {
        let (now, before) = ((os.handled)(), self.before.get());
        if !restartable {
            return now.all != before.all;
        }
        let ends = now.without_restart != before.without_restart;
        if !ends {
            self.before.set(now);
        }
        ends
    }
}

/// Undoes, in any case (cancellation unwinds through here), what a sleep set up. A handler that leaves by siglongjmp
/// finds the mask that the kernel would have left it.
struct Asleep {
    sleeper: Sleeper,
    _presence: Presence,
    mask: u64,
}

impl Drop for Asleep {
    fn drop(&mut self) {
        sys::thread::set_mask(self.mask);
    }
}

/// Connections in memory that a sleep is about: their peers are told to ring.
struct Bells<'a> {
    objects: &'a [&'static Object],
    any: bool,
}

impl<'a> Bells<'a> {
    fn arm(wait: &Wait<'a>) -> Bells<'a> {
        let mut bells = Bells { objects: wait.watched.objects, any: false };
        for object in bells.objects.iter().filter(|object| in_memory::is_in(object)) {
            in_memory::arm(object);
            bells.any = true;
        }
        wait.watched.sets.iter().copied().chain(wait.set).for_each(super::epoll::Set::arm_bells);
        bells
    }

    /// Whether a set has heard a ring since, for a wish of an earlier sleep: the connection is to say its wish again.
    fn are_unsaid(wait: &Wait<'_>) -> bool {
        wait.watched.sets.iter().copied().chain(wait.set).any(super::epoll::Set::is_to_say_wishes)
    }

    /// Those that have a bell, in the same order each time unless one moves, which ends the wait.
    fn objects(&self) -> impl Iterator<Item = &'static Object> + '_ {
        let all = if self.any { self.objects } else { &[] };
        all.iter().copied().filter(|object| in_memory::is_in(object))
    }

    /// To be slept on; the index of the first.
    fn push(&self, fds: &mut Few<pollfd>) -> usize {
        let first = fds.len();
        self.objects()
            .for_each(|object| fds.push(asked(in_memory::bell(object).unwrap_or(-1), libc::POLLIN)));
        first
    }

    fn hear(&self, runtime: &'static Runtime, wait: &Wait<'_>, polled: &[pollfd]) {
        for (object, bell) in self.objects().zip(polled) {
            if bell.revents != 0 {
                in_memory::rung(runtime, object);
            } else if self.objects.len() > 1 && object.watch.count() == 0 && in_memory::disarm(object) {
                super::epoll::look_at(object);
            }
        }
        wait.watched.sets.iter().copied().chain(wait.set).for_each(|set| set.hear_bells(runtime));
        if let Some(set) = wait.set {
            set.take_back_wishes();
        }
    }
}

/// Sleeps once. `None`: awake, try again.
fn sleep<T>(
    runtime: &'static Runtime,
    wait: &Wait<'_>,
    signals: &Signals,
    using: &mut Using<'_>,
    attempt: &mut impl FnMut(u64) -> Option<T>,
) -> Option<Result<T, Stopped>> {
    let os = &runtime.os;
    let sleeper = Sleeper::begin(wait.watched);
    for lane in wait.lanes.each() {
        lane.counts.interrupts_requested.one();
    }
    let presence = Presence::begin(wait.lanes.each().map(Mark::SleepsOn).chain(wait.set.map(Mark::SleepsIn)));
    // Handlers that run from here to the sleep would be missed: signals stay blocked until the sleep itself.
    let asleep =
        Asleep { sleeper, _presence: presence, mask: sys::thread::set_mask(sys::thread::ALL_BUT_FAULTS) };
    if signals.interrupt(os, wait.restartable.get()) {
        return Some(Err(Stopped::Interrupted));
    }
    if asleep.sleeper.has_left() {
        return if using.stands() { None } else { Some(Err(Stopped::Interrupted)) };
    }
    let (now, bells) = (sys::clock::now(), Bells::arm(wait));
    if wait.has_moved() {
        return Some(Err(Stopped::Moved));
    }
    match attempt(now) {
        Some(done) => return Some(Ok(done)),
        None if Bells::are_unsaid(wait) => return None,
        None => {}
    }
    let mut fds = Few::new();
    for polled in wait.kernel {
        // Closed by another thread: the number that the call came with may be another file's now.
        let fd = match (wait.watched.objects, polled.fd) {
            ([object], fd @ 0..) if wait.kernel.len() == 1 => object.shadow(fd),
            (_, fd) => fd,
        };
        fds.push(asked(fd, polled.events));
    }
    let eventfd = asleep.sleeper.eventfd;
    fds.push(asked(eventfd, libc::POLLIN));
    let first_bell = bells.push(&mut fds);
    for lane in wait.lanes.each().filter(|_| wait.set.is_none_or(|set| set.is_nested())) {
        lane.descriptors.iter().for_each(|fd| fds.push(asked(*fd, libc::POLLIN)));
    }
    wait.lanes.each().for_each(|lane| lane.before_sleep(now));
    let left = asleep.sleeper.part(wait.deadline.map(|deadline| deadline.saturating_sub(now)));
    let _ = os.poll_all(&mut fds, left, Some(wait.mask.unwrap_or(asleep.mask)));
    drop(asleep);
    let now = sys::clock::now();
    sharing::slept(now);
    wait.lanes.each().for_each(|lane| lane.after_sleep(now));
    // What comes between the poll and here wakes the next sleep for nothing, once.
    if fds.get(wait.kernel.len()).is_some_and(|own| own.revents != 0) {
        sys::fd::clear(eventfd);
    }
    if !using.stands() {
        return Some(Err(Stopped::Interrupted));
    }
    bells.hear(runtime, wait, &fds[first_bell..]);
    if signals.interrupt(os, wait.restartable.get()) {
        return match attempt(sys::clock::now()) {
            // As the kernel: what is ready wins over the signal.
            Some(done) => Some(Ok(done)),
            None => Some(Err(Stopped::Interrupted)),
        };
    }
    None
}
