//! Loss: when something is thought lost, what the windows do about it, and the timers behind it
//! (RFC 6298, 5681, 6582, 6675, 6937, 8985).

use super::Settings;
use super::control_block::{Awaits, Cx, Fate, NEVER, Recovery, Reduction, Tcb, Timer};
use super::scoreboard::Delivered;
use super::segment::Segment;
use crate::mutation::planted;
use crate::{Duration, Frame, Instant, Outlet, SocketError};

/// Duplicate ACKs that mean a loss without SACK (RFC 5681, 3.2).
const DUP_THRESHOLD: u32 = 3;
/// What tcp_orphan_retries = 0 stands for, on Linux too.
const ORPHAN_RETRIES: u8 = 8;
/// A peer with a closed window that acknowledges at least this often is alive (Linux: TCP_RTO_MAX).
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Tail loss probes wait at least this long: two ticks of a fine clock (RFC 8985 leaves it open).
const PROBE_MIN_NS: u64 = 2_000_000;
/// Allowance for the peer's delayed ACK when one segment is in flight (RFC 8985, 7.2: WCDelAckT).
const PROBE_DELAYED_ACK_NS: u64 = 200_000_000;

/// What sort of acknowledgment it is.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// It acknowledges something new.
    pub(crate) advanced: bool,
    /// It is a duplicate (RFC 5681, 2).
    pub(crate) duplicated: bool,
    /// It reports a duplicate (RFC 2883).
    pub(crate) dsack: bool,
}

impl<F: Frame> Tcb<F> {
    /// What an acknowledgment means for recovery and for the congestion window.
    pub(crate) fn recover<O>(
        &mut self,
        cx: &mut Cx<'_, O>,
        seg: &Segment,
        delivered: &Delivered,
        kind: Kind,
    ) {
        let marked = self.ecn.ok && (self.ecn.covers_marks() || seg.has(wire::tcp::Flags::ECE));
        if self.is_undisturbed() && !(kind.dsack || kind.duplicated || delivered.reordered || marked) {
            // What nearly every acknowledgment is.
            self.rack.update(cx.now, delivered, &self.rtt);
            if delivered.bytes > 0 {
                self.grow(cx, delivered.bytes);
            }
            return;
        }
        self.end_tlp(kind.dsack, kind.advanced);
        if kind.dsack && self.reduction.saved.is_some() {
            self.reduction.resent = self.reduction.resent.saturating_sub(1);
        }
        if self.recovery != Recovery::Open || kind.dsack {
            self.check_spurious(seg, delivered, kind.dsack);
            self.check_recovered();
        }
        if delivered.reordered {
            self.counts.reord_seen += 1;
        }
        self.rack.update(cx.now, delivered, &self.rtt);
        let partial = kind.advanced && !self.sack_ok && self.recovery != Recovery::Open;
        if partial {
            // Without SACK a partial ACK names the next lost segment (RFC 6582), and takes back as many of the
            // duplicates as it acknowledges segments behind the first.
            self.board.first_lost();
            let segments = delivered.bytes / self.payload_max();
            self.dup_acks = self.dup_acks.saturating_sub(segments.saturating_sub(1));
        } else if kind.advanced && self.recovery == Recovery::Open {
            self.dup_acks = 0;
        }
        let found = self.find_losses(cx);
        // Without SACK each duplicate delivered a segment (RFC 6937, 3).
        let reno = kind.duplicated && !self.sack_ok;
        let bytes = if reno { self.payload_max() } else { delivered.bytes };
        match self.recovery {
            Recovery::Open if found => {
                self.enter_fast(bytes);
                // A tail that is still awaited is no longer what a probe should ask about (RFC 8985, 7.2).
                if self.awaits == Awaits::TailLoss {
                    self.arm_loss_timer(cx);
                }
            }
            Recovery::Open => {
                if marked && self.on_echo(seg, kind.advanced) {
                    return;
                }
                // What is only reported by SACK lets as much go as it took out of flight (RFC 3042), no more.
                if delivered.bytes > 0 && (kind.advanced || self.rack.reordering_seen) {
                    self.grow(cx, delivered.bytes);
                }
            }
            Recovery::Fast { .. } => {
                self.reduce(bytes, kind.advanced && !found);
                if partial {
                    self.control.cwnd = self.control.cwnd.max(self.in_flight() + self.payload_max());
                }
            }
            Recovery::Timeout { .. } => {
                if delivered.bytes > 0 {
                    self.control.on_ack(cx.now, delivered.bytes, self.rtt.srtt());
                }
            }
        }
    }

