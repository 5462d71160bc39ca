//! This process: identity, limits, randomness.

use crate::Result;
use crate::fd::Brief;
use crate::poll::SIGNAL_SET_BYTES;
use crate::raw::{int, syscall};

/// getpid(2), asked of the kernel each time: libc's answer may be cached across vfork.
#[inline]
pub fn pid() -> i32 {
    // SAFETY: no arguments.
    unsafe { syscall(libc::SYS_getpid, [0; 6]) }.unwrap_or(0) as i32
}

/// geteuid(2).
pub fn user() -> u32 {
    // SAFETY: no arguments.
    unsafe { syscall(libc::SYS_geteuid, [0; 6]) }.unwrap_or(0) as u32
}

/// gettid(2).
pub fn tid() -> i32 {
    // SAFETY: no arguments.
    unsafe { syscall(libc::SYS_gettid, [0; 6]) }.unwrap_or(0) as i32
}

/// Sends a signal to the calling thread, as the kernel does with those that a call of it earns (SIGPIPE).
pub fn signal_self(signal: i32) {
    // SAFETY: no pointers.
    let _ = unsafe { syscall(libc::SYS_tgkill, [int(pid()), int(tid()), int(signal), 0, 0, 0]) };
}

/// Sends a signal to the calling thread after so many nanoseconds, by a timer of its own. Safe in signal handlers.
pub fn signal_self_later(signal: i32, nanoseconds: u64) {
    const SIGEV_THREAD_ID: i32 = 4;
    let mut timer = 0i32;
    // struct sigevent: value (two words), signal, what to do, thread; 64 bytes in all.
    let mut event = [0i32; 16];
    [event[2], event[3], event[4]] = [signal, SIGEV_THREAD_ID, tid()];
    // struct itimerspec: no interval, then when.
    let when = [0u64, 0, nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000];
    let (event, at) = (event.as_ptr() as usize, &raw mut timer as usize);
    let clock = libc::CLOCK_MONOTONIC as usize;
    // SAFETY: the kernel reads one sigevent and one itimerspec, and writes one number.
    unsafe {
        if syscall(libc::SYS_timer_create, [clock, event, at, 0, 0, 0]).is_ok() {
            let _ = syscall(libc::SYS_timer_settime, [int(timer), 0, when.as_ptr() as usize, 0, 0, 0]);
        }
    }
}

/// Lets a signal do what it does by default, at once: ends the process, in most cases.
pub fn take_default(signal: i32) {
    // The kernel's struct sigaction: SIG_DFL, no flags, no restorer, no mask.
    let action = [0u64; 4];
    // SAFETY: the kernel reads one struct; the old action is not asked for.
    let _ = unsafe {
        syscall(libc::SYS_rt_sigaction, [int(signal), action.as_ptr() as usize, 0, SIGNAL_SET_BYTES, 0, 0])
    };
    signal_self(signal);
    let before = crate::thread::mask();
    crate::thread::set_mask(before & !(1 << (signal - 1)));
    crate::thread::set_mask(before);
}

/// kill(2): a process, or a group of processes if negative.
pub fn signal(to: i32, signal: i32) {
    // SAFETY: no pointers.
    let _ = unsafe { syscall(libc::SYS_kill, [int(to), int(signal), 0, 0, 0, 0]) };
}

/// sched_yield(2).
pub fn yield_now() {
    // SAFETY: no arguments.
    let _ = unsafe { syscall(libc::SYS_sched_yield, [0; 6]) };
}

/// The processor that this thread runs on, at this moment.
pub fn processor() -> u32 {
    let mut processor = 0u32;
    // SAFETY: the kernel writes one u32; the other pointers may be null.
    let _ = unsafe { syscall(libc::SYS_getcpu, [&raw mut processor as usize, 0, 0, 0, 0, 0]) };
    processor
}

