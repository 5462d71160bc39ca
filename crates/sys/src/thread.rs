//! Threads of our own inside somebody else's process: they never run the application's signal handlers.

use crate::Result;
use crate::poll::SIGNAL_SET_BYTES;
use crate::raw::{int, syscall};
use core::cell::Cell;

/// All signals but 32 and 33, which libc needs in every thread: blocking them would hang setuid(2) and cancellation.
const ALL_BUT_LIBC: u64 = !(1 << 31 | 1 << 32);

/// All signals but those of faulty instructions that a handler may mend: blocked, they end the process (see
/// [`crate::foreign`]).
pub const ALL_BUT_FAULTS: u64 = !(1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGBUS - 1));

thread_local! {
    static NUMBER: Cell<i32> = const { Cell::new(0) };
}

/// The calling thread's number, as gettid(2) has it, which it is asked for once.
#[inline]
pub fn number() -> i32 {
    match NUMBER.get() {
        0 => ask_number(),
        number => number,
    }
}

#[cold]
fn ask_number() -> i32 {
    NUMBER.set(crate::process::tid());
    NUMBER.get()
}

/// In the child of a fork: its thread has another number than that of the parent, whose memory it has.
pub fn after_fork() {
    NUMBER.set(0);
}

/// Starts a thread with all signals blocked. `Err` is errno (EAGAIN: no more threads).
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<std::thread::JoinHandle<()>> {
    let body = || {
        set_mask(ALL_BUT_LIBC);
        body();
    };
    let thread =
        without_handlers(ALL_BUT_LIBC, || std::thread::Builder::new().name(name.to_owned()).spawn(body));
    thread.map_err(|error| error.raw_os_error().unwrap_or(libc::EAGAIN))
}

/// Runs two things beside each other, the second in a thread of its own; one after the other where there can be none.
pub fn beside<A, B: Send>(here: impl FnOnce() -> A, there: impl Fn() -> B + Sync) -> (A, B) {
    let body = || {
        set_mask(ALL_BUT_LIBC);
        there()
    };
    let builder = std::thread::Builder::new().name("sidestep".to_owned());
    // SAFETY: the thread uses `there`, which outlives it: `Joined` waits for its end, also where `here` panics. std's
    // scope would wait by parking, through a call that we hook.
    let thread = without_handlers(ALL_BUT_LIBC, || unsafe { builder.spawn_unchecked(body) });
    let thread = Joined(thread.ok());
    let first = here();
    let second = match thread.join() {
        Some(Ok(second)) => second,
        Some(Err(panic)) => std::panic::resume_unwind(panic),
        None => there(),
    };
    (first, second)
}

/// Runs `body` where there is room: what needs much stack has that of a thread of its own, as the caller's may have
/// PTHREAD_STACK_MIN bytes. Here, if there can be no thread, or on the first thread's own stack: where others want the
/// processor, a new thread is waited for as long as a scheduler's slice, which is more than a short-lived program
/// takes.
pub fn with_room<R: Send>(body: impl Fn() -> R + Sync) -> R {
    if has_room() { body() } else { beside(|| (), body).1 }
}

/// What a thread of our own has at least.
const ROOM: usize = 1 << 20;
/// The first thread's stack is not looked for farther below its top: nothing else is mapped within 128 MiB of that.
const STACK_MAX: usize = 64 << 20;

/// Whether this is the stack that the process was started with, and most of it is left. Coroutines and signal handlers
/// may have another.
fn has_room() -> bool {
    let here = 0u8;
    // SAFETY: a look at what the kernel gave the process. The bytes lie above its first stack.
    let top = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
    let Some(used) = top.checked_sub(&raw const here as usize) else { return false };
    let limit = crate::process::limit(libc::RLIMIT_STACK as i32)
        .map_or(0, |limit| usize::try_from(limit.soft).unwrap_or(usize::MAX));
    used + ROOM <= limit.min(STACK_MAX) && !is_on_alternate_stack()
}

/// A handler's stack may be a part of the first thread's.
fn is_on_alternate_stack() -> bool {
    // SAFETY: all zeros is a description of a stack.
    let mut stack: libc::stack_t = unsafe { core::mem::zeroed() };
    // SAFETY: nothing is changed; the description lives here.
    let asked = unsafe { syscall(libc::SYS_sigaltstack, [0, &raw mut stack as usize, 0, 0, 0, 0]) };
    asked.is_err() || stack.ss_flags & libc::SS_ONSTACK != 0
}

/// A thread that ends before this does; `None`: it could not be started.
struct Joined<T>(Option<std::thread::JoinHandle<T>>);

