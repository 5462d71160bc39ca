//! poll(2) and ppoll(2) over our sockets and the kernel's; select(2) comes here too.

use super::block::{self, Polling, Stopped, Wait};
use super::epoll::Set;
use super::{LOOK_NS, Lanes, ready, shadow_contributes};
use crate::answer::{Answer, Stop, Why};
use crate::counts;
use crate::errno::fail;
use crate::fd_table::{self, Entry};
use crate::object::{Kind, Object};
use crate::runtime::Runtime;
use core::sync::atomic::{AtomicU32, Ordering};
use libc::pollfd;
use stack::Ready;

/// Waits until one of `fds` is ready. The three-way answer: `Kernel` if none is ours.
pub(crate) fn poll(
    runtime: &'static Runtime,
    fds: &mut [pollfd],
    deadline: Option<u64>,
    mask: Option<u64>,
) -> Answer<i32> {
    let mut poll = Poll::new(runtime, fds, mask)?;
    let objects = core::mem::take(&mut poll.objects);
    let kernel = poll.kernel.clone();
    let wait = Wait {
        objects: &objects,
        lanes: poll.lanes,
        set: None,
        kernel: &kernel,
        deadline,
        budget: runtime.select_budget(),
        memory: &MEMORY,
        restartable: false,
        mask,
        polling: Polling::Poll,
    };
    let answer = match block::until(runtime, &wait, |now| poll.attempt(fds, now)) {
        Ok(count) => count,
        Err(Stopped::TimedOut) => Ok(0),
        Err(Stopped::Interrupted) => fail(libc::EINTR),
    };
    let process = counts::segment().process();
    match answer {
        Ok(0) => process.poll_timeouts.one(),
        Ok(_) if poll.ours.iter().any(|(i, _)| fds[*i].revents != 0) => process.poll_ready_ours.one(),
        Ok(_) => process.poll_ready_os.one(),
        Err(_) => process.poll_errors.one(),
    }
    answer
}

/// The adaptive budget of poll and select, process-wide: these calls have no object to remember it.
static MEMORY: AtomicU32 = AtomicU32::new(0);

struct Poll {
    runtime: &'static Runtime,
    /// Ours, by index into the application's array.
    ours: Vec<(usize, &'static Object)>,
    objects: Vec<&'static Object>,
    /// Our epoll sets among the kernel's descriptors.
    sets: Vec<&'static Set>,
    lanes: Lanes,
    /// The application's array with ours replaced by what their shadows contribute (or -1).
    kernel: Vec<pollfd>,
    has_kernel: bool,
    mask: Option<u64>,
    looked: u64,
}

impl Poll {
    fn new(runtime: &'static Runtime, fds: &[pollfd], mask: Option<u64>) -> Answer<Poll> {
        let mut ours = Vec::new();
        let mut lanes = Lanes::default();
        let mut kernel: Vec<pollfd> = Vec::new();
        let mut sets = Vec::new();
        for (i, polled) in fds.iter().enumerate() {
            let object = match fd_table::entry(polled.fd) {
                Some(Entry::Socket(object)) => object,
                Some(Entry::Epoll(set)) => {
                    lanes.0 |= set.lanes().0;
                    sets.push(set);
                    continue;
                }
                None => continue,
            };
            if object.leg().is_none() || object.kind() == Kind::Free {
                continue;
            }
            if ours.is_empty() {
                kernel = fds.to_vec();
            }
            crate::tcp::attend(object);
            ours.push((i, object));
            lanes.add(object);
            if shadow_contributes(object) {
                kernel[i].events &= libc::POLLIN | libc::POLLRDNORM | libc::POLLPRI;
            } else {
                kernel[i].fd = -1;
            }
        }
        if ours.is_empty() {
            if lanes.0 == 0 {
                return Err(Stop::Kernel(Why::NotOurs));
            }
            kernel = fds.to_vec();
        }
        let has_kernel = kernel.iter().any(|polled| polled.fd >= 0);
        let objects = ours.iter().map(|(_, object)| *object).collect();
        Ok(Poll { runtime, ours, objects, sets, lanes, kernel, has_kernel, mask, looked: 0 })
    }

    /// One look at everything. `None`: nothing is ready.
    fn attempt(&mut self, fds: &mut [pollfd], now: u64) -> Option<Answer<i32>> {
        for lane in self.lanes.each() {
            lane.turn(now);
        }
        let mut count = 0;
        for (i, object) in &self.ours {
            fds[*i].revents = revents(ready(object), fds[*i].events);
            count += i32::from(fds[*i].revents != 0);
        }
        self.lanes.report(count as usize, now);
        let due = (self.has_kernel || self.mask.is_some()) && now.saturating_sub(self.looked) >= LOOK_NS;
        if count == 0 && !due {
            return None;
        }
        if self.has_kernel || self.mask.is_some() {
            self.looked = now;
            match self.look(fds, count) {
                Ok(total) => count = total,
                Err(stop) if count == 0 => return Some(Err(stop)),
                Err(_) => {}
            }
        } else {
            self.clear_others(fds);
        }
        (count > 0).then_some(Ok(count))
    }

    /// Asks the kernel without waiting, and merges; returns how many are ready in all.
    fn look(&mut self, fds: &mut [pollfd], ours: i32) -> Answer<i32> {
        for set in &self.sets {
            set.refresh();
        }
        self.runtime.os.poll_all(&mut self.kernel, Some(0), self.mask).map_err(Stop::Errno)?;
        let mut count = ours;
        let mut next = 0;
        for (i, polled) in self.kernel.iter().enumerate() {
            let mine = self.ours.get(next).filter(|(at, _)| *at == i);
            if let Some((_, object)) = mine {
                next += 1;
                if polled.fd >= 0 && polled.revents & libc::POLLIN != 0 {
                    object.shadow_ready.store(true, Ordering::Relaxed);
                    count += i32::from(fds[i].revents == 0);
                    fds[i].revents |= polled.revents & (fds[i].events | libc::POLLERR);
                }
            } else {
                fds[i].revents = polled.revents;
                count += i32::from(polled.revents != 0);
            }
        }
        Ok(count)
    }

    fn clear_others(&self, fds: &mut [pollfd]) {
        let mut next = 0;
        for (i, polled) in fds.iter_mut().enumerate() {
            if self.ours.get(next).is_some_and(|(at, _)| *at == i) {
                next += 1;
            } else {
                polled.revents = 0;
            }
        }
    }
}

/// Readiness as poll(2) reports it to one who asked for `events`.
#[inline]
pub(crate) fn revents(ready: Ready, events: i16) -> i16 {
    let mut bits = 0;
    for (flag, poll) in [
        (Ready::IN, libc::POLLIN | libc::POLLRDNORM),
        (Ready::OUT, libc::POLLOUT | libc::POLLWRNORM),
        (Ready::RDHUP, libc::POLLRDHUP),
        (Ready::PRI, libc::POLLPRI),
        (Ready::HUP, libc::POLLHUP),
        (Ready::ERR, libc::POLLERR),
    ] {
        if ready.has(flag) {
            bits |= poll;
        }
    }
    bits & (events | libc::POLLERR | libc::POLLHUP)
}
