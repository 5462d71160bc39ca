//! The AF_XDP device: arena, rings, program and steering maps.
//!
//! Knows nothing of TCP or sockets: it moves frames and steers flows. One [`Device`] is one interface with all its
//! queues. The contract in signatures.
#![allow(unused_variables, missing_docs, dead_code)]

use core::net::{Ipv4Addr, SocketAddrV4};

/// How to attach the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Auto,
    Native,
    Generic,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub mode: Mode,
    /// Frames of the arena (each `FRAME` bytes), for all queues together.
    pub frames: u32,
    /// Entries of each receive and transmit ring; a power of two.
    pub rx_ring: u32,
    pub tx_ring: u32,
}

/// Why an interface cannot be accelerated. `Display` says what and what to do, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    NoPrivilege,
    NoAfXdp,
    NoSuchInterface,
    NotEthernet,
    QueueBusy { queue: u32 },
    ForeignProgram { id: u32 },
    NoMemory,
    System { call: &'static str, errno: i32 },
}

/// One flow to steer: 5-tuple if `remote` is given, local 3-tuple otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    pub protocol: u8,
    pub local: SocketAddrV4,
    pub remote: Option<SocketAddrV4>,
}

/// struct xdp_statistics, summed over the queues.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    pub rx_dropped: u64,
    pub rx_invalid_descs: u64,
    pub tx_invalid_descs: u64,
    pub rx_ring_full: u64,
    pub rx_fill_ring_empty_descs: u64,
    pub tx_ring_empty_descs: u64,
}

/// A received chunk: 24 bytes or less, `Send`. Dropping it returns its memory to the arena.
pub struct RxFrame {}
impl RxFrame {
    pub fn bytes(&self) -> &[u8] {
        todo!()
    }
}

/// An interface under our program. Used under one lock by its owner (the lane).
pub struct Device {}
impl Device {
    pub fn open(interface: &str, options: &Options) -> Result<Device, Refusal> {
        todo!()
    }
    pub fn mode(&self) -> Mode {
        todo!()
    }
    pub fn mac(&self) -> [u8; 6] {
        todo!()
    }
    pub fn mtu(&self) -> u32 {
        todo!()
    }
    /// A virtual device whose kernel peers leave partial checksums (veth, and generic mode on others).
    pub fn checksums_may_be_partial(&self) -> bool {
        todo!()
    }
    pub fn frames(&self) -> u32 {
        todo!()
    }

    // receive
    /// Cheap test: does any receive ring hold something?
    pub fn has_received(&self) -> bool {
        todo!()
    }
    /// Takes up to `budget` packets. Each goes to `take(head, tail)`; `tail` (reused between packets) holds the
    /// further chunks of a multi-buffer packet and is drained by `take`. Refills before it returns.
    pub fn receive(&mut self, budget: usize, take: impl FnMut(RxFrame, &mut Vec<RxFrame>)) -> usize {
        todo!()
    }

    // transmit
    /// Memory for one frame of up to `len` bytes; `None`: rings or arena full (reap and kick were tried).
    pub fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        todo!()
    }
    pub fn commit(&mut self, len: usize) {
        todo!()
    }
    /// Frames committed and not yet handed to the kernel.
    pub fn unkicked(&self) -> u32 {
        todo!()
    }
    /// Hands committed frames to the kernel (the system call, if the ring asks for it) and reaps completions.
    pub fn kick(&mut self) {
        todo!()
    }

    // waiting: level-triggered readable while a receive ring holds something
    pub fn descriptors(&self) -> &[i32] {
        todo!()
    }

    // steering; callable while other threads receive
    pub fn steer(&self, flow: Flow) -> Result<(), i32> {
        todo!()
    }
    pub fn unsteer(&self, flow: Flow) {
        todo!()
    }
    /// Packets and bytes that the program redirected for a flow.
    pub fn flow_counters(&self, flow: Flow) -> Option<(u64, u64)> {
        todo!()
    }
    pub fn statistics(&self) -> Statistics {
        todo!()
    }
}