impl<T> Joined<T> {
    fn join(mut self) -> Option<std::thread::Result<T>> {
        self.0.take().map(std::thread::JoinHandle::join)
    }
}

impl<T> Drop for Joined<T> {
    fn drop(&mut self) {
        let _ = self.0.take().map(std::thread::JoinHandle::join);
    }
}

/// Runs `body`, which makes a thread or a process, with those of `signals` blocked that could do something there: what
/// is made inherits the mask, and blocks the others itself. Signals that the process ignores stay as they are. The
/// kernel drops those at once, but where the thread that they are for has them blocked it keeps them, and interrupts
/// another thread with them, whose receive then ends with a part of its count.
pub(crate) fn without_handlers<T>(signals: u64, body: impl FnOnce() -> T) -> T {
    let ignored =
        (1..=64).filter(|signal| is_ignored(*signal)).fold(0, |all, signal| all | 1 << (signal - 1));
    let before = mask();
    set_mask(before | signals & !ignored);
    let outcome = body();
    set_mask(before);
    outcome
}

/// Whether the process ignores a signal, by choice or by default.
fn is_ignored(signal: i32) -> bool {
    // The kernel's struct sigaction, whose first word is the handler.
    let mut action = [0u64; 4];
    let place = action.as_mut_ptr() as usize;
    // SAFETY: nothing is changed; the kernel writes one struct.
    let asked = unsafe { syscall(libc::SYS_rt_sigaction, [int(signal), 0, place, SIGNAL_SET_BYTES, 0, 0]) };
    match action[0] as usize {
        libc::SIG_IGN => true,
        libc::SIG_DFL => {
            asked.is_ok() && matches!(signal, libc::SIGCHLD | libc::SIGCONT | libc::SIGURG | libc::SIGWINCH)
        }
        _ => false,
    }
}

/// Replaces this thread's signal mask (a bit per signal, signal 1 lowest); returns the former.
pub fn set_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    let (new, old) = (&raw const mask as usize, &raw mut before as usize);
    // SAFETY: both masks live here and have the size said.
    let _ = unsafe {
        syscall(libc::SYS_rt_sigprocmask, [int(libc::SIG_SETMASK), new, old, SIGNAL_SET_BYTES, 0, 0])
    };
    before
}

/// Runs `body` so that a SIGPIPE which it causes reaches nobody; one that was pending before stays pending.
pub fn without_sigpipe<T>(body: impl FnOnce() -> T) -> T {
    let sigpipe = 1u64 << (libc::SIGPIPE - 1);
    let before = set_mask(mask() | sigpipe);
    let was_pending = pending() & sigpipe != 0;
    let outcome = body();
    if !was_pending && pending() & sigpipe != 0 {
        let now = crate::poll::timespec(0);
        let (set, timeout) = (&raw const sigpipe as usize, &raw const now as usize);
        // SAFETY: set and timeout live here; no information about the signal is asked for.
        let _ = unsafe { syscall(libc::SYS_rt_sigtimedwait, [set, 0, timeout, SIGNAL_SET_BYTES, 0, 0]) };
    }
    set_mask(before);
    outcome
}

/// This thread's signal mask.
pub fn mask() -> u64 {
    let mut mask = 0u64;
    // SAFETY: the mask lives here and has the size said.
    let _ =
        unsafe { syscall(libc::SYS_rt_sigprocmask, [0, 0, &raw mut mask as usize, SIGNAL_SET_BYTES, 0, 0]) };
    mask
}

/// Signals that are blocked and pending.
fn pending() -> u64 {
    let mut pending = 0u64;
    // SAFETY: the set lives here and has the size said.
    let _ = unsafe {
        syscall(libc::SYS_rt_sigpending, [&raw mut pending as usize, SIGNAL_SET_BYTES, 0, 0, 0, 0])
    };
    pending
}

/// Sleeps; a signal ends it early.
pub fn sleep(ns: u64) {
    let time = crate::poll::timespec(ns);
    // SAFETY: the timespec lives here; the remainder is not asked for.
    let _ = unsafe { syscall(libc::SYS_nanosleep, [&raw const time as usize, 0, 0, 0, 0, 0]) };
}

/// What a thread has had of its processor since it began, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// It ran.
    pub ran: u64,
    /// It could have run, and others did.
    pub waited: u64,
}

/// That of the caller; `None` without /proc, or where the kernel does not count it.
pub fn schedule() -> Option<Schedule> {
    let mut text = [0; 64];
    let read = crate::file::read_to(c"/proc/thread-self/schedstat", &mut text).ok()?;
    let mut fields = core::str::from_utf8(&text[..read]).ok()?.split_ascii_whitespace();
    Some(Schedule { ran: fields.next()?.parse().ok()?, waited: fields.next()?.parse().ok()? })
}

