//! A segment arrives: the fast path whole, then the steps of RFC 9293, 3.10.7.4 by name.

use super::control_block::{Cx, Fate, Recovery, Tcb};
use super::receive::Hold;
use super::segment::{self, Segment};
use super::seq::Seq;
use super::time_wait::Outcome;
use super::{State, listen};
use crate::ingress::{Drop, IpMeta};
use crate::mutation::planted;
use crate::net::Ip;
use crate::stack::Socket;
use crate::unrouted::Verdict;
use crate::{Duration, Endpoint, Frame, Instant, Outlet, SocketError, Stack};
use core::ops::Range;
use wire::ipv4;
use wire::tcp::{Fields, Flags, HEADER_LEN, Header, OptionsWriter};

/// A segment whose checksum is right, for an address of this host: its header begins at `range` of `head`, its
/// payload goes on in `tail`. The header itself is not checked yet.
pub(crate) fn on_segment<F: Frame>(
    stack: &mut Stack<F>,
    now: Instant,
    meta: &IpMeta,
    head: F,
    range: Range<usize>,
    tail: &mut Vec<F>,
    out: &mut impl Outlet,
) {
    let Some(header) = Header::parse(&head.bytes()[range.clone()]) else {
        return stack.dropped.count(Drop::Transport);
    };
    let local = Endpoint::new(meta.dst, header.dst());
    let remote = Endpoint::new(meta.src, header.src());
    if local.port() == 0 || remote.port() == 0 {
        return stack.dropped.count(Drop::Transport);
    }
    let seg = Segment::read(&header, (meta.len - header.len()) as u32, meta.tos);
    let payload = range.start + header.len()..range.end;
    let Some(id) = stack.demux.tcp.flow(local, remote) else {
        if let Some(query) = stack.asks_routing(&seg, local, remote) {
            match stack.unrouted.rule.verdict(stack.net.back(now, query)) {
                Verdict::Heard => {}
                Verdict::Martian => return stack.dropped.count(Drop::Martian),
                Verdict::Waits => return stack.hold_unrouted(query, meta, head, range, tail),
                Verdict::Kernels => return stack.pass_to_kernel(meta, &head.bytes()[range], tail),
            }
        }
        return stack.on_segment_without_flow(now, meta, &seg, local, remote, head, payload, tail, out);
    };
    match stack.sockets.get(id) {
        Some(Socket::Tcp(_)) => {
            stack.with_tcp(now, id, out, |tcb, cx| tcb.on_segment(cx, &seg, head, payload, tail));
        }
        Some(Socket::HalfOpen(_)) => {
            stack.on_half_open_segment(now, id, meta, &seg, head, payload, tail, out);
        }
        Some(Socket::TimeWait(_)) if stack.follows_time_wait(now, id, &seg, local, remote) => {
            // Who answered the SYN knew nothing of it.
            stack.end_time_wait(id);
            stack.on_segment_without_flow(now, meta, &seg, local, remote, head, payload, tail, out);
        }
        Some(Socket::TimeWait(_)) => {
            if let Outcome::Reopen = stack.on_time_wait_segment(now, id, meta, &seg, out) {
                stack.reopen_from_time_wait(now, id, meta, &seg, local, remote, out);
            }
        }
        // It was handed over: the kernel goes on with it.
        _ => stack.pass_to_kernel(meta, &head.bytes()[range], tail),
    }
}

impl<F: Frame> Stack<F> {
    #[allow(clippy::too_many_arguments)]
    fn on_segment_without_flow(
        &mut self,
        now: Instant,
        meta: &IpMeta,
        seg: &Segment,
        local: Endpoint,
        remote: Endpoint,
        head: F,
        payload: Range<usize>,
        tail: &mut Vec<F>,
        out: &mut impl Outlet,
    ) {
        match listen::find(self, local, remote) {
            Some(listener) => self.on_listener_segment(now, listener, meta, seg, local, remote, None, out),
            None => {
                self.dropped.count(Drop::NoSocket);
                self.reply_reset(now, meta, seg, local, remote, out);
            }
        }
        // The proof of a cookie may bring data or a FIN with it.
        if (seg.len > 0 || seg.has(Flags::FIN))
            && let Some(id) = self.demux.tcp.flow(local, remote)
        {
            self.with_tcp(now, id, out, |tcb, cx| tcb.on_segment(cx, seg, head, payload, tail));
        }
    }

