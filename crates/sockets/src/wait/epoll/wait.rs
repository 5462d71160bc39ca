//! epoll_wait(2) and its kin.

use super::Set;
use super::straight::{self, InKernel};
use crate::answer::{Answer, Stop, Why};
use crate::arguments;
use crate::counts;
use crate::errno::fail;
use crate::message;
use crate::object::set::{Candidate, epoll_bits};
use crate::runtime::Runtime;
use crate::wait::block::{self, Polling, Stopped, Wait};
use crate::wait::moves::Watched;
use crate::wait::{LOOK_NS, Lanes};
use core::cell::Cell;
use core::sync::atomic::Ordering;
use libc::{epoll_event, pollfd, sigset_t, timespec};

/// Waits for events of a set, for as long as `timeout`, null: for ever.
///
/// # Safety
/// `events` has room for `max` events; `timeout` and `mask` are null or valid.
pub(crate) unsafe fn wait(
    runtime: &'static Runtime,
    set: &'static Set,
    events: *mut epoll_event,
    max: i32,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> Answer<i32> {
    if max <= 0 {
        return Err(Stop::Kernel(Why::NotOurs));
    }
    if !message::is_room(events, max as usize) {
        // The kernel finds that out when it has an event, and knows of none that are ours.
        let has_ours = set.secret.load(Ordering::Acquire) != 0;
        return if has_ours { fail(libc::EFAULT) } else { Err(Stop::Kernel(Why::NotOurs)) };
    }
    // SAFETY: the caller's promise.
    let deadline = unsafe { arguments::deadline(timeout) }?;
    let spent = straight::spent(set);
    let deadline = deadline.map(|end| end.saturating_sub(spent));
    let mut begins = spent == 0;
    loop {
        let again = set.ask_for_owed(&runtime.os).filter(|again| deadline.is_none_or(|end| *again < end));
        let until = again.or(deadline);
        if set.is_kernels_by_now() {
            let left = until.filter(|_| !begins || again.is_some()).map(arguments::left_until);
            let timeout = left.as_ref().map_or(timeout, core::ptr::from_ref);
            begins = false;
            // SAFETY: as above.
            match unsafe { in_kernel(runtime, set, events, max, timeout, mask) } {
                Some(Ok(0)) if again.is_some() => {}
                Some(answer) => return answer,
                None => {}
            }
            continue;
        }
        begins = false;
        // SAFETY: as above.
        let mask = unsafe { arguments::mask(mask) }?;
        // SAFETY: as above.
        match unsafe { of_ours(runtime, set, events, max, until, mask) } {
            Ok(answer) => return answer,
            Err(Stopped::TimedOut) if again.is_some() => {}
            Err(Stopped::TimedOut) => return Ok(0),
            Err(Stopped::Interrupted) => return fail(libc::EINTR),
            Err(Stopped::Moved) => {}
        }
    }
}

/// The kernel's own wait, of a set in which nothing of ours is active: one system call. `None`: it ended because
/// something may be active by now, and there was nothing else.
unsafe fn in_kernel(
    runtime: &Runtime,
    set: &'static Set,
    events: *mut epoll_event,
    max: i32,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> Option<Answer<i32>> {
    // SAFETY: the caller's promise.
    let counted = unsafe { InKernel::begin(set, events, false) }?;
    let (os, fd) = (&runtime.os, set.fd.load(Ordering::Relaxed));
    let sleep = |timeout: Option<&timespec>| {
        let timeout = timeout.map_or(core::ptr::null(), core::ptr::from_ref);
        // SAFETY: the caller's promise; the timeout is a local.
        unsafe {
            match arguments::milliseconds(timeout) {
                Some(timeout) => (os.epoll_pwait)(fd, events, max, timeout, mask),
                None => (os.epoll_pwait2)(fd, events, max, timeout, mask),
            }
        }
    };
    // SAFETY: the caller's promise.
    let timeout = (!timeout.is_null()).then(|| unsafe { timeout.read_unaligned() });
    let found = match counts::parts(timeout) {
        None => sleep(timeout.as_ref()),
        Some((first, rest)) => match sleep(Some(&first)) {
            0 => {
                counts::in_use();
                sleep(rest.as_ref())
            }
            found => found,
        },
    };
    if found < 0 {
        return Some(fail(os.errno()));
    }
    counted.over(found).map(Ok)
}

/// One wait for ours and the kernel's together.
unsafe fn of_ours(
    runtime: &'static Runtime,
    set: &'static Set,
    events: *mut epoll_event,
    max: i32,
    deadline: Option<u64>,
    mask: Option<u64>,
) -> Result<Answer<i32>, Stopped> {
    let moves = set.moves.load(Ordering::Acquire);
    let kernel = [pollfd { fd: set.fd.load(Ordering::Relaxed), events: libc::POLLIN, revents: 0 }];
    let lanes = Lanes(set.lanes.load(Ordering::Acquire));
    let waiting = Wait {
        watched: Watched::default(),
        moves,
        lanes,
        set: Some(set),
        kernel: &kernel,
        deadline,
        budget: runtime.select_budget(),
        memory: &set.spin,
        restartable: Cell::new(false),
        mask,
        polling: Polling::Epoll,
    };
    let mut look = Look {
        runtime,
        set,
        events,
        max: max as usize,
        deadline,
        mask,
        merged: 0,
        found_ours: false,
        unseen: 0,
    };
    let outcome = block::until(runtime, &waiting, |now| look.attempt(lanes, now));
    set.leave_wishes();
    let process = counts::segment().process();
    match outcome {
        Ok(Ok(_)) if look.found_ours => process.epoll_ready_ours.one(),
        Ok(Ok(_)) => process.epoll_ready_os.one(),
        Ok(Err(_)) | Err(Stopped::Interrupted) => process.epoll_errors.one(),
        Err(Stopped::TimedOut) => process.epoll_timeouts.one(),
        Err(Stopped::Moved) => {}
    }
    outcome
}

struct Look {
    runtime: &'static Runtime,
    set: &'static Set,
    events: *mut epoll_event,
    max: usize,
    deadline: Option<u64>,
    mask: Option<u64>,
    /// Which of our first 64 events are of sockets whose shadow the kernel reports too.
    merged: u64,
    /// The last look found one of ours ready.
    found_ours: bool,
    /// Of ours, those that are queued and were not looked at, as there was no place.
    unseen: usize,
}

impl Look {
    /// One look at ours, and now and then at the kernel's. `None`: nothing is ready.
    ///
    /// A wait does not end with nothing before the kernel was asked: a wait of no time, too, reports what is ready.
    /// Of peers on one host the application may know the order in which they spoke. So what came through memory is
    /// never reported without a look at the kernel's behind it, which finds everything older, and stands in front.
    fn attempt(&mut self, lanes: Lanes, now: u64) -> Option<Answer<i32>> {
        for lane in lanes.each() {
            lane.turn(now);
        }
        self.set.poll_bells(now);
        let ours = self.harvest();
        self.found_ours = ours > 0;
        lanes.report(ours, now);
        let looked = self.set.looked.load(Ordering::Relaxed);
        let has_order = ours > 0 && self.set.has_bells();
        let is_last = self.deadline.is_some_and(|deadline| now >= deadline);
        let is_owed = ours == 0 && is_last && self.set.has_foreign.load(Ordering::Relaxed);
        let is_recent = now.saturating_sub(looked) < LOOK_NS;
        if is_recent && !has_order && !is_owed && (ours > 0 || self.mask.is_none()) {
            return (ours > 0).then_some(Ok(ours as i32));
        }
        self.set.looked.store(now, Ordering::Relaxed);
        match self.ask_kernel(ours) {
            Ok(0) => {
                // An edge since the harvest has signalled, and the look took the signal back: nobody else tells of it.
                let late = self.harvest();
                self.found_ours = late > 0;
                (late > 0).then_some(Ok(late as i32))
            }
            Err(stop) if ours == 0 => Some(Err(stop)),
            Ok(total) => {
                if has_order && total > ours {
                    self.bring_forward(ours, total);
                }
                // The kernel does not need its place.
                Some(Ok(self.take_ready(total, self.max) as i32))
            }
            Err(_) => Some(Ok(ours as i32)),
        }
    }

    /// The events from `middle` on change places with those before them.
    fn bring_forward(&mut self, middle: usize, end: usize) {
        for (from, to) in [(0, middle), (middle, end), (0, end)] {
            for i in 0..(to - from) / 2 {
                let (one, other) = (self.events.wrapping_add(from + i), self.events.wrapping_add(to - 1 - i));
                // SAFETY: both are among the `end` events that `harvest` and `ask_kernel` wrote.
                unsafe {
                    let kept = one.read_unaligned();
                    one.write_unaligned(other.read_unaligned());
                    other.write_unaligned(kept);
                }
            }
        }
    }

    /// Reports our ready sockets; how many.
    fn harvest(&mut self) -> usize {
        self.unseen = self.set.items.lock().queued();
        self.merged = 0;
        // One place is the kernel's.
        let most = if self.set.has_bells() { (self.max - 1).max(1) } else { self.max };
        let count = self.take_ready(0, most);
        if self.unseen > 0 {
            // The wake-up was for these, too, and this thread may not come again soon.
            self.set.wake_sleepers();
        }
        if self.set.is_nested() {
            self.set.look_over();
        }
        count
    }

    /// Reports those of ours that are ready behind the first `count` events, up to `most`; how many there are then.
    fn take_ready(&mut self, mut count: usize, most: usize) -> usize {
        while count < most {
            let Some(candidate) = self.set.items.lock().pop(&mut self.unseen) else { break };
            let bits = epoll_bits(super::super::ready(candidate.object), candidate.events);
            let is_once = candidate.events & libc::EPOLLONESHOT as u32 != 0;
            if bits == 0 || is_once && !self.disarm(&candidate) {
                continue;
            }
            // SAFETY: count < max, which the application vouches for.
            unsafe {
                self.events.add(count).write_unaligned(epoll_event { events: bits, u64: candidate.data })
            };
            if candidate.in_kernel && count < 64 {
                self.merged |= 1 << count;
            }
            count += 1;
            if !is_once && candidate.events & libc::EPOLLET as u32 == 0 {
                self.set.requeue(candidate.slot);
            }
        }
        count
    }

    /// An item that reports once (EPOLLONESHOT) is about to do so. False: another thread was faster, or the application
    /// has asked anew meanwhile, which queued it.
    fn disarm(&self, candidate: &Candidate) -> bool {
        let _one_at_a_time = self.set.settling.lock();
        if candidate.in_kernel && self.set.was_told(candidate.slot) {
            return false;
        }
        let is_first = match self.set.items.lock().get_mut(candidate.slot) {
            Some(item) if item.asked == candidate.asked => !core::mem::replace(&mut item.disarmed, true),
            _ => false,
        };
        if is_first && candidate.in_kernel {
            let Candidate { descriptor, data, .. } = *candidate;
            let _ = self.set.register(&self.runtime.os, descriptor, true, Some(0), data);
        }
        is_first
    }

    /// Adds the kernel's events behind `ours` of ours, without waiting; how many in all. Where the private set had the
    /// only place, the kernel is asked once more: it begins with what it did not report then.
    fn ask_kernel(&mut self, ours: usize) -> Answer<usize> {
        if ours >= self.max {
            return Ok(ours);
        }
        match self.ask_kernel_once(ours)? {
            (_, true) if self.max - ours == 1 => self.ask_kernel_once(ours).map(|(kept, _)| kept),
            (kept, _) => Ok(kept),
        }
    }

    /// How many there are then, and whether the private set was among them.
    fn ask_kernel_once(&mut self, ours: usize) -> Answer<(usize, bool)> {
        self.set.refresh_inner();
        let os = &self.runtime.os;
        let set = self.mask.map(arguments::sigset);
        let mask = set.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
        let one_at_a_time = self.set.has_bells().then(|| self.set.settling.lock());
        // SAFETY: room for max - ours events remains.
        let found = unsafe {
            (os.epoll_pwait)(
                self.set.fd.load(Ordering::Relaxed),
                self.events.add(ours),
                (self.max - ours) as i32,
                0,
                mask,
            )
        };
        if found < 0 {
            return fail(os.errno());
        }
        if one_at_a_time.is_some() {
            self.note_told(ours, ours + found as usize);
        }
        drop(one_at_a_time);
        let secret = self.set.secret.load(Ordering::Relaxed);
        let (mut kept, mut has_private) = (ours, false);
        for i in ours..ours + found as usize {
            // SAFETY: the kernel filled these in.
            let event = unsafe { self.events.add(i).read_unaligned() };
            if secret != 0 && event.u64 == secret {
                self.set.heard();
                self.set.hear_bells(self.runtime);
                has_private = true;
                continue;
            }
            if self.merge(ours, event) {
                continue;
            }
            // SAFETY: kept <= i.
            unsafe { self.events.add(kept).write_unaligned(event) };
            kept += 1;
        }
        self.note_shadows(ours, kept);
        Ok((kept, has_private))
    }

    /// A socket that both sides report is reported once, as the kernel would.
    fn merge(&mut self, ours: usize, event: epoll_event) -> bool {
        for i in (0..ours.min(64)).filter(|i| self.merged >> i & 1 == 1) {
            // SAFETY: written by `harvest`.
            let mut mine = unsafe { self.events.add(i).read_unaligned() };
            if mine.u64 == event.u64 {
                mine.events |= event.events;
                // SAFETY: as above.
                unsafe { self.events.add(i).write_unaligned(mine) };
                return true;
            }
        }
        false
    }

    /// What the kernel reported of items that report once is not to be reported again from memory.
    fn note_told(&self, from: usize, to: usize) {
        for i in from..to {
            // SAFETY: written by the kernel.
            let word = unsafe { self.events.add(i).read_unaligned().u64 };
            let mut passed = 0;
            loop {
                let next = self.set.items.lock().merged_once(word, passed);
                let Some(slot) = next else { break };
                self.set.was_told(slot);
                passed += 1;
            }
        }
    }

    /// Where the kernel reported input, a shadow of ours may be meant: its next receive looks there at once.
    fn note_shadows(&self, from: usize, to: usize) {
        if from == to {
            return;
        }
        // SAFETY: written by `ask_kernel`.
        let word = |i: usize| unsafe { self.events.add(i).read_unaligned().u64 };
        let items = self.set.items.lock();
        for item in items.merged().filter(|item| (from..to).any(|i| word(i) == item.data)) {
            item.object.shadow_ready.store(true, Ordering::Relaxed);
        }
    }
}