/// The processors that this thread may run on, below 1024.
pub fn processors() -> Result<Vec<usize>> {
    let mut set = [0u64; 16];
    // SAFETY: the set has the size said.
    unsafe {
        syscall(
            libc::SYS_sched_getaffinity,
            [0, core::mem::size_of_val(&set), set.as_mut_ptr() as usize, 0, 0, 0],
        )
    }?;
    Ok((0..64 * set.len()).filter(|processor| set[processor / 64] >> (processor % 64) & 1 == 1).collect())
}

/// Pins this thread to one processor.
pub fn pin(processor: usize) -> Result<()> {
    pin_to([processor])
}

/// Pins this thread to these processors, below 1024; EINVAL if it may run on none of them.
pub fn pin_to(processors: impl IntoIterator<Item = usize>) -> Result<()> {
    let mut set = [0u64; 16];
    for processor in processors {
        *set.get_mut(processor / 64).ok_or(libc::EINVAL)? |= 1 << (processor % 64);
    }
    // SAFETY: the set has the size said.
    unsafe {
        syscall(
            libc::SYS_sched_setaffinity,
            [0, core::mem::size_of_val(&set), set.as_ptr() as usize, 0, 0, 0],
        )
    }
    .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon;

    #[test]
    fn our_thread_blocks_the_applications_signals_but_not_libcs() {
        let before = set_mask(0);
        let mask =
            spawn("test", || assert_eq!(set_mask(0) & ALL_BUT_LIBC, ALL_BUT_LIBC & !(1 << 8 | 1 << 18)));
        mask.unwrap().join().unwrap();
        assert_eq!(set_mask(before), 0, "the creator's mask is as it was");
    }

    #[test]
    fn an_ignored_signal_is_dropped_while_a_thread_or_a_process_is_made() {
        // In a process with one thread: another one would take the signal before it is looked for.
        let alone = daemon::fork().unwrap();
        if alone == 0 {
            let is_kept = without_handlers(u64::MAX, || {
                // SAFETY: the child has a copy of the memory, and makes one system call.
                let child = unsafe { syscall(libc::SYS_clone, [int(libc::SIGCHLD), 0, 0, 0, 0, 0]) };
                if child == Ok(0) {
                    daemon::leave();
                }
                child.map(daemon::wait_for).is_err() || pending() & 1 << (libc::SIGCHLD - 1) != 0
            });
            // SAFETY: no pointers.
            let _ = unsafe { syscall(libc::SYS_exit_group, [usize::from(is_kept), 0, 0, 0, 0, 0]) };
        }
        let mut status = 0i32;
        let arguments = [alone, &raw mut status as usize, int(libc::__WALL), 0, 0, 0];
        // SAFETY: the status is ours.
        assert_eq!(unsafe { syscall(libc::SYS_wait4, arguments) }, Ok(alone));
        assert_eq!(status, 0, "SIGCHLD was kept");
        let blocked = without_handlers(u64::MAX, mask);
        assert_ne!(blocked & 1 << (libc::SIGUSR1 - 1), 0, "one that could do something is blocked");
    }

    #[test]
    fn what_runs_beside_is_another_thread_and_both_answers_come() {
        let here = std::thread::current().id();
        let (first, second) = beside(|| std::thread::current().id(), || std::thread::current().id());
        assert!(first == here && second != here);
    }

    #[test]
    fn only_the_first_threads_own_stack_is_known_to_have_room() {
        assert!(!has_room(), "a test runs in a thread of its own");
        let here = std::thread::current().id();
        assert_ne!(with_room(|| std::thread::current().id()), here);
    }

    #[test]
    fn a_pinned_thread_runs_where_it_may() {
        let all = processors().unwrap();
        let last = *all.last().unwrap();
        let run = move || {
            pin(last).unwrap();
            assert_eq!(processors().unwrap(), [last]);
            assert_eq!(crate::process::processor() as usize, last);
        };
        spawn("test", run).unwrap().join().unwrap();
        assert_eq!(processors().unwrap(), all, "this one is where it was");
    }

    #[test]
    fn a_sigpipe_of_our_own_reaches_nobody() {
        use std::os::fd::AsRawFd;
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let before = mask();
        // Blocked for this thread from here on, so that a leak would be seen as pending.
        set_mask(before | 1 << (libc::SIGPIPE - 1));
        let written = without_sigpipe(|| crate::fd::write(writer.as_raw_fd(), b"x"));
        assert_eq!(written, Err(libc::EPIPE));
        assert_eq!(pending() & 1 << (libc::SIGPIPE - 1), 0);
        set_mask(before);
    }
}
