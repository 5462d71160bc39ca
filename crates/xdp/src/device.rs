//! An interface under our program: opened, asked, steered. Packets are moved in `receive` and `transmit`.

mod receive;
mod transmit;

use sys::{Fd, Result as SysResult};

use crate::arena::Arena;
use crate::caps::{self, Way};
use crate::interface::Interface;
use crate::pool::{Pool, RxFrame};
use crate::socket::{BUSY_PATIENCE_NS, Binding, Socket, retry_busy};
use crate::steering::Steering;
use crate::{Flow, Mode, Refusal, Statistics, bpf, query};

/// How a device is opened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Where the program is attached.
    pub mode: Mode,
    /// Frames of the arena (4096 bytes each), for all queues together: half of them are posted for receiving at
    /// most, the rest is for sending and for what the application has not read yet.
    pub frames: u32,
    /// Entries of each receive ring; a power of two.
    pub rx_ring: u32,
    /// Entries of each transmit ring; a power of two.
    pub tx_ring: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { mode: Mode::Auto, frames: 8192, rx_ring: 2048, tx_ring: 1024 }
    }
}

/// An interface under our program. Used under one lock by its owner (the lane), but for [`Device::steer`] and
/// [`Device::unsteer`].
///
/// Dropping it detaches the program: from then on the kernel gets all packets. [`RxFrame`]s may outlive it, so the
/// arena stays mapped for the life of the process. In the child of a fork, dropping it (and frames) closes the
/// child's descriptors and leaves the parent's device alone; nothing else may be called there.
pub struct Device {
    // Dropped in this order: no packet comes any more, then the sockets go.
    _link: Fd,
    queues: Vec<Queue>,
    steering: Steering,
    descriptors: Vec<i32>,
    pool: &'static Pool,
    /// Our number in the arena: the owner of our frames.
    lane: u32,
    /// Free frames of ours.
    free: Vec<u32>,
    /// Frames that may be posted in one fill ring.
    post_max: u32,
    /// Further chunks of a packet, as `receive` hands them on.
    tail: Vec<RxFrame>,
    /// The queue to look at first, in turn.
    next_queue: usize,
    transmit: transmit::Transmit,
    interface: Interface,
    way: Way,
}

/// A socket on one queue, and the packet that is being put together from its descriptors.
struct Queue {
    socket: Socket,
    head: Option<RxFrame>,
    tail: Vec<RxFrame>,
    /// Received since the fill ring was filled last.
    taken: u32,
}

impl Device {
    /// Takes all queues of an interface and attaches the program. Waits up to 150 ms for a predecessor that was
    /// killed to disappear.
    pub fn open(interface: &str, options: &Options) -> Result<Device, Refusal> {
        let found = caps::find(interface)?;
        let mut outcome = Err(Refusal::NotEthernet);
        for &way in caps::ways(&found, options.mode) {
            outcome = Self::open_by(&found, options, way);
            match outcome {
                // The driver cannot do it this way (too many or too few queues, MTU, no hook): try the next.
                Err(Refusal::System { .. }) => {}
                _ => break,
            }
        }
        outcome
    }

    fn open_by(interface: &Interface, options: &Options, way: Way) -> Result<Device, Refusal> {
        let frames = options.frames.max(256);
        let arena = Arena::create(frames).map_err(|errno| match errno {
            libc::ENOMEM => Refusal::NoMemory,
            errno => Refusal::System { call: "memfd_create", errno },
        })?;
        let system = |call| move |errno| caps::program_refused(call, errno);
        let queues = open_queues(interface, options, way, &arena)?;
        let steering = Steering::create(1, interface.queues).map_err(system("bpf(BPF_MAP_CREATE)"))?;
        for (queue, of) in (0..).zip(&queues) {
            steering.insert_socket(0, queue, &of.socket.fd).map_err(system("bpf(BPF_MAP_UPDATE_ELEM)"))?;
        }
        let program = steering.load_program(way.multi_buffer).map_err(system("bpf(BPF_PROG_LOAD)"))?;
        let lane = arena.join().map_err(system("join"))?;
        let descriptors = queues.iter().map(|queue| queue.socket.fd.raw()).collect();
        let post_max = options.rx_ring.min(frames / 2 / interface.queues.max(1)).max(1);
        let mut device = Device {
            _link: attach(&program, interface, way)?,
            queues,
            steering,
            descriptors,
            pool: Pool::leak(arena),
            lane,
            free: Vec::with_capacity(frames as usize),
            post_max,
            tail: Vec::with_capacity(TAIL),
            next_queue: 0,
            transmit: transmit::Transmit::new(frames),
            interface: interface.clone(),
            way,
        };
        device.fill_all();
        Ok(device)
    }

