//! The background thread: keeps protocol time and hands over what gathered when no application thread calls, and
//! follows netlink.
//!
//! It sleeps on the netlink monitor and a wake-up eventfd, for the progress interval (VMA_PROGRESS_ENGINE_INTERVAL) at
//! the most; longer once nothing has moved for a while, since each look costs an idle process some of its processor.
//! Where the application is away (no turn for a while) and the engine has unfinished business, it also sleeps on the
//! AF_XDP sockets, so that acknowledgments and retransmissions go on as they would in the kernel.

use crate::astray;
use crate::background::BACKGROUND;
use crate::counts;
use crate::describe;
use crate::ending::ENDING;
use crate::family::FAMILY;
use crate::fd_table;
use crate::half_open;
use crate::ipsec;
use crate::keeper;
use crate::lane::Lane;
use crate::locks::Rank;
use crate::object::{Kind, Object};
use crate::runtime::Runtime;
use crate::threads::THREADS;
use crate::turn;
use crate::udp_legs::multicast::Lookout;
use crate::wait::in_memory;
use ::memory::attention;
use core::sync::atomic::Ordering;
use netlink::{Monitor, Update};
use std::ffi::CString;

/// While sends gather, the worker looks this often: the longest that a gathered frame waits for a caller that turned
/// to other work, as this one is known to do.
const HURRY_NS: u64 = 200_000;

/// As long as callers hand over themselves what they let gather, which looks that found nothing tell, the worker looks
/// less and less often, down to this.
const HURRY_LEAST_OFTEN_NS: u64 = 1_600_000;

/// It never sleeps for less: a timer that is due while another thread holds the lane is that thread's to fire.
const LEAST_NS: u64 = 50_000;

/// How long the worker stays hurried after the last reason: waking it costs more than a few idle looks.
const HURRY_SPAN_NS: u64 = 5_000_000;

/// A lane without a turn for this long is turned by the worker.
const AWAY_NS: u64 = 2_000_000;

/// Without a frame in or out for so long the worker dozes: it looks only once in so many intervals.
const CALM_NS: u64 = 50_000_000;
const DOZING_INTERVALS: u64 = 4;

/// How often closed sockets and neighbours are looked after.
const SWEEP_NS: u64 = 100_000_000;

/// How often statistics are brought up to date and readers' wishes looked at.
const ATTEND_NS: u64 = 500_000_000;
/// How often processes that share our arenas are looked after: what the dead left is taken back.
const BURY_NS: u64 = 1_000_000_000;

/// How long a worker may take to end, nanoseconds: more than its longest step.
const STOP_NS: u64 = 5_000_000_000;

/// Its work, while no thread does it.
static PARKED: sys::Mutex<Option<Worker>> = Rank::Parked.lock(None);

/// Starts the worker on the first lane, tells it of further ones.
pub(crate) fn wake_or_start(runtime: &'static Runtime) {
    sys::clock::prepare();
    if !BACKGROUND.is_to_start(sys::clock::now()) {
        BACKGROUND.look();
        return;
    }
    match sys::fd::eventfd() {
        Ok(wake) => {
            BACKGROUND.wake.store(wake.raw(), Ordering::Release);
            spawn(Worker::new(runtime, wake));
        }
        Err(errno) => not_started(errno),
    }
}

fn spawn(worker: Worker) {
    let body = move || {
        BACKGROUND.tid.store(sys::process::tid(), Ordering::Release);
        let parked = worker.run();
        *PARKED.lock() = Some(parked);
    };
    if let Err(errno) = sys::thread::spawn("sidestep", body) {
        not_started(errno);
    }
}

/// It is tried again with a lane, or a meeting, a while later.
#[cold]
fn not_started(errno: i32) {
    BACKGROUND.is_not_started(sys::clock::now());
    logger::once!(
        Warning,
        "no background thread ({why}): protocol timers run only while the program calls",
        why = sys::Errno(errno)
    );
}

/// Ends the thread, so that the caller may be the only one of its process; [`resume`] follows. False: it does not run,
/// or does not end.
pub(crate) fn stop() -> bool {
    const LOOKS_NS: u64 = 20_000;
    if !BACKGROUND.is_running() {
        return false;
    }
    let patience = sys::clock::now() + STOP_NS;
    BACKGROUND.stopping.store(true, Ordering::Release);
    BACKGROUND.look();
    // Libc's end of the thread comes before the kernel's.
    while PARKED.lock().is_none() || sys::process::has_thread(BACKGROUND.tid.load(Ordering::Acquire)) {
        if sys::clock::now() > patience {
            BACKGROUND.stopping.store(false, Ordering::Release);
            return false;
        }
        sys::thread::sleep(LOOKS_NS);
    }
    BACKGROUND.stopping.store(false, Ordering::Release);
    BACKGROUND.wake.store(-1, Ordering::Release);
    true
}

