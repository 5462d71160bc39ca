//! Which flows come to us: the entries of the program's map. Any thread may change them at any time.

use core::net::SocketAddrV4;
use std::collections::HashSet;

use sys::{Fd, Result};

use crate::arena::LANES;
use crate::flood::Flood;
use crate::{bpf, query};

/// Flows that may be steered at a time, on one interface. A server with more connections than that is still served
/// through its listeners' entries; the map's buckets take 4 MiB of the kernel's memory at this size.
const FLOWS_MAX: u32 = 1 << 18;

/// Connections that were not accepted yet and are remembered.
const BEGUN_MAX: u32 = 1 << 14;

/// Fragmented segments under way that are remembered.
const FRAGMENTED_MAX: u32 = 1 << 12;
/// Bytes of struct fragmented and struct owner of the program.
const FRAGMENTED: (usize, usize) = (12, 8);

/// Lanes that may listen on one flow, as in the program.
const MEMBERS: usize = 40;

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
#[derive(Clone, Copy)]
struct Group {
    lanes: u8,
    zero: u8,
    queues: u16,
    kernels: u32,
    packets: u64,
    bytes: u64,
    member: [u8; MEMBERS],
}

impl Default for Group {
    fn default() -> Group {
        Group { lanes: 0, zero: 0, queues: 0, kernels: 0, packets: 0, bytes: 0, member: [0; MEMBERS] }
    }
}

impl Key {
    /// The connection that this is the entry of.
    fn connection(&self) -> Option<Flow> {
        let side = |ip: [u8; 4], port| SocketAddrV4::new(ip.into(), u16::from_be_bytes(port));
        let is_one = i32::from(self.protocol) == libc::IPPROTO_TCP && self.remote_port != [0; 2];
        is_one.then(|| Flow {
            protocol: self.protocol,
            local: side(self.local, self.local_port),
            remote: Some(side(self.remote, self.remote_port)),
        })
    }
}

impl Group {
    fn members(&self) -> &[u8] {
        &self.member[..usize::from(self.lanes).min(MEMBERS)]
    }

    /// The group with `lane`. `None`: there is no room.
    fn with(&self, lane: u8) -> Option<Group> {
        let Group { kernels, .. } = *self;
        let mut group = Group { kernels, ..self.without(lane) };
        *group.member.get_mut(usize::from(group.lanes))? = lane;
        group.lanes += 1;
        Some(group)
    }

    fn without(&self, lane: u8) -> Group {
        let mut group = Group { lanes: 0, kernels: 0, member: [0; MEMBERS], ..*self };
        for &known in self.members().iter().filter(|&&known| known != lane) {
            group.member[usize::from(group.lanes)] = known;
            group.lanes += 1;
        }
        group
    }
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

/// Whether a lane is among these, a bit for each number.
fn has(lanes: u64, lane: u8) -> bool {
    lanes >> (lane & 63) & 1 == 1
}

/// Calls `each` with the keys of a map of so many at the most, while others change it; `each` may delete the one that
/// it is given.
fn each_key(map: &Fd, entries_max: u32, mut each: impl FnMut(Key)) {
    // The next key is asked for before the key is deleted: the kernel would begin anew.
    let mut next = bpf::map_next_key(map, None);
    for _ in 0..2 * entries_max {
        let Some(key) = next else { break };
        next = bpf::map_next_key(map, Some(&key));
        each(key);
    }
}

/// Entries of the steering by lane.
pub(crate) struct Flows {
    pub(crate) all: u32,
    pub(crate) of_lanes: [u32; LANES],
}

/// The program's maps on one interface.
#[derive(Debug)]
pub(crate) struct Steering {
    flows: Fd,
    begun: Fd,
    fragments: Fd,
    sockets: Fd,
    queues: u32,
    pub(crate) flood: Flood,
}

impl Steering {
    /// Empty maps for lanes of numbers below `lanes` over `queues` queues.
    pub(crate) fn create(lanes: u32, queues: u32, flood: Flood) -> Result<Steering> {
        let (key, value) = (size_of::<Key>(), size_of::<Group>());
        let flows = bpf::map_create(bpf::MAP_TYPE_HASH, key, value, FLOWS_MAX, bpf::NO_PREALLOC)?;
        let begun = bpf::map_create(bpf::MAP_TYPE_LRU_HASH, key, 4, BEGUN_MAX, 0)?;
        let (of, owner) = FRAGMENTED;
        let fragments = bpf::map_create(bpf::MAP_TYPE_LRU_HASH, of, owner, FRAGMENTED_MAX, 0)?;
        let sockets = bpf::map_create(bpf::MAP_TYPE_XSKMAP, 4, 4, lanes * queues, 0)?;
        Ok(Steering { flows, begun, fragments, sockets, queues, flood })
    }