/// Fills `buffer` with random bytes. Errors only where the kernel has no getrandom(2).
pub fn random(mut buffer: &mut [u8]) -> Result<()> {
    while !buffer.is_empty() {
        // SAFETY: the buffer is ours and as long as said.
        let got =
            unsafe { syscall(libc::SYS_getrandom, [buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0, 0]) };
        match got {
            Ok(got) => buffer = &mut buffer[got..],
            Err(libc::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// A resource limit; `u64::MAX` is none.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The limit in force.
    pub soft: u64,
    /// What an unprivileged process may raise it to.
    pub hard: u64,
}

/// getrlimit(2); `resource` is `libc::RLIMIT_*`.
pub fn limit(resource: i32) -> Result<Limit> {
    let mut limit = Limit { soft: 0, hard: 0 };
    prlimit(resource, 0, &raw mut limit as usize).map(|_| limit)
}

/// setrlimit(2).
pub fn set_limit(resource: i32, limit: Limit) -> Result<()> {
    prlimit(resource, &raw const limit as usize, 0)
}

fn prlimit(resource: i32, new: usize, old: usize) -> Result<()> {
    // SAFETY: both callers pass the address of a `Limit` of theirs, or null.
    unsafe { syscall(libc::SYS_prlimit64, [0, int(resource), new, old, 0, 0]) }.map(|_| ())
}

/// Is there a process with this number (in our pid namespace)?
pub fn exists(pid: i32) -> bool {
    // SAFETY: kill takes no pointer; signal 0 only asks.
    let answer = unsafe { syscall(libc::SYS_kill, [int(pid), 0, 0, 0, 0, 0]) };
    answer != Err(libc::ESRCH)
}

/// Does the process with this number (in our pid namespace) still run? One that has ended and waits for its parent to
/// notice does not. Takes a descriptor only of a process that we may not look into.
pub fn is_running(pid: i32) -> bool {
    let lives = pid == self::pid() || matches!(look_into(pid), Ok(_) | Err(libc::EFAULT));
    lives || exists(pid) && is_running_by_pidfd(pid)
}

/// A look at page 0 of a process, which hardly anybody has: EFAULT. ESRCH: there is none, or its first thread ended,
/// which has no memory then. EPERM: it is not for us to look. Takes no descriptor, whose number the application might
/// miss.
fn look_into(pid: i32) -> Result<usize> {
    let mut to = 0u8;
    let to = libc::iovec { iov_base: (&raw mut to).cast(), iov_len: 1 };
    let from = libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 1 };
    let (to, from) = (&raw const to as usize, &raw const from as usize);
    // SAFETY: at most one byte is written, and that is ours.
    unsafe { syscall(libc::SYS_process_vm_readv, [int(pid), to, 1, from, 1, 0]) }
}

/// Whether a thread (in our pid namespace), of whatever process, can still run code of its program. One that was killed
/// has no memory long before its process has closed its descriptors, and ended.
pub fn can_thread_run(tid: i32) -> bool {
    match look_into(tid) {
        Ok(_) | Err(libc::EFAULT) => true,
        Err(libc::ESRCH) => false,
        // Not for us to look: whoever has no pidfd is no process' first thread, and is gone at once when it ends.
        Err(_) => exists(tid) && is_running_by_pidfd(tid),
    }
}

fn is_running_by_pidfd(pid: i32) -> bool {
    // SAFETY: no pointer.
    match unsafe { syscall(libc::SYS_pidfd_open, [int(pid), 0, 0, 0, 0, 0]) } {
        Ok(pidfd) => {
            let ended = crate::poll::readable(pidfd as i32);
            crate::fd::close(pidfd as i32);
            !ended
        }
        Err(libc::ESRCH) => false,
        Err(_) => exists(pid),
    }
}

/// A number that no other process has until the machine starts again, also not the next one with this pid (the inode
/// of its pidfd). 0: the process is gone, or not for us to look at; before Linux 6.9 all have the same. Takes a
/// descriptor for a moment.
pub fn identity(pid: i32) -> u64 {
    // SAFETY: no pointer.
    let pidfd = Brief::made(|| unsafe { syscall(libc::SYS_pidfd_open, [int(pid), 0, 0, 0, 0, 0]) });
    pidfd.and_then(|pidfd| crate::identity::identity(pidfd.raw())).map_or(0, |file| file.inode)
}

/// As [`is_running`], of the process that had this [`identity`] (0: nobody asked).
pub fn is_still_running(pid: i32, known: u64) -> bool {
    let is_another = || {
        let now = identity(pid);
        known != 0 && now != 0 && now != known
    };
    is_running(pid) && !is_another()
}

/// Whether the first thread ended, by pthread_exit.
fn has_first_thread_ended() -> bool {
    look_into(pid()) == Err(libc::ESRCH)
}

/// Whether all that is left of the process is its first thread, which ended by pthread_exit, and the caller.
pub fn is_left_to_caller() -> bool {
    has_first_thread_ended() && status() == Some((true, 2))
}

/// How many threads this process has; `None` without /proc.
pub fn threads() -> Option<u32> {
    status().map(|(_, threads)| threads)
}

/// Whether the first thread has ended, and how many there are.
fn status() -> Option<(bool, u32)> {
    let mut text = [0; 1024];
    let read = crate::file::read_to(c"/proc/self/stat", &mut text).ok()?;
    // Behind the program's name (proc(5)): the state of the first thread, and as the 18th field how many there are.
    let text = core::str::from_utf8(&text[..read]).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    Some((fields.next()? == "Z", fields.nth(16)?.parse().ok()?))
}

/// Whether this process has a thread with this number.
pub fn has_thread(tid: i32) -> bool {
    // SAFETY: no pointers; signal 0 only asks.
    let answer = unsafe { syscall(libc::SYS_tgkill, [int(pid()), int(tid), 0, 0, 0, 0]) };
    answer != Err(libc::ESRCH)
}

/// exit(3): the process ends, with what is to be done then.
pub fn end(status: i32) -> ! {
    // SAFETY: no pointers. Who registered a function for the end of the process vouches for it.
    unsafe { libc::exit(status) }
}

/// The effective capabilities of this thread, one bit each (`capability.rs`).
pub fn capabilities() -> Result<u64> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    // Two records of effective, permitted, inheritable: the low and the high 32 capabilities.
    let mut data = [0u32; 6];
    // SAFETY: header and data have the sizes of version 3.
    unsafe {
        syscall(libc::SYS_capget, [header.as_ptr() as usize, data.as_mut_ptr() as usize, 0, 0, 0, 0])?;
    }
    Ok(data[0] as u64 | (data[3] as u64) << 32)
}

/// setpriority(2): how nice this thread, and those that it starts, are to others; below 0 takes CAP_SYS_NICE.
pub fn set_nice(nice: i32) -> Result<()> {
    let to = [libc::PRIO_PROCESS as usize, 0, int(nice), 0, 0, 0];
    // SAFETY: no pointers.
    unsafe { syscall(libc::SYS_setpriority, to) }.map(|_| ())
}

/// Gives up all capabilities of this thread, and of those that it starts, but these; programs that it executes get no
/// more, either.
pub fn confine(to: u64) -> Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    const PR_CAPBSET_DROP: i32 = 24;
    let kept = capabilities()? & to;
    // SAFETY: no pointers.
    unsafe { syscall(libc::SYS_prctl, [int(libc::PR_SET_NO_NEW_PRIVS), 1, 0, 0, 0, 0]) }?;
    for capability in (0..64).filter(|capability| to >> capability & 1 == 0) {
        // SAFETY: no pointers.
        let dropped = unsafe { syscall(libc::SYS_prctl, [int(PR_CAPBSET_DROP), capability, 0, 0, 0, 0]) };
        // The kernel says EINVAL behind the last one that it knows; without CAP_SETPCAP there is nothing to drop.
        if dropped.is_err() {
            break;
        }
    }
    let (low, high) = (kept as u32, (kept >> 32) as u32);
    let header = [VERSION_3, 0];
    let data = [low, low, 0, high, high, 0];
    // SAFETY: header and data have the sizes of version 3.
    unsafe { syscall(libc::SYS_capset, [header.as_ptr() as usize, data.as_ptr() as usize, 0, 0, 0, 0]) }
        .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_exists_and_knows_its_limits() {
        assert!(exists(pid()));
        assert!(limit(libc::RLIMIT_NOFILE as i32).unwrap().soft > 2);
        let mut bytes = [0u8; 32];
        random(&mut bytes).unwrap();
        assert_ne!(bytes, [0; 32]);
    }

    #[test]
    fn a_thread_can_run_until_it_ends_and_its_process_goes_on() {
        let (say, said) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            say.send(tid()).unwrap();
            let _ = ended.recv();
        });
        let other_tid = said.recv().unwrap();
        assert!(can_thread_run(tid()) && can_thread_run(other_tid));
        drop(end);
        other.join().unwrap();
        // The kernel tells who joins a moment before the thread is gone.
        while has_thread(other_tid) {
            std::thread::yield_now();
        }
        assert!(!can_thread_run(other_tid) && is_running(pid()));
    }

    #[test]
    fn a_process_is_told_from_another_one_of_its_number() {
        let mut other = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let (own, others) = (identity(pid()), identity(other.id() as i32));
        assert_eq!((identity(pid()), identity(other.id() as i32)), (own, others));
        assert!(is_still_running(pid(), own) && is_still_running(pid(), 0));
        if own == others {
            rig::skip::skipped_here("pidfds of one inode: Linux before 6.9");
        } else {
            assert!(!is_still_running(pid(), others), "its number is another one's by now");
        }
        other.kill().and_then(|()| other.wait()).unwrap();
        assert_eq!(identity(other.id() as i32), 0);
        assert!(!is_still_running(other.id() as i32, others));
    }

    #[test]
    fn a_process_runs_until_it_ends_whether_its_parent_has_noticed_or_not() {
        assert!(is_running(pid()));
        let mut other =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let id = other.id() as i32;
        assert!(is_running(id));
        drop(other.stdin.take());
        // SAFETY: nothing but values, and a place for the answer. It stays unnoticed (WNOWAIT).
        unsafe {
            let mut how: libc::siginfo_t = core::mem::zeroed();
            assert_eq!(libc::waitid(libc::P_PID, other.id(), &mut how, libc::WEXITED | libc::WNOWAIT), 0);
        }
        assert!(exists(id) && !is_running(id));
        other.wait().unwrap();
        assert!(!is_running(id));
    }
}
