//! Loss: what an acknowledgment says was lost, and what the windows do about it (RFC 5681, 6582, 6675, 6937, 8985).
//! The timers that speak where no acknowledgment does are in `retransmit`.

use super::control_block::{Awaits, Cx, Recovery, Reduction, Tcb, WindowUse};
use super::scoreboard::Delivered;
use super::segment::Segment;
use crate::Frame;

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
        if self.is_undisturbed() && !(kind.dsack || kind.duplicated || delivered.reordered > 0 || marked) {
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
        if delivered.reordered > 0 {
            self.counts.reord_seen += 1;
            let segments = delivered.reordered.div_ceil(self.payload_max()).min(REORDERING_MAX);
            let seldom = self.seldom();
            seldom.reordering = seldom.reordering.max(segments);
        }
        self.rack.update(cx.now, delivered, &self.rtt);
        let newly_told = self.newly_told(delivered.bytes);
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
                    self.grow(cx, newly_told);
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

    /// What an acknowledgment of so many bytes is the first to tell of: without SACK duplicates have told of as many
    /// segments already that they were delivered.
    fn newly_told(&self, bytes: u32) -> u32 {
        let mss = self.payload_max();
        let told = if self.sack_ok { 0 } else { self.dup_acks.saturating_mul(mss) };
        bytes.saturating_sub(told).max(mss.min(bytes))
    }

    /// Nothing is thought lost, was sent again or arrived out of order.
    #[inline]
    fn is_undisturbed(&self) -> bool {
        self.recovery == Recovery::Open
            && self.tlp.is_none()
            && self.dup_acks == 0
            && self.board.sacked() | self.board.lost() | self.board.resent() == 0
    }

    /// Something was sent, or could have been: how much of the window is in use now.
    pub(super) fn note_use(&mut self, sent: bool) {
        let segment = self.payload_max();
        let limited = self.in_flight() + segment > self.control.cwnd;
        let is_over = !self.snd_una.before(self.usage.until);
        if !limited && (!sent || (self.usage.limited && !is_over)) {
            return;
        }
        let out = self.outstanding();
        if limited || is_over || out > u32::from(self.usage.most).saturating_mul(segment) {
            let most = out.div_ceil(segment).min(u16::MAX.into()) as u16;
            self.usage = WindowUse { limited, most, until: self.snd_nxt };
        }
    }

    /// Growth only if the window was in use (Linux's tcp_is_cwnd_limited).
    fn grow<O>(&mut self, cx: &mut Cx<'_, O>, acked: u32) {
        let most = u32::from(self.usage.most).saturating_mul(self.payload_max());
        let is_half_used = self.control.in_slow_start() && self.control.cwnd < most.saturating_mul(2);
        if self.usage.limited || is_half_used {
            self.control.on_ack(cx.now, acked, self.rtt.srtt());
            self.grow_send_buffer(cx.shared.settings.wmem[2]);
        }
    }

    /// Send buffer autotuning: two windows' worth, as Linux's tcp_sndbuf_expand.
    fn grow_send_buffer(&mut self, largest: u32) {
        if self.options.send_buffer.is_none() {
            let wanted = self.control.cwnd.saturating_mul(2).min(largest);
            self.tx_limit = self.tx_limit.max(wanted);
        }
    }

    /// Marks what is lost now; answers whether anything was marked or waits for retransmission.
    pub(super) fn find_losses<O>(&mut self, cx: &mut Cx<'_, O>) -> bool {
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
        marked && !self.forgives_probe()
    }

    pub(super) fn enter_fast(&mut self, delivered: u32) {
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
        self.usage.limited = false;
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
}

/// Linux's tcp_max_reordering.
const REORDERING_MAX: u32 = 300;
/// Duplicate ACKs that mean a loss without SACK (RFC 5681, 3.2).
const DUP_THRESHOLD: u32 = 3;
