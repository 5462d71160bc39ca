//! Interfaces that were refused for want of privilege are asked for again once a keeper has come: programs may start
//! before it. What was left to the kernel stays there; sockets that come later are accelerated.

use crate::answer::Why;
use crate::keeper;
use crate::runtime::{Decision, Runtime};
use core::sync::atomic::{AtomicU64, Ordering};

/// Who is refused looks for a keeper at most so often.
const AGAIN_NS: u64 = 2_000_000_000;

static LOOKED: AtomicU64 = AtomicU64::new(0);

impl Runtime {
    /// Somebody meets a refusal for want of privilege. True: it is forgotten, as a keeper has come. Called without the
    /// lock of `links` or `routes`.
    #[cold]
    pub(super) fn is_to_ask_again(&self) -> bool {
        let (now, looked) = (sys::clock::now(), LOOKED.load(Ordering::Relaxed));
        let is_time = now.saturating_sub(looked) >= AGAIN_NS
            && LOOKED.compare_exchange(looked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if !is_time || !keeper::comes() {
            return false;
        }
        self.links.lock().retain(|(_, known)| *known != Err(Why::NoPrivilege));
        self.routes.lock().retain(|_, known| *known != Decision::Kernel(Why::NoPrivilege));
        logger::debug!("a keeper (sidestepd) has come: interfaces are asked for again");
        true
    }
}