    /// RST to a segment of no connection (RFC 9293, 3.10.7.1), never to an RST, and not too often.
    pub(crate) fn reply_reset(
        &mut self,
        now: Instant,
        meta: &IpMeta,
        seg: &Segment,
        local: Endpoint,
        remote: Endpoint,
        out: &mut impl Outlet,
    ) {
        if seg.has(Flags::RST) || !self.tcp.may_reset(now, *remote.ip()) {
            return;
        }
        let (seq, ack, flags) = if seg.has(Flags::ACK) {
            (seg.ack, Seq(0), Flags::RST)
        } else {
            (Seq(0), seg.seq + seg.space(), Flags::RST | Flags::ACK)
        };
        let fields = Fields {
            src: local.port(),
            dst: remote.port(),
            seq: seq.0,
            ack: ack.0,
            flags,
            ..Fields::default()
        };
        let (src, dst) = (*local.ip(), *remote.ip());
        let ip = Ip { src, protocol: ipv4::TCP, tos: 0, ttl: 64, dont_fragment: true };
        self.net.reply(meta, &ip, HEADER_LEN, out, |bytes| {
            segment::write(bytes, src, dst, &fields, &OptionsWriter::new(), |_| {});
        });
    }
}

impl<F: Frame> Tcb<F> {
    /// A segment of this connection; its payload begins at `range` of `head` and goes on in `tail`.
    #[inline]
    pub(crate) fn on_segment<O: Outlet>(
        &mut self,
        cx: &mut Cx<'_, O>,
        seg: &Segment,
        head: F,
        range: Range<usize>,
        tail: &mut Vec<F>,
    ) -> Fate {
        self.counts.segs_in = self.counts.segs_in.wrapping_add(1);
        if self.is_expected(seg) && tail.is_empty() {
            return self.fast_segment(cx, seg, head, range);
        }
        self.slow_segment(cx, seg, head, range, tail)
    }

    /// Header prediction: what nearly every segment of an established connection looks like. In order, inside the
    /// window, only ACK and PSH, nothing lost or stored on either side, timestamps not older than the last.
    #[inline]
    fn is_expected(&self, seg: &Segment) -> bool {
        self.state() == State::Established
            && Flags(seg.flags.0 & !Flags::PSH.0) == Flags::ACK
            && seg.seq == self.rcv_nxt
            && seg.len <= self.rcv_adv - self.rcv_nxt
            && !seg.ack.before(self.snd_una)
            && !seg.ack.after(self.snd_nxt)
            && self.recovery == Recovery::Open
            && !self.rx.has_holes()
            && self.urgent.mark.is_none()
            && match seg.options.timestamps {
                Some((value, _)) => self.ts_ok && !self.is_older_timestamp(value),
                None => !self.ts_ok,
            }
            && !(self.orphan || self.read_shut)
            && self.fin_at.is_none()
    }

    #[inline]
    fn fast_segment<O: Outlet>(
        &mut self,
        cx: &mut Cx<'_, O>,
        seg: &Segment,
        head: F,
        range: Range<usize>,
    ) -> Fate {
        if let Some((value, _)) = seg.options.timestamps
            && !seg.seq.after(self.last_ack_sent)
        {
            self.ts_recent = value;
            self.ts_recent_at = cx.now;
        }
        if self.ecn.ok {
            self.take_marks(seg);
        }
        self.on_ack(cx, seg);
        if seg.len > 0 {
            self.rcv_nxt += seg.len;
            let mut hold = Hold { budget: cx.budget, pool: &mut cx.shared.pool };
            self.rx.push_next(&mut hold, head, range.start as u32, range.end as u32);
            self.on_in_order_data(cx, u64::from(seg.len), seg);
        }
        if self.unsent() > 0 || self.board.lost() != self.board.resent() {
            self.output(cx);
        } else if self.outstanding() > 0 {
            self.arm_retransmit(cx);
        } else if !self.ack_owed {
            self.rest(cx);
        }
        self.acknowledge(cx);
        Fate::Stays
    }

