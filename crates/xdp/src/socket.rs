//! AF_XDP sockets: a lane's own, with the rings that all lanes of its queue share, and the anchor of a queue.

use sys::memory::Mapping;
use sys::socket::{option, set_option};
use sys::{Fd, Result};

use crate::Refusal;
use crate::arena::{Arena, FRAME};
use crate::caps::Way;
use crate::if_xdp::*;
use crate::owner::Owner;
use crate::rings::Ring;

/// Send buffer of a copying socket, in bytes: packets in flight must not stop at the system's default.
const SEND_BUFFER: i32 = 8 << 20;
const SO_SNDBUFFORCE: i32 = 32;

/// What to bind to, and how.
#[derive(Clone, Copy)]
pub(crate) struct Binding {
    pub(crate) interface: u32,
    pub(crate) queue: u32,
    pub(crate) rx_ring: u32,
    pub(crate) tx_ring: u32,
    pub(crate) way: Way,
}

/// Where a socket has the fill and completion rings of its queue from.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// They are its own, and it registers the arena: the first socket of an interface.
    Arena(&'a Arena, &'a Owner),
    /// They are its own, over the arena of that first socket: the first one of another queue.
    Interface(&'a Fd, &'a Owner),
    /// They are those of a socket on the same queue.
    Queue(&'a Fd),
}

/// A socket that takes no packets: it holds a queue for processes that have no other socket of it. Lanes of children
/// bind to the queue by it, and come and go without it.
#[derive(Debug)]
pub(crate) struct Anchor {
    pub(crate) fd: Fd,
}

/// A lane's socket on one queue.
pub(crate) struct Socket {
    pub(crate) fd: Fd,
    pub(crate) rx: Ring<Desc>,
    pub(crate) tx: Ring<Desc>,
}

impl Anchor {
    /// Makes an anchor out of an unbound socket, beside the socket `of` on the same queue.
    pub(crate) fn open(fd: Fd, binding: Binding, of: &Fd) -> core::result::Result<Anchor, Refusal> {
        // The kernel binds no socket without a ring of its own.
        set_option(fd.raw(), SOL_XDP, XDP_RX_RING, &1u32).map_err(rings_refused)?;
        bind(&fd, binding, Origin::Queue(of))?;
        Ok(Anchor { fd })
    }
}

/// The fill and completion rings of the queue that a socket is bound to, for the caller to use in turn with others.
pub(crate) fn rings_of_queue(socket: &Fd, binding: Binding) -> Result<(Ring<u64>, Ring<u64>)> {
    let (fill, completion, entry) = (binding.rx_ring, binding.tx_ring, size_of::<u64>());
    let offsets = option(socket.raw(), SOL_XDP, XDP_MMAP_OFFSETS, MmapOffsets::default())?;
    let fill_map = map(socket, &offsets.fill, fill, entry, XDP_UMEM_PGOFF_FILL_RING)?;
    let completion_map = map(socket, &offsets.completion, completion, entry, XDP_UMEM_PGOFF_COMPLETION_RING)?;
    // SAFETY: each mapping is made with the offsets, page offset, entry type and size of its own ring.
    unsafe {
        Ok((
            Ring::new(fill_map, &offsets.fill, fill),
            Ring::new(completion_map, &offsets.completion, completion),
        ))
    }
}

/// A socket that is not bound yet.
pub(crate) fn af_xdp() -> core::result::Result<Fd, Refusal> {
    let fd = sys::socket::socket(libc::AF_XDP, libc::SOCK_RAW, 0).map_err(|errno| match errno {
        libc::EPERM => Refusal::NoPrivilege,
        libc::EAFNOSUPPORT => Refusal::NoAfXdp,
        errno => Refusal::System { call: "socket(AF_XDP)", errno },
    })?;
    // May fail without harm: the kernel's default works, more slowly.
    let _ = set_option(fd.raw(), libc::SOL_SOCKET, SO_SNDBUFFORCE, &SEND_BUFFER);
    Ok(fd)
}

fn rings_refused(errno: i32) -> Refusal {
    match errno {
        libc::ENOMEM | libc::ENOBUFS => Refusal::NoMemory,
        errno => Refusal::System { call: "setsockopt(SOL_XDP)", errno },
    }
}

impl Socket {
    /// Makes a lane's socket out of an unbound one.
    pub(crate) fn open(
        fd: Fd,
        binding: Binding,
        origin: Origin<'_>,
    ) -> core::result::Result<Socket, Refusal> {
        if let Origin::Arena(arena, _) = origin {
            register(&fd, arena)?;
        }
        if !matches!(origin, Origin::Queue(_)) {
            let rings = [(XDP_UMEM_FILL_RING, binding.rx_ring), (XDP_UMEM_COMPLETION_RING, binding.tx_ring)];
            for (ring, size) in rings {
                set_option(fd.raw(), SOL_XDP, ring, &size).map_err(rings_refused)?;
            }
        }
        let socket = Self::with_rings(fd, binding).map_err(rings_refused)?;
        bind(&socket.fd, binding, origin)?;
        // May fail without harm, as above.
        let _ = set_option(socket.fd.raw(), SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &binding.tx_ring);
        Ok(socket)
    }

