//! AF_XDP sockets: a lane's own, with the rings that all lanes of its queue share, and the anchor of a queue.
//!
//! Rings are mapped before a socket is bound: Linux maps those of a bound one since 6.4 only. And they are filled
//! before: a driver may build its receive ring out of them when it is bound to or attached to, and not look again if
//! they were empty (igb, zero-copy). Then the interface receives nothing any more, for nobody.

use std::sync::Arc;

use sys::memory::Mapping;
use sys::socket::{option, set_option, set_option_with_addresses};
use sys::{Fd, Result};

use crate::Refusal;
use crate::arena::{Arena, FRAME};
use crate::caps::Way;
use crate::if_xdp::*;
use crate::locking;
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
    /// Frames that may be posted in the fill ring.
    pub(crate) post_max: u32,
    pub(crate) way: Way,
}

/// Where a socket has the fill and completion rings of its queue from.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// They are its own, and it registers the arena: the first socket of an interface.
    Arena(&'a Arena, &'a Owner),
    /// They are its own, over the arena that this first socket registered: the first one of another queue.
    Interface(&'a Arena, &'a Fd, &'a Owner),
    /// They are those of a socket on the same queue.
    Queue(&'a Anchor),
    /// As above, and the socket is bound already ([`Anchor::bind`]).
    Bound(&'a Anchor),
}

/// A socket that takes no packets: it holds a queue for processes that have no other socket of it. Lanes of children
/// bind to the queue by it, and come and go without it.
#[derive(Debug)]
pub(crate) struct Anchor {
    pub(crate) fd: Fd,
    rings: QueueRings,
}

/// The fill and completion rings of a queue, mapped. All its lanes use them in turn, each with cursors of its own.
#[derive(Clone, Debug)]
pub(crate) struct QueueRings {
    fill: (Arc<Mapping>, RingOffset, u32),
    completion: (Arc<Mapping>, RingOffset, u32),
}

/// A lane's socket on one queue.
pub(crate) struct Socket {
    pub(crate) fd: Fd,
    pub(crate) rx: Ring<Desc>,
    pub(crate) tx: Ring<Desc>,
}

impl Anchor {
    /// Makes an anchor out of an unbound socket, beside the socket `of` on the same queue, whose rings are `rings`.
    ///
    /// A mapping keeps the socket alive that it was made by. So children have the anchor's where the kernel maps rings
    /// of bound sockets; before (Linux 6.4), the parent's socket stays until the last of its children is gone, and what
    /// comes for it after its end is lost until its lane is buried.
    pub(crate) fn open(
        fd: Fd,
        binding: Binding,
        of: &Fd,
        rings: &QueueRings,
    ) -> core::result::Result<Anchor, Refusal> {
        // The kernel binds no socket without a ring of its own.
        set_option(fd.raw(), SOL_XDP, XDP_RX_RING, &1u32).map_err(rings_refused)?;
        bind(&fd, binding, Some(of), None)?;
        let rings = QueueRings::map(&fd, binding).unwrap_or_else(|_| rings.clone());
        Ok(Anchor { fd, rings })
    }

    /// An anchor that another process made. Needs Linux 6.4, which maps rings of bound sockets.
    pub(crate) fn received(fd: Fd, binding: Binding) -> Result<Anchor> {
        let rings = QueueRings::map(&fd, binding)?;
        Ok(Anchor { fd, rings })
    }

    /// Makes a lane's socket out of an unbound one, for another process: without mapping its rings.
    pub(crate) fn bind(&self, fd: &Fd, binding: Binding) -> core::result::Result<(), Refusal> {
        ask_for_rings(fd, binding).map_err(rings_refused)?;
        bind(fd, binding, Some(&self.fd), None)?;
        allow_batches(fd, binding);
        Ok(())
    }
}

impl QueueRings {
    /// Gives a socket that is not bound yet rings of its own, and posts free frames of the arena.
    fn make(socket: &Fd, arena: &Arena, binding: Binding) -> Result<QueueRings> {
        set_option(socket.raw(), SOL_XDP, XDP_UMEM_FILL_RING, &binding.rx_ring)?;
        set_option(socket.raw(), SOL_XDP, XDP_UMEM_COMPLETION_RING, &binding.tx_ring)?;
        let rings = Self::map(socket, binding)?;
        let (mut fill, _) = rings.cursors();
        for _ in 0..fill.room(binding.post_max).min(binding.post_max) {
            let Some(frame) = arena.take_to_post() else { break };
            fill.put(u64::from(frame) * FRAME as u64);
        }
        fill.publish();
        Ok(rings)
    }

    pub(crate) fn map(socket: &Fd, binding: Binding) -> Result<QueueRings> {
        let offsets = option(socket.raw(), SOL_XDP, XDP_MMAP_OFFSETS, MmapOffsets::default())?;
        let ring = |offset: RingOffset, entries, page| -> Result<(Arc<Mapping>, RingOffset, u32)> {
            Ok((Arc::new(map(socket, &offset, entries, size_of::<u64>(), page)?), offset, entries))
        };
        Ok(QueueRings {
            fill: ring(offsets.fill, binding.rx_ring, XDP_UMEM_PGOFF_FILL_RING)?,
            completion: ring(offsets.completion, binding.tx_ring, XDP_UMEM_PGOFF_COMPLETION_RING)?,
        })
    }

    /// Cursors over the fill and the completion ring.
    pub(crate) fn cursors(&self) -> (Ring<u64>, Ring<u64>) {
        let cursor = |(mapping, offset, entries): &(Arc<Mapping>, RingOffset, u32)| {
            // SAFETY: `map` made the mapping with the offsets, page offset, entry type and size of this ring.
            unsafe { Ring::new(mapping.clone(), offset, *entries) }
        };
        (cursor(&self.fill), cursor(&self.completion))
    }
}

/// A socket that is not bound yet.
pub(crate) fn af_xdp() -> core::result::Result<Fd, Refusal> {
    let fd = sys::socket::socket(libc::AF_XDP, libc::SOCK_RAW, 0).map_err(|errno| match errno {
        libc::EPERM => Refusal::not_permitted(),
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
        errno => Refusal::System { call: "rings(AF_XDP)", errno },
    }
}

impl Socket {
    /// Makes a lane's socket out of an unbound one; with the rings of its queue.
    pub(crate) fn open(
        fd: Fd,
        binding: Binding,
        origin: Origin<'_>,
    ) -> core::result::Result<(Socket, QueueRings), Refusal> {
        if let Origin::Arena(arena, _) = origin {
            register(&fd, arena)?;
        }
        let rings = match origin {
            Origin::Arena(arena, _) | Origin::Interface(arena, ..) => {
                QueueRings::make(&fd, arena, binding).map_err(rings_refused)?
            }
            Origin::Queue(anchor) | Origin::Bound(anchor) => anchor.rings.clone(),
        };
        let (first, owner) = match origin {
            Origin::Arena(_, owner) => (None, Some(owner)),
            Origin::Interface(_, first, owner) => (Some(first), Some(owner)),
            Origin::Queue(anchor) => (Some(&anchor.fd), None),
            Origin::Bound(_) => return Ok((Self::map(fd, binding).map_err(rings_refused)?, rings)),
        };
        ask_for_rings(&fd, binding).map_err(rings_refused)?;
        let socket = Self::map(fd, binding).map_err(rings_refused)?;
        bind(&socket.fd, binding, first, owner)?;
        allow_batches(&socket.fd, binding);
        Ok((socket, rings))
    }

    fn map(fd: Fd, binding: Binding) -> Result<Socket> {
        let (rx, tx) = (binding.rx_ring, binding.tx_ring);
        let offsets = option(fd.raw(), SOL_XDP, XDP_MMAP_OFFSETS, MmapOffsets::default())?;
        let descs = size_of::<Desc>();
        // SAFETY: each mapping is made with the offsets, page offset, entry type and size of its own ring.
        unsafe {
            Ok(Socket {
                rx: Ring::new(map(&fd, &offsets.rx, rx, descs, XDP_PGOFF_RX_RING)?.into(), &offsets.rx, rx),
                tx: Ring::new(map(&fd, &offsets.tx, tx, descs, XDP_PGOFF_TX_RING)?.into(), &offsets.tx, tx),
                fd,
            })
        }
    }

    /// The frames of packets that are in the receive ring of another process' socket, which takes no more.
    pub(crate) fn unread(fd: &Fd, binding: Binding) -> Result<Vec<u32>> {
        let mut rx = Self::map(fd.duplicate()?, binding)?.rx;
        rx.reload(true);
        let count = rx.filled();
        // The process could write there.
        if count > binding.rx_ring {
            return Err(libc::EINVAL);
        }
        Ok((0..count).map(|_| (rx.take().addr / FRAME as u64) as u32).collect())
    }

    /// Does the driver move packets without a copy?
    pub(crate) fn is_zero_copy(&self) -> bool {
        option(self.fd.raw(), SOL_XDP, XDP_OPTIONS, 0u32).unwrap_or(0) & XDP_OPTIONS_ZEROCOPY != 0
    }
}

/// Receive and transmit rings of a lane's own.
fn ask_for_rings(fd: &Fd, binding: Binding) -> Result<()> {
    set_option(fd.raw(), SOL_XDP, XDP_RX_RING, &binding.rx_ring)?;
    set_option(fd.raw(), SOL_XDP, XDP_TX_RING, &binding.tx_ring)
}

fn allow_batches(fd: &Fd, binding: Binding) {
    // May fail without harm: the kernel's default works, more slowly.
    let _ = set_option(fd.raw(), SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &binding.tx_ring);
}

/// Binds a socket, over the UMEM of `shared` if there is one, and waits for predecessors that an owner knows to end.
fn bind(
    fd: &Fd,
    binding: Binding,
    shared: Option<&Fd>,
    owner: Option<&Owner>,
) -> core::result::Result<(), Refusal> {
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
        libc::EPERM => Refusal::not_permitted(),
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
    // SAFETY: the frames are shared memory, of which nobody holds a reference while the kernel may write there, and it
    // keeps the pages for as long as the socket is.
    let register = || unsafe { set_option_with_addresses(fd.raw(), SOL_XDP, XDP_UMEM_REG, &umem) };
    let mut registered = register();
    if registered == Err(libc::ENOBUFS) && locking::allow(umem.len) {
        registered = register();
    }
    registered.map_err(|errno| match errno {
        libc::ENOBUFS | libc::ENOMEM => Refusal::NoMemory,
        errno => Refusal::System { call: "setsockopt(XDP_UMEM_REG)", errno },
    })
}

fn map(fd: &Fd, offset: &RingOffset, entries: u32, entry: usize, page: u64) -> Result<Mapping> {
    Mapping::shared(fd.raw(), offset.desc as usize + entries as usize * entry, page, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fill_ring_is_full_before_the_socket_is_bound() {
        let Ok(fd) = af_xdp() else {
            return rig::skip::skipped_here("needs root (AF_XDP)");
        };
        let arena = Arena::create(256).unwrap();
        register(&fd, &arena).unwrap();
        let way = Way { native: true, zero_copy: true, multi_buffer: true };
        let binding = Binding { interface: 1, queue: 0, rx_ring: 256, tx_ring: 64, post_max: 100, way };
        let (fill, completion) = QueueRings::make(&fd, &arena, binding).unwrap().cursors();
        assert_eq!((fill.waiting(), completion.waiting()), (100, 0));
        let mut left = Vec::new();
        arena.take(1, 256, &mut left);
        assert_eq!(left.len(), 156);
    }
}
