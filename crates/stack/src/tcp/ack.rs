//! What an acknowledgment changes: the window, what is in flight, round trips, recovery, room for the application.

use super::control_block::{Awaits, Cx, Tcb};
use super::limits::Limit;
use super::recovery::Kind;
use super::scoreboard::Delivered;
use super::segment::Segment;
use super::seq::Seq;
use crate::mutation::planted;
use crate::{Duration, Frame, Instant, Outlet};
use wire::tcp::Flags;

impl<F: Frame> Tcb<F> {
    /// The acknowledgment field of a segment that is acceptable and whose ACK lies in
    /// `snd_una - snd_wnd_max ..= snd_nxt` (RFC 9293, 3.10.7.4, fifth step; RFC 5961, 5).
    pub(crate) fn on_ack<O: Outlet>(&mut self, cx: &mut Cx<'_, O>, seg: &Segment) {
        self.last_ack_received = cx.now;
        self.keepalive_probes = 0;
        if self.outstanding() == 0 && self.awaits == Awaits::Nothing && says_nothing_else(seg) {
            // A peer that sends while we do not.
            self.update_window(seg);
            if self.snd_wnd > 0 {
                self.probes = 0;
            }
            return;
        }
        let old_una = self.snd_una;
        let old_window = self.snd_wnd;
        if seg.len == 0 || seg.ack != old_una {
            self.more = false;
        }
        self.update_window(seg);
        let mut delivered = Delivered::default();
        let (mut dsack, mut duplicated) = (false, false);
        if !seg.options.sack_blocks().is_empty() && self.sack_ok {
            dsack = self.take_sack(seg, &mut delivered);
        }
        let advanced = seg.ack.after(old_una);
        if advanced {
            self.advance_una(cx, seg.ack, &mut delivered);
            if self.search.is_some() {
                self.judge_probe(cx);
            }
        } else if seg.ack == old_una && seg.len == 0 && self.outstanding() > 0 {
            let duplicate = old_window == self.snd_wnd || !seg.options.sack_blocks().is_empty();
            if duplicate && !seg.flags.any(Flags::FIN) {
                // No more than what is in flight: a peer that invents duplicates gains nothing (Savage, 1999).
                self.dup_acks = (self.dup_acks + 1).min(self.board.count() as u32);
                duplicated = true;
            }
        }
        if self.outstanding() == 0 && self.snd_wnd > 0 || advanced {
            self.probes = 0;
        }
        if advanced || delivered.bytes > 0 {
            self.sample_rtt(cx, seg, &delivered, advanced);
        }
        self.recover(cx, seg, &delivered, Kind { advanced, duplicated, dsack });
        if advanced {
            self.restart_retransmit(cx);
            self.tell_room(cx);
        } else if self.awaits == Awaits::Persist && self.snd_wnd > 0 {
            // What goes out now is waited for from now on.
            self.awaits = Awaits::Nothing;
            self.stuck_since = None;
        }
    }

    /// RFC 9293, 3.10.7.4: the window of the newest segment counts.
    fn update_window(&mut self, seg: &Segment) {
        let newer = self.snd_wl1.before(seg.seq)
            || (self.snd_wl1 == seg.seq && !seg.ack.before(self.snd_wl2))
            || seg.ack.after(self.snd_una);
        let newer = newer && !(planted!(WindowUpdateIgnored) && seg.ack == self.snd_una);
        if newer && !seg.ack.before(self.snd_una) {
            let extra = if planted!(WindowScaledTwice) { self.snd_wscale } else { 0 };
            self.snd_wnd = u32::from(seg.window) << (self.snd_wscale + extra);
            self.snd_wl1 = seg.seq;
            self.snd_wl2 = seg.ack;
            self.snd_wnd_max = self.snd_wnd_max.max(self.snd_wnd);
        }
    }

