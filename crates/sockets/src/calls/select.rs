//! select(2) and pselect(2), by way of poll.

use crate::answer::{Answer, Stop, Why};
use crate::errno::fail;
use crate::fd_table;
use crate::parting::prepare;
use crate::runtime::Runtime;
use crate::wait::poll;
use libc::{fd_set, pollfd};

/// A descriptor set of the application, of `count` bits; absent sets are null.
struct Bits {
    words: *mut u64,
    count: usize,
}

impl Bits {
    fn has(&self, fd: usize) -> bool {
        // SAFETY: the application's set has at least `count` bits, and `fd` < `count`.
        !self.words.is_null() && unsafe { self.words.add(fd / 64).read_unaligned() } >> (fd % 64) & 1 == 1
    }

    fn clear_all(&self) {
        if self.words.is_null() {
            return;
        }
        for word in 0..self.count.div_ceil(64) {
            // SAFETY: as `has`; the kernel too writes whole words.
            unsafe { self.words.add(word).write_unaligned(0) };
        }
    }

    fn set(&self, fd: usize) {
        // SAFETY: as `has`; only called for bits that were set.
        unsafe {
            let word = self.words.add(fd / 64);
            word.write_unaligned(word.read_unaligned() | 1 << (fd % 64));
        }
    }
}

/// pselect(2). `Kernel` if no descriptor is ours.
///
/// # Safety
/// Sets are null or have at least `count` bits.
pub(crate) unsafe fn pselect(
    runtime: &'static Runtime,
    count: i32,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    deadline: Option<u64>,
    mask: Option<u64>,
) -> Answer<i32> {
    // The kernel takes more than FD_SETSIZE from those who allocated larger sets; so do we, up to the table's size.
    let Ok(count) = usize::try_from(count) else { return Err(Stop::Kernel(Why::NotOurs)) };
    let [read, write, except] = [read, write, except].map(|set| Bits { words: set.cast(), count });
    let wanted = |fd: usize| (read.has(fd), write.has(fd), except.has(fd));
    let mut fds = Vec::new();
    let mut any_ours = false;
    for fd in 0..count.min(fd_table::LEN) {
        let (r, w, x) = wanted(fd);
        if !(r || w || x) {
            continue;
        }
        any_ours |= fd_table::entry(fd as i32).is_some();
        prepare(runtime, fd as i32);
        // POLLRDNORM and POLLWRNORM stand for select's idea of ready; HUP and ERR are always told.
        let events = [(r, libc::POLLIN), (w, libc::POLLOUT), (x, libc::POLLPRI)];
        let events = events.iter().filter(|(on, _)| *on).fold(0, |bits, (_, bit)| bits | bit);
        fds.push(pollfd { fd: fd as i32, events, revents: 0 });
    }
    if !any_ours {
        return Err(Stop::Kernel(Why::NotOurs));
    }
    poll::poll(runtime, &mut fds, deadline, mask)?;
    if fds.iter().any(|polled| polled.revents & libc::POLLNVAL != 0) {
        return fail(libc::EBADF);
    }
    let was: Vec<_> = fds.iter().map(|polled| wanted(polled.fd as usize)).collect();
    for set in [&read, &write, &except] {
        set.clear_all();
    }
    let mut ready = 0;
    for (polled, (r, w, x)) in fds.iter().zip(was) {
        let fd = polled.fd as usize;
        for (on, set, bits) in [
            (r, &read, libc::POLLIN | libc::POLLHUP | libc::POLLERR),
            (w, &write, libc::POLLOUT | libc::POLLERR),
            (x, &except, libc::POLLPRI),
        ] {
            if on && polled.revents & bits != 0 {
                set.set(fd);
                ready += 1;
            }
        }
    }
    Ok(ready)
}
