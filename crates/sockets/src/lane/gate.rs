//! Whom a packet wakes.
//!
//! Threads of one program share a lane. If every sleeping thread slept on the AF_XDP sockets, each packet would wake
//! all of them, also while another thread is polling the lane and takes the packet in anyway. So they sleep on a gate:
//! an epoll set over the lane's sockets in which each wakes once and must be armed again.
//!
//! A thread arms the gate before it sleeps, unless another thread took a turn just now: that one takes in what comes,
//! and wakes the sleeper by its eventfd. Where it then stays away, the worker arms the gate for those who sleep. A thread
//! that has the lane to itself leaves the gate as it is: two system calls less for each sleep.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Another thread's turn within this time means that the lane is being polled.
pub(super) const POLLED_NS: u64 = 100_000;

/// See the module's page.
pub(crate) struct Gate {
    /// `None`: descriptors ran out; sleepers sleep on the sockets themselves.
    epoll: Option<sys::Fd>,
    queues: Vec<i32>,
    armed: AtomicBool,
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
    /// A gate over a lane's sockets, not armed.
    pub(super) fn new(queues: &[i32]) -> Gate {
        let epoll = sys::poll::epoll().ok().filter(|epoll| {
            queues
                .iter()
                .all(|fd| sys::poll::epoll_control(epoll.raw(), libc::EPOLL_CTL_ADD, *fd, 0, 0).is_ok())
        });
        Gate {
            epoll,
            queues: queues.to_vec(),
            armed: AtomicBool::new(false),
            by: AtomicUsize::new(0),
            other_at: AtomicU64::new(0),
        }
    }

    /// What to sleep on.
    pub(crate) fn descriptors(&self) -> Vec<i32> {
        self.epoll.as_ref().map_or_else(|| self.queues.clone(), |epoll| vec![epoll.raw()])
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
        self.epoll.is_none() || self.armed.load(Ordering::Acquire)
    }

    /// The next packet, or one that waits already, wakes who sleeps.
    pub(crate) fn arm(&self) {
        let Some(epoll) = &self.epoll else { return };
        if self.armed.swap(true, Ordering::AcqRel) {
            return;
        }
        let once = (libc::EPOLLIN | libc::EPOLLONESHOT) as u32;
        for fd in &self.queues {
            let _ = sys::poll::epoll_control(epoll.raw(), libc::EPOLL_CTL_MOD, *fd, once, 0);
        }
    }

    /// After a sleep: takes what woke, so that it wakes nobody else.
    pub(super) fn woken(&self) {
        let Some(epoll) = self.epoll.as_ref().filter(|_| self.armed.load(Ordering::Acquire)) else { return };
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
        if sys::poll::epoll_wait(epoll.raw(), &mut events, 0, None).is_ok_and(|count| count > 0) {
            self.armed.store(false, Ordering::Release);
        }
    }
}
