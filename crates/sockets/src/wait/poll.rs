//! poll(2) and ppoll(2) over our sockets and the kernel's; select(2) comes here too.

use super::block::{self, Polling, Stopped, Wait};
use super::epoll::Set;
use super::in_kernel;
use super::moves::Watched;
use super::{LOOK_NS, Lanes, is_active, ready, shadow_contributes};
use crate::answer::{Answer, Stop, Why};
use crate::counts;
use crate::errno::fail;
use crate::fd_table::{self, Entry};
use crate::object::set::revents;
use crate::object::{Kind, Object, in_flight};
use crate::runtime::Runtime;
use crate::wait::in_memory;
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};
use libc::pollfd;
use sys::Few;

/// Waits until one of `fds` is ready. The three-way answer: `Kernel` if none is ours.
pub(crate) fn poll(
    runtime: &'static Runtime,
    fds: &mut [pollfd],
    deadline: Option<u64>,
    mask: Option<u64>,
) -> Answer<i32> {
    let mut has_moved = false;
    loop {
        let found = Found::among(fds);
        if found.is_empty() && !has_moved {
            return Err(Stop::Kernel(Why::NotOurs));
        }
        let watched = Watched { objects: &found.objects, sets: &found.sets };
        // Before anybody looks who carries them.
        let moves = watched.moves();
        match look_and_wait(runtime, fds, &found, watched, moves, deadline, mask) {
            Ok(answer) => return answer,
            Err(Stopped::TimedOut) => return Ok(0),
            Err(Stopped::Interrupted) => return fail(libc::EINTR),
            Err(Stopped::Moved) => has_moved = true,
        }
    }
}

/// What is ours among the descriptors, whatever carries it.
#[derive(Default)]
struct Found {
    /// Sockets, by index into the application's array.
    indices: Few<usize>,
    objects: Few<&'static Object>,
    sets: Few<&'static Set>,
}

impl Found {
    fn among(fds: &[pollfd]) -> Found {
        let mut found = Found::default();
        for (index, polled) in fds.iter().enumerate() {
            match fd_table::entry(polled.fd) {
                Some(Entry::Socket(object)) => {
                    found.indices.push(index);
                    found.objects.push(object);
                }
                Some(Entry::Epoll(set)) => found.sets.push(set),
                None => {}
            }
        }
        found
    }

    fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.sets.is_empty()
    }
}

#[allow(clippy::too_many_arguments)]
fn look_and_wait(
    runtime: &'static Runtime,
    fds: &mut [pollfd],
    found: &Found,
    watched: Watched<'_>,
    moves: u32,
    deadline: Option<u64>,
    mask: Option<u64>,
) -> Result<Answer<i32>, Stopped> {
    watched.objects.iter().for_each(|object| in_flight::wait_while_moving(object));
    let Some(mut poll) = Poll::new(runtime, fds, found, mask) else {
        if deadline == Some(0) {
            // Nobody waits.
            let answer = runtime.os.poll_all(fds, Some(0), mask);
            return if answer.is_err() || watched.moves() == moves {
                Ok(answer.map_err(Stop::Errno))
            } else {
                Err(Stopped::Moved)
            };
        }
        return in_kernel::poll(runtime, fds, watched, moves, deadline, mask);
    };
    let kernel: Few<pollfd> = poll.kernel.clone();
    let wait = Wait {
        watched,
        moves,
        lanes: poll.lanes,
        set: None,
        kernel: &kernel,
        deadline,
        budget: runtime.select_budget(),
        memory: &MEMORY,
        restartable: Cell::new(false),
        mask,
        polling: Polling::Poll,
    };
    // What is seen while it moves is nothing.
    let look = |now| poll.attempt(fds, now).filter(|_| watched.moves() == moves);
    let outcome = block::until(runtime, &wait, look);
    let process = counts::segment().process();
    match outcome {
        Ok(Ok(_)) if poll.ours.iter().any(|(i, _)| fds[*i].revents != 0) => process.poll_ready_ours.one(),
        Ok(Ok(_)) => process.poll_ready_os.one(),
        Ok(Err(_)) | Err(Stopped::Interrupted) => process.poll_errors.one(),
        Err(Stopped::TimedOut) => process.poll_timeouts.one(),
        Err(Stopped::Moved) => {}
    }
    outcome
}

/// The adaptive budget of poll and select, process-wide: these calls have no object to remember it.
static MEMORY: AtomicU32 = AtomicU32::new(0);

struct Poll<'a> {
    runtime: &'static Runtime,
    /// Those with legs, by index into the application's array.
    ours: Few<(usize, &'static Object)>,
    /// Our epoll sets among the kernel's descriptors.
    sets: &'a [&'static Set],
    lanes: Lanes,
    /// The application's array with ours replaced by what their shadows contribute (or -1).
    kernel: Few<pollfd>,
    has_kernel: bool,
    mask: Option<u64>,
    looked: u64,
}

impl<'a> Poll<'a> {
    /// `None`: the kernel carries all of them.
    fn new(
        runtime: &'static Runtime,
        fds: &[pollfd],
        found: &'a Found,
        mask: Option<u64>,
    ) -> Option<Poll<'a>> {
        let mut lanes = found.sets.iter().fold(Lanes::default(), |lanes, set| Lanes(lanes.0 | set.lanes().0));
        let all = found.indices.iter().copied().zip(found.objects.iter().copied());
        let ours: Few<_> = all.filter(|(_, object)| is_active(object)).collect();
        if ours.is_empty() && lanes.0 == 0 && !found.sets.iter().any(|set| set.hears_bells()) {
            return None;
        }
        let mut kernel: Few<pollfd> = fds.iter().copied().collect();
        for (i, object) in ours.iter() {
            if object.kind() == Kind::Memory {
                kernel[*i].events = in_memory::kernel_part(object, kernel[*i].events);
                if kernel[*i].events == 0 {
                    kernel[*i].fd = -1;
                }
                continue;
            }
            lanes.add(object);
            if shadow_contributes(object) {
                kernel[*i].events &= libc::POLLIN | libc::POLLRDNORM | libc::POLLPRI;
            } else {
                kernel[*i].fd = -1;
            }
        }
        let has_kernel = kernel.iter().any(|polled| polled.fd >= 0);
        Some(Poll { runtime, ours, sets: &found.sets, lanes, kernel, has_kernel, mask, looked: 0 })
    }

    /// One look at everything. `None`: nothing is ready.
    fn attempt(&mut self, fds: &mut [pollfd], now: u64) -> Option<Answer<i32>> {
        for lane in self.lanes.each() {
            lane.turn(now);
        }
        let mut count = 0;
        for (i, object) in self.ours.iter() {
            if object.kind() == Kind::Memory {
                in_memory::poll(self.runtime, object, now);
            }
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
            match self.ask_kernel(fds, count) {
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
    fn ask_kernel(&mut self, fds: &mut [pollfd], ours: i32) -> Answer<i32> {
        for set in self.sets {
            set.refresh();
        }
        self.runtime.os.poll_all(&mut self.kernel, Some(0), self.mask).map_err(Stop::Errno)?;
        let mut count = ours;
        let mut next = 0;
        for (i, polled) in self.kernel.iter().enumerate() {
            let mine = self.ours.get(next).filter(|(at, _)| *at == i);
            if let Some((_, object)) = mine {
                next += 1;
                if polled.fd >= 0 && object.kind() == Kind::Memory {
                    count += i32::from(fds[i].revents == 0 && polled.revents != 0);
                    fds[i].revents |= polled.revents;
                } else if polled.fd >= 0 && polled.revents & libc::POLLIN != 0 {
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
