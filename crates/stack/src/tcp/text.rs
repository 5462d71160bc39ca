//! What a segment brings: payload and FIN, the seventh and eighth step of RFC 9293, 3.10.7.4. That it is acceptable is
//! settled before, in `input`.

use super::State;
use super::control_block::{Cx, Fate, Tcb};
use super::receive::{Hold, Taken};
use super::segment::Segment;
use crate::mutation::planted;
use crate::{Frame, Outlet, Ready, SocketError};
use core::ops::Range;
use wire::tcp::Flags;

impl<F: Frame> Tcb<F> {
    /// Seventh and eighth step: payload and FIN.
    pub(super) fn on_text<O: Outlet>(
        &mut self,
        cx: &mut Cx<'_, O>,
        seg: &Segment,
        head: F,
        range: Range<usize>,
        tail: &mut Vec<F>,
    ) -> Fate {
        if self.fin_received {
            // Retransmission of what we have, FIN included, is acknowledged; what lies beyond the FIN is nothing.
            if seg.seq.before(self.rcv_nxt) {
                self.ack_owed = true;
                self.ack_now = true;
            }
            return Fate::Stays;
        }
        if self.nobody_reads() && seg.len > 0 && (seg.seq + seg.len).after(self.rcv_nxt) {
            // The peer must learn (RFC 9293, 3.6; RFC 2525, 2.17), and so must who still has the socket.
            // At the number that the peer acknowledged, which is the one that it expects.
            self.reset_at(cx, seg.ack);
            return self.finish(cx, Some(SocketError::Reset));
        }
        let before = self.rcv_nxt;
        if seg.has(Flags::FIN) && self.fin_at.is_none() {
            let at = seg.seq + seg.len;
            if !at.after(self.rcv_adv) {
                self.fin_at = Some(at);
            }
        }
        if let Some(offset) = self.offset_of(seg.seq)
            && seg.len > 0
        {
            let limit = self.fin_at.map_or(self.rcv_adv, |at| at.min(self.rcv_adv));
            let limit = self.offset_of(limit.max(self.rcv_nxt)).unwrap_or(0);
            let memory = u64::from(self.rx_capacity) * 2;
            let mut hold = Hold { budget: cx.budget, pool: &mut cx.shared.pool };
            let span = (range.start as u32, range.end as u32);
            let taken = self.rx.segment(&mut hold, offset, head, span, tail, seg.len, limit, memory);
            self.rcv_nxt += taken.in_order as u32;
            self.after_text(cx, seg, taken);
        } else if seg.len > 0 {
            self.ack_owed = true;
            self.ack_now = true;
        }
        // A FIN in its place ends the stream, whatever an earlier one that came out of order said.
        if seg.has(Flags::FIN) && seg.seq + seg.len == self.rcv_nxt {
            self.fin_at = Some(self.rcv_nxt);
        }
        if self.fin_at == Some(self.rcv_nxt) {
            return self.on_fin(cx);
        }
        if seg.has(Flags::FIN) && self.rcv_nxt == before {
            self.ack_owed = true;
            self.ack_now = true;
        }
        Fate::Stays
    }

    /// It is closed, or both of its directions are shut: what comes now is for nobody. With the read side alone shut
    /// Linux takes it, and so do we (Linux's tcp_rcv_state_process).
    fn nobody_reads(&self) -> bool {
        self.orphan || self.read_shut && matches!(self.state(), State::FinWait1 | State::FinWait2)
    }

    fn after_text<O>(&mut self, cx: &mut Cx<'_, O>, seg: &Segment, taken: Taken) {
        if taken.duplicate.is_some() && self.sack_ok {
            self.dsack = taken.duplicate;
        }
        if taken.in_order > 0 {
            self.on_in_order_data(cx, taken.in_order, seg);
        }
        // Also if the window took a part of it only.
        if taken.in_order < u64::from(seg.len) || taken.disorder || taken.duplicate.is_some() {
            self.ack_owed = true;
            self.ack_now = true;
            self.acks.hurry(2);
        }
    }

    /// The bookkeeping of new readable bytes: counters, what acknowledgment is owed, the edge.
    #[inline]
    pub(super) fn on_in_order_data<O>(&mut self, cx: &mut Cx<'_, O>, bytes: u64, seg: &Segment) {
        self.counts.bytes_received += bytes;
        self.counts.data_segs_in = self.counts.data_segs_in.wrapping_add(1);
        self.measure_segment(seg);
        self.pace_acks(cx.now);
        self.last_data_received = cx.now;
        self.ack_owed = true;
        let unacked = self.rcv_nxt - self.last_ack_sent;
        let quick = (self.acks.quick > 0 && !self.acks.interactive) || self.options.quickack;
        if (unacked > self.rcv_mss && !self.reader_is_behind()) || quick || self.rx.has_holes() {
            self.ack_now = true;
        }
        self.measure_receive(cx.now);
        if self.urgent.expected {
            self.take_urgent_byte();
        }
        if self.is_readable() && !(planted!(NoDataEvent) && bytes > u64::from(seg.len)) {
            cx.events.raise(cx.id, Ready::IN);
        }
    }

    /// The peer's FIN is next in order.
    fn on_fin<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) -> Fate {
        self.rcv_nxt += 1;
        self.fin_received = true;
        self.rx.end();
        self.ack_owed = true;
        let mut edges = Ready::IN | Ready::RDHUP;
        let next = match self.state() {
            State::FinWait1 if planted!(NoClosing) => State::TimeWait,
            State::FinWait1 => State::Closing,
            State::FinWait2 => State::TimeWait,
            // The only other state in which the peer's first FIN is looked for: the handshake is over by now, and in
            // the states of a stream that ended `on_text` came before.
            _ => State::CloseWait,
        };
        if next != State::CloseWait {
            edges |= Ready::HUP;
        }
        let full = self.rcv_adv.distance_from(self.rcv_nxt) < self.rcv_mss as i32;
        if next != State::CloseWait || full || !self.acks.expect_close() {
            self.ack_now = true;
        }
        cx.events.raise(cx.id, edges);
        if next == State::TimeWait {
            self.send_ack(cx);
        }
        self.set_state(next);
        if next == State::TimeWait { Fate::TimeWait } else { Fate::Stays }
    }

    /// What an acknowledgment of our FIN does to the state; `Some`: the connection is over.
    pub(super) fn after_fin_acknowledged<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) -> Option<Fate> {
        if !self.fin_sent || self.snd_una != self.snd_nxt {
            return None;
        }
        match self.state() {
            State::FinWait1 if planted!(FinAckLost) => None,
            State::FinWait1 => {
                self.set_state(State::FinWait2);
                if self.orphan && self.skips_fin_wait_2() {
                    self.reset_at(cx, self.snd_una);
                    return Some(self.finish(cx, None));
                }
                if self.orphan {
                    cx.events.raise(cx.id, crate::Ready::OUT);
                    self.await_peers_fin(cx);
                }
                None
            }
            State::Closing => {
                self.set_state(State::TimeWait);
                Some(Fate::TimeWait)
            }
            State::LastAck => Some(self.finish(cx, None)),
            _ => None,
        }
    }
}
