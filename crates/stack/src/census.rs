//! What a stack holds, counted: for leak checks and for numbers shown to people. Never on a fast path.

use crate::{Frame, Stack};

/// See [`Stack::census`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Sockets of every kind, also those that the owner closed and TCP has not finished with (TIME-WAIT among them).
    pub sockets: usize,
    /// Entries of the tables that lead packets to sockets: flows, local endpoints, groups.
    pub demux_entries: usize,
    /// Whether a deadline of some socket is set.
    pub has_timers: bool,
    /// Datagrams of which some fragments wait for the others.
    pub reassemblies: usize,
    /// Bytes of packets that wait for a path or a neighbour.
    pub held_bytes: usize,
    /// Device frames in receive queues, by the stack's own count.
    pub attached_frames: usize,
    /// Closed TCP sockets that are not over, TIME-WAIT not among them.
    pub orphans: usize,
}

impl<F: Frame> Stack<F> {
    /// Counts what there is.
    pub fn census(&self) -> Census {
        Census {
            sockets: self.sockets.len(),
            demux_entries: self.demux.len(),
            has_timers: self.timers.next().is_some(),
            reassemblies: self.reassembly.len(),
            held_bytes: self.net.held_bytes(),
            attached_frames: self.budget.attached(),
            orphans: self.tcp.orphans as usize,
        }
    }
}
