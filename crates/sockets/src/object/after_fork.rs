//! What a socket is in the child of a fork.

use super::{Kind, NEVER, Object};
use crate::counts;
use core::sync::atomic::Ordering;

impl Object {
    /// In the child of a fork: no thread of the parent's is in a call here, and what is counted is the parent's.
    fn forget_parent(&self, child: &sys::InChild) {
        self.control.take_over(child);
        self.watch.after_fork(child);
        if let Some(extra) = self.extra() {
            extra.after_fork(child);
        }
        self.set_counts(&counts::NOBODY);
        self.accelerated.store(NEVER, Ordering::Relaxed);
        self.users.store(0, Ordering::Relaxed);
        self.in_flight.store(0, Ordering::Relaxed);
        self.settled.store(0, Ordering::Relaxed);
        self.ending.store(false, Ordering::Relaxed);
    }

    /// In the child of a fork: the legs are the parent's, and only the shadow is left. The flows stay known, so that
    /// the child can have them steered to the kernel when the parent is not there any more.
    pub(crate) fn inherit(&self, child: &sys::InChild) {
        self.forget_parent(child);
        self.holders.store(0, Ordering::Relaxed);
        self.set_kind(Kind::Inherited);
    }

    /// In the child of a fork: what the kernel carries is as it was, and so is who else has it.
    pub(crate) fn keep(&self, child: &sys::InChild) {
        self.forget_parent(child);
    }

    /// In the child of a fork: a connection of the parent.
    pub(crate) fn lend(&self, child: &sys::InChild) {
        self.forget_parent(child);
        self.holders.store(0, Ordering::Relaxed);
        self.drop_legs();
        self.control.lock().flows.clear();
        self.set_kind(Kind::Lent);
    }
}
