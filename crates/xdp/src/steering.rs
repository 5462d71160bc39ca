//! Which flows come to us: the entries of the program's map. Any thread may change them at any time.

use core::net::SocketAddrV4;

use sys::{Fd, Result};

use crate::bpf;

/// Flows that may be steered at a time, on one interface. A server with more connections than that is still served
/// through its listeners' entries; the map's buckets take 4 MiB of the kernel's memory at this size.
const FLOWS_MAX: u32 = 1 << 18;

/// One flow to steer: 5-tuple if `remote` is given, local 3-tuple otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// `IPPROTO_TCP` (6) or `IPPROTO_UDP` (17).
    pub protocol: u8,
    /// Our side; for multicast the group. Never the wildcard: one entry for each address.
    pub local: SocketAddrV4,
    /// The other side, or any.
    pub remote: Option<SocketAddrV4>,
}

/// `struct flow` of the program.
#[repr(C)]
#[derive(Clone, Copy)]
struct Key {
    local: [u8; 4],
    remote: [u8; 4],
    local_port: [u8; 2],
    remote_port: [u8; 2],
    protocol: u8,
    zero: [u8; 3],
}

/// `struct group` of the program.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Group {
    first_slot: u32,
    lanes: u16,
    queues: u16,
    packets: u64,
    bytes: u64,
}

impl From<&Flow> for Key {
    fn from(flow: &Flow) -> Key {
        let remote = flow.remote.unwrap_or(SocketAddrV4::new(0.into(), 0));
        Key {
            local: flow.local.ip().octets(),
            remote: remote.ip().octets(),
            local_port: flow.local.port().to_be_bytes(),
            remote_port: remote.port().to_be_bytes(),
            protocol: flow.protocol,
            zero: [0; 3],
        }
    }
}

/// The program's maps on one interface.
#[derive(Debug)]
pub(crate) struct Steering {
    flows: Fd,
    sockets: Fd,
    queues: u32,
}

impl Steering {
    /// Empty maps for `lanes` lanes over `queues` queues.
    pub(crate) fn create(lanes: u32, queues: u32) -> Result<Steering> {
        let (key, value) = (size_of::<Key>(), size_of::<Group>());
        let flows = bpf::map_create(bpf::MAP_TYPE_HASH, key, value, FLOWS_MAX, bpf::NO_PREALLOC)?;
        let sockets = bpf::map_create(bpf::MAP_TYPE_XSKMAP, 4, 4, lanes * queues, 0)?;
        Ok(Steering { flows, sockets, queues })
    }

    /// The program over these maps; `multi_buffer`: it is given packets that are larger than a frame.
    pub(crate) fn load_program(&self, multi_buffer: bool) -> Result<Fd> {
        crate::program::load(&self.flows, &self.sockets, multi_buffer)
    }

    /// Puts the AF_XDP socket of a lane on a queue into its slot.
    pub(crate) fn insert_socket(&self, lane: u32, queue: u32, socket: &Fd) -> Result<()> {
        bpf::map_update(&self.sockets, &(lane * self.queues + queue), &socket.raw())
    }

    /// Steers a flow to a group of `lanes` lanes from `first` on: one, but for listeners.
    pub(crate) fn steer(&self, flow: &Flow, first: u32, lanes: u16) -> Result<()> {
        let first_slot = first * self.queues;
        let group = Group { first_slot, lanes, queues: self.queues as u16, packets: 0, bytes: 0 };
        bpf::map_update(&self.flows, &Key::from(flow), &group)
    }

    /// The flow is the kernel's again.
    pub(crate) fn unsteer(&self, flow: &Flow) {
        let _ = bpf::map_delete(&self.flows, &Key::from(flow));
    }

    /// Packets and bytes redirected for this entry.
    pub(crate) fn counters(&self, flow: &Flow) -> Option<(u64, u64)> {
        let group: Group = bpf::map_lookup(&self.flows, &Key::from(flow))?;
        Some((group.packets, group.bytes))
    }
}
