//! The kernel's AF_XDP interface as it is: `include/uapi/linux/if_xdp.h`, in the kernel's names.

/// Level of the socket options below.
pub(crate) const SOL_XDP: i32 = 283;

pub(crate) const XDP_MMAP_OFFSETS: i32 = 1;
pub(crate) const XDP_RX_RING: i32 = 2;
pub(crate) const XDP_TX_RING: i32 = 3;
pub(crate) const XDP_UMEM_REG: i32 = 4;
pub(crate) const XDP_UMEM_FILL_RING: i32 = 5;
pub(crate) const XDP_UMEM_COMPLETION_RING: i32 = 6;
pub(crate) const XDP_STATISTICS: i32 = 7;
pub(crate) const XDP_OPTIONS: i32 = 8;
/// Packets that one copying transmit call may send (Linux 6.16; 32 before).
pub(crate) const XDP_MAX_TX_SKB_BUDGET: i32 = 9;

pub(crate) const XDP_SHARED_UMEM: u16 = 1;
pub(crate) const XDP_COPY: u16 = 2;
pub(crate) const XDP_ZEROCOPY: u16 = 4;
pub(crate) const XDP_USE_NEED_WAKEUP: u16 = 8;
/// Packets may span several descriptors (Linux 6.6).
pub(crate) const XDP_USE_SG: u16 = 16;

pub(crate) const XDP_OPTIONS_ZEROCOPY: u32 = 1;
/// In a ring's flags: the kernel sleeps, a system call must wake it.
pub(crate) const XDP_RING_NEED_WAKEUP: u32 = 1;
/// In a descriptor's options: the packet goes on in the next one.
pub(crate) const XDP_PKT_CONTD: u32 = 1;

pub(crate) const XDP_PGOFF_RX_RING: u64 = 0;
pub(crate) const XDP_PGOFF_TX_RING: u64 = 0x8000_0000;
pub(crate) const XDP_UMEM_PGOFF_FILL_RING: u64 = 0x1_0000_0000;
pub(crate) const XDP_UMEM_PGOFF_COMPLETION_RING: u64 = 0x1_8000_0000;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct SockaddrXdp {
    pub(crate) family: u16,
    pub(crate) flags: u16,
    pub(crate) ifindex: u32,
    pub(crate) queue_id: u32,
    pub(crate) shared_umem_fd: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UmemReg {
    pub(crate) addr: u64,
    pub(crate) len: u64,
    pub(crate) chunk_size: u32,
    pub(crate) headroom: u32,
    pub(crate) flags: u32,
    pub(crate) tx_metadata_len: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RingOffset {
    pub(crate) producer: u64,
    pub(crate) consumer: u64,
    pub(crate) desc: u64,
    pub(crate) flags: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct MmapOffsets {
    pub(crate) rx: RingOffset,
    pub(crate) tx: RingOffset,
    pub(crate) fill: RingOffset,
    pub(crate) completion: RingOffset,
}

/// An entry of the receive and transmit rings; those of fill and completion rings are bare addresses (`u64`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Desc {
    pub(crate) addr: u64,
    pub(crate) len: u32,
    pub(crate) options: u32,
}

// SAFETY: integers without padding, none of which is an address.
unsafe impl sys::socket::Plain for SockaddrXdp {}
// SAFETY: as above.
unsafe impl sys::socket::Plain for MmapOffsets {}
