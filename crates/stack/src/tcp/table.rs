//! Connections in the table of sockets: how a method is run on one, and what becomes of it afterwards.

use super::control_block::{Cx, Fate, Tcb};
use super::receive::Hold;
use super::time_wait::TimeWait;
use crate::stack::Socket;
use crate::{Frame, Instant, Outlet, Ready, SocketId, Stack};

impl<F: Frame> Stack<F> {
    /// Runs a method of the connection `id`, with the rest of the stack at its hand, and draws the consequence.
    #[inline]
    pub(crate) fn with_tcp<O: Outlet>(
        &mut self,
        now: Instant,
        id: SocketId,
        out: &mut O,
        run: impl FnOnce(&mut Tcb<F>, &mut Cx<'_, O>) -> Fate,
    ) {
        let Stack { sockets, net, events, timers, budget, tcp, .. } = self;
        let Some(Socket::Tcp(tcb)) = sockets.get_mut(id) else { return };
        let mut cx = Cx { now, id, net, events, timers, budget, shared: tcp, out };
        let fate = run(tcb, &mut cx);
        if fate != Fate::Stays {
            self.apply_fate(now, id, fate);
        }
    }

    #[inline]
    pub(crate) fn tcb(&self, id: SocketId) -> Option<&Tcb<F>> {
        match self.sockets.get(id) {
            Some(Socket::Tcp(tcb)) => Some(tcb),
            _ => None,
        }
    }

    /// A connection is over in one way or another.
    fn apply_fate(&mut self, now: Instant, id: SocketId, fate: Fate) {
        let Some(Socket::Tcp(tcb)) = self.sockets.get_mut(id) else { return };
        let (local, remote) = (tcb.local, tcb.remote);
        self.demux.tcp.remove_flow(local, remote, id);
        match fate {
            Fate::Stays => {}
            Fate::Closed => self.timers.set(id, None),
            Fate::Ends => self.drop_tcb(id),
            Fate::TimeWait => {
                let rest = TimeWait::of(tcb, now, &self.tcp.settings);
                if tcb.orphan {
                    self.drop_tcb(id);
                } else {
                    // The application still holds the id, as the kernel's would hold the descriptor of a socket that
                    // is CLOSED; the flow is kept by a place of its own.
                    let fate = tcb.finish_quietly();
                    debug_assert_eq!(fate, Fate::Closed);
                    self.timers.set(id, None);
                    self.events.raise(id, Ready::IN | Ready::OUT | Ready::RDHUP | Ready::HUP);
                }
                self.keep_time_wait(rest);
            }
        }
    }

    /// Removes a connection with everything it holds.
    pub(crate) fn drop_tcb(&mut self, id: SocketId) {
        if self.tcb(id).is_some_and(|tcb| tcb.orphan) {
            self.events.end(id);
        }
        if let Some(Socket::Tcp(mut tcb)) = self.forget(id) {
            self.tcp.orphans -= u32::from(tcb.orphan);
            tcb.tx.clear(&mut self.tcp.pool);
            tcb.rx.clear(&mut Hold { budget: &mut self.budget, pool: &mut self.tcp.pool });
        }
    }
}
