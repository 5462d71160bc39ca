//! recv(2): bytes out of the in-order queue, the window update that may follow, urgent data.

use super::control_block::{Cx, Fate, Tcb, Urgent};
use super::open::window_max;
use super::receive::Hold;
use super::segment::Segment;
use super::{State, Take};
use crate::{Frame, Instant, Outlet, Ready, RecvError, Sink, SocketId, Stack};

impl<F: Frame> Stack<F> {
    /// `Ok(0)` with room in the sink: end of stream.
    pub fn tcp_recv(
        &mut self,
        now: Instant,
        id: SocketId,
        into: &mut impl Sink,
        take: Take,
        out: &mut impl Outlet,
    ) -> Result<usize, RecvError> {
        let now = self.reach(now);
        let mut answer = Err(RecvError::NoSocket);
        self.with_tcp(now, id, out, |tcb, cx| {
            answer = tcb.receive(cx, into, take);
            Fate::Stays
        });
        answer
    }

    /// Whether the read position is at the urgent mark (sockatmark).
    pub fn tcp_at_mark(&self, id: SocketId) -> bool {
        self.tcb(id).is_some_and(|tcb| tcb.urgent.mark == Some(tcb.read_offset()))
    }
}

impl<F: Frame> Tcb<F> {
    /// What reads find before they stop at the urgent mark; all, if that is not there yet (Linux's tcp_inq).
    pub(crate) fn before_mark(&self) -> usize {
        let ahead = self.urgent.mark.filter(|mark| !self.options.urgent_inline && *mark < self.rx.next());
        let bound = ahead.and_then(|mark| mark.checked_sub(self.read_offset()));
        self.readable().min(bound.map_or(usize::MAX, |bound| bound as usize))
    }

    fn receive<O: Outlet>(
        &mut self,
        cx: &mut Cx<'_, O>,
        into: &mut impl Sink,
        take: Take,
    ) -> Result<usize, RecvError> {
        if let Take::Urgent | Take::PeekUrgent = take {
            return self.receive_urgent(into, take);
        }
        if self.state() == State::SynSent && self.error.is_none() {
            return Err(RecvError::WouldBlock);
        }
        if take == Take::More && self.ends_a_call() {
            return Ok(0);
        }
        let passed = self.passed()?;
        if self.rx.len() == 0 {
            return self.receive_nothing();
        }
        let mut skip = match take {
            Take::Peek(behind) => behind,
            _ => 0,
        };
        let mut max = passed;
        if let Some(mark) = self.urgent.mark {
            // Reading stops at the mark; at the mark the byte is passed over unless it is to be read in line.
            let position = self.read_offset() + skip as u64;
            if mark > position {
                max = max.min((mark - position) as usize);
            } else if mark == position && !self.options.urgent_inline {
                skip += 1;
            }
        }
        if let Take::Peek(_) = take {
            return match self.rx.peek(into, skip, max) {
                0 if into.room() > 0 && self.rx.len() > skip => Err(RecvError::Refused),
                0 if into.room() > 0 => self.receive_nothing(),
                n => Ok(n),
            };
        }
        let mut hold = Hold { budget: cx.budget, pool: &mut cx.shared.pool };
        self.rx.skip(&mut hold, skip);
        let n = match take {
            Take::Discard => self.rx.skip(&mut hold, into.room().min(max)),
            _ => self.rx.read(&mut hold, into, max),
        };
        if passed != usize::MAX {
            self.passed_was_read((skip + n) as u32);
        }
        if let Some(mark) = self.urgent.mark
            && self.read_offset() > mark
        {
            // Who did not read it apart before has lost it, as on Linux.
            self.urgent = Urgent::default();
        }
        self.after_reading(cx, n as u32);
        if n == 0 && into.room() > 0 && self.rx.len() > 0 {
            return Err(RecvError::Refused);
        }
        if n == 0 && into.room() > 0 {
            // Only the urgent byte was there.
            return if self.fin_received { Ok(0) } else { Err(RecvError::WouldBlock) };
        }
        Ok(n)
    }

    /// Whether a call that has read up to here ends, though it waits for more.
    fn ends_a_call(&self) -> bool {
        self.urgent.mark == Some(self.read_offset()) || self.rx.len() == 0 && self.error.is_some()
    }

    /// Nothing is there to be read, or to be shown.
    pub(super) fn receive_nothing(&mut self) -> Result<usize, RecvError> {
        // As Linux: after the end of the stream a reset is for whoever sends (EPIPE); readers have all there is.
        if self.fin_received {
            return Ok(0);
        }
        if let Some(why) = self.error.take() {
            return Err(RecvError::Failed(why));
        }
        if self.read_shut || self.state() == State::Closed {
            return Ok(0);
        }
        Err(RecvError::WouldBlock)
    }

    /// Offset in the stream of the next byte that the application reads.
    pub(crate) fn read_offset(&self) -> u64 {
        self.rx.next() - self.rx.len() as u64
    }