    /// Nothing is thought lost, was sent again or arrived out of order.
    #[inline]
    fn is_undisturbed(&self) -> bool {
        self.recovery == Recovery::Open
            && self.tlp.is_none()
            && self.dup_acks == 0
            && self.board.sacked() | self.board.lost() | self.board.resent() == 0
    }

    /// Growth only if the window was in use (RFC 7661's concern; Linux's tcp_is_cwnd_limited).
    fn grow<O>(&mut self, cx: &mut Cx<'_, O>, acked: u32) {
        let used = self.outstanding() + acked;
        let limited = self.cwnd_limited || (self.control.in_slow_start() && self.control.cwnd < 2 * used);
        if limited {
            self.control.on_ack(cx.now, acked, self.rtt.srtt());
            self.grow_send_buffer(cx.shared.settings.wmem[2]);
        }
        self.cwnd_limited = false;
    }

    /// Send buffer autotuning: two windows' worth, as Linux's tcp_sndbuf_expand.
    fn grow_send_buffer(&mut self, largest: u32) {
        if self.options.send_buffer.is_none() {
            let wanted = self.control.cwnd.saturating_mul(2).min(largest);
            self.tx_limit = self.tx_limit.max(wanted);
        }
    }

    /// Marks what is lost now; answers whether anything was marked or waits for retransmission.
    fn find_losses<O>(&mut self, cx: &mut Cx<'_, O>) -> bool {
        if self.board.is_empty() {
            return false;
        }
        if !self.sack_ok {
            if self.dup_acks >= DUP_THRESHOLD && self.recovery == Recovery::Open {
                self.board.first_lost();
                return true;
            }
            return false;
        }
        // Without a hole nothing can be lost that RACK could tell.
        if self.board.sacked() == 0 && self.board.resent() == 0 {
            return false;
        }
        let Some(newest) = self.rack.newest() else { return false };
        let in_recovery = self.recovery != Recovery::Open;
        let patience = self.rack.patience(self.board.sacked_count(), in_recovery, &self.rtt);
        let (timeout, marked) = self.board.detect_lost(cx.now, newest, patience);
        if let Some(at) = timeout {
            self.await_at(cx, Awaits::Reordering, at);
        }
        marked
    }

    fn enter_fast(&mut self, delivered: u32) {
        // The window was reduced for a mark on the same packets: once is enough (RFC 3168, 6.1.2).
        let saved = (!self.ecn.covers_losses(self.snd_una)).then(|| self.control.on_loss());
        self.ecn.on_reduction(self.snd_nxt);
        self.recovery = Recovery::Fast { high: self.snd_nxt };
        self.reduction = Reduction { saved, flight: self.outstanding().max(1), ..Reduction::default() };
        self.tlp = None;
        self.reduce(delivered, false);
    }

    /// Proportional rate reduction (RFC 6937, 3.1): the window follows what was delivered, down to the threshold.
    fn reduce(&mut self, delivered: u32, safe: bool) {
        if delivered == 0 && self.reduction.sent > 0 {
            return;
        }
        let (mss, pipe) = (self.payload_max(), self.in_flight());
        let r = &mut self.reduction;
        r.delivered = r.delivered.saturating_add(delivered);
        let ssthresh = self.control.ssthresh;
        let send = if pipe > ssthresh {
            let share = u64::from(r.delivered) * u64::from(ssthresh);
            (share.div_ceil(u64::from(r.flight)) as u32).saturating_sub(r.sent)
        } else {
            let limit = r.delivered.saturating_sub(r.sent).max(delivered);
            // PRR-SSRB when progress is safe, PRR-CRB otherwise (RFC 6937bis).
            let limit = if safe { limit + mss } else { limit };
            limit.min(ssthresh - pipe)
        };
        // The first retransmission always goes.
        let send = send.max(if r.sent == 0 { mss } else { 0 });
        self.control.cwnd = (pipe + send).max(mss);
    }