    /// RFC 9293, 3.10.7.4, with the checks of RFC 5961 and 7323.
    fn slow_segment<O: Outlet>(
        &mut self,
        cx: &mut Cx<'_, O>,
        seg: &Segment,
        head: F,
        range: Range<usize>,
        tail: &mut Vec<F>,
    ) -> Fate {
        match self.state() {
            State::SynSent => return self.on_syn_sent_segment(cx, seg),
            State::Closed => return Fate::Stays,
            _ => {}
        }
        // The peer of a simultaneous open repeats its SYN with the ACK of ours: an ACK, and one to be answered.
        let crossed = self.state() == State::SynReceived
            && Flags(seg.flags.0 & (Flags::SYN | Flags::ACK | Flags::RST | Flags::FIN).0)
                == Flags::SYN | Flags::ACK
            && (seg.seq, seg.len, seg.ack) == (self.irs, 0, self.iss + 1);
        if !self.check_timestamp(cx, seg) || !(crossed || self.check_sequence(cx, seg)) {
            return Fate::Stays;
        }
        if seg.has(Flags::RST) {
            return self.on_reset(cx, seg);
        }
        if crossed {
            self.ack_owed = true;
            self.ack_now = true;
        } else if seg.has(Flags::SYN) {
            if planted!(SynInWindow) {
                return self.finish(cx, Some(SocketError::Reset));
            }
            // RFC 5961, 4: a SYN proves nothing; a peer that restarted answers our ACK with RST.
            self.challenge(cx);
            return Fate::Stays;
        }
        if !seg.has(Flags::ACK) {
            return Fate::Stays;
        }
        if self.state() == State::SynReceived {
            if seg.ack != self.iss + 1 {
                self.reset_at(cx, seg.ack);
                return Fate::Stays;
            }
            self.syn_is_acknowledged(cx, seg);
            self.snd_wnd = u32::from(seg.window) << self.snd_wscale;
        }
        if !self.check_ack(cx, seg) {
            return Fate::Stays;
        }
        self.take_timestamp(cx, seg);
        if self.ecn.ok {
            self.take_marks(seg);
        }
        self.on_ack(cx, seg);
        if let Some(fate) = self.after_fin_acknowledged(cx) {
            return fate;
        }
        if seg.has(Flags::URG) {
            self.on_urgent(cx, seg);
        }
        if seg.len > 0 || seg.has(Flags::FIN) {
            let fate = self.on_text(cx, seg, head, range, tail);
            if fate != Fate::Stays {
                return fate;
            }
        }
        self.output(cx);
        self.acknowledge(cx);
        Fate::Stays
    }

    /// PAWS (RFC 7323, 5): a segment with an older timestamp than the last is an old duplicate.
    fn check_timestamp<O: Outlet>(&mut self, cx: &mut Cx<'_, O>, seg: &Segment) -> bool {
        let Some((value, _)) = seg.options.timestamps else { return true };
        if planted!(SkipPaws) || !self.ts_ok || seg.has(Flags::RST) || !self.is_older_timestamp(value) {
            return true;
        }
        if cx.now.since(self.ts_recent_at) > PAWS_IDLE {
            return true;
        }
        // A pure ACK that says nothing else was merely overtaken (Linux's tcp_disordered_ack).
        let window = u32::from(seg.window) << self.snd_wscale;
        let overtaken = seg.space() == 0
            && (seg.seq, seg.ack) == (self.rcv_nxt, self.snd_una)
            && !(seg.seq.after(self.snd_wl1) || window > self.snd_wnd || window == 0);
        if !overtaken {
            self.duplicate_ack(cx, seg);
        }
        false
    }

