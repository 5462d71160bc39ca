//! What is on a held interface at the moment: whose its frames and flows are. For people who look, not for programs.

use super::Kept;

/// An interface as it is held.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// Its index, and the name of its driver.
    pub index: u32,
    /// Who moves its packets.
    pub driver: String,
    /// The program is in the driver's own hook.
    pub native: bool,
    /// Packets move without a copy.
    pub zero_copy: bool,
    /// Its queues.
    pub queues: u32,
    /// Frames of the arena.
    pub frames: u32,
    /// Those that nobody has.
    pub free: u32,
    /// Those that wait for packets, or hold some that no program has taken off its ring.
    pub posted: u32,
    /// Those that programs had which have just ended: free in a moment.
    pub left: u32,
    /// Entries of the steering, of all lanes.
    pub flows: u32,
    /// Who has lanes.
    pub lanes: Vec<Lane>,
}

/// One lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its number.
    pub lane: u32,
    /// Its process, which may have ended a moment ago.
    pub process: i32,
    /// Frames that it has.
    pub frames: u32,
    /// Entries of the steering that name it.
    pub flows: u32,
}

impl Kept {
    /// Counted now, while programs go on: numbers may be of slightly different moments.
    pub fn census(&self) -> Census {
        let shared = &self.shared;
        let (frames, flows) = (shared.arena.count_frames(), shared.steering.count());
        let lanes = shared.arena.processes().map(|(lane, process)| Lane {
            lane,
            process,
            frames: frames.of_lanes[lane as usize],
            flows: flows.of_lanes[lane as usize],
        });
        Census {
            index: shared.interface.index,
            driver: shared.interface.driver.clone(),
            native: shared.is_native(),
            zero_copy: shared.way.zero_copy,
            queues: shared.interface.queues,
            frames: shared.arena.frames(),
            free: frames.free,
            posted: frames.posted,
            left: frames.left,
            flows: flows.all,
            lanes: lanes.collect(),
        }
    }
}