    /// The maps that another process made, by their descriptors, as [`Steering::descriptors`] has them.
    pub(crate) fn received(descriptors: [Fd; 6], queues: u32) -> Result<Steering> {
        let [flows, begun, fragments, sockets, record, proven] = descriptors;
        Ok(Steering { flows, begun, fragments, sockets, queues, flood: Flood::received(record, proven)? })
    }

    /// Whether descriptors, in the order of [`Steering::descriptors`], are the maps of the program that is on the
    /// interface, each in its place: nobody else than who had the privilege for it can have made those.
    pub(crate) fn are_of(interface: u32, program: &Fd, maps: &[Fd; 6]) -> bool {
        let Ok((id, of_program)) = bpf::program_info(program) else { return false };
        let Ok(infos) = maps.iter().map(bpf::map_info).collect::<Result<Vec<_>>>() else { return false };
        let (key, group) = (size_of::<Key>(), size_of::<Group>());
        let shapes = [(key, group), (key, 4), FRAGMENTED, (4, 4)];
        let shapes = shapes.map(|(key, value)| (key as u32, value as u32));
        query::xdp_program(interface) == Some(id)
            && infos.iter().all(|info| of_program.contains(&info.id))
            && infos.iter().zip(shapes).all(|(info, shape)| (info.key, info.value) == shape)
    }

    /// Whether a link attaches this program to this interface.
    pub(crate) fn is_link(interface: u32, program: &Fd, link: &Fd) -> bool {
        let Ok((id, _)) = bpf::program_info(program) else { return false };
        bpf::link_info(link) == Ok(bpf::LinkInfo { program: id, interface })
    }

    /// By which another process has them.
    pub(crate) fn descriptors(&self) -> [i32; 6] {
        let [record, proven] = self.flood.descriptors();
        let [flows, begun, fragments, sockets] =
            [&self.flows, &self.begun, &self.fragments, &self.sockets].map(Fd::raw);
        [flows, begun, fragments, sockets, record, proven]
    }

    /// The program over these maps; `multi_buffer`: it is given packets that are larger than a frame.
    pub(crate) fn load_program(&self, multi_buffer: bool) -> Result<Fd> {
        let map = |name: &[u8]| match name {
            b"flows" => Some(self.flows.raw()),
            b"begun" => Some(self.begun.raw()),
            b"fragments" => Some(self.fragments.raw()),
            b"sockets" => Some(self.sockets.raw()),
            name => self.flood.map(name),
        };
        crate::program::load(map, multi_buffer)
    }

    /// Puts the AF_XDP socket of a lane on a queue into its slot.
    pub(crate) fn insert_socket(&self, lane: u32, queue: u32, socket: &Fd) -> Result<()> {
        bpf::map_update(&self.sockets, &(lane * self.queues + queue), &socket.raw())
    }

    /// The sockets of these lanes (a bit for each number) take no packet any more.
    fn remove_sockets(&self, lanes: u64) {
        for lane in (0..LANES as u32).filter(|&lane| has(lanes, lane as u8)) {
            for queue in 0..self.queues {
                let _ = bpf::map_delete(&self.sockets, &(lane * self.queues + queue));
            }
        }
    }

    /// The flow is one lane's.
    pub(crate) fn steer(&self, flow: &Flow, lane: u32) -> Result<()> {
        let mut group = Group { lanes: 1, queues: self.queues as u16, ..Group::default() };
        group.member[0] = lane as u8;
        bpf::map_update(&self.flows, &Key::from(flow), &group)
    }

