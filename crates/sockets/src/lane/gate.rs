//! Whom a packet wakes.
//!
//! Threads of one program share a lane. If every sleeping thread slept on the AF_XDP sockets, each packet would wake
//! all of them, also while another thread is polling the lane and takes the packet in anyway. So they sleep on a gate:
//! an epoll set over the lane's sockets in which each wakes once and must be armed again.
//!
//! A thread arms the gate before it sleeps, unless another thread took a turn just now: that one takes in what comes,
//! and wakes the sleeper by its eventfd. Where it then stays away, the worker arms the gate for those who sleep. A
//! thread that has the lane to itself leaves the gate as it is: two system calls less for each sleep.
//!
//! Merely watching costs the kernel a tenth of each packet, in both directions: locks and a list of who waits. So a
//! lane that is polled for a while is not watched at all until somebody is about to sleep.

use crate::locks::Rank;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Another thread's turn within this time means that the lane is being polled.
pub(super) const POLLED_NS: u64 = 100_000;

/// A lane on which nobody fell asleep or woke up for this long is polled, and not watched.
const UNWATCHED_NS: u64 = 1_000_000;

/// The sockets are not in the set.
const UNWATCHED: u8 = 0;
/// They are, and wake nobody.
const QUIET: u8 = 1;
/// The next packet wakes who sleeps.
const ARMED: u8 = 2;

/// How a socket is in the set: it wakes once.
const ONCE: u32 = (libc::EPOLLIN | libc::EPOLLONESHOT) as u32;

/// See the module's page.
pub(crate) struct Gate {
    /// `None`: descriptors ran out; sleepers sleep on the sockets themselves.
    epoll: Option<sys::Fd>,
    /// The lane's sockets. Held while the set changes.
    queues: sys::Mutex<Vec<i32>>,
    /// Changed with `queues` held, together with the set.
    state: AtomicU8,
    /// When somebody fell asleep or woke up last.
    slept_at: AtomicU64,
    /// The thread that took the last turn, and when another one did.
    by: AtomicUsize,
    other_at: AtomicU64,
}

thread_local! {
    /// Its address names the thread.
    static HERE: u8 = const { 0 };
}

fn here() -> usize {
    HERE.with(|here| core::ptr::from_ref(here) as usize)
}

impl Gate {
    /// A gate over a lane's sockets, which are not watched yet.
    pub(super) fn new(queues: &[i32]) -> Gate {
        Gate {
            epoll: sys::poll::epoll().ok(),
            queues: Rank::Gate.lock(queues.to_vec()),
            state: AtomicU8::new(UNWATCHED),
            slept_at: AtomicU64::new(0),
            by: AtomicUsize::new(0),
            other_at: AtomicU64::new(0),
        }
    }

    /// What to sleep on.
    pub(crate) fn descriptors(&self) -> Vec<i32> {
        self.epoll.as_ref().map_or_else(|| self.queues.lock().clone(), |epoll| vec![epoll.raw()])
    }

    /// The lane's sockets are these now; those that it knows come first.
    pub(crate) fn watch_also(&self, queues: &[i32]) {
        let mut known = self.queues.lock();
        let new = queues.get(known.len()..).unwrap_or_default();
        for fd in new {
            if let Some(epoll) =
                self.epoll.as_ref().filter(|_| self.state.load(Ordering::Acquire) != UNWATCHED)
            {
                let _ = sys::poll::epoll_control(epoll.raw(), libc::EPOLL_CTL_ADD, *fd, ONCE, 0);
            }
        }
        known.extend(new);
    }

    /// Calls `each` with the lane's sockets.
    pub(crate) fn each_queue(&self, each: impl FnMut(i32)) {
        self.queues.lock().iter().copied().for_each(each);
    }

    /// The calling thread takes a turn; the one before was at `previous`. Under the lane's lock.
    #[inline]
    pub(super) fn turned(&self, previous: u64) {
        let me = here();
        if self.by.load(Ordering::Relaxed) != me {
            self.other_at.store(previous, Ordering::Relaxed);
            self.by.store(me, Ordering::Relaxed);
        }
    }

    /// Whether another thread than the caller polls the lane just now; its last turn was at `turned`.
    pub(super) fn is_polled_by_others(&self, turned: u64, now: u64) -> bool {
        let mine = self.by.load(Ordering::Relaxed) == here();
        let other = if mine { self.other_at.load(Ordering::Relaxed) } else { turned };
        self.epoll.is_some() && now.saturating_sub(other) < POLLED_NS
    }

    /// Whether the next packet wakes somebody.
    pub(crate) fn is_armed(&self) -> bool {
        self.epoll.is_none() || self.state.load(Ordering::Acquire) == ARMED
    }

