//! The retransmission timer and what it stands for: timeouts (RFC 6298), tail loss probes (RFC 8985, 7), probes of a
//! closed window (RFC 9293, 3.8.6.1), and when a connection is given up.

use super::Settings;
use super::control_block::{Awaits, Cx, Fate, NEVER, Recovery, Reduction, Tcb, Timer};
use crate::mutation::planted;
use crate::{Duration, Frame, Instant, Outlet, SocketError};

/// After so many it may be the size that keeps segments from getting through (Linux: tcp_retries1).
const BLACK_HOLE_RETRIES: u8 = 3;
/// What tcp_orphan_retries = 0 stands for, on Linux too.
const ORPHAN_RETRIES: u8 = 8;
/// A peer with a closed window that acknowledges at least this often is alive (Linux: TCP_RTO_MAX).
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Tail loss probes wait at least this long: two ticks of a fine clock (RFC 8985 leaves it open).
const PROBE_MIN_NS: u64 = 2_000_000;
/// Allowance for the peer's delayed ACK when one segment is in flight (RFC 8985, 7.2: WCDelAckT).
const PROBE_DELAYED_ACK_NS: u64 = 200_000_000;

impl<F: Frame> Tcb<F> {
    pub(super) fn await_at<O>(&mut self, cx: &mut Cx<'_, O>, what: Awaits, at: Instant) {
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
        } else if (self.unsent() > 0 || (self.fin_queued && !self.fin_sent))
            && self.awaits == Awaits::Nothing
            && !self.awaits_turn()
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

    pub(super) fn arm_loss_timer<O>(&mut self, cx: &mut Cx<'_, O>) {
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
        if self.has_tried(cx.now, BLACK_HOLE_RETRIES) {
            self.suspect_black_hole(cx);
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
        self.count_timeout(cx.now);
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

    /// RFC 9293, 3.8.6.1: the peer's window is closed; ask whether it still is.
    fn on_persist<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) -> Fate {
        // A window that is silly but open takes what fits by now.
        self.forced = true;
        self.output(cx);
        self.forced = false;
        let is_done = self.unsent() == 0 && (!self.fin_queued || self.fin_sent);
        if self.outstanding() > 0 || is_done || self.awaits_turn() {
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

    /// Whether nothing was acknowledged for as long as `retries` doublings of the least timeout take (Linux's
    /// retransmits_timed_out, which counts from when something was first sent again).
    fn has_tried(&self, now: Instant, retries: u8) -> bool {
        let Some(since) = self.stuck_since else { return false };
        let mut limit = Duration::ZERO;
        let mut step = Duration::from_millis(200);
        for _ in 0..=retries {
            limit += step;
            step = (step * 2).min(Duration::from_secs(120));
        }
        self.timeouts() > 0 && now.since(since).saturating_sub(self.rtt.rto()) >= limit
    }

    /// Whether enough was tried, or the user timeout is over.
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
        self.has_tried(now, self.retries_max(settings))
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
