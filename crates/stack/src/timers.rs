//! When sockets are due: one entry per socket.

use crate::{Instant, SocketId};
use std::collections::{BTreeSet, HashMap};

/// Deadlines of sockets.
#[derive(Default)]
pub(crate) struct Timers {
    due: BTreeSet<(Instant, SocketId)>,
    of: HashMap<SocketId, Instant>,
}

impl Timers {
    pub(crate) fn new(_now: Instant) -> Self {
        Timers::default()
    }
    /// Sets, moves or removes the deadline of a socket.
    pub(crate) fn set(&mut self, id: SocketId, at: Option<Instant>) {
        if let Some(old) = self.of.remove(&id) {
            self.due.remove(&(old, id));
        }
        if let Some(at) = at {
            self.of.insert(id, at);
            self.due.insert((at, id));
        }
    }
    /// A socket that is due; it has no deadline any more.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<SocketId> {
        let &(at, id) = self.due.first()?;
        if at > now {
            return None;
        }
        self.set(id, None);
        Some(id)
    }
    /// The next deadline, or earlier.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }
}
