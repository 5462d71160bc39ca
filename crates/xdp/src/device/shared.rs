//! What all processes on one interface share: program, maps, arena, and the anchors of its queues.
//!
//! The first process makes it; children of a fork inherit its descriptors. A lane's own sockets are not part of it, and
//! a child closes its copies of them at once: a socket that only a child still holds would take packets for nobody.
//! The program stays attached until the last process that has this is gone.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use sys::{Fd, Mutex};

use super::{Options, attach, large};
use crate::Refusal;
use crate::arena::{Arena, LANES};
use crate::caps::{self, Way};
use crate::flood::{Answers, Flood};
use crate::interface::Interface;
use crate::socket::{Anchor, Binding, af_xdp};
use crate::steering::Steering;

/// See the module's page.
pub(crate) struct Shared {
    // Dropped in this order: no packet comes any more, then the sockets go.
    _link: Fd,
    pub(crate) anchors: Vec<Anchor>,
    pub(crate) steering: Steering,
    pub(crate) arena: Arena,
    pub(crate) interface: Interface,
    pub(crate) options: Options,
    pub(crate) way: Way,
    /// This process is a child of the one that made it.
    pub(crate) is_inherited: AtomicBool,
    /// Sends what is to be cut.
    pub(super) large: Option<Fd>,
    /// Sockets not bound yet, made while the process may make them: workers drop their privilege.
    spare: Mutex<Vec<Fd>>,
}

impl Shared {
    /// Takes all queues of an interface and attaches the program.
    pub(crate) fn open(interface: &Interface, options: &Options, way: Way) -> Result<Shared, Refusal> {
        let arena = Arena::create(options.frames.max(256)).map_err(|errno| match errno {
            libc::ENOMEM => Refusal::NoMemory,
            errno => Refusal::System { call: "memfd_create", errno },
        })?;
        let options = Options {
            rx_ring: options.rx_ring.next_power_of_two(),
            tx_ring: options.tx_ring.next_power_of_two(),
            ..*options
        };
        let mut anchors: Vec<Anchor> = Vec::new();
        for queue in 0..interface.queues {
            let binding = binding(interface, &options, way, queue);
            anchors.push(Anchor::open(binding, &arena, anchors.first())?);
        }
        let system = |call| move |errno| caps::program_refused(call, errno);
        let lanes = LANES as u32;
        // veth's native hook sends to a peer that polls, which is one that receives by XDP or GRO; others never see it.
        let can_answer = !(way.native && interface.driver == "veth");
        let mss = if can_answer { options.answer_mss } else { 0 };
        let answers = Answers { mss, mac: interface.mac };
        let steering = Flood::create(options.rx_ring, answers)
            .and_then(|flood| Steering::create(lanes, interface.queues, flood))
            .map_err(system("bpf(BPF_MAP_CREATE)"))?;
        let program = steering.load_program(way.multi_buffer).map_err(system("bpf(BPF_PROG_LOAD)"))?;
        Ok(Shared {
            _link: attach(&program, interface, way)?,
            anchors,
            steering,
            arena,
            interface: interface.clone(),
            options,
            way,
            is_inherited: AtomicBool::new(false),
            // Without it (seccomp, a namespace without the privilege) frames do.
            large: (options.large && caps::cuts(interface, way))
                .then(|| large::open(interface).ok())
                .flatten(),
            spare: Mutex::new(Vec::new()),
        })
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
}

fn binding(interface: &Interface, options: &Options, way: Way, queue: u32) -> Binding {
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
        self.shared.is_inherited.store(true, Ordering::Relaxed);
    }

    /// Makes sockets now, for a process that may give up the privilege before it opens its device.
    pub fn prepare(&self) {
        let mut spare = self.shared.spare.lock();
        while spare.len() < self.shared.anchors.len()
            && let Ok(fd) = af_xdp()
        {
            spare.push(fd);
        }
    }

    /// The interface's index.
    pub fn index(&self) -> u32 {
        self.shared.interface.index
    }
}
