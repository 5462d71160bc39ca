//! Shadows of accepted connections that ended, for those to come.
//!
//! Making and closing a kernel socket is a tenth of what a server does for a short connection. The shadow of an
//! accepted connection is not bound, and nothing is sent or received by it; so, where the application changed nothing
//! about it, a further descriptor of the same open file is as good as one of a new socket, and has the lowest free
//! number as well.

use crate::locks::Rank;
use crate::object::{Inherited, Object};
use crate::runtime::Runtime;
use core::sync::atomic::Ordering;
use libc::c_int;
use std::sync::Arc;

/// How many are kept: connections that a busy server accepts at a time.
const MOST: usize = 16;

/// See the module's page.
pub(crate) struct Spares(sys::Mutex<Vec<Spare>>);

/// Those of this process.
pub(crate) static SPARES: Spares = Spares::new();

/// One of them.
pub(crate) struct Spare {
    shadow: sys::Fd,
    /// O_NONBLOCK is the open file's.
    nonblocking: bool,
    /// The options that its listener had, which were set on it.
    inherited: Option<Arc<Inherited>>,
}

impl Spares {
    const fn new() -> Spares {
        Spares(Rank::Spares.lock(Vec::new()))
    }

    /// A descriptor for a connection with the options of its listener; they are set already.
    pub(super) fn take(
        &self,
        runtime: &Runtime,
        inherited: Option<&Arc<Inherited>>,
        flags: c_int,
    ) -> Option<c_int> {
        let nonblocking = flags & libc::SOCK_NONBLOCK != 0;
        let spare = {
            let mut spares = self.0.lock();
            let at = spares.iter().rposition(|spare| spare.fits(nonblocking, inherited))?;
            spares.swap_remove(at)
        };
        runtime.os.duplicate_to_lowest(spare.shadow.raw(), flags & libc::SOCK_CLOEXEC != 0).ok()
    }

    /// The last descriptor of an accepted connection, `fd`, is about to be closed.
    pub(super) fn keep(&self, object: &Object, fd: c_int, inherited: Option<Arc<Inherited>>) {
        if object.shadow_changed.load(Ordering::Relaxed) {
            return;
        }
        let nonblocking = object.nonblocking.load(Ordering::Relaxed);
        let mut spares = self.0.lock();
        if spares.len() == MOST {
            if spares[0].fits(nonblocking, inherited.as_ref()) {
                return;
            }
            spares.swap_remove(0);
        }
        if let Ok(shadow) = sys::Fd::duplicate_of(fd) {
            spares.push(Spare { shadow, nonblocking, inherited });
        }
    }

    /// Before a fork, after which the open files would be the child's too.
    pub(crate) fn fork_begins(&self) -> sys::MutexGuard<'_, Vec<Spare>> {
        let mut spares = self.0.lock();
        spares.clear();
        spares
    }
}

impl Spare {
    fn fits(&self, nonblocking: bool, inherited: Option<&Arc<Inherited>>) -> bool {
        let same = match (&self.inherited, inherited) {
            (None, None) => true,
            (Some(mine), Some(wanted)) => Arc::ptr_eq(mine, wanted),
            _ => false,
        };
        same && self.nonblocking == nonblocking
    }
}
