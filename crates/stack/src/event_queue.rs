//! Events that wait to be drained: one per socket at most, whose edges gather.

use crate::{Event, Ready, SocketId};
use std::collections::VecDeque;

#[derive(Clone, Copy, Default)]
struct Head {
    generation: u32,
    edges: Ready,
    token: u64,
}

/// Tokens and undrained edges of all sockets, beside the sockets so that an edge can be raised while its socket is
/// borrowed.
#[derive(Default)]
pub(crate) struct Events {
    heads: Vec<Head>,
    queue: VecDeque<SocketId>,
    /// Last events of sockets that are gone.
    ended: VecDeque<Event>,
}

impl Events {
    /// Begins to keep events of a socket that was just made.
    pub(crate) fn open(&mut self, id: SocketId, token: u64) {
        let index = id.index as usize;
        if self.heads.len() <= index {
            self.heads.resize(index + 1, Head::default());
        }
        self.heads[index] = Head { generation: id.generation, edges: Ready::default(), token };
    }

    /// Forgets a socket with what it has undrained.
    pub(crate) fn close(&mut self, id: SocketId) {
        if let Some(head) = self.head(id) {
            *head = Head::default();
        }
    }

    /// Notes that `edges` became true.
    #[inline]
    pub(crate) fn raise(&mut self, id: SocketId, edges: Ready) {
        let Some(head) = self.heads.get_mut(id.index as usize) else { return };
        if head.generation != id.generation {
            return;
        }
        let queued = head.edges != Ready::default();
        head.edges |= edges;
        if !queued && edges != Ready::default() {
            self.queue.push_back(id);
        }
    }

    /// A socket that the application has closed is about to go: whoever waits for that is told once more.
    pub(crate) fn end(&mut self, id: SocketId) {
        if let Some(head) = self.head(id) {
            let event = Event { id, token: head.token, edges: Ready::HUP };
            self.ended.push_back(event);
        }
    }

    pub(crate) fn set_token(&mut self, id: SocketId, token: u64) {
        if let Some(head) = self.head(id) {
            head.token = token;
        }
        for event in self.ended.iter_mut().filter(|event| event.id == id) {
            event.token = token;
        }
    }

    /// The oldest event.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Event> {
        while let Some(id) = self.queue.pop_front() {
            if let Some(head) = self.head(id)
                && head.edges != Ready::default()
            {
                return Some(Event { id, token: head.token, edges: core::mem::take(&mut head.edges) });
            }
        }
        self.ended.pop_front()
    }

    #[inline]
    fn head(&mut self, id: SocketId) -> Option<&mut Head> {
        self.heads.get_mut(id.index as usize).filter(|head| head.generation == id.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(index: u32, generation: u32) -> SocketId {
        SocketId { index, generation }
    }

    #[test]
    fn edges_of_one_socket_gather_in_one_event() {
        let mut events = Events::default();
        events.open(id(0, 1), 7);
        events.raise(id(0, 1), Ready::IN);
        events.raise(id(0, 1), Ready::OUT);
        assert_eq!(events.take(), Some(Event { id: id(0, 1), token: 7, edges: Ready::IN | Ready::OUT }));
        assert_eq!(events.take(), None);
        events.raise(id(0, 1), Ready::IN);
        assert!(events.take().is_some());
    }

    #[test]
    fn the_end_of_a_socket_is_told_when_it_is_gone() {
        let mut events = Events::default();
        events.open(id(0, 1), 7);
        events.raise(id(0, 1), Ready::IN);
        events.end(id(0, 1));
        events.close(id(0, 1));
        assert_eq!(events.take(), Some(Event { id: id(0, 1), token: 7, edges: Ready::HUP }));
        assert_eq!(events.take(), None);
    }

    #[test]
    fn events_of_a_closed_socket_are_not_told_of_its_successor() {
        let mut events = Events::default();
        events.open(id(0, 1), 7);
        events.raise(id(0, 1), Ready::IN);
        events.close(id(0, 1));
        events.open(id(0, 2), 8);
        assert_eq!(events.take(), None);
        events.raise(id(0, 1), Ready::IN);
        assert_eq!(events.take(), None);
        events.raise(id(0, 2), Ready::OUT);
        assert_eq!(events.take(), Some(Event { id: id(0, 2), token: 8, edges: Ready::OUT }));
    }
}