    /// Whether recovery is over.
    fn check_recovered(&mut self) {
        let high = match self.recovery {
            Recovery::Fast { high } | Recovery::Timeout { high } => high,
            Recovery::Open => return,
        };
        if self.snd_una.before(high) {
            return;
        }
        if let Recovery::Fast { .. } = self.recovery {
            self.control.cwnd = self.control.ssthresh;
            self.rack.on_recovered();
        }
        self.recovery = Recovery::Open;
        self.dup_acks = 0;
        self.cwnd_limited = false;
        // A DSACK may still prove it needless; `saved` stays until the next loss or for these retransmissions.
        if self.reduction.resent == 0 {
            self.reduction.saved = None;
        }
    }

    /// Whether nothing was lost after all: the ACK answers the first transmission (Eifel, RFC 3522; F-RTO,
    /// RFC 5682), or everything that was sent again arrived twice (RFC 3708).
    fn check_spurious(&mut self, seg: &Segment, delivered: &Delivered, dsack: bool) {
        let Some(saved) = self.reduction.saved else { return };
        let advanced = delivered.bytes > 0;
        let by_stamp = advanced
            && self.ts_ok
            && self.reduction.stamp != 0
            && seg.ack.after(self.snd_una - 1)
            && delivered.newest.is_some_and(|(_, _, ambiguous)| ambiguous)
            && seg
                .options
                .timestamps
                .is_some_and(|(_, echo)| echo != 0 && (echo.wrapping_sub(self.reduction.stamp) as i32) < 0);
        let by_original =
            self.sack_ok && matches!(self.recovery, Recovery::Timeout { .. }) && delivered.original;
        let by_dsack = dsack && self.reduction.resent == 0;
        if by_stamp || by_original || by_dsack {
            self.board.none_lost();
            self.control.undo(saved);
            self.reduction = Reduction::default();
            self.recovery = Recovery::Open;
            self.dup_acks = 0;
        }
    }

    // ---- the timer ----------------------------------------------------------------------------------------

    fn await_at<O>(&mut self, cx: &mut Cx<'_, O>, what: Awaits, at: Instant) {
        self.awaits = what;
        self.set_timer(cx, Timer::Retransmit, at);
    }

    /// Something was acknowledged: the timer begins anew (RFC 6298, 5.2 and 5.3).
    pub(crate) fn restart_retransmit<O>(&mut self, cx: &mut Cx<'_, O>) {
        if self.outstanding() == 0 {
            self.awaits = Awaits::Nothing;
            self.stop_timer(Timer::Retransmit);
        } else if self.awaits != Awaits::Reordering {
            self.arm_loss_timer(cx);
        }
    }

    /// Sees that some timer runs while something is outstanding or the peer's window is closed.
    pub(crate) fn arm_retransmit<O>(&mut self, cx: &mut Cx<'_, O>) {
        if self.outstanding() > 0 {
            if matches!(self.awaits, Awaits::Nothing | Awaits::Persist) {
                self.arm_loss_timer(cx);
            }
        } else if (self.unsent() > 0 || (self.fin_queued && !self.fin_sent)) && self.awaits == Awaits::Nothing
        {
            self.arm_persist(cx);
        }
    }

    /// After new data went out.
    pub(crate) fn arm_after_sending<O>(&mut self, cx: &mut Cx<'_, O>) {
        if self.outstanding() > 0 {
            if self.awaits != Awaits::Reordering && (self.awaits != Awaits::Rto || self.may_probe_tail()) {
                self.arm_loss_timer(cx);
            }
        } else {
            self.arm_retransmit(cx);
        }
    }

    fn may_probe_tail(&self) -> bool {
        self.sack_ok
            && self.recovery == Recovery::Open
            && self.tlp.is_none()
            && self.rtt.known()
            && self.board.sacked() == 0
    }