    /// A lane is one of those that listen on a flow. Callers hold the steering's lock. E2BIG: there are too many.
    pub(crate) fn join(&self, flow: &Flow, lane: u32) -> Result<()> {
        let key = Key::from(flow);
        let known = bpf::map_lookup(&self.flows, &key);
        let group = known.unwrap_or(Group { queues: self.queues as u16, ..Group::default() });
        let group = group.with(lane as u8).ok_or(libc::E2BIG)?;
        bpf::map_update(&self.flows, &key, &group)
    }

    /// A lane no longer listens on a flow; with the last one the flow is the kernel's. Callers hold the
    /// steering's lock.
    pub(crate) fn leave(&self, flow: &Flow, lane: u32) {
        self.leave_key(&Key::from(flow), lane);
    }

    /// New connections of a flow are the kernel's, until a lane leaves it to others; what is under way comes to the
    /// lanes still. Callers hold the steering's lock.
    pub(crate) fn leave_new_to_kernel(&self, flow: &Flow) {
        let key = Key::from(flow);
        if let Some(group) = bpf::map_lookup::<_, Group>(&self.flows, &key) {
            let _ = bpf::map_update(&self.flows, &key, &Group { kernels: 1, ..group });
        }
    }

    /// Whether other lanes stay.
    fn leave_key(&self, key: &Key, lane: u32) -> bool {
        let Some(group) = bpf::map_lookup::<_, Group>(&self.flows, key) else { return false };
        let group = group.without(lane as u8);
        let _ = match group.lanes {
            0 => bpf::map_delete(&self.flows, key),
            _ => bpf::map_update(&self.flows, key, &group),
        };
        group.lanes != 0
    }

    /// Lanes are gone (a bit for each number): whatever they had is the others' or the kernel's. Callers hold the
    /// steering's lock. The TCP connections of those that were killed, also what they had not accepted yet.
    pub(crate) fn bury(&self, lanes: u64, killed: u64) -> HashSet<Flow> {
        let mut connections = HashSet::new();
        each_key(&self.flows, FLOWS_MAX, |key: Key| {
            let Some(group) = bpf::map_lookup::<_, Group>(&self.flows, &key) else { return };
            for &lane in group.members().iter().filter(|&&lane| has(lanes, lane)) {
                if !self.leave_key(&key, u32::from(lane)) && has(killed, lane) {
                    connections.extend(key.connection());
                }
            }
        });
        each_key(&self.begun, BEGUN_MAX, |key: Key| {
            let Some(lane) = bpf::map_lookup::<_, u32>(&self.begun, &key).map(|lane| lane as u8) else {
                return;
            };
            if has(lanes, lane) {
                let _ = bpf::map_delete(&self.begun, &key);
            }
            if has(killed, lane) {
                connections.extend(key.connection());
            }
        });
        self.remove_sockets(lanes);
        connections
    }

    /// Entries, of all lanes and of each.
    pub(crate) fn count(&self) -> Flows {
        let mut flows = Flows { all: 0, of_lanes: [0; LANES] };
        each_key(&self.flows, FLOWS_MAX, |key: Key| {
            let Some(group) = bpf::map_lookup::<_, Group>(&self.flows, &key) else { return };
            flows.all += 1;
            for lane in group.members() {
                flows.of_lanes[usize::from(*lane) % LANES] += 1;
            }
        });
        flows
    }

    /// The flow is the kernel's again.
    pub(crate) fn unsteer(&self, flow: &Flow) {
        let _ = bpf::map_delete(&self.flows, &Key::from(flow));
    }

    /// Whether no flow is steered.
    pub(crate) fn is_empty(&self) -> bool {
        bpf::map_next_key::<Key>(&self.flows, None).is_none()
    }

    /// The lane that has a connection's entry.
    pub(crate) fn lane_of(&self, connection: &Flow) -> Option<u32> {
        let group: Group = bpf::map_lookup(&self.flows, &Key::from(connection))?;
        group.members().first().map(|lane| u32::from(*lane))
    }

    /// Packets and bytes redirected for this entry.
    pub(crate) fn counters(&self, flow: &Flow) -> Option<(u64, u64)> {
        let group: Group = bpf::map_lookup(&self.flows, &Key::from(flow))?;
        Some((group.packets, group.bytes))
    }
}
