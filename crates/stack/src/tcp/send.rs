//! send(2): bytes into the send buffer, and from there what the windows allow.

use super::control_block::{Cx, Fate, Tcb};
use super::{Push, State};
use crate::{Frame, Instant, Outlet, SendError, SocketId, Source, Stack};

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
        let n = wanted.min(self.send_room());
        if n == 0 && wanted > 0 {
            self.starved = true;
            self.output(cx);
            return Err(SendError::WouldBlock);
        }
        self.tx.append(data, n, &mut cx.shared.pool);
        if !self.is_writable() {
            self.starved = true;
        }
        self.more = push == Push::More;
        self.later = push == Push::Later && n == wanted;
        if push == Push::Urgent && n == wanted && n > 0 {
            self.snd_up = Some(self.snd_nxt + self.unsent());
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
}