    fn with_rings(fd: Fd, binding: Binding) -> Result<Socket> {
        let (rx, tx) = (binding.rx_ring, binding.tx_ring);
        set_option(fd.raw(), SOL_XDP, XDP_RX_RING, &rx)?;
        set_option(fd.raw(), SOL_XDP, XDP_TX_RING, &tx)?;
        let offsets = option(fd.raw(), SOL_XDP, XDP_MMAP_OFFSETS, MmapOffsets::default())?;
        let descs = size_of::<Desc>();
        // SAFETY: each mapping is made with the offsets, page offset, entry type and size of its own ring.
        unsafe {
            Ok(Socket {
                rx: Ring::new(map(&fd, &offsets.rx, rx, descs, XDP_PGOFF_RX_RING)?, &offsets.rx, rx),
                tx: Ring::new(map(&fd, &offsets.tx, tx, descs, XDP_PGOFF_TX_RING)?, &offsets.tx, tx),
                fd,
            })
        }
    }

    /// Does the driver move packets without a copy?
    pub(crate) fn is_zero_copy(&self) -> bool {
        option(self.fd.raw(), SOL_XDP, XDP_OPTIONS, 0u32).unwrap_or(0) & XDP_OPTIONS_ZEROCOPY != 0
    }
}

fn bind(fd: &Fd, binding: Binding, origin: Origin<'_>) -> core::result::Result<(), Refusal> {
    let (shared, owner) = match origin {
        Origin::Arena(_, owner) => (None, Some(owner)),
        Origin::Interface(first, owner) => (Some(first), Some(owner)),
        Origin::Queue(first) => (Some(first), None),
    };
    let copy = if binding.way.zero_copy { XDP_ZEROCOPY } else { XDP_COPY };
    let segments = if binding.way.multi_buffer { XDP_USE_SG } else { 0 };
    let address = SockaddrXdp {
        family: libc::AF_XDP as u16,
        // A shared UMEM inherits the flags of the first socket, and refuses any of its own.
        flags: shared.map_or(copy | segments | XDP_USE_NEED_WAKEUP, |_| XDP_SHARED_UMEM),
        ifindex: binding.interface,
        queue_id: binding.queue,
        shared_umem_fd: shared.map_or(0, |first| first.raw() as u32),
    };
    let call = || sys::socket::bind(fd.raw(), &address);
    owner.map_or_else(call, |owner| owner.retry_busy(call)).map_err(|errno| match errno {
        libc::EBUSY => Refusal::QueueBusy { queue: binding.queue },
        libc::EPERM => Refusal::NoPrivilege,
        libc::ENODEV => Refusal::NoSuchInterface,
        errno => Refusal::System { call: "bind(AF_XDP)", errno },
    })
}

fn register(fd: &Fd, arena: &Arena) -> core::result::Result<(), Refusal> {
    let umem = UmemReg {
        addr: arena.umem() as u64,
        len: u64::from(arena.frames()) * FRAME as u64,
        chunk_size: FRAME as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    let mut registered = set_option(fd.raw(), SOL_XDP, XDP_UMEM_REG, &umem);
    if registered == Err(libc::ENOBUFS) && allow_locking(umem.len) {
        registered = set_option(fd.raw(), SOL_XDP, XDP_UMEM_REG, &umem);
    }
    registered.map_err(|errno| match errno {
        libc::ENOBUFS | libc::ENOMEM => Refusal::NoMemory,
        errno => Refusal::System { call: "setsockopt(XDP_UMEM_REG)", errno },
    })
}

/// Raises RLIMIT_MEMLOCK, to which the kernel charges the arena of a process without CAP_IPC_LOCK: beyond the hard
/// limit if we may, else up to it. True if that changed something.
fn allow_locking(bytes: u64) -> bool {
    let memlock = libc::RLIMIT_MEMLOCK as i32;
    let Ok(limit) = sys::process::limit(memlock) else { return false };
    // On top of what the application locks itself.
    let soft = limit.soft.saturating_add(bytes);
    let beyond = sys::process::Limit { soft, hard: limit.hard.max(soft) };
    let within = sys::process::Limit { soft: soft.min(limit.hard), ..limit };
    sys::process::set_limit(memlock, beyond).is_ok()
        || within != limit && sys::process::set_limit(memlock, within).is_ok()
}

fn map(fd: &Fd, offset: &RingOffset, entries: u32, entry: usize, page: u64) -> Result<Mapping> {
    Mapping::shared(fd.raw(), offset.desc as usize + entries as usize * entry, page, true)
}