    fn arm_loss_timer<O>(&mut self, cx: &mut Cx<'_, O>) {
        let rto = Instant(cx.now.0 + self.rtt.rto_backed_off_ns(self.backoff));
        let mut at = rto;
        if !self.options.user_timeout.is_zero()
            && let Some(since) = self.stuck_since
        {
            at = at.min((since + self.options.user_timeout).max(cx.now + Duration::from_millis(1)));
        }
        if self.may_probe_tail() && self.backoff == 0 {
            let allowance = if self.board.count() == 1 { PROBE_DELAYED_ACK_NS } else { PROBE_MIN_NS };
            let pto = Instant(cx.now.0 + 2 * self.rtt.srtt_ns() + allowance);
            // Where the timeout comes first the probe takes its place (RFC 8985, 7.2).
            if pto.min(rto) <= at {
                return self.await_at(cx, Awaits::TailLoss, pto.min(rto));
            }
        }
        self.await_at(cx, Awaits::Rto, at);
    }

    fn arm_persist<O>(&mut self, cx: &mut Cx<'_, O>) {
        if planted!(NoPersistTimer) {
            return;
        }
        self.await_at(cx, Awaits::Persist, cx.now + self.rtt.rto_backed_off(self.probes));
    }

    /// The retransmission timer's deadline passed.
    pub(crate) fn on_retransmit_timer<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) -> Fate {
        self.stop_timer(Timer::Retransmit);
        match core::mem::replace(&mut self.awaits, Awaits::Nothing) {
            Awaits::Nothing => Fate::Stays,
            Awaits::Persist => self.on_persist(cx),
            Awaits::Rto => self.on_rto(cx),
            Awaits::TailLoss => {
                self.probe_tail(cx);
                Fate::Stays
            }
            Awaits::Reordering => {
                if self.find_losses(cx) && self.recovery == Recovery::Open {
                    self.enter_fast(0);
                }
                self.output(cx);
                self.arm_retransmit(cx);
                Fate::Stays
            }
        }
    }

    fn on_rto<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) -> Fate {
        if self.outstanding() == 0 {
            return Fate::Stays;
        }
        if self.gives_up(cx.now, &cx.shared.settings) {
            return self.time_out(cx);
        }
        if self.is_orphan_too_many(cx) {
            return self.give_way(cx);
        }
        let renege = self.board.first().is_some_and(|s| s.sacked);
        let again = matches!(self.recovery, Recovery::Timeout { .. });
        if !again {
            let saved = match self.recovery {
                Recovery::Fast { .. } => None,
                _ if self.ecn.covers_losses(self.snd_una) => None,
                _ => Some(self.control.on_loss()),
            };
            self.ecn.on_reduction(self.snd_nxt);
            self.reduction = Reduction { saved, flight: self.outstanding(), ..Reduction::default() };
        }
        self.control.on_timeout();
        self.board.all_lost(renege);
        self.recovery = Recovery::Timeout { high: self.snd_nxt };
        self.tlp = None;
        self.dup_acks = 0;
        self.backoff = if planted!(NoBackoff) { 1 } else { self.backoff.saturating_add(1) };
        if let Some(first) = self.board.next_lost() {
            self.send_again(cx, first.start, first.len);
        }
        self.arm_loss_timer(cx);
        Fate::Stays
    }

    /// RFC 8985, 7.3: sends new data, or the last segment again, so that an ACK shows what is missing.
    fn probe_tail<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) {
        let before = self.snd_nxt;
        let window = self.control.cwnd;
        self.control.cwnd = window.saturating_add(self.payload_max());
        self.output(cx);
        self.control.cwnd = window;
        if self.snd_nxt != before {
            self.tlp = Some((self.snd_nxt, false));
        } else if let Some(last) = self.board.last().copied().filter(|last| !last.sacked)
            && self.send_again(cx, last.start, last.len)
        {
            self.tlp = Some((self.snd_nxt, true));
        }
        let rto = self.rtt.rto_backed_off(self.backoff);
        self.await_at(cx, Awaits::Rto, cx.now + rto);
    }

    /// RFC 8985, 7.4: whether the probe repaired a loss that nobody else saw.
    fn end_tlp(&mut self, dsack: bool, advanced: bool) {
        let Some((end, again)) = self.tlp else { return };
        if !again {
            if !self.snd_una.before(end) {
                self.tlp = None;
            }
            return;
        }
        if dsack {
            self.tlp = None;
        } else if advanced && self.snd_una.after(end - 1) {
            // Acknowledged without a duplicate: the probe filled a hole, so the window must answer for the loss.
            self.tlp = None;
            if self.recovery == Recovery::Open {
                self.control.on_loss();
                self.control.cwnd = self.control.cwnd.min(self.control.ssthresh);
                self.ecn.on_reduction(self.snd_nxt);
            }
        }
    }

    /// RFC 9293, 3.8.6.1: the peer's window is closed; ask whether it still is.
    fn on_persist<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) -> Fate {
        // A window that is silly but open takes what fits by now.
        self.forced = true;
        self.output(cx);
        self.forced = false;
        if self.outstanding() > 0 || (self.unsent() == 0 && (!self.fin_queued || self.fin_sent)) {
            return Fate::Stays;
        }
        let unanswered = self.last_ack_received < self.last_sent;
        let retries = self.retries_max(&cx.shared.settings);
        let since = *self.stuck_since.get_or_insert(cx.now);
        let stuck = cx.now.since(since);
        let user = self.options.user_timeout;
        if (self.probes > retries && (unanswered || self.orphan)) || (user > Duration::ZERO && stuck >= user)
        {
            return self.time_out(cx);
        }
        if self.is_orphan_too_many(cx) {
            return self.give_way(cx);
        }
        self.send_probe(cx);
        self.last_sent = cx.now;
        self.probes = self.probes.saturating_add(1);
        self.arm_persist(cx);
        Fate::Stays
    }

    /// Whether nothing was acknowledged for as long as `retries2` doublings of the least timeout take (Linux's
    /// retransmits_timed_out), or for the user timeout.
    fn gives_up(&self, now: Instant, settings: &Settings) -> bool {
        let Some(since) = self.stuck_since else { return false };
        let stuck = now.since(since);
        if self.options.user_timeout > Duration::ZERO {
            return stuck >= self.options.user_timeout;
        }
        if self.snd_wnd == 0 && !self.orphan && now.since(self.last_ack_received) < SILENCE_MAX {
            // The peer took its window back and throws away what was in flight, but it is there.
            return false;
        }
        let retries = self.retries_max(settings);
        let mut limit = Duration::ZERO;
        let mut step = Duration::from_millis(200);
        for _ in 0..=retries {
            limit += step;
            step = (step * 2).min(Duration::from_secs(120));
        }
        // Linux counts from when something was first sent again.
        self.backoff > 0 && stuck.saturating_sub(self.rtt.rto()) >= limit
    }

    /// Retransmissions or window probes without an answer (Linux's tcp_retries2 and tcp_orphan_retries).
    fn retries_max(&self, settings: &Settings) -> u8 {
        match (self.orphan, settings.orphan_retries) {
            (false, _) => settings.retries2,
            // Nobody waits for it, a router says that it cannot be, and it was tried for minutes.
            (true, _)
                if self.soft_error.is_some() && self.rtt.rto_backed_off(self.backoff) >= SILENCE_MAX =>
            {
                0
            }
            (true, 0) => ORPHAN_RETRIES,
            (true, retries) => retries,
        }
    }

    /// A closed socket that had to try again, among too many of them (Linux's tcp_out_of_resources): that it sent
    /// nothing for long, or that ICMP spoke against it, lets it go sooner.
    fn is_orphan_too_many<O>(&self, cx: &Cx<'_, O>) -> bool {
        let silent = cx.now.since(self.last_sent) > 2 * SILENCE_MAX;
        let faults = u32::from(silent) + u32::from(self.soft_error.is_some());
        self.orphan && cx.shared.has_too_many_orphans(faults)
    }

    /// Gives up.
    pub(crate) fn time_out<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) -> Fate {
        let why = self.soft_error.unwrap_or(SocketError::TimedOut);
        if self.orphan {
            self.send_reset(cx);
        }
        self.finish(cx, Some(why))
    }

    /// The deadline of the earliest timer, for the wheel.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadline.iter().copied().min().filter(|at| *at != NEVER)
    }
}