    /// Tells the peer about the room if it is worth it, and gives an acknowledgment that an application that has
    /// read everything will hardly follow by data (Linux's tcp_cleanup_rbuf).
    pub(super) fn after_reading<O: Outlet>(&mut self, cx: &mut Cx<'_, O>, n: u32) {
        self.tune_receive_buffer(cx, n);
        if n == 0 || self.state() == State::Closed || self.fin_received {
            return;
        }
        let unacked = self.rcv_nxt - self.last_ack_sent;
        if self.ack_owed && (unacked > self.rcv_mss || self.reading_acknowledges()) {
            return self.send_ack(cx);
        }
        self.offer_room(cx);
    }

    /// Tells the peer about the room if it is worth it.
    pub(super) fn offer_room<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) {
        let told = self.rcv_adv.distance_from(self.rcv_nxt).max(0) as u32;
        if 2 * u64::from(told) <= u64::from(self.rx_capacity) {
            let offer = self.window_on_offer();
            if offer > 0 && offer >= told.saturating_mul(2) {
                self.send_ack(cx);
            }
        }
    }

    /// Receive buffer autotuning: room for twice what the application read in a round trip (Linux's DRS).
    fn tune_receive_buffer<O>(&mut self, cx: &mut Cx<'_, O>, n: u32) {
        let t = &mut self.tuning;
        t.read = t.read.saturating_add(n);
        let rtt = if t.rtt != 0 { t.rtt } else { self.rtt.srtt_ns() };
        if rtt == 0 || cx.now.nanos_since(t.since) <= rtt {
            return;
        }
        if t.read > t.space {
            t.space = t.read;
            if self.options.receive_buffer.is_none() {
                let wanted = t.read.saturating_mul(2).saturating_add(16 * self.rcv_mss);
                let wanted = wanted.min(cx.shared.settings.rmem[2] / 2).min(window_max(&self.options));
                self.rx_capacity = self.rx_capacity.max(wanted);
            }
        }
        t.read = 0;
        t.since = cx.now;
    }

    /// Measures the round trip as a receiver: the time in which the peer sends one window (RFC-less, Linux's
    /// tcp_rcv_rtt_measure).
    #[inline]
    pub(crate) fn measure_receive(&mut self, now: Instant) {
        let t = &mut self.tuning;
        if t.rtt_since != Instant::ZERO && self.rcv_nxt.before(t.rtt_edge) {
            return;
        }
        if t.rtt_since != Instant::ZERO {
            let sample = now.nanos_since(t.rtt_since);
            t.rtt = if t.rtt == 0 { sample } else { t.rtt.min(sample).max(1) };
        }
        t.rtt_edge = self.rcv_adv;
        t.rtt_since = now;
    }

    fn receive_urgent(&mut self, into: &mut impl Sink, take: Take) -> Result<usize, RecvError> {
        if self.options.urgent_inline {
            return Err(RecvError::NoUrgentData);
        }
        match self.urgent.byte {
            Some(byte) => {
                if into.room() > 0 {
                    if !into.put(&[byte]) {
                        return Err(RecvError::Refused);
                    }
                    if take == Take::Urgent {
                        self.urgent.byte = None;
                    }
                    return Ok(1);
                }
                Ok(0)
            }
            None if self.urgent.mark.is_some() && self.urgent.expected => Err(RecvError::WouldBlock),
            None => Err(RecvError::NoUrgentData),
        }
    }

    /// Sixth step: the urgent pointer, which names the byte before it as Linux reads it (RFC 6093, 3.1).
    pub(crate) fn on_urgent<O>(&mut self, cx: &mut Cx<'_, O>, seg: &Segment) {
        if seg.urgent == 0 || self.fin_received {
            return;
        }
        let at = seg.seq + (u32::from(seg.urgent) - 1);
        // Behind what was read, or beyond every window: no urgency, and no arithmetic with it (URGENT/11).
        if at.before(self.rcv_nxt) || at.after(self.rcv_adv) {
            return;
        }
        let Some(offset) = self.offset_of(at) else { return };
        if self.urgent.mark.is_some_and(|mark| mark >= offset) {
            return;
        }
        if self.urgent.mark == Some(self.read_offset()) && !self.options.urgent_inline {
            // The reader stands before the last one, which is not to be read in line: it is passed over now, as Linux
            // does it.
            self.rx.skip(&mut Hold { budget: cx.budget, pool: &mut cx.shared.pool }, 1);
        }
        self.urgent = Urgent { mark: Some(offset), byte: None, expected: true };
        cx.events.raise(cx.id, Ready::PRI);
    }

    /// The urgent byte, if it is in order by now.
    pub(crate) fn take_urgent_byte(&mut self) {
        let Some(mark) = self.urgent.mark else { return };
        if !self.urgent.expected || self.options.urgent_inline || mark >= self.rx.next() {
            return;
        }
        let Some(skip) = mark.checked_sub(self.read_offset()) else { return };
        let mut byte = [0];
        if self.rx.peek(&mut &mut byte[..], skip as usize, 1) == 1 {
            self.urgent.byte = Some(byte[0]);
            self.urgent.expected = false;
        }
    }
}
