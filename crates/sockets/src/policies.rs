//! IPsec policies: what one of them could select is the kernel's, which protects or blocks it. Nothing of that leaves
//! here in the clear, and nothing comes in unprotected.
//!
//! A flow is asked about before it is steered. When policies change, the background thread looks at what is steered
//! already: connections move into the kernel, or end where they cannot.

use crate::answer::Why;
use crate::fd_table;
use crate::locks::Rank;
use crate::object::{Kind, Object};
use crate::offload;
use crate::runtime::Runtime;
use crate::tcp;
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
            Err(errno) => logger::debug!("IPsec policies cannot be followed (errno {errno})"),
        }
        if let Err(errno) = state.ask() {
            // Who lacks the privilege for this lacks it for AF_XDP, and is told so.
            if errno != libc::EPERM {
                logger::warning!(
                    "IPsec policies cannot be read (errno {errno}): all sockets are left to the kernel"
                );
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

    /// By the background thread: policies changed.
    pub(crate) fn follow(&self, runtime: &'static Runtime) {
        {
            let mut state = self.state.lock();
            let Some(new) = state.monitor.as_ref().and_then(PolicyMonitor::changed) else { return };
            // Without the privilege to ask, what was is taken to be still.
            if state.ask().is_err() {
                state.list.extend(new);
            }
            self.any.store(!state.list.is_empty(), Ordering::Release);
        }
        runtime.forget_routes();
        if self.any.load(Ordering::Acquire) {
            enforce(runtime);
        }
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

/// What is steered here and a policy could select goes to the kernel.
fn enforce(runtime: &'static Runtime) {
    for fd in 0..fd_table::end() {
        let Some(object) = fd_table::socket(fd) else { continue };
        if object.leg().is_none() || !is_selected(runtime, object) {
            continue;
        }
        if !offload::expel(runtime, object, Why::Ipsec) {
            logger::warning!(
                "fd {fd}: an IPsec policy selects this connection, which cannot move into the kernel: it ends"
            );
            tcp::detach(object);
            offload::forget(runtime, object, Why::Ipsec);
        }
    }
    // What closed sockets have still to say.
    for lane in runtime.lanes() {
        let selected: Vec<_> = {
            let inner = lane.lock();
            let ids = inner.orphans.iter().map(|orphan| orphan.id);
            let ends = ids.map(|id| (id, inner.stack.local(id), inner.stack.remote(id)));
            let of = |end: Option<stack::Endpoint>| end.map(|end| *end.ip());
            ends.filter(|(_, local, remote)| runtime.policies.could_select(of(*local), of(*remote))).collect()
        };
        selected.into_iter().for_each(|(id, ..)| tcp::abort(lane, id));
    }
}

fn is_selected(runtime: &Runtime, object: &Object) -> bool {
    let (local, remote) = {
        let control = object.control.lock();
        (control.local, control.remote)
    };
    let local = local.map(|local| *local.ip()).filter(|local| !local.is_unspecified());
    let remote = remote.map(|remote| *remote.ip());
    match (object.kind(), local) {
        // Of all its addresses.
        (Kind::Listener | Kind::Udp, None) => {
            let mut addresses = object.legs().flat_map(|(lane, _)| lane.lock().addresses.clone());
            addresses.any(|address| runtime.policies.could_select(Some(address), remote))
        }
        _ => runtime.policies.could_select(local, remote),
    }
}