    /// SACK blocks, checked (RFC 2018, RFC 2883). Answers whether one reports a duplicate.
    fn take_sack(&mut self, seg: &Segment, delivered: &mut Delivered) -> bool {
        let mut good = [(Seq(0), Seq(0)); 4];
        let mut count = 0;
        let mut dsack = false;
        let blocks = seg.options.sack_blocks();
        for (i, &(left, right)) in blocks.iter().enumerate() {
            if !left.before(right) || right.after(self.snd_nxt) {
                continue;
            }
            let inside_next = i == 0 && blocks.get(1).is_some_and(|b| !left.before(b.0) && !right.after(b.1));
            if left.before(seg.ack) || inside_next {
                // The first block only, and not older than what we can know of (RFC 2883, 5).
                dsack |= i == 0 && !left.before(self.snd_una - self.snd_wnd_max);
                continue;
            }
            good[count] = (left, right);
            count += 1;
        }
        self.board.sack(&good[..count], delivered);
        if dsack {
            self.counts.dsack_dups += 1;
            self.rack.on_dsack(self.snd_una, self.snd_nxt);
        }
        dsack
    }

    fn advance_una<O>(&mut self, cx: &mut Cx<'_, O>, ack: Seq, delivered: &mut Delivered) {
        let newly = ack - self.snd_una;
        self.board.acknowledge(ack, delivered);
        let fin = self.fin_sent && ack == self.snd_nxt;
        let data = newly - u32::from(fin);
        self.tx.discard(data as usize, &mut cx.shared.pool);
        self.counts.bytes_acked += u64::from(data);
        self.snd_una = ack;
        self.ecn.on_advance(ack);
        self.soft_error = None;
        self.end_timeouts(cx.now);
        if self.tx.len() == 0 {
            self.set_limit(cx.now, Limit::Idle);
        }
        self.stuck_since = if self.outstanding() > 0 { Some(cx.now) } else { None };
        if let Some(up) = self.snd_up
            && !up.after(ack)
        {
            self.snd_up = None;
        }
        if self.small_end.before(ack) {
            self.small_end = ack;
        }
    }

    /// A round trip: by our own record of a segment sent once, else by the timestamp that came back, which says of a
    /// segment sent again which time it is about (RFC 7323, 4). Without either the timeout stays as long as it became
    /// (RFC 6298, 5): if it is the path that is longer, the next segment waits for its answer.
    fn sample_rtt<O>(&mut self, cx: &mut Cx<'_, O>, seg: &Segment, delivered: &Delivered, advanced: bool) {
        if let Some(at) = delivered.sent_once_at {
            self.rtt.sample_ns(cx.now, cx.now.nanos_since(at));
        } else if planted!(NoLongerPath) && self.rtt.known() {
        } else if let Some(rtt) = self.echoed_rtt(cx.now, seg).filter(|_| advanced) {
            self.rtt.sample(cx.now, rtt);
        } else {
            if matches!(self.tlp, Some((_, true))) {
                // The probe may have come too early: what follows is not probed before it is measured.
                self.backoff = self.backoff.max(1);
            }
            return;
        }
        self.backoff = 0;
    }

    /// The round trip by the timestamp that came back.
    #[cold]
    fn echoed_rtt(&self, now: Instant, seg: &Segment) -> Option<Duration> {
        let (_, echo) = seg.options.timestamps.filter(|(_, echo)| self.ts_ok && *echo != 0)?;
        let ms = self.stamp(now).wrapping_sub(echo);
        (ms < ECHO_AGE_MAX_MS).then(|| Duration::from_millis(u64::from(ms.max(1))))
    }
}

/// What an echo that is no older tells is believed.
const ECHO_AGE_MAX_MS: u32 = 100_000;

/// Whether a segment bears on the other direction by its window at most, where nothing is in flight there.
#[inline]
fn says_nothing_else(seg: &Segment) -> bool {
    seg.options.sack_blocks().is_empty() && !seg.has(Flags::ECE)
}
