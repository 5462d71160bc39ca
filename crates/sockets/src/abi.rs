//! The structures of `include/mellanox/vma_extra.h` as programs have them that were compiled against it: layout, values
//! and nothing else. A test compiles the header's own view of the same numbers, and the header says what the members
//! mean.
#![allow(missing_docs, reason = "members mean what the header says")]

use core::ffi::{c_int, c_void};
use libc::{iovec, size_t, sockaddr_in, timespec};

/// getsockopt of descriptor -1 at SOL_SOCKET: where the table is.
pub const SO_GET_API: c_int = 2800;
/// A word that completions tell.
pub const SO_USER_DATA: c_int = 2801;
/// `vma_ring_alloc_logic_attr`.
pub const SO_RING_ALLOC_LOGIC: c_int = 2810;
/// Memory of the program's for a ring.
pub const SO_RING_USER_MEMORY: c_int = 2811;
/// A mark of the socket's flows.
pub const SO_FLOW_TAG: c_int = 2820;
/// Nothing more is received.
pub const SO_SHUTDOWN_RX: c_int = 2821;
/// Sockperf's --set-sock-accl: the socket is to be accelerated, as early as can be.
pub const SO_ACCELERATE: c_int = 100;
/// The names of options that are the API's.
pub const OPTIONS: core::ops::RangeInclusive<c_int> = SO_USER_DATA..=SO_SHUTDOWN_RX;

/// recvfrom_zcopy: rather fail than copy.
pub const MSG_ZCOPY_FORCE: c_int = 0x0100_0000;
/// recvfrom_zcopy: nothing was copied.
pub const MSG_ZCOPY: c_int = 0x0004_0000;
/// A send that goes the whole way but for the last step: MSG_SYN.
pub const SEND_DUMMY: c_int = 0x400;

/// A callback's verdicts.
pub const PACKET_DROP: c_int = 0;
/// See `PACKET_DROP`; anything that is no verdict counts as this one.
pub const PACKET_RECV: c_int = 1;
/// See `PACKET_DROP`.
pub const PACKET_HOLD: c_int = 2;

/// `vma_completion_t.events`: there is a packet.
pub const EVENT_PACKET: u64 = 1 << 32;
/// The same: a connection was accepted.
pub const EVENT_ACCEPTED: u64 = 1 << 33;

/// cmsg_type of the allocator that `ioctl` is given.
pub const CMSG_USER_ALLOC: c_int = 2900;
/// Bytes of its payload, `vma_cmsg_ioctl_user_alloc_t`.
pub const USER_ALLOC_LEN: usize = 17;

/// `vma_recv_callback_t`.
pub type ReceiveCallback =
    unsafe extern "C-unwind" fn(c_int, size_t, *mut iovec, *mut Info, *mut c_void) -> c_int;

/// `vma_info_t`.
#[repr(C, packed)]
pub struct Info {
    pub struct_sz: size_t,
    pub packet_id: *mut c_void,
    pub src: *mut sockaddr_in,
    pub dst: *mut sockaddr_in,
    pub payload_sz: size_t,
    pub ready_packets: u32,
    pub ready_bytes: u32,
    pub hardware_time: timespec,
    pub software_time: timespec,
}

/// `vma_packet_t` without its pieces.
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct Packet {
    pub packet_id: *mut c_void,
    pub pieces: size_t,
}

/// `vma_buff_t`.
#[repr(C)]
pub struct Buff {
    pub next: *mut Buff,
    pub payload: *mut c_void,
    pub len: u16,
}

/// `vma_packet_desc_t`.
#[repr(C)]
pub struct PacketDescription {
    pub buffers: size_t,
    pub total_len: u16,
    pub list: *mut Buff,
    pub hardware_time: timespec,
}

/// `vma_completion_t`.
#[repr(C)]
pub struct Completion {
    pub packet: PacketDescription,
    pub events: u64,
    pub user_data: u64,
    pub src: sockaddr_in,
    pub listen_fd: c_int,
}

/// What of `vma_ring_alloc_logic_attr` acts: its last word names directions, and a lane has both.
#[derive(Clone, Copy)]
pub struct RingAllocLogic {
    pub mask: u32,
    pub logic: u32,
    pub profile_key: u32,
    pub user_id: u32,
}
pub const RING_ALLOC_LOGIC_LEN: usize = 20;

/// `vma_modify_ring_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ModifyRing {
    pub mask: u32,
    pub ring: c_int,
    pub count: u32,
    pub period_usec: u32,
}
/// What it asks for: `count` and `period_usec`; and interrupts, which a ring has in any case.
pub const MODIFY_RING_MODERATION: u32 = 1;
pub const MODIFY_RING_ARM: u32 = 2;

/// `vma_ring_type_attr`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RingType {
    pub mask: u32,
    pub kind: u32,
    pub attributes: u32,
}

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Info>() == 80 && offset_of!(Info, payload_sz) == 32);
    assert!(offset_of!(Info, ready_bytes) == 44 && offset_of!(Info, software_time) == 64);
    assert!(size_of::<Packet>() == 16);
    assert!(size_of::<Buff>() == 24 && offset_of!(Buff, payload) == 8 && offset_of!(Buff, len) == 16);
    assert!(size_of::<PacketDescription>() == 40 && offset_of!(PacketDescription, list) == 16);
    assert!(size_of::<Completion>() == 80 && offset_of!(Completion, events) == 40);
    assert!(offset_of!(Completion, src) == 56 && offset_of!(Completion, listen_fd) == 72);
    assert!(size_of::<ModifyRing>() == 16 && size_of::<RingType>() == 12);
};