    /// First step: is the segment in the window at all?
    fn check_sequence<O: Outlet>(&mut self, cx: &mut Cx<'_, O>, seg: &Segment) -> bool {
        let end = seg.seq + seg.space();
        if !end.before(self.last_ack_sent.min(self.rcv_nxt)) && !seg.seq.after(self.rcv_adv) {
            return true;
        }
        if seg.has(Flags::RST) {
            return false;
        }
        if seg.has(Flags::SYN) {
            self.challenge(cx);
            return false;
        }
        if seg.len > 0 && seg.seq.before(self.rcv_nxt) && self.sack_ok {
            let (start, end) = (self.offset_of(seg.seq), self.offset_of(end.min(self.rcv_nxt)));
            if let (Some(start), Some(end)) = (start, end) {
                self.dsack = Some((start, end));
            }
        }
        self.duplicate_ack(cx, seg);
        false
    }

    /// Second step (RFC 5961, 3): only the exact number resets; another one in the window is challenged.
    fn on_reset<O: Outlet>(&mut self, cx: &mut Cx<'_, O>, seg: &Segment) -> Fate {
        // A peer that gives up while there is a hole resets where what it sent ends (Linux's tcp_validate_incoming).
        let end = self.rx.ranges().iter().map(|(_, end)| *end).max();
        let at_end = self.sack_ok && end.is_some_and(|end| seg.seq == self.seq_of(end));
        if seg.seq != self.rcv_nxt && !at_end && !planted!(RstInWindow) {
            if !seg.seq.before(self.rcv_nxt) {
                self.challenge(cx);
            }
            return Fate::Stays;
        }
        let why = match self.state() {
            State::CloseWait => SocketError::BrokenPipe,
            _ => SocketError::Reset,
        };
        self.finish(cx, Some(why))
    }

    /// Fifth step, its check: RFC 5961, 5.
    fn check_ack<O: Outlet>(&mut self, cx: &mut Cx<'_, O>, seg: &Segment) -> bool {
        if seg.ack.after(self.snd_nxt) && !planted!(AckOfUnsent) {
            self.challenge(cx);
            return false;
        }
        if seg.ack.before(self.snd_una - self.snd_wnd_max.max(1)) && !planted!(AncientAck) {
            self.challenge(cx);
            return false;
        }
        true
    }

    /// RFC 7323, 4.3: the timestamp to echo is that of the segment that our acknowledgment will be about.
    fn take_timestamp<O>(&mut self, cx: &mut Cx<'_, O>, seg: &Segment) {
        if let (true, Some((value, _))) = (self.ts_ok, seg.options.timestamps)
            && !seg.seq.after(self.last_ack_sent)
            && (!self.is_older_timestamp(value) || cx.now.since(self.ts_recent_at) > PAWS_IDLE)
        {
            self.ts_recent = value;
            self.ts_recent_at = cx.now;
        }
    }

    /// Answers what cannot be right with our numbers (RFC 5961), so often and no more (CVE-2016-5696: by connection,
    /// so that nobody learns anything from somebody else's answers).
    fn challenge<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) {
        if cx.now.since(self.last_invalid_reply) >= INVALID_REPLIES_APART {
            self.last_invalid_reply = cx.now;
            self.send_ack(cx);
        }
    }

    /// Answers an old duplicate. One without data is answered twice a second only, so that two confused peers do not
    /// answer each other for ever.
    fn duplicate_ack<O: Outlet>(&mut self, cx: &mut Cx<'_, O>, seg: &Segment) {
        if seg.len == 0 && !seg.has(Flags::FIN) {
            if cx.now.since(self.last_invalid_reply) < INVALID_REPLIES_APART {
                return;
            }
            self.last_invalid_reply = cx.now;
        }
        self.send_ack(cx);
    }
}

/// A timestamp this old says nothing any more (RFC 7323, 5.5).
const PAWS_IDLE: Duration = Duration::from_secs(24 * 24 * 3600);
/// RFC 5961, 7 leaves the number open; Linux: tcp_invalid_ratelimit.
const INVALID_REPLIES_APART: Duration = Duration::from_millis(500);
