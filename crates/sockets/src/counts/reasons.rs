//! Why sockets were left to the kernel: counted, and told.

use super::segment;
use crate::answer::Why;
use crate::runtime::Runtime;
use crate::settings;
use core::sync::atomic::Ordering;

impl Runtime {
    /// Counts that a socket was left to the kernel and tells it: ordinary reasons at debug, others in one WARNING each.
    /// Where its calls fail for that, each is an ERROR.
    pub(crate) fn count(&self, why: Why, what: core::fmt::Arguments<'_>) {
        segment().left_to_kernel(why);
        if self.refuses(why) {
            let remedy =
                Some(why.remedy()).filter(|remedy| !remedy.is_empty()).unwrap_or("it is the kernel's");
            logger::error!("{what}: refused, as SIDESTEP_STRICT is set: {}; {remedy}", why.text());
        } else if self.tells(why) && self.tell_now(why) {
            logger::warning!("{what}: left to the kernel: {}; {}", why.text(), why.remedy());
        } else {
            logger::debug!("{what}: left to the kernel: {}", why.text());
        }
    }

    /// Whether calls of a socket that is not accelerated for this reason fail: not if the user asked for it.
    pub(crate) fn refuses(&self, why: Why) -> bool {
        self.parameters.strict && !matches!(why, Why::Rule | Why::Disabled)
    }

    /// Whether a reason is worth a warning: the lack of privilege to those who want to hear of it.
    pub(crate) fn tells(&self, why: Why) -> bool {
        !why.is_ordinary() && (why != Why::NoPrivilege || settings::is_wanted())
    }

    /// Whether this reason was not told yet; the caller tells it, in more words than [`Runtime::count`] has.
    pub(crate) fn tell_now(&self, why: Why) -> bool {
        !self.why_told[why as usize].swap(true, Ordering::Relaxed)
    }
}
