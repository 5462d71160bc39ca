//! When the program is taken off an interface on which nothing of this process stands: everybody's packets pay for it
//! (`xdp::Hook`). It is put on again beside the program, as an interface is opened (`opening.rs`).

use super::{Inner, Lane};
use crate::answer::Why;
use core::sync::atomic::{AtomicU64, Ordering};

/// Without a socket and a frame for so long, at first, nanoseconds: longer than the pauses between the short
/// connections of a busy program.
const QUIET_NS: u64 = 250_000_000;
/// The same where a trial was lost: until the next one nobody comes.
const QUIET_AFTER_TRIAL_NS: u64 = 20_000_000;
/// Twice as long each time, up to this: putting it on takes the kernel some tens of milliseconds.
const QUIET_MOST_NS: u64 = 64_000_000_000;

/// The hook of a lane's interface.
pub(crate) struct Hook {
    of: xdp::Hook,
    /// How long it has to be quiet.
    quiet: AtomicU64,
}

impl Hook {
    pub(super) fn new(of: xdp::Hook) -> Hook {
        Hook { of, quiet: AtomicU64::new(QUIET_NS) }
    }

    /// Whether the program is off the interface.
    #[inline]
    pub(crate) fn is_off(&self) -> bool {
        self.of.is_off()
    }
}

impl Lane {
    /// Whether nothing stands here, and nothing has come or gone, for long enough to take the program off.
    /// `lost_trial`: the threads of the program get more done by the kernel.
    pub(crate) fn is_quiet(&self, inner: &Inner, now: u64, lost_trial: bool) -> bool {
        let quiet = match lost_trial {
            true => QUIET_AFTER_TRIAL_NS,
            false => self.hook.quiet.load(Ordering::Relaxed),
        };
        !self.hook.is_off() && inner.stack.is_empty() && now.saturating_sub(inner.moved_at) >= quiet
    }

    /// Takes the program off, if nothing is steered. Without the lane's lock.
    pub(crate) fn take_program_off(&self) {
        if self.hook.of.take_off() {
            let quiet = self.hook.quiet.load(Ordering::Relaxed);
            self.hook.quiet.store((quiet * 2).min(QUIET_MOST_NS), Ordering::Relaxed);
            logger::debug!("{}: nothing is accelerated on it: the program is off", self.name);
        }
    }

    /// Puts it on, if it is off. What cannot be is told, and ends the lane, on which nothing stands.
    pub(crate) fn put_program_on(&self) -> Result<(), Why> {
        if !self.hook.is_off() {
            return Ok(());
        }
        let now = sys::clock::now();
        self.hook.of.put_on().map_err(|errno| {
            self.fenced.store(true, Ordering::Release);
            logger::warning!(
                "{}: left to the kernel from now on: the program cannot be put on again ({why})",
                self.name,
                why = sys::Errno(errno)
            );
            match errno {
                libc::EPERM | libc::EACCES => Why::NoPrivilege,
                libc::EBUSY | libc::EEXIST => Why::ForeignProgram,
                _ => Why::DeviceFailed,
            }
        })?;
        self.lock().moved_at = sys::clock::now();
        logger::debug!(
            "{}: the program is on again, after {} us",
            self.name,
            (sys::clock::now() - now) / 1000
        );
        Ok(())
    }
}
