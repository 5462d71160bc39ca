//! Timers that fire: the wheel says which socket, the socket knows which of its timers are due.

use super::State;
use super::control_block::{Cx, Fate, NEVER, Tcb, Timer};
use crate::mutation::planted;
use crate::stack::Socket;
use crate::{Frame, Instant, Outlet, SocketId, Stack};

/// The deadline of a socket has passed, or was moved meanwhile.
pub(crate) fn expired<F: Frame>(stack: &mut Stack<F>, now: Instant, id: SocketId, out: &mut impl Outlet) {
    match stack.sockets.get(id) {
        Some(Socket::HalfOpen(_)) => stack.expire_half_open(now, id, out),
        Some(Socket::TimeWait(_)) => stack.expire_time_wait(id),
        Some(Socket::Tcp(_)) => stack.with_tcp(now, id, out, |tcb, cx| tcb.on_timers(cx)),
        _ => {}
    }
}

impl<F: Frame> Tcb<F> {
    fn on_timers<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) -> Fate {
        for timer in [Timer::Retransmit, Timer::DelayedAck, Timer::Keepalive, Timer::Linger, Timer::Pacing] {
            if self.deadline[timer as usize] > cx.now {
                continue;
            }
            self.deadline[timer as usize] = NEVER;
            let fate = self.on_timer(cx, timer);
            if fate != Fate::Stays {
                return fate;
            }
        }
        if let Some(next) = self.next_deadline() {
            cx.timers.arm_by(cx.id, next);
        }
        Fate::Stays
    }

    fn on_timer<O: Outlet>(&mut self, cx: &mut Cx<'_, O>, timer: Timer) -> Fate {
        match timer {
            Timer::Retransmit if planted!(NoSynTimer) && self.state() == State::SynSent => Fate::Stays,
            Timer::Retransmit if matches!(self.state(), State::SynSent | State::SynReceived) => {
                self.on_syn_timer(cx)
            }
            Timer::Retransmit => self.on_retransmit_timer(cx),
            Timer::DelayedAck => {
                self.on_delayed_ack_timer(cx);
                Fate::Stays
            }
            Timer::Keepalive => self.on_keepalive_timer(cx),
            // FIN-WAIT-2 of a closed socket: the peer does not close.
            Timer::Linger => self.finish(cx, None),
            Timer::Pacing => {
                self.output(cx);
                Fate::Stays
            }
        }
    }
}
