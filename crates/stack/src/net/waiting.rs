//! Sockets that are to be tried again: when the outlet has room (`flush`), or when their path is known.

use crate::SocketId;
use std::collections::VecDeque;

const OUTLET: u8 = 1;
const PATH: u8 = 2;

/// Each socket is in each list once at most. Entries of sockets that are gone are skipped by whoever looks them up.
#[derive(Default)]
pub(crate) struct Waiting {
    marks: Vec<(u32, u8)>,
    outlet: VecDeque<SocketId>,
}

impl Waiting {
    /// `flush` shall try this socket.
    #[inline]
    pub(crate) fn for_outlet(&mut self, id: SocketId) {
        if self.mark(id, OUTLET) {
            self.outlet.push_back(id);
        }
    }

    /// Whether this socket waits for `flush`.
    #[inline]
    pub(crate) fn waits_for_outlet(&self, id: SocketId) -> bool {
        self.marks.get(id.index as usize).is_some_and(|mark| mark.0 == id.generation && mark.1 & OUTLET != 0)
    }

    /// The next socket that waits for `flush`; it no longer does.
    pub(crate) fn take_for_outlet(&mut self) -> Option<SocketId> {
        let id = self.outlet.pop_front()?;
        self.clear(id, OUTLET);
        Some(id)
    }

    #[inline]
    pub(crate) fn outlet_len(&self) -> usize {
        self.outlet.len()
    }

    /// Marks a socket as waiting for its path; `false`: it did already.
    pub(super) fn for_path(&mut self, id: SocketId) -> bool {
        self.mark(id, PATH)
    }

    pub(super) fn clear_path(&mut self, id: SocketId) {
        self.clear(id, PATH);
    }

    #[inline]
    fn mark(&mut self, id: SocketId, bit: u8) -> bool {
        let index = id.index as usize;
        if self.marks.len() <= index {
            self.marks.resize(index + 1, (0, 0));
        }
        let mark = &mut self.marks[index];
        if mark.0 != id.generation {
            *mark = (id.generation, 0);
        }
        let fresh = mark.1 & bit == 0;
        mark.1 |= bit;
        fresh
    }

    fn clear(&mut self, id: SocketId, bit: u8) {
        if let Some(mark) = self.marks.get_mut(id.index as usize)
            && mark.0 == id.generation
        {
            mark.1 &= !bit;
        }
    }
}
