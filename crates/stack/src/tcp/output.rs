//! What to send next: lost segments again, new data, FIN, acknowledgments, resets. One function decides, one writes.

use super::control_block::{Awaits, Cx, Recovery, Tcb, Timer};
use super::receive::SACK_BLOCKS;
use super::seq::Seq;
use super::{State, ecn, segment};
use crate::mutation::planted;
use crate::net::{Ip, Sent};
use crate::stack::Socket;
use crate::{Frame, Instant, Outlet, SocketId, Stack};
use wire::ipv4;
use wire::tcp::{Fields, Flags, HEADER_LEN, OptionsWriter};

/// The outlet has room again, a path became known, or `flush` was called for a stream with `Push::Later`.
pub(crate) fn retry<F: Frame>(stack: &mut Stack<F>, now: Instant, id: SocketId, out: &mut impl Outlet) {
    if let Some(Socket::HalfOpen(_)) = stack.sockets.get(id) {
        return stack.send_syn_ack(now, id, out);
    }
    stack.with_tcp(now, id, out, |tcb, cx| {
        tcb.later = false;
        if tcb.state() == State::SynSent || tcb.state() == State::SynReceived {
            return tcb.retry_syn(cx);
        }
        tcb.output(cx);
        tcb.acknowledge(cx);
        super::Fate::Stays
    });
}

/// A segment's headers, but for the sums.
pub(super) struct Prepared {
    pub(super) fields: Fields,
    /// Empty if the layout is `plain`: timestamps alone.
    pub(super) options: OptionsWriter,
    pub(super) stamps: (u32, u32),
    pub(super) plain: bool,
    pub(super) ip: Ip,
    /// What `rcv_adv` was before.
    pub(super) rcv_adv: Seq,
    pub(super) new_data: bool,
}

/// What came of an attempt to send a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Went {
    Out,
    /// Not now; `retry` follows.
    Blocked,
    /// The path takes less: cut it smaller.
    Smaller,
}

/// What may be sent of what was never sent before.
enum Next {
    /// A segment of so many bytes.
    Send(u32),
    /// Nothing now: the congestion window, Nagle's rule or a cork.
    Wait,
    /// Nothing now: the peer's window.
    Closed,
}

