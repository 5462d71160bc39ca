//! The end of a connection: half-close, close and reset by our application, and what is left when it is over.

use super::control_block::{Awaits, Cx, Fate, NEVER, TIMERS, Tcb, Timer};
use super::{Close, State};
use crate::stack::Socket;
use crate::{Duration, Frame, Instant, Outlet, Ready, RecvError, SendError, SocketError, SocketId, Stack};

#[allow(missing_docs)]
impl<F: Frame> Stack<F> {
    /// shutdown(SHUT_WR): FIN after the data.
    pub fn tcp_shutdown_write(
        &mut self,
        now: Instant,
        id: SocketId,
        out: &mut impl Outlet,
    ) -> Result<(), SendError> {
        let now = self.reach(now);
        let mut answer = Err(SendError::NoSocket);
        self.with_tcp(now, id, out, |tcb, cx| {
            answer = match tcb.state() {
                State::Closed | State::SynSent => Err(SendError::NotConnected),
                _ => Ok(()),
            };
            if answer.is_ok() && !tcb.fin_queued {
                tcb.begin_fin(cx);
                // Room to write is told like the kernel tells it: writing fails at once now.
                let mut edges = Ready::OUT;
                if tcb.fin_received {
                    edges |= Ready::HUP;
                }
                cx.events.raise(cx.id, edges);
            }
            Fate::Stays
        });
        answer
    }

    /// shutdown(SHUT_RD): reads end once the queue is empty; what still comes is taken, as Linux does.
    pub fn tcp_shutdown_read(&mut self, _now: Instant, id: SocketId) -> Result<(), RecvError> {
        let Some(Socket::Tcp(tcb)) = self.sockets.get_mut(id) else { return Err(RecvError::NoSocket) };
        if matches!(tcb.state(), State::Closed | State::SynSent) {
            return Err(RecvError::NotConnected);
        }
        tcb.read_shut = true;
        let mut edges = Ready::IN | Ready::RDHUP;
        if tcb.fin_queued {
            edges |= Ready::HUP;
        }
        self.events.raise(id, edges);
        Ok(())
    }

    /// The application is done with it. With unread data: RST, as Linux. A listener resets what was not accepted.
    pub fn tcp_close(&mut self, now: Instant, id: SocketId, how: Close, out: &mut impl Outlet) {
        let now = self.reach(now);
        if let Some(Socket::Listener(_)) = self.sockets.get(id) {
            return self.close_listener(now, id, out);
        }
        self.with_tcp(now, id, out, |tcb, cx| tcb.close(cx, how));
    }

    /// The connection cannot go on: the peer is reset, and the application told so once it has read what waits.
    pub fn tcp_reset(&mut self, now: Instant, id: SocketId, out: &mut impl Outlet) {
        let now = self.reach(now);
        self.with_tcp(now, id, out, |tcb, cx| {
            tcb.send_reset(cx);
            tcb.finish(cx, Some(SocketError::Reset))
        });
    }

    /// Whether a closed id still has something to deliver: its FIN, or data before it, is not acknowledged. SO_LINGER
    /// waits for that (Linux's sk_stream_wait_close).
    pub fn tcp_delivers(&self, id: SocketId) -> bool {
        self.tcb(id).is_some_and(|tcb| tcb.orphan && tcb.state() != State::FinWait2)
    }

    /// Whether a closed id is still here: it delivers, or waits for the peer's FIN (not TIME-WAIT). An event tells the
    /// end of both.
    pub fn tcp_closing(&self, id: SocketId) -> bool {
        self.tcb(id).is_some_and(|tcb| tcb.orphan)
    }
}

impl<F: Frame> Tcb<F> {
    fn close<O: Outlet>(&mut self, cx: &mut Cx<'_, O>, how: Close) -> Fate {
        if self.orphan {
            return Fate::Stays;
        }
        self.orphan = true;
        cx.shared.orphans += 1;
        // An urgent byte that was read apart is among them until reads pass over it.
        let unread = self.rx.len() > 0;
        match self.state() {
            State::Closed | State::SynSent => return self.finish(cx, None),
            _ if how == Close::Abort || unread => {
                // Data that was acknowledged and nobody read: the peer must not believe it was (RFC 2525, 2.17).
                self.send_reset(cx);
                return self.finish(cx, None);
            }
            _ if cx.shared.has_too_many_orphans(0) => return self.give_way(cx),
            State::FinWait2 if self.skips_fin_wait_2() => {
                self.send_reset(cx);
                return self.finish(cx, None);
            }
            State::FinWait2 => self.await_peers_fin(cx),
            _ => {}
        }
        if !self.fin_queued {
            self.begin_fin(cx);
        }
        Fate::Stays
    }

    /// Whether TCP_LINGER2 asks to reset the peer rather than to wait for its FIN.
    pub(crate) fn skips_fin_wait_2(&self) -> bool {
        self.options.fin_timeout == Some(Duration::ZERO)
    }

    /// FIN-WAIT-2 of a closed socket does not last for ever, and never shorter than a retransmission of the peer's FIN
    /// may take (Linux's tcp_fin_time).
    pub(crate) fn await_peers_fin<O>(&mut self, cx: &mut Cx<'_, O>) {
        let span = self.options.fin_timeout.unwrap_or(cx.shared.settings.fin_timeout);
        let span = span.max(self.rtt.rto() * 7 / 2);
        self.set_timer(cx, Timer::Linger, cx.now + span);
    }

    /// A closed socket too many: the peer learns that the rest will not come.
    pub(crate) fn give_way<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) -> Fate {
        cx.shared.refused.orphans += 1;
        self.send_reset(cx);
        self.finish(cx, None)
    }

    /// Our side of the stream ends behind what is queued.
    fn begin_fin<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) {
        self.fin_queued = true;
        self.more = false;
        self.later = false;
        match self.state() {
            State::CloseWait => self.set_state(State::LastAck),
            State::Established => self.set_state(State::FinWait1),
            // SynReceived: the FIN waits until our SYN is acknowledged (RFC 9293, 3.10.4).
            _ => {}
        }
        self.output(cx);
    }

    /// The connection is over. What was received stays readable.
    pub(crate) fn finish<O>(&mut self, cx: &mut Cx<'_, O>, error: Option<SocketError>) -> Fate {
        self.tx.clear(&mut cx.shared.pool);
        let fate = self.finish_quietly();
        if fate == Fate::Closed {
            self.error = error.or(self.error);
            let mut edges = Ready::IN | Ready::OUT | Ready::RDHUP | Ready::HUP;
            if error.is_some() {
                edges |= Ready::ERR;
            }
            cx.events.raise(cx.id, edges);
        }
        fate
    }

    /// See [`Tcb::finish`]; without a word to the application, and with an empty send buffer.
    pub(crate) fn finish_quietly(&mut self) -> Fate {
        self.set_state(State::Closed);
        self.board.reset(self.snd_nxt);
        self.deadline = [NEVER; TIMERS];
        self.awaits = Awaits::Nothing;
        self.ack_owed = false;
        self.ack_now = false;
        if self.orphan { Fate::Ends } else { Fate::Closed }
    }

    /// Fails the connection without a word to the peer: the device is gone.
    pub(crate) fn abandon(&mut self, why: SocketError) {
        self.finish_quietly();
        self.error = Some(why);
    }
}
