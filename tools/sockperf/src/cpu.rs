//! Processors: pinning threads, and the processor time a run has cost.

use crate::exit::{Code, Failure, Result};

/// Processor time and switches of a process, absolute or over a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// User time in microseconds.
    pub user_us: u64,
    /// System time in microseconds.
    pub system_us: u64,
    /// Times the process gave up the processor by itself.
    pub voluntary: u64,
    /// Times it was taken away.
    pub involuntary: u64,
}

impl Usage {
    /// Of this process since it began.
    pub fn now() -> Usage {
        // SAFETY: all-zero is a valid rusage, which the call fills.
        let raw = unsafe {
            let mut raw: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &mut raw);
            raw
        };
        let us = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
        Usage {
            user_us: us(raw.ru_utime),
            system_us: us(raw.ru_stime),
            voluntary: raw.ru_nvcsw as u64,
            involuntary: raw.ru_nivcsw as u64,
        }
    }

    /// From `self` to now.
    pub fn elapsed(self) -> Usage {
        Usage::now().since(self)
    }

    /// From `earlier` to `self`.
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            user_us: self.user_us.saturating_sub(earlier.user_us),
            system_us: self.system_us.saturating_sub(earlier.system_us),
            voluntary: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary: self.involuntary.saturating_sub(earlier.involuntary),
        }
    }

    /// User and system time in microseconds.
    pub fn total_us(self) -> u64 {
        self.user_us + self.system_us
    }
}

/// Pins the calling thread to `cpus`; an empty list leaves it where it is.
pub fn pin(option: &str, cpus: &[usize]) -> Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    // SAFETY: all-zero is an empty set; the numbers were checked to be below 1024.
    let rc = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.iter().for_each(|cpu| libc::CPU_SET(*cpu, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if rc != 0 {
        let reason = std::io::Error::last_os_error();
        return Err(Failure::new(
            Code::Argument,
            format!("cannot pin a thread to {option} {cpus:?}: {reason}"),
        ));
    }
    Ok(())
}