impl<F: Frame> Tcb<F> {
    /// Sends all that may be sent now.
    pub(crate) fn output<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) {
        if !matches!(
            self.state(),
            State::Established | State::CloseWait | State::FinWait1 | State::Closing | State::LastAck
        ) {
            return;
        }
        if cx.net.may_take_more(&self.route) {
            self.follow_path(cx);
        }
        if self.board.lost() != self.board.resent() && !self.send_lost(cx) {
            self.arm_retransmit(cx);
            return;
        }
        let before = self.snd_nxt;
        let mut window_closed = false;
        if self.unsent() > 0 || (self.fin_queued && !self.fin_sent) {
            window_closed = self.send_new(cx);
            self.note_use(before != self.snd_nxt);
        }
        self.note_limit(cx.now, window_closed);
        if (before != self.snd_nxt || self.awaits == Awaits::Nothing) && !planted!(NoRetransmissionTimer) {
            self.arm_after_sending(cx);
        }
        // What was sent counts no more as unsent (TCP_NOTSENT_LOWAT).
        if self.starved {
            self.tell_room(cx);
        }
    }

    /// Data never sent before, and the FIN behind it. Returns true if the peer's window was what ended it.
    fn send_new<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) -> bool {
        while !self.board.is_full() {
            let waiting = self.unsent();
            let unsent = self.within_record(self.snd_nxt, waiting);
            let room = self.segment_room();
            let probe = if self.search.is_some() { self.probe_len(cx, unsent, room) } else { None };
            let room = probe.unwrap_or(room);
            let fin = self.fin_queued
                && !self.fin_sent
                && unsent == waiting
                && (unsent <= room || planted!(EarlyFin));
            if unsent == 0 && !fin {
                break;
            }
            if unsent > 0 && self.is_held_by_pace(cx) {
                break;
            }
            let len = match self.new_segment_len(unsent, waiting, room, fin) {
                Next::Send(len) => len,
                Next::Wait => break,
                Next::Closed => return true,
            };
            let fin = fin && (len == unsent || planted!(EarlyFin));
            let mut flags = Flags::ACK;
            if len == unsent && len > 0 {
                flags = flags | Flags::PSH;
            }
            if fin {
                flags = flags | Flags::FIN;
            }
            let seq = self.snd_nxt;
            let count = if len == room && !fin && probe.is_none() {
                self.segments_at_once(cx, unsent, room)
            } else {
                1
            };
            let went = match count {
                1 => self.send_segment(cx, seq, len, flags),
                _ => self.send_together(cx, seq, room, count),
            };
            match went {
                Went::Out => {}
                Went::Smaller => continue,
                Went::Blocked => break,
            }
            let len = len * count;
            let space = len + u32::from(fin);
            self.note_new(cx.now, seq, space, count);
            self.snd_nxt = seq + space;
            if probe == Some(len) {
                self.note_probe(seq, len);
            }
            self.fin_sent |= fin;
            self.counts.bytes_sent += u64::from(len);
            if len < room {
                self.small_end = self.snd_nxt;
            }
            if self.recovery != Recovery::Open {
                self.reduction.sent += space;
            }
            if seq == self.snd_una || self.stuck_since.is_none() {
                self.stuck_since = Some(cx.now);
            }
            if len == waiting && self.fin_sent == self.fin_queued {
                break;
            }
        }
        false
    }

    /// Length of the next new segment, or why there is none now. Windows, silly windows (RFC 9293, 3.8.6.2.1), Nagle,
    /// corks. The `unsent` bytes are of one record, `waiting` are all.
    fn new_segment_len(&self, unsent: u32, waiting: u32, room: u32, fin: bool) -> Next {
        let from = if planted!(WindowFromNext) { self.snd_nxt } else { self.snd_una };
        let window = (from + self.snd_wnd).distance_from(self.snd_nxt).max(0) as u32;
        let mut len = unsent.min(room);
        if len + u32::from(fin && len == unsent) > window {
            let fits = window.min(len);
            let silly = fits < room && fits < self.snd_wnd_max / 2;
            if fits == 0 || (silly && !self.forced) {
                return Next::Closed;
            }
            len = fits;
        }
        let in_flight = self.in_flight();
        if in_flight > 0 && in_flight + len > self.control.window() && !planted!(NoCongestionWindow) {
            return Next::Wait;
        }
        if len < room && len == waiting && !fin && !self.may_send_partial() {
            return Next::Wait;
        }
        Next::Send(len)
    }

    /// Whether the last, partial segment may go: Nagle's rule in Minshall's variant, as Linux.
    fn may_send_partial(&self) -> bool {
        if self.fin_queued | self.pushed | self.forced {
            return true;
        }
        if self.options.cork | self.more | self.later {
            return false;
        }
        self.options.nodelay || self.outstanding() == 0 || !self.small_end.after(self.snd_una)
    }

    /// Sends lost segments again as far as the congestion window goes; `false`: no more may be sent now.
    fn send_lost<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) -> bool {
        while let Some(lost) = self.board.next_lost() {
            let in_flight = self.in_flight();
            if in_flight > 0 && in_flight + lost.len.min(self.payload_max()) > self.control.window() {
                return false;
            }
            let beyond = !lost.start.before(self.snd_una + self.snd_wnd);
            if beyond && lost.start != self.snd_una {
                return false;
            }
            if self.is_held_by_pace(cx) {
                return false;
            }
            if !self.send_again(cx, lost.start, lost.len) {
                return false;
            }
        }
        true
    }

    /// Sends a segment of the scoreboard again, as much of it as fits; `false`: the way is blocked.
    pub(crate) fn send_again<O: Outlet>(&mut self, cx: &mut Cx<'_, O>, start: Seq, len: u32) -> bool {
        loop {
            let has_fin = self.fin_sent && start + len == self.snd_nxt;
            let data = len - u32::from(has_fin);
            let now = data.min(self.segment_room());
            let fin = has_fin && now == data;
            let mut flags = if now > 0 { Flags::ACK | Flags::PSH } else { Flags::ACK };
            if fin {
                flags = flags | Flags::FIN;
            }
            match self.send_segment(cx, start, now, flags) {
                Went::Out => {
                    let space = now + u32::from(fin);
                    self.board.sent_again(start, space, cx.now);
                    self.forget_probe();
                    self.counts.total_retrans += 1;
                    self.counts.bytes_retrans += u64::from(now);
                    self.reduction.sent += space;
                    self.reduction.resent += 1;
                    if self.reduction.stamp == 0 {
                        self.reduction.stamp = self.stamp(cx.now).max(1);
                    }
                    return true;
                }
                Went::Smaller => {}
                Went::Blocked => return false,
            }
        }
    }

    /// A pure acknowledgment, now.
    pub(crate) fn send_ack<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) {
        self.ack_owed = true;
        self.ack_now = true;
        if self.send_segment(cx, self.snd_nxt, 0, Flags::ACK) == Went::Out {
            self.ack_owed = false;
            self.ack_now = false;
        }
    }

    /// An acknowledgment with a sequence number that the peer has already, so that it must answer (keepalive, window
    /// probe: RFC 9293, 3.8.4 and 3.8.6.1).
    pub(crate) fn send_probe<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) {
        self.send_segment(cx, self.snd_una - 1, 0, Flags::ACK);
    }

    /// RST that the peer must believe: at the number that it expects next.
    pub(crate) fn send_reset<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) {
        self.send_segment(cx, self.snd_nxt, 0, Flags::RST | Flags::ACK);
    }

    /// Payload that fits into a segment now, with the SACK blocks that it must carry.
    fn segment_room(&self) -> u32 {
        let mut room = self.payload_max();
        if self.sack_ok {
            let blocks = self.rx.ranges().len() + usize::from(self.dsack.is_some());
            if blocks > 0 {
                let fit = if self.ts_ok { 3 } else { 4 };
                room -= 4 + 8 * blocks.min(fit) as u32;
            }
        }
        room
    }

    /// The window to tell: never less than was told, no silly increases (RFC 9293, 3.8.6.2.2; Linux's rules). Where
    /// the header cannot say what was told it says more, unless that would be beyond the buffer by a whole unit: then
    /// it says less, and what was told still counts (RFC 7323, 2.4). Moves `rcv_adv`, which bounds what a peer can have
    /// us keep: it goes ahead of the buffer's end by less than a unit.
    fn select_window(&mut self) -> u16 {
        let told = self.rcv_adv.distance_from(self.rcv_nxt).max(0) as u32;
        let told = if planted!(WindowShrinks) { 0 } else { told };
        let free = self.free_to_receive();
        let offer = self.worth_offering(free);
        let window = if offer >= told { offer } else { self.as_told(told, free) };
        let window = window.min(65_535 << self.rcv_wscale);
        let edge = self.rcv_nxt + window;
        if edge.after(self.rcv_adv) {
            self.rcv_adv = edge;
        }
        (window >> self.rcv_wscale) as u16
    }

    /// A window that was told, as the header can say it now.
    fn as_told(&self, told: u32, free: u32) -> u32 {
        let unit = 1u32 << self.rcv_wscale;
        let more = told.next_multiple_of(unit);
        if more >= free.saturating_add(unit) && !planted!(WindowGrowsByRounding) {
            return told & !(unit - 1);
        }
        more
    }

    /// Room for data that is worth telling.
    pub(crate) fn window_on_offer(&self) -> u32 {
        self.worth_offering(self.free_to_receive())
    }

    fn free_to_receive(&self) -> u32 {
        let lent = self.seldom.as_ref().map_or(0, |seldom| seldom.lent);
        self.rx_capacity.saturating_sub(self.rx.len() as u32).saturating_sub(lent)
    }

    #[inline]
    fn worth_offering(&self, free: u32) -> u32 {
        let small = free < self.rx_capacity / 2;
        if small && (free < self.rx_capacity / 16 || free < self.rcv_mss) {
            return 0;
        }
        if self.rcv_wscale == 0 {
            return free.min(65_535);
        }
        let unit = 1 << self.rcv_wscale;
        // A whole buffer may be less than the unit: to say less would be to close the window for ever.
        if free < unit && !small { unit } else { free & !(unit - 1) }
    }

    fn write_sack(&self, options: &mut OptionsWriter) {
        let mut blocks = [(0, 0); SACK_BLOCKS + 1];
        let mut count = 0;
        for &(start, end) in self.dsack.iter().chain(self.rx.ranges()) {
            if count < blocks.len() {
                // A FIN behind stored data was received with it.
                let fin = self.fin_at == Some(self.seq_of(end)) && end > self.rx.next();
                let end = end + u64::from(fin) + u64::from(planted!(SackTooLong));
                blocks[count] = (self.seq_of(start).0, self.seq_of(end).0);
                count += 1;
            }
        }
        options.sack(&blocks[..count]);
    }

    /// The headers of `len` bytes from `seq` on, as all of them but for the sums. Moves `rcv_adv`.
    #[inline(always)]
    pub(super) fn prepare(&mut self, now: Instant, seq: Seq, len: u32, flags: Flags) -> Prepared {
        let stamps = (self.stamp(now), self.ts_recent);
        let sack = self.sack_ok && (self.dsack.is_some() || self.rx.has_holes());
        // The common layout is written without an intermediate copy of the options.
        let plain = self.ts_ok && !sack;
        let mut options = OptionsWriter::new();
        if !plain {
            if self.ts_ok {
                options.timestamps(stamps.0, stamps.1);
            }
            if sack {
                self.write_sack(&mut options);
            }
        }
        let options_len = if plain { segment::TIMESTAMPS_LEN } else { options.bytes().len() };
        let rcv_adv = self.rcv_adv;
        let window = self.select_window();
        let new_data = len > 0 && seq == self.snd_nxt;
        let (marks, ip_ecn) = self.ecn.of_segment(new_data);
        let mut fields = Fields {
            src: self.local.port(),
            dst: self.remote.port(),
            seq: seq.0,
            ack: self.rcv_nxt.0,
            flags: flags | marks,
            window,
            urgent: 0,
            options_len,
        };
        if let Some(up) = self.snd_up
            && up.after(seq)
            && let Ok(ahead) = u16::try_from(up - seq)
        {
            // One that is further ahead has no pointer yet: a shorter one would name another byte, which the peer's
            // application would then be given out of line.
            fields.flags = fields.flags | Flags::URG;
            fields.urgent = ahead;
        }
        let ip = Ip {
            src: *self.local.ip(),
            protocol: ipv4::TCP,
            tos: self.options.tos & !ecn::ECN_MASK | ip_ecn,
            ttl: self.options.ttl,
            dont_fragment: self.options.discover_mtu,
        };
        Prepared { fields, options, stamps, plain, ip, rcv_adv, new_data }
    }

    /// Writes one segment: header, options, `len` bytes of the send buffer from `seq` on.
    fn send_segment<O: Outlet>(&mut self, cx: &mut Cx<'_, O>, seq: Seq, len: u32, flags: Flags) -> Went {
        let Prepared { fields, options, stamps, plain, ip, rcv_adv, new_data } =
            self.prepare(cx.now, seq, len, flags);
        let total = HEADER_LEN + fields.options_len + len as usize;
        let (tx, una) = (&self.tx, self.snd_una);
        let shift = usize::from(planted!(ResendShifted) && seq.before(self.snd_nxt) && seq != una && len > 1);
        let (local, remote) = (*self.local.ip(), *self.remote.ip());
        let sent = cx.net.send(cx.now, cx.id, &mut self.route, &ip, total, cx.out, |bytes| {
            let fill = |payload: &mut [u8]| {
                if !payload.is_empty() {
                    tx.copy_out((seq - una) as usize - shift, payload);
                }
            };
            if plain {
                segment::write_stamped(bytes, local, remote, &fields, stamps, fill);
            } else {
                segment::write(bytes, local, remote, &fields, &options, fill);
            }
        });
        self.commit_sent(cx, sent, (len, 1), rcv_adv, new_data)
    }

    /// What became of `count` segments that were prepared, with `len` bytes of payload together.
    #[inline]
    pub(super) fn commit_sent<O>(
        &mut self,
        cx: &mut Cx<'_, O>,
        sent: Sent,
        (len, count): (u32, u32),
        rcv_adv: Seq,
        new_data: bool,
    ) -> Went {
        match sent {
            Sent::Done => {}
            // Lost on its way out, so to speak: the retransmission timer tries again, and if it gives up tells why.
            Sent::Unreachable(why) => self.soft_error = Some(why),
            Sent::Full | Sent::Waiting => {
                self.rcv_adv = rcv_adv;
                return Went::Blocked;
            }
            Sent::TooBig(mtu) => {
                self.rcv_adv = rcv_adv;
                return self.cut(mtu);
            }
        }
        if new_data {
            self.ecn.on_new_data_sent();
        }
        self.after_sending(cx, len, count);
        Went::Out
    }

    /// The path's MTU is less than we thought.
    fn cut(&mut self, mtu: u32) -> Went {
        let before = self.mss;
        self.set_mtu(mtu);
        self.control.set_mss(self.payload_max(), false);
        // A path that takes less than the least segment takes nothing.
        if self.mss < before { Went::Smaller } else { Went::Blocked }
    }

    #[inline]
    fn after_sending<O>(&mut self, cx: &mut Cx<'_, O>, len: u32, count: u32) {
        self.counts.segs_out = self.counts.segs_out.wrapping_add(count);
        self.acks.on_sent(self.ack_owed);
        if self.ack_owed {
            self.ack_owed = false;
            self.stop_timer(Timer::DelayedAck);
        }
        self.ack_now = false;
        self.dsack = None;
        self.last_ack_sent = self.rcv_nxt;
        if len > 0 {
            self.counts.data_segs_out = self.counts.data_segs_out.wrapping_add(count);
            self.acks.interactive |= self.acks.is_answer(cx.now.nanos_since(self.last_data_received));
            self.last_sent = cx.now;
            if self.options.max_pacing_rate != 0 {
                self.charge_to_pace(cx.now, len);
            }
        }
    }
}
