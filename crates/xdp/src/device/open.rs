//! Opening: the program on the interface, the arena, a socket on each queue.
//!
//! Nearly all of the time goes to a grace period of the kernel's, which it waits for when a program is attached
//! (bpf_dispatcher_change_prog), and to the arena's memory. Neither needs the other, so they are had beside each other.

use std::sync::Arc;

use sys::afterwards::Hold;
use sys::{Fd, Result as SysResult};

use super::half_open::Untold;
use super::shared::{Shared, arena_frames, binding};
use super::{Device, Inherited, Options, Queue, kept, transmit, watch};
use crate::arena::{Arena, LANES};
use crate::caps::{self, Way};
use crate::flood::{Answers, Flood};
use crate::interface::Interface;
use crate::offloads::Offloads;
use crate::owner::Owner;
use crate::pool::Pool;
use crate::socket::{Binding, Origin, Socket, af_xdp};
use crate::steering::Steering;
use crate::{Refusal, bpf, query};

/// Room for the further chunks of a packet: those of a local peer have 18 in all, and a turn must not allocate.
const TAIL: usize = 32;

/// The program on an interface, with its maps.
pub(super) struct Attached {
    pub(super) program: Fd,
    pub(super) link: Fd,
    /// What the kernel switched off for it.
    pub(super) offloads: Option<Hold>,
    pub(super) steering: Steering,
}

impl Device {
    /// Takes all queues of an interface and attaches the program. Waits for a predecessor that is gone to disappear.
    pub fn open(interface: &str, options: &Options) -> Result<Device, Refusal> {
        let (shared, queues) = open_shared(interface, options)?;
        Self::first(shared, queues)
    }

    fn first(shared: Arc<Shared>, queues: Vec<Queue>) -> Result<Device, Refusal> {
        let watch = watch::Watch::new(shared.interface.queues);
        let mut device = Self::join(shared, queues)?;
        device.watch = Some(watch);
        Ok(device)
    }

    #[cfg(test)]
    pub(super) fn open_by(
        interface: &Interface,
        options: &Options,
        way: Way,
        owner: &Arc<Owner>,
    ) -> Result<Device, Refusal> {
        let (shared, queues) = open_by(interface, options, way, owner)?;
        Self::first(shared, queues)
    }

    /// Opens a device beside that of the parent, or of another thread: own sockets and lane, shared arena, queues and
    /// program.
    pub fn attach(inherited: &Inherited) -> Result<Device, Refusal> {
        let shared = inherited.shared.clone();
        if shared.arena.is_in_other_pid_namespace() {
            return Err(Refusal::OtherPidNamespace);
        }
        let mut queues = Vec::new();
        for (queue, anchor) in (0..).zip(shared.anchors()) {
            let (socket, origin) = match shared.bound.lock().pop() {
                Some(bound) => (bound, Origin::Bound(anchor)),
                None => (shared.socket()?, Origin::Queue(anchor)),
            };
            queues.push(Queue::open(socket, shared.binding(queue), origin)?);
        }
        if queues.is_empty() {
            return Err(Refusal::System { call: "bind(AF_XDP)", errno: libc::EBADF });
        }
        Self::join(shared, queues)
    }

    fn join(shared: Arc<Shared>, queues: Vec<Queue>) -> Result<Device, Refusal> {
        let arena = shared.arena.clone();
        let (lane, half_open) = number(&shared).map_err(|errno| Refusal::System { call: "join", errno })?;
        for (queue, of) in (0..).zip(&queues) {
            let inserted = shared.steering.insert_socket(lane, queue, &of.socket.fd);
            inserted.map_err(|errno| caps::program_refused("bpf(BPF_MAP_UPDATE_ELEM)", errno))?;
        }
        let frames = arena.frames();
        let mut device = Device {
            bell: Arc::new(transmit::Bell::new(queues[0].socket.fd.raw())),
            descriptors: queues.iter().map(|queue| queue.socket.fd.raw()).collect(),
            queues,
            pool: Pool::leak(arena),
            lane,
            free: Vec::with_capacity(frames as usize),
            post_max: shared.binding(0).post_max,
            tail: Vec::with_capacity(TAIL),
            next_queue: 0,
            transmit: transmit::Transmit::new(frames, shared.may_cut()),
            half_open,
            watch: None,
            tap: None,
            shared,
        };
        device.fill_all();
        Ok(device)
    }
}

/// A lane's number. Where all are used, some may be those of the dead, whom the keeper buries at once, and others'
/// relatives once a second; their peers are this one's to tell then.
fn number(shared: &Shared) -> SysResult<(u32, Untold)> {
    let mut half_open = Untold::default();
    let number = match shared.arena.join() {
        Err(libc::EAGAIN) if !shared.is_tended() => {
            half_open.extend(kept::bury(shared));
            shared.arena.join()?
        }
        number => number?,
    };
    Ok((number, half_open))
}

/// Takes all queues of an interface, and attaches the program. Waits for a predecessor that is gone to disappear.
pub(super) fn open_shared(interface: &str, options: &Options) -> Result<(Arc<Shared>, Vec<Queue>), Refusal> {
    let found = caps::find(interface)?;
    let owner = Arc::new(Owner::claim(found.index)?);
    let carrier = query::has_carrier(found.index);
    let mut outcome = Err(Refusal::NotEthernet);
    for &way in caps::ways(&found, options.mode) {
        outcome = open_by(&found, options, way, &owner);
        match outcome {
            // The driver cannot do it this way (too many or too few queues, MTU, no hook): try the next.
            Err(Refusal::System { .. }) => {}
            _ => break,
        }
    }
    if carrier == Some(true) && outcome.as_ref().is_ok_and(|(shared, _)| shared.is_native()) {
        wait_for_carrier(found.index);
    }
    outcome
}

