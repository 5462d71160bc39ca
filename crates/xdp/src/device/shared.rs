//! What all processes on one interface share: program, maps, arena, and the anchors of its queues.
//!
//! The first process makes it, as far as there is need; children of a fork inherit its descriptors. A lane's own
//! sockets are not part of it, and a child closes its copies of them at once: a socket that only a child still holds
//! would take packets for nobody. The program stays attached until the last process that has this is gone.

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};

use sys::afterwards::Hold;
use sys::{Fd, Mutex};

use super::open::Attached;
use super::{Options, Queue, large};
use crate::arena::Arena;
use crate::caps::{self, Way};
use crate::interface::Interface;
use crate::owner::Owner;
use crate::socket::{Anchor, Binding, af_xdp};
use crate::steering::Steering;
use crate::{Refusal, bpf};

/// See the module's page.
pub(crate) struct Shared {
    // Dropped in this order: no packet comes any more, then the sockets go.
    /// `None` in the child of a fork during which it was being changed.
    pub(super) link: Mutex<Option<Fd>>,
    pub(super) program: Fd,
    /// The program is not on the interface (`hook.rs`).
    pub(super) is_off: AtomicBool,
    /// The program is in the driver's own hook.
    pub(super) native: AtomicBool,
    /// What the kernel switched off for it is given back when nobody has this any more.
    pub(super) offloads: Option<Hold>,
    /// A socket on each queue that further lanes bind their own by. Made before the first of them, or the first fork: a
    /// bound socket costs a grace period when it is closed.
    pub(super) anchors: OnceLock<Vec<Anchor>>,
    pub(crate) steering: Steering,
    pub(crate) arena: Arc<Arena>,
    pub(crate) interface: Interface,
    pub(crate) options: Options,
    pub(crate) way: Way,
    pub(super) owner: Arc<Owner>,
    /// Another process handed it out: the keeper, which holds it for many, or one that forked this one.
    pub(super) is_kept: bool,
    /// It was the latter.
    pub(super) is_of_family: bool,
    /// Sockets that it has bound for a lane of this process, the first queue's last.
    pub(super) bound: Mutex<Vec<Fd>>,
    /// This process did not make it: it is a child of the one that did, or the keeper has it.
    pub(crate) is_inherited: AtomicBool,
    /// Sends what is to be cut; opened when that is needed, or before the privilege for it may go.
    pub(super) large: OnceLock<Option<Fd>>,
    /// Sockets not bound yet, for the anchors, made while the process may make them.
    pub(super) spare: Mutex<Vec<Fd>>,
    /// The keeper that has the sockets of this process.
    pub(super) known_to: AtomicI32,
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
            link: Mutex::new(Some(program.link)),
            program: program.program,
            is_off: AtomicBool::new(false),
            native: AtomicBool::new(way.native),
            offloads: program.offloads,
            anchors: OnceLock::new(),
            steering: program.steering,
            arena,
            interface: interface.clone(),
            options,
            way,
            owner,
            is_kept: false,
            is_of_family: false,
            bound: Mutex::new(Vec::new()),
            is_inherited: AtomicBool::new(false),
            large: OnceLock::new(),
            spare: Mutex::new(Vec::new()),
            known_to: AtomicI32::new(0),
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
    pub(super) fn make_anchors(&self, queues: &[Queue]) {
        // The program is on, and stays.
        let _ = self.put_on();
        let _link = self.link.lock();
        if self.anchors.get().is_some() {
            return;
        }
        let made = (0..)
            .zip(queues)
            .map(|(queue, of)| Anchor::open(self.socket()?, self.binding(queue), &of.socket.fd, &of.rings));
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

    /// Descriptors that the kernel takes its time to close.
    pub(super) fn slow_to_close(&self) -> Vec<i32> {
        let anchors = self.anchors().iter().map(|anchor| &anchor.fd);
        let all = anchors.chain(self.large.get().and_then(Option::as_ref)).map(Fd::raw);
        self.link.lock().iter().map(Fd::raw).chain(all).collect()
    }

    /// Is the program in the driver's own hook?
    pub(super) fn is_native(&self) -> bool {
        self.native.load(Ordering::Relaxed)
    }

    /// Have there been others, children or threads, which may have lanes?
    pub(super) fn has_family(&self) -> bool {
        self.anchors.get().is_some()
    }

    /// Takes the program out of the driver's hook, and puts it into the generic one. Where that cannot be, or frames
    /// are the driver's (zero-copy), it is gone.
    pub(super) fn move_to_generic(&self) -> sys::Result<()> {
        let mut link = self.link.lock();
        bpf::link_detach(link.as_ref().ok_or(libc::ENODEV)?)?;
        self.native.store(false, Ordering::Relaxed);
        if self.way.zero_copy {
            return Err(libc::EOPNOTSUPP);
        }
        *link = Some(bpf::link_create(&self.program, self.interface.index, bpf::FLAG_GENERIC)?);
        Ok(())
    }
}

pub(super) fn binding(interface: &Interface, options: &Options, way: Way, queue: u32) -> Binding {
    let (rx_ring, tx_ring) = (options.rx_ring, options.tx_ring);
    // Half of the arena at the most: the rest is for sending, and for what the application has not read yet.
    let post_max = rx_ring.min(options.frames / 2 / interface.queues.max(1)).max(1);
    Binding { interface: interface.index, queue, rx_ring, tx_ring, post_max, way }
}

/// Frames that an arena is made with, of so many queues.
pub(super) fn arena_frames(options: &Options, queues: u32) -> u32 {
    match options.frames {
        0 => (2 * options.rx_ring).saturating_mul(queues).clamp(4096, 16_384),
        asked => asked.max(256),
    }
}

/// A device as others see it, children of a fork or further threads: what it takes to open one's own.
#[derive(Clone)]
pub struct Inherited {
    pub(crate) shared: Arc<Shared>,
}

impl Inherited {
    /// Whether it was handed out. A child asks for sockets of its own, too.
    pub fn is_kept(&self) -> bool {
        self.shared.is_kept
    }

    pub(super) fn new(shared: &Arc<Shared>, child: &sys::InChild) -> Inherited {
        let inherited = Inherited { shared: shared.clone() };
        inherited.after_fork(child);
        inherited
    }

    /// In the child of a fork, where the parent had not opened a device of its own yet.
    pub fn after_fork(&self, child: &sys::InChild) {
        self.shared.link.take_over(child);
        self.shared.spare.take_over(child);
        // Those are the parent's: a socket is one lane's.
        self.shared.spare.lock().clear();
        self.shared.bound.take_over(child);
        self.shared.bound.lock().clear();
        sys::thread::after_fork();
        self.shared.owner.after_fork(child);
        self.shared.is_inherited.store(true, Ordering::Relaxed);
    }

    /// The interface's index.
    pub fn index(&self) -> u32 {
        self.shared.interface.index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_fits_the_receive_rings_unless_its_frames_were_asked_for() {
        let frames = |frames, rx_ring, queues| {
            arena_frames(&Options { frames, rx_ring, ..Options::default() }, queues)
        };
        assert_eq!([1, 2, 4, 64].map(|queues| frames(0, 2048, queues)), [4096, 8192, 16_384, 16_384]);
        assert_eq!((frames(0, 64, 1), frames(0, 65_536, u32::MAX)), (4096, 16_384));
        assert_eq!((frames(1, 2048, 1), frames(1 << 20, 2048, 1)), (256, 1 << 20));
    }
}
