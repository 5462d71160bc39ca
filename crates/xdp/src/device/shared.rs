//! What all processes on one interface share: program, maps, arena, and the anchors of its queues.
//!
//! The first process makes it, as far as there is need; children of a fork inherit its descriptors. A lane's own sockets are not part of it, and
//! a child closes its copies of them at once: a socket that only a child still holds would take packets for nobody.
//! The program stays attached until the last process that has this is gone.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use sys::{Fd, Mutex};

use super::open::Attached;
use super::{Options, large};
use crate::Refusal;
use crate::arena::Arena;
use crate::caps::{self, Way};
use crate::interface::Interface;
use crate::owner::Owner;
use crate::socket::{Anchor, Binding, af_xdp};
use crate::steering::Steering;

/// See the module's page.
pub(crate) struct Shared {
    // Dropped in this order: no packet comes any more, then the sockets go.
    link: Fd,
    /// A socket on each queue that a child binds its own by. Made before the first fork: a bound socket costs a grace
    /// period when it is closed.
    anchors: OnceLock<Vec<Anchor>>,
    pub(crate) steering: Steering,
    pub(crate) arena: Arc<Arena>,
    pub(crate) interface: Interface,
    pub(crate) options: Options,
    pub(crate) way: Way,
    pub(super) owner: Arc<Owner>,
    /// This process is a child of the one that made it.
    pub(crate) is_inherited: AtomicBool,
    /// Sends what is to be cut; opened when that is needed, or before the privilege for it may go.
    large: OnceLock<Option<Fd>>,
    /// Sends for processes that died, by way of the kernel's routes; opened before the first fork, when there is the
    /// privilege.
    pub(super) raw: OnceLock<Option<Fd>>,
    /// Sockets not bound yet, made while the process may make them: workers drop their privilege.
    spare: Mutex<Vec<Fd>>,
}

impl Shared {
    pub(super) fn new(
        interface: &Interface,
        options: Options,
        way: Way,
        owner: Arc<Owner>,
        arena: Arc<Arena>,
        program: Attached,
    ) -> Shared {
        Shared {
            link: program.link,
            anchors: OnceLock::new(),
            steering: program.steering,
            arena,
            interface: interface.clone(),
            options,
            way,
            owner,
            is_inherited: AtomicBool::new(false),
            large: OnceLock::new(),
            raw: OnceLock::new(),
            spare: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn binding(&self, queue: u32) -> Binding {
        binding(&self.interface, &self.options, self.way, queue)
    }

    /// An unbound socket.
    pub(crate) fn socket(&self) -> Result<Fd, Refusal> {
        match self.spare.lock().pop() {
            Some(fd) => Ok(fd),
            None => af_xdp(),
        }
    }

    /// Has an unbound socket for each queue at hand, as far as they can be made.
    pub(super) fn prepare(&self) {
        let mut spare = self.spare.lock();
        while spare.len() < self.interface.queues as usize
            && let Ok(fd) = af_xdp()
        {
            spare.push(fd);
        }
    }

    /// The anchors; none in the family of a process that could not make them.
    pub(super) fn anchors(&self) -> &[Anchor] {
        self.anchors.get().map_or(&[], Vec::as_slice)
    }

    /// Makes the anchors beside the sockets of a lane of this process, one for each queue.
    pub(super) fn make_anchors<'a>(&self, sockets: impl Iterator<Item = &'a Fd>) {
        if self.anchors.get().is_some() {
            return;
        }
        let made =
            (0..).zip(sockets).map(|(queue, of)| Anchor::open(self.socket()?, self.binding(queue), of));
        // Without them children use the kernel; the next fork tries again.
        if let Ok(anchors) = made.collect::<Result<Vec<_>, Refusal>>() {
            let _ = self.anchors.set(anchors);
        }
    }

    /// May packets be sent that are to be cut, as far as is known before it was tried?
    pub(super) fn may_cut(&self) -> bool {
        self.options.large && caps::cuts(&self.interface, self.way) && !matches!(self.large.get(), Some(None))
    }

    /// What sends packets to be cut. Without it (seccomp, a namespace without the privilege) frames do. `beside` is a
    /// socket of the interface's. Callers hold the lane's lock.
    pub(super) fn large(&self, beside: &Fd) -> Option<&Fd> {
        self.large
            .get_or_init(|| self.may_cut().then(|| large::open(&self.interface, beside).ok()).flatten())
            .as_ref()
    }

    /// Opens what sends for the dead. `beside` is a socket of the interface's.
    pub(super) fn raw(&self, beside: &Fd) {
        self.raw.get_or_init(|| {
            let raw = sys::socket::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW).ok()?;
            (large::namespace(&raw) == large::namespace(beside)).then_some(raw)
        });
    }

    /// Descriptors that the kernel takes its time to close.
    pub(super) fn slow_to_close(&self) -> impl Iterator<Item = &Fd> {
        let anchors = self.anchors().iter().map(|anchor| &anchor.fd);
        core::iter::once(&self.link).chain(anchors).chain(self.large.get().and_then(Option::as_ref))
    }
}

pub(super) fn binding(interface: &Interface, options: &Options, way: Way, queue: u32) -> Binding {
    Binding { interface: interface.index, queue, rx_ring: options.rx_ring, tx_ring: options.tx_ring, way }
}

/// A parent's device in the child of a fork: what it takes to open one's own.
#[derive(Clone)]
pub struct Inherited {
    pub(crate) shared: Arc<Shared>,
}

impl Inherited {
    pub(super) fn new(shared: &Arc<Shared>, child: &sys::InChild) -> Inherited {
        let inherited = Inherited { shared: shared.clone() };
        inherited.after_fork(child);
        inherited
    }

    /// In the child of a fork, where the parent had not opened a device of its own yet.
    pub fn after_fork(&self, child: &sys::InChild) {
        // Nothing is done under this lock that could be half done.
        self.shared.spare.force_unlock(child);
        // Those are the parent's: a socket is one lane's.
        self.shared.spare.lock().clear();
        self.shared.arena.after_fork();
        self.shared.owner.after_fork(child);
        self.shared.is_inherited.store(true, Ordering::Relaxed);
    }

    /// Makes sockets now, for a process that may give up the privilege before it opens its device.
    pub fn prepare(&self) {
        self.shared.prepare();
    }

    /// The interface's index.
    pub fn index(&self) -> u32 {
        self.shared.interface.index
    }
}
