//! send(2): bytes into the send buffer, and from there what the windows allow.

use super::control_block::{Cx, Fate, Tcb};
use super::{Push, State};
use crate::{Duration, Frame, Instant, Outlet, SendError, SocketId, Source, Stack};

impl<F: Frame> Stack<F> {
    /// Takes as many bytes as there is room for, and sends what the windows allow.
    pub fn tcp_send(
        &mut self,
        now: Instant,
        id: SocketId,
        data: &mut impl Source,
        push: Push,
        out: &mut impl Outlet,
    ) -> Result<usize, SendError> {
        let now = self.reach(now);
        let mut answer = Err(SendError::NoSocket);
        self.with_tcp(now, id, out, |tcb, cx| {
            answer = tcb.send(cx, data, push);
            Fate::Stays
        });
        answer
    }

    /// Sends what Nagle's rule, TCP_CORK or MSG_MORE hold back now: TCP_NODELAY was set (Linux's TCP_NAGLE_PUSH).
    pub fn tcp_push(&mut self, now: Instant, id: SocketId, out: &mut impl Outlet) {
        let now = self.reach(now);
        self.with_tcp(now, id, out, |tcb, cx| {
            tcb.pushed = true;
            tcb.output(cx);
            Fate::Stays
        });
    }
}

impl<F: Frame> Tcb<F> {
    fn send<O: Outlet>(
        &mut self,
        cx: &mut Cx<'_, O>,
        data: &mut impl Source,
        push: Push,
    ) -> Result<usize, SendError> {
        if let Some(why) = self.error.take() {
            return Err(SendError::Failed(why));
        }
        if !self.can_send() {
            return match self.state() {
                State::SynSent | State::SynReceived => {
                    self.starved = true;
                    Err(SendError::WouldBlock)
                }
                _ => Err(SendError::Closed),
            };
        }
        let wanted = data.remaining();
        self.pushed = false;
        let mut n = wanted.min(self.send_room());
        if n == 0 && wanted > 0 {
            self.starved = true;
            self.output(cx);
            return Err(SendError::WouldBlock);
        }
        if self.tx.len() == 0 && n > 0 {
            // Nothing to send, which a closed window is not (Linux's tcp_slow_start_after_idle_check).
            let idle = cx.now.nanos_since(self.last_sent);
            if idle > self.rtt.rto_ns() && self.counts.data_segs_out > 0 {
                self.control.on_idle(cx.now, Duration::from_nanos(idle), self.rtt.rto());
            }
        }
        self.tx.append(data, n, &mut cx.shared.pool);
        if n < wanted && self.options.not_sent_low_water != u32::MAX {
            n += self.send_while_there_is_room(cx, data);
        }
        if !self.is_writable() {
            self.starved = true;
        }
        self.more = push == Push::More;
        self.later = push == Push::Later && n == wanted;
        if n == wanted && n > 0 {
            let end = self.snd_nxt + self.unsent();
            match push {
                Push::Urgent => self.snd_up = Some(end),
                Push::Record => self.seldom().records.end_before(end),
                _ => {}
            }
        }
        self.output(cx);
        if self.later {
            if self.unsent() > 0 {
                cx.net.waiting.for_outlet(cx.id);
            } else {
                self.later = false;
            }
        }
        Ok(n)
    }

    /// TCP_NOTSENT_LOWAT bounds what waits: what leaves makes room for more.
    #[cold]
    fn send_while_there_is_room<O: Outlet>(&mut self, cx: &mut Cx<'_, O>, data: &mut impl Source) -> usize {
        let mut taken = 0;
        loop {
            // The end of what waits is not the end of what the application said.
            self.more = true;
            self.output(cx);
            let n = data.remaining().min(self.send_room());
            if n == 0 {
                return taken;
            }
            self.tx.append(data, n, &mut cx.shared.pool);
            taken += n;
        }
    }
}