    /// Where the program is attached: `Native` or `Generic`.
    pub fn mode(&self) -> Mode {
        if self.way.native { Mode::Native } else { Mode::Generic }
    }

    /// Do packets move without a copy?
    pub fn is_zero_copy(&self) -> bool {
        self.queues[0].socket.is_zero_copy()
    }

    /// The interface's index.
    pub fn index(&self) -> u32 {
        self.interface.index
    }

    /// The interface's address at the time of opening.
    pub fn mac(&self) -> [u8; 6] {
        self.interface.mac
    }

    /// The interface's MTU at the time of opening.
    pub fn mtu(&self) -> u32 {
        self.interface.mtu
    }

    /// A virtual device whose kernel peers leave partial checksums: their TCP and UDP checksum fields may hold the
    /// sum of the pseudo header only. (In the generic hook any driver may have left the checksum to us.)
    pub fn checksums_may_be_partial(&self) -> bool {
        self.interface.driver == "veth" || !self.way.native
    }

    /// May packets arrive that are larger than a frame, with a tail? Else a local peer's segmentation offload is off.
    pub fn takes_super_frames(&self) -> bool {
        self.way.multi_buffer
    }

    /// Frames of the arena.
    pub fn frames(&self) -> u32 {
        self.pool.arena.frames()
    }

    /// The AF_XDP sockets: each is readable (level-triggered) while its receive ring holds something.
    pub fn descriptors(&self) -> &[i32] {
        &self.descriptors
    }

    /// From now on packets of this flow come to us. Any thread, any time. `Err` is errno (E2BIG: too many flows).
    pub fn steer(&self, flow: Flow) -> SysResult<()> {
        self.steering.steer(&flow, 0, 1)
    }

    /// From now on packets of this flow go to the kernel.
    pub fn unsteer(&self, flow: Flow) {
        self.steering.unsteer(&flow);
    }

    /// Packets and bytes that the program redirected for a flow; `None` if it is not steered.
    pub fn flow_counters(&self, flow: Flow) -> Option<(u64, u64)> {
        self.steering.counters(&flow)
    }

    /// What the kernel counted, summed over the queues.
    pub fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        for queue in &self.queues {
            sum.add(&queue.socket.fd);
        }
        sum
    }
}

fn open_queues(
    interface: &Interface,
    options: &Options,
    way: Way,
    arena: &Arena,
) -> Result<Vec<Queue>, Refusal> {
    let mut queues: Vec<Queue> = Vec::new();
    for queue in 0..interface.queues {
        let binding = Binding {
            interface: interface.index,
            queue,
            rx_ring: options.rx_ring.next_power_of_two(),
            tx_ring: options.tx_ring.next_power_of_two(),
            way,
        };
        let socket = Socket::open(binding, arena, queues.first().map(|first| &first.socket))?;
        queues.push(Queue { socket, head: None, tail: Vec::with_capacity(TAIL), taken: 0 });
    }
    Ok(queues)
}

fn attach(program: &Fd, interface: &Interface, way: Way) -> Result<Fd, Refusal> {
    let flags = if way.native { bpf::FLAG_NATIVE } else { bpf::FLAG_GENERIC };
    let give_up = sys::clock::monotonic() + BUSY_PATIENCE_NS;
    retry_busy(give_up, || bpf::link_create(program, interface.index, flags)).map_err(|errno| match errno {
        libc::EBUSY | libc::EEXIST => {
            Refusal::ForeignProgram { id: query::xdp_program(interface.index).unwrap_or(0) }
        }
        libc::ENODEV => Refusal::NoSuchInterface,
        errno => caps::program_refused("bpf(BPF_LINK_CREATE)", errno),
    })
}

/// Room for the further chunks of a packet: those of a local peer have 18 in all, and a turn must not allocate.
const TAIL: usize = 32;

#[cfg(test)]
mod tests;