/// Goes on with the work of [`stop`], in a thread that has what the caller has: privileges, filters, namespaces.
pub(crate) fn resume() {
    let Some(worker) = PARKED.lock().take() else { return };
    BACKGROUND.wake.store(worker.wake.raw(), Ordering::Release);
    spawn(worker);
}

/// In the child of a fork there is no worker.
pub(crate) fn after_fork(child: &sys::InChild) {
    PARKED.take_over(child);
    BACKGROUND.after_fork();
}

/// Moves the calling thread to the cpuset of a folder: of cpuset(7), or a threaded one of cgroups(7).
fn enter_cpuset(folder: &str) -> Result<(), i32> {
    let tid = sys::process::tid().to_string();
    let mut outcome = Err(libc::ENOENT);
    for name in ["tasks", "cgroup.threads"] {
        let path = CString::new(format!("{folder}/{name}")).map_err(|_| libc::EINVAL)?;
        outcome = sys::file::open(&path, libc::O_WRONLY, 0)
            .and_then(|file| sys::fd::write(file.raw(), tid.as_bytes()))
            .map(|_| ());
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

struct Worker {
    runtime: &'static Runtime,
    wake: sys::Fd,
    monitor: Option<Monitor>,
    hurry_seen: u32,
    hurried_at: u64,
    /// Between two looks while hurried.
    patience: u64,
    swept_at: u64,
    attended_at: u64,
    buried_at: u64,
    /// When a frame last came or went, as far as it knows.
    moved_at: u64,
    interval: u64,
    lookout: Lookout,
    fds: Vec<sys::poll::pollfd>,
}

impl Worker {
    /// By the thread that starts it: a descriptor that another thread opens takes, for a moment, the lowest free
    /// number, which the program may just have counted on.
    fn new(runtime: &'static Runtime, wake: sys::Fd) -> Worker {
        let is_needed = runtime.sdp.is_none();
        let monitor = is_needed.then(|| Monitor::open().ok()).flatten();
        if is_needed && monitor.is_none() {
            logger::warning!("changes of routes and neighbours cannot be followed: netlink is not available");
        }
        let interval_ms = match runtime.parameters.progress_engine_interval {
            0 => 1000,
            ms => u64::from(ms),
        };
        Worker {
            runtime,
            wake,
            monitor,
            hurry_seen: 0,
            hurried_at: 0,
            patience: HURRY_NS,
            swept_at: 0,
            attended_at: 0,
            buried_at: 0,
            moved_at: 0,
            interval: interval_ms * 1_000_000,
            lookout: Lookout::default(),
            fds: Vec::new(),
        }
    }

    /// VMA_INTERNAL_THREAD_AFFINITY, VMA_INTERNAL_THREAD_CPUSET.
    fn pin(&self) {
        let cores = self.runtime.parameters.internal_thread_affinity.cores();
        if !cores.is_empty()
            && let Err(errno) = sys::thread::pin_to(cores.iter().map(|core| usize::from(*core)))
        {
            logger::warning!(
                "VMA_INTERNAL_THREAD_AFFINITY: the background thread stays on any core ({why})",
                why = sys::Errno(errno)
            );
        }
        let cpuset = &self.runtime.parameters.internal_thread_cpuset;
        if !cpuset.is_empty()
            && let Err(errno) = enter_cpuset(cpuset)
        {
            logger::warning!(
                "VMA_INTERNAL_THREAD_CPUSET={cpuset}: the background thread stays in the program's cpuset ({why})",
                why = sys::Errno(errno)
            );
        }
    }

    /// Until it is to stop.
    fn run(mut self) -> Worker {
        self.pin();
        self.catch_up();
        loop {
            ENDING.serve(self.runtime);
            if BACKGROUND.stopping.load(Ordering::Acquire) {
                return self;
            }
            if self.runtime.astray.swap(false, Ordering::AcqRel) {
                astray::move_connections(self.runtime);
            }
            let now = sys::clock::now();
            let hurry = BACKGROUND.hurry.load(Ordering::Relaxed);
            if hurry != self.hurry_seen {
                self.hurry_seen = hurry;
                self.hurried_at = now;
            }
            let mut is_needed = false;
            for lane in self.runtime.lanes().filter(|lane| !lane.is_fenced()) {
                is_needed |= lane.gathering.load(Ordering::Relaxed);
                if lane.look_after_sleepers(now) {
                    self.hurried_at = now;
                    is_needed = true;
                }
            }
            keeper::ask_for_neighbours();
            self.patience = if is_needed { HURRY_NS } else { HURRY_LEAST_OFTEN_NS.min(self.patience * 2) };
            let next = self.turn_lanes(now);
            FAMILY.serve(self.runtime);
            self.lookout.look(self.runtime, now);
            if now.saturating_sub(self.attended_at) >= ATTEND_NS {
                self.attended_at = now;
                describe::attend(self.runtime);
                self.end_if_alone();
            }
            if now.saturating_sub(self.swept_at) >= SWEEP_NS {
                self.swept_at = now;
                self.sweep(now);
            }
            self.sleep(now, next);
        }
    }

    /// A process ends with its last thread. libc, which sees to that, takes this one for one of the application's.
    fn end_if_alone(&self) {
        if sys::process::is_left_to_caller() {
            ENDING.end_now(self.runtime);
            sys::process::end(0);
        }
    }

    /// A neighbour may have answered after it was asked for and before the monitor listened.
    fn catch_up(&self) {
        for lane in self.runtime.lanes().filter(|lane| !lane.is_fenced()) {
            let now = sys::clock::now();
            let mut inner = lane.lock();
            inner.find_neighbours_again(now);
            inner.flush(stack::Instant(now));
            inner.deliver_events(now);
        }
    }

    /// Does for each lane what its application does not do just now; when the first of them wants attention again.
    fn turn_lanes(&mut self, now: u64) -> u64 {
        let mut next = u64::MAX;
        for lane in self.runtime.lanes() {
            if lane.is_fenced() {
                continue;
            }
            // A held lock means that somebody is turning it right now.
            let Some(mut inner) = lane.try_lock() else {
                self.moved_at = now;
                continue;
            };
            let due = inner.stack.next_timer().is_some_and(|due| due.0 <= now);
            if due
                || lane.gathering.load(Ordering::Relaxed)
                || lane.bell.is_due()
                || is_away(lane, now)
                || lane.is_stranded(now)
            {
                // Being away is measured by the application's turns, not by ours.
                inner.turn_in_background(now);
                lane.publish(&inner);
                counts::segment().process().background_turns.one();
            }
            self.moved_at = self.moved_at.max(inner.moved_at);
            next = next.min(inner.stack.next_timer().map_or(u64::MAX, |due| due.0));
        }
        next
    }

    fn sweep(&mut self, now: u64) {
        let bury = now.saturating_sub(self.buried_at) >= BURY_NS;
        if bury {
            self.buried_at = now;
        }
        if logger::enabled(logger::Level::Finer) {
            describe_streams(now);
        }
        for lane in self.runtime.lanes() {
            lane.sweep_orphans();
            if let Some(moderator) = lane.moderator.get() {
                moderator.adapt(lane, &self.runtime.parameters, now);
            }
            let mut neighbours = Vec::new();
            let half_open = lane.try_lock().and_then(|mut inner| {
                inner.close_left(now);
                neighbours = inner.neighbours_to_remind(now);
                if bury {
                    inner.device.bury_dead();
                    lane.look_after(&mut inner);
                }
                inner.device.half_open(half_open::AT_ONCE)
            });
            half_open.iter().for_each(half_open::probe);
            turn::remind(self.runtime, lane.link, &neighbours);
            if bury {
                restore_keeper(lane);
            }
            let is_quiet =
                lane.try_lock().is_some_and(|inner| lane.is_quiet(&inner, now, THREADS.has_kernel_won()));
            if is_quiet && self.runtime.parameters.begins_in_kernel() {
                lane.take_program_off();
            }
        }
    }

    /// Sleeps until something is to be done, and follows what the kernel told meanwhile. Lanes whose application is
    /// away are watched for packets.
    fn sleep(&mut self, now: u64, next_timer: u64) {
        let dozes = self.may_doze(now);
        let interval = if dozes { self.dozing_interval() } else { self.interval };
        let mut until = next_timer.min(now + interval).max(now + LEAST_NS);
        self.fds.clear();
        watch(&mut self.fds, self.wake.raw());
        watch(&mut self.fds, self.monitor.as_ref().map_or(-1, Monitor::descriptor));
        watch(&mut self.fds, self.runtime.policies.descriptor());
        watch(&mut self.fds, attention::descriptor());
        in_memory::watch_debts(&mut self.fds);
        for lane in self.runtime.lanes() {
            if lane.is_fenced() || !is_away(lane, now) {
                continue;
            }
            if lane.is_locked() {
                // Its packets may wait for a thread that lost the processor: to watch them would keep it away.
                until = until.min(now + AWAY_NS);
                continue;
            }
            lane.gate.each_queue(|fd| watch(&mut self.fds, fd));
        }
        if FAMILY.is_busy() {
            FAMILY.watch(&mut self.fds);
        }
        if now.saturating_sub(self.hurried_at) < HURRY_SPAN_NS {
            until = until.min(now + self.patience);
        } else {
            BACKGROUND.asleep.store(true, Ordering::SeqCst);
            if BACKGROUND.hurry.load(Ordering::SeqCst) != self.hurry_seen {
                BACKGROUND.asleep.store(false, Ordering::SeqCst);
                return;
            }
            // Who sends just before this wakes nobody: the doze ends soon enough.
            BACKGROUND.dozing.store(dozes, Ordering::Release);
        }
        let _ = sys::poll::poll(&mut self.fds, Some(until - now), None);
        BACKGROUND.dozing.store(false, Ordering::Release);
        BACKGROUND.asleep.store(false, Ordering::SeqCst);
        if self.fds[0].revents != 0 {
            sys::fd::clear(self.wake.raw());
        }
        if self.fds[1].revents != 0 {
            self.follow();
        }
        if self.fds[2].revents != 0 {
            ipsec::follow(self.runtime);
        }
        if self.fds[3].revents != 0 {
            attention::hear();
            in_memory::look_at_all(self.runtime);
        }
        in_memory::pay_debts(self.runtime);
    }

    /// Nothing moves, and whatever comes wakes somebody: a thread that sleeps on the lane, or the worker.
    fn may_doze(&self, now: u64) -> bool {
        let wakes = |lane: &Lane| lane.sleepers.load(Ordering::Relaxed) > 0 || is_away(lane, now);
        now.saturating_sub(self.moved_at) >= CALM_NS
            && !FAMILY.is_hurried()
            && self.runtime.lanes().all(|lane| lane.is_fenced() || wakes(lane))
    }

    fn dozing_interval(&self) -> u64 {
        if self.runtime.lanes().next().is_none() {
            return ATTEND_NS;
        }
        (self.interval * DOZING_INTERVALS).min(SWEEP_NS).max(self.interval)
    }

    /// Applies what the kernel told.
    fn follow(&mut self) {
        let Some(monitor) = &mut self.monitor else { return };
        while let Some(update) = monitor.next() {
            let process = counts::segment().process();
            process.netlink_updates.one();
            if matches!(update, Update::Overrun) {
                process.netlink_resyncs.one();
            }
            match &update {
                Update::LinkGone(index) => astray::link_gone(self.runtime, *index),
                Update::Overrun => astray::look_for_gone(self.runtime),
                _ => {}
            }
            if matches!(
                update,
                Update::Routes
                    | Update::Address(_)
                    | Update::AddressGone(_)
                    | Update::Link(_)
                    | Update::LinkGone(_)
                    | Update::Overrun
            ) {
                self.runtime.forget_routes();
                if self.runtime.has_gone.load(Ordering::Acquire) {
                    self.runtime.astray.store(true, Ordering::Release);
                }
            }
            for lane in self.runtime.lanes() {
                if lane.is_fenced() {
                    continue;
                }
                let now = sys::clock::now();
                let mut inner = lane.lock();
                inner.apply(&update, now);
                inner.flush(stack::Instant(now));
                inner.deliver_events(now);
            }
        }
    }
}

/// Gives a keeper that came after another one what that one handed out. It is asked without the lane's lock.
fn restore_keeper(lane: &'static Lane) {
    let what = lane.try_lock().and_then(|inner| Some((inner.device.index(), inner.device.to_hand_over()?)));
    if let Some((index, what)) = what
        && keeper::restore(index, &what)
    {
        lane.lock().device.handed_over();
    }
}

/// Logs the state of every connection at FINER, for whoever looks for the cause of a stall.
fn describe_streams(now: u64) {
    for fd in 0..fd_table::end() {
        let Some((lane, id)) =
            fd_table::socket(fd).filter(|object| object.kind() == Kind::Stream).and_then(Object::leg)
        else {
            continue;
        };
        let Some(inner) = lane.try_lock() else { continue };
        let at = stack::Instant(now);
        let timer = inner.stack.next_timer().map_or(-1, |due| due.0.saturating_sub(now) as i64);
        logger::finer!(
            "fd {fd}: {:?} {:?} ready {:?}, lane timer in {timer} ns, {} unkicked, {:?}",
            inner.stack.tcp_state(id),
            inner.stack.tcp_queued(id),
            inner.stack.ready(id),
            inner.device.unkicked(),
            inner.stack.tcp_info(at, id),
        );
    }
}

fn watch(fds: &mut Vec<sys::poll::pollfd>, fd: i32) {
    fds.push(sys::poll::pollfd { fd, events: libc::POLLIN, revents: 0 });
}

fn is_away(lane: &Lane, now: u64) -> bool {
    lane.sleepers.load(Ordering::Relaxed) == 0
        && now.saturating_sub(lane.turned.load(Ordering::Relaxed)) >= AWAY_NS
}