    /// The next packet, or one that waits already, wakes who sleeps. `false`: the kernel has no memory for that.
    pub(super) fn arm(&self, now: u64) -> bool {
        let Some(epoll) = &self.epoll else { return true };
        self.slept_at.store(now, Ordering::Relaxed);
        let queues = self.queues.lock();
        let operation = match self.state.load(Ordering::Acquire) {
            ARMED => return true,
            QUIET => libc::EPOLL_CTL_MOD,
            _ => libc::EPOLL_CTL_ADD,
        };
        let watch = |fd: &i32| sys::poll::epoll_control(epoll.raw(), operation, *fd, ONCE, 0);
        if queues.iter().any(|fd| watch(fd).is_err()) {
            self.remove(epoll, &queues);
            return false;
        }
        self.state.store(ARMED, Ordering::Release);
        true
    }

    /// After a sleep: takes what woke, so that it wakes nobody else.
    pub(super) fn woken(&self) {
        let Some(epoll) = self.epoll.as_ref().filter(|_| self.is_armed()) else { return };
        let _changing = self.queues.lock();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
        if sys::poll::epoll_wait(epoll.raw(), &mut events, 0, None).is_ok_and(|count| count > 0) {
            self.state.store(QUIET, Ordering::Release);
        }
    }

    /// Somebody woke up at `now`.
    pub(super) fn slept(&self, now: u64) {
        self.slept_at.store(now, Ordering::Relaxed);
    }

    /// Whether the sockets are watched though the lane is polled.
    #[inline]
    pub(super) fn is_idle(&self, now: u64) -> bool {
        self.state.load(Ordering::Relaxed) != UNWATCHED
            && now.saturating_sub(self.slept_at.load(Ordering::Relaxed)) > UNWATCHED_NS
    }

    /// Watches no longer, unless an armed gate has somebody to wake. Who is about to sleep is a sleeper before it arms.
    #[cold]
    pub(super) fn unwatch(&self, sleepers: &AtomicU32) {
        let Some(epoll) = &self.epoll else { return };
        let queues = self.queues.lock();
        match self.state.load(Ordering::Acquire) {
            UNWATCHED => {}
            ARMED if sleepers.load(Ordering::SeqCst) != 0 => {}
            _ => self.remove(epoll, &queues),
        }
    }

    /// Takes the sockets out of the set; they are held.
    fn remove(&self, epoll: &sys::Fd, queues: &[i32]) {
        self.state.store(UNWATCHED, Ordering::Release);
        for fd in queues {
            let _ = sys::poll::epoll_control(epoll.raw(), libc::EPOLL_CTL_DEL, *fd, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wakes(gate: &Gate) -> bool {
        let fd = gate.descriptors()[0];
        let mut fds = [sys::poll::pollfd { fd, events: libc::POLLIN, revents: 0 }];
        sys::poll::poll(&mut fds, Some(0), None).unwrap();
        fds[0].revents != 0
    }

    #[test]
    fn only_an_armed_gate_wakes_and_what_waits_already_does() {
        let packets = sys::fd::eventfd().unwrap();
        let gate = Gate::new(&[packets.raw()]);
        sys::fd::signal(packets.raw());
        assert!(!wakes(&gate));
        assert!(gate.arm(0) && wakes(&gate));
        gate.woken();
        assert!(!gate.is_armed() && !wakes(&gate));
        assert!(gate.arm(0) && wakes(&gate));
    }

    #[test]
    fn a_socket_that_is_added_wakes_too() {
        let packets = [(); 3].map(|()| sys::fd::eventfd().unwrap());
        let fds = packets.each_ref().map(sys::Fd::raw);
        let gate = Gate::new(&fds[..1]);
        gate.watch_also(&fds[..2]);
        assert!(gate.arm(0) && !wakes(&gate));
        gate.watch_also(&fds);
        sys::fd::signal(fds[2]);
        assert!(wakes(&gate), "it was added to an armed gate");
        gate.woken();
        sys::fd::clear(fds[2]);
        sys::fd::signal(fds[1]);
        assert!(gate.arm(0) && wakes(&gate), "it was added before");
        let mut all = Vec::new();
        gate.each_queue(|fd| all.push(fd));
        assert_eq!(all, fds);
    }

    #[test]
    fn a_polled_lane_is_left_alone_unless_its_gate_has_somebody_to_wake() {
        let packets = sys::fd::eventfd().unwrap();
        let gate = Gate::new(&[packets.raw()]);
        sys::fd::signal(packets.raw());
        assert!(gate.arm(1000));
        assert!(!gate.is_idle(1000 + UNWATCHED_NS) && gate.is_idle(1001 + UNWATCHED_NS));
        gate.unwatch(&AtomicU32::new(1));
        assert!(wakes(&gate), "somebody sleeps");
        gate.unwatch(&AtomicU32::new(0));
        assert!(!gate.is_armed() && !wakes(&gate) && !gate.is_idle(u64::MAX));
        assert!(gate.arm(1000) && wakes(&gate));
    }

    #[test]
    fn a_gate_that_cannot_be_armed_says_so() {
        let gate = Gate::new(&[-1]);
        assert!(!gate.arm(0) && !gate.is_armed());
    }
}
