//! IPsec policies: what one of them could select is the kernel's, which protects or blocks it. Nothing of that leaves
//! here in the clear, and nothing comes in unprotected.
//!
//! A flow is asked about before it is steered. When policies change, the background thread looks at what is steered
//! already (`ipsec.rs`).

use crate::answer::Why;
use crate::locks::Rank;
use core::net::Ipv4Addr;
use core::sync::atomic::{AtomicBool, Ordering};
use netlink::{Netlink, Policy, PolicyMonitor};

/// The policies of this network namespace.
pub(crate) struct Policies {
    /// There are some: the common case of none costs one load.
    any: AtomicBool,
    state: sys::Mutex<State>,
}

/// What the lock protects.
pub(crate) struct State {
    list: Vec<Policy>,
    /// Opened before the list is asked for, so that no change is missed.
    monitor: Option<PolicyMonitor>,
}

impl Policies {
    /// Not asked for yet.
    pub(crate) const fn new() -> Policies {
        Policies {
            any: AtomicBool::new(false),
            state: Rank::Policies.lock(State { list: Vec::new(), monitor: None }),
        }
    }

    /// Before an interface is opened: asks the kernel, and follows from now on.
    pub(crate) fn begin(&self) {
        let mut state = self.state.lock();
        if state.monitor.is_some() {
            return;
        }
        match PolicyMonitor::open() {
            Ok(monitor) => state.monitor = Some(monitor),
            // This kernel has no such policies.
            Err(libc::EPROTONOSUPPORT) => return,
            Err(errno) => logger::debug!("IPsec policies cannot be followed ({})", sys::Errno(errno)),
        }
        if let Err(errno) = state.ask() {
            // Who lacks the privilege for this lacks it for AF_XDP, and is told so.
            if errno != libc::EPERM {
                logger::warning!(
                    "IPsec policies cannot be read ({}): all sockets are left to the kernel",
                    sys::Errno(errno)
                );
            } else {
                // A keeper that comes later knows them.
                state.monitor = None;
            }
            state.list = vec![Policy::ALL];
        }
        self.any.store(!state.list.is_empty(), Ordering::Release);
    }

    /// The same for a process that may not ask: the keeper did, and goes on hearing of changes by `monitor`.
    pub(crate) fn begin_by(&self, monitor: PolicyMonitor, has_some: bool) {
        let mut state = self.state.lock();
        if state.monitor.is_some() {
            return;
        }
        state.monitor = Some(monitor);
        state.list.clear();
        if has_some && state.ask().is_err() {
            state.list = vec![Policy::ALL];
        }
        self.any.store(!state.list.is_empty(), Ordering::Release);
    }

    /// The descriptor that is readable when policies change; -1: none.
    pub(crate) fn descriptor(&self) -> i32 {
        self.state.lock().monitor.as_ref().map_or(-1, PolicyMonitor::descriptor)
    }

    /// Whether a policy could select packets between these addresses; `None`: any.
    #[inline]
    pub(crate) fn could_select(&self, local: Option<Ipv4Addr>, remote: Option<Ipv4Addr>) -> bool {
        self.any.load(Ordering::Acquire)
            && self.state.lock().list.iter().any(|policy| policy.could_select(local, remote))
    }

    /// As [`Policies::could_select`], as a reason to leave a socket to the kernel.
    #[inline]
    pub(crate) fn check(&self, local: Option<Ipv4Addr>, remote: Option<Ipv4Addr>) -> Result<(), Why> {
        if self.could_select(local, remote) { Err(Why::Ipsec) } else { Ok(()) }
    }

    /// By the background thread. Whether policies changed, and whether there are some now.
    pub(crate) fn have_changed(&self) -> Option<bool> {
        let mut state = self.state.lock();
        let new = state.monitor.as_ref().and_then(PolicyMonitor::changed)?;
        // Without the privilege to ask, what was is taken to be still.
        if state.ask().is_err() {
            state.list.extend(new);
        }
        self.any.store(!state.list.is_empty(), Ordering::Release);
        Some(!state.list.is_empty())
    }

    /// In the child of a fork, which may give up the privilege before it opens an interface: the list is the parent's,
    /// the monitor must be its own.
    pub(crate) fn after_fork(&self) {
        let mut state = self.state.lock();
        if state.monitor.take().is_some() {
            state.monitor = PolicyMonitor::open().ok();
        }
    }

    /// For a fork: keeps the list whole.
    pub(crate) fn lock(&self) -> sys::MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn ask(&mut self) -> Result<(), i32> {
        let mut netlink = Netlink::open_xfrm()?;
        let namespace = |fd| sys::socket::network_namespace(fd).ok();
        // The calling thread may have gone elsewhere.
        if let Some(monitor) = &self.monitor
            && namespace(monitor.descriptor()) != namespace(netlink.descriptor())
        {
            return Err(libc::EXDEV);
        }
        self.list = netlink.policies()?;
        Ok(())
    }
}
