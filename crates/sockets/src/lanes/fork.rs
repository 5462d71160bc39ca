//! What a fork needs of the runtime: its locks before, a fresh start in the child.

use super::COUNT;
use crate::answer::Why;
use crate::lane::{Inner, Lane};
use crate::policies;
use crate::runtime::{Routes, Runtime};
use config::ProcessRules;
use core::sync::atomic::Ordering;
use netlink::Netlink;
use sys::MutexGuard;

/// Locks that the child needs to find free, in the order of `locks.rs`.
pub(crate) struct Locks<'a> {
    _links: MutexGuard<'a, Vec<(u32, Result<usize, Why>)>>,
    _routes: MutexGuard<'a, Routes>,
    _inherited: MutexGuard<'a, Vec<xdp::Inherited>>,
    _lanes: Vec<MutexGuard<'a, Inner>>,
    _rules: MutexGuard<'a, ProcessRules>,
    _policies: MutexGuard<'a, policies::State>,
    _netlink: MutexGuard<'a, Option<Netlink>>,
}

impl Runtime {
    /// Before a fork, by who holds nothing that others wait for: no interface is being opened, which takes seconds
    /// where a driver takes its link down. A child must not have a part of one.
    pub(crate) fn before_fork(&self) {
        drop(self.links.lock());
    }

    /// Before a fork, in the parent: takes them. Lanes and what they are opened from are ready for the child. `None`:
    /// an interface is being opened. `before_lanes` takes what stands before lanes in the table of locks.
    pub(crate) fn fork_begins<G>(&self, before_lanes: impl FnOnce() -> G) -> Option<(Locks<'_>, G)> {
        let links = self.links.try_lock()?;
        let routes = self.routes.lock();
        let inherited = self.inherited.lock();
        let taken = before_lanes();
        let lanes: Vec<_> = self.lanes().map(Lane::lock_beside).collect();
        lanes.iter().for_each(|inner| inner.device.before_fork());
        let locks = Locks {
            _links: links,
            _routes: routes,
            _inherited: inherited,
            _lanes: lanes,
            _rules: self.rules.lock(),
            _policies: self.policies.lock(),
            _netlink: self.netlink.lock(),
        };
        Some((locks, taken))
    }

    /// In the child: engines and netlink are the parent's; lanes are opened anew when a socket needs one.
    pub(crate) fn after_fork(&self, child: &sys::InChild) {
        self.unseen_pause.take_over(child);
        {
            let mut all = self.inherited.lock();
            for inherited in all.iter() {
                inherited.after_fork(child);
            }
            for lane in self.lanes() {
                lane.disown();
                let inherited = lane.lock().device.inherit(child);
                all.retain(|known| known.index() != inherited.index());
                all.push(inherited);
            }
        }
        COUNT.store(0, Ordering::Release);
        self.links.lock().clear();
        // The descriptor is shared with the parent: its answers must not be read here. Dropping closes our copy.
        *self.netlink.lock() = None;
        self.routes.lock().clear();
        self.route_generation.fetch_add(1, Ordering::AcqRel);
        self.policies.after_fork();
    }
}