fn open_by(
    interface: &Interface,
    options: &Options,
    way: Way,
    owner: &Arc<Owner>,
) -> Result<(Arc<Shared>, Vec<Queue>), Refusal> {
    let options = Options {
        rx_ring: options.rx_ring.next_power_of_two(),
        tx_ring: options.tx_ring.next_power_of_two(),
        frames: arena_frames(options, interface.queues),
        ..*options
    };
    let (queues, program) = if way.native {
        // Each resets a driver's queues: the sockets first, and the program only where they could be had.
        let queues = first_queues(interface, &options, way, owner)?;
        (Ok(queues), attach_program(interface, &options, way, owner))
    } else {
        sys::thread::beside(
            || first_queues(interface, &options, way, owner),
            || attach_program(interface, &options, way, owner),
        )
    };
    // Another owner is told by its queue, which says more than its program.
    let (arena, queues) = queues?;
    let shared = Shared::new(interface, options, way, owner.clone(), arena, program?);
    // For the anchors, once the process may have given up the privilege.
    shared.prepare();
    Ok((Arc::new(shared), queues))
}

impl Queue {
    pub(super) fn open(socket: Fd, binding: Binding, origin: Origin<'_>) -> Result<Queue, Refusal> {
        let (socket, rings) = Socket::open(socket, binding, origin)?;
        let (fill, completion) = rings.cursors();
        Ok(Queue { socket, rings, fill, completion, head: None, tail: Vec::with_capacity(TAIL), taken: 0 })
    }
}

/// Some drivers take the link down when a program comes. What is sent meanwhile is lost, and the kernel finds no
/// neighbour.
fn wait_for_carrier(interface: u32) {
    /// Network cards negotiate for two to four seconds.
    const PATIENCE_NS: u64 = 10_000_000_000;
    const PAUSE_NS: u64 = 5_000_000;
    let until = sys::clock::monotonic() + PATIENCE_NS;
    while query::has_carrier(interface) == Some(false) && sys::clock::monotonic() < until {
        sys::thread::sleep(PAUSE_NS);
    }
}

/// An arena, and the first socket on each queue.
fn first_queues(
    interface: &Interface,
    options: &Options,
    way: Way,
    owner: &Owner,
) -> Result<(Arc<Arena>, Vec<Queue>), Refusal> {
    // Asked for first: without the privilege the memory would be had for nothing.
    let sockets = (0..interface.queues).map(|_| af_xdp()).collect::<Result<Vec<_>, _>>()?;
    let arena = Arena::create_in(options.frames, options.huge_pages).map_err(|errno| match errno {
        libc::ENOMEM => Refusal::NoMemory,
        errno => Refusal::System { call: "memfd_create", errno },
    })?;
    let mut queues: Vec<Queue> = Vec::new();
    for (queue, socket) in (0..).zip(sockets) {
        let origin = match queues.first() {
            None => Origin::Arena(&arena, owner),
            Some(first) => Origin::Interface(&arena, &first.socket.fd, owner),
        };
        let opened = Queue::open(socket, binding(interface, options, way, queue), origin)?;
        queues.push(opened);
    }
    Ok((Arc::new(arena), queues))
}

fn attach_program(
    interface: &Interface,
    options: &Options,
    way: Way,
    owner: &Owner,
) -> Result<Attached, Refusal> {
    let system = |call| move |errno| caps::program_refused(call, errno);
    // veth's native hook sends to a peer that polls, which is one that receives by XDP or GRO; others never see it.
    let can_answer = !(way.native && interface.driver == "veth");
    let mss = if can_answer { options.answer_mss } else { 0 };
    let answers = Answers { mss, mac: interface.mac };
    let steering = Flood::create(options.rx_ring, answers)
        .and_then(|flood| Steering::create(LANES as u32, interface.queues_max, flood))
        .map_err(system("bpf(BPF_MAP_CREATE)"))?;
    let program = steering.load_program(way.multi_buffer).map_err(system("bpf(BPF_PROG_LOAD)"))?;
    // Before they are switched off: whoever is killed then has left that behind already.
    let offloads = Offloads::merging(interface.index).hold(interface.index);
    let link = link(&program, interface, way, owner)?;
    Ok(Attached { program, link, offloads, steering })
}

fn link(program: &Fd, interface: &Interface, way: Way, owner: &Owner) -> Result<Fd, Refusal> {
    let flags = if way.native { bpf::FLAG_NATIVE } else { bpf::FLAG_GENERIC };
    let attached: SysResult<Fd> = owner.retry_busy(|| bpf::link_create(program, interface.index, flags));
    attached.map_err(|errno| match errno {
        libc::EBUSY | libc::EEXIST => {
            Refusal::ForeignProgram { id: query::xdp_program(interface.index).unwrap_or(0) }
        }
        libc::ENODEV => Refusal::NoSuchInterface,
        errno => caps::program_refused("bpf(BPF_LINK_CREATE)", errno),
    })
}
