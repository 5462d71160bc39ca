//! When an acknowledgment waits, and how long (RFC 9293, 3.8.6.3; RFC 5681, 4.2). The time follows Linux's "ato": it is
//! short while data comes fast, longer where nobody answers and data comes slowly, and never longer than the path's
//! round trip or 200 ms.

use super::control_block::{Cx, MSS_DEFAULT, MSS_MIN, NEVER, Tcb, Timer};
use super::segment::Segment;
use crate::mutation::planted;
use crate::{Duration, Frame, Instant, Outlet};
use wire::tcp::Flags;

/// What a connection knows about its acknowledgments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DelayedAck {
    /// Acknowledgments still sent at once, for the peer's slow start.
    pub(crate) quick: u8,
    /// The application answers what it gets: its data will carry the acknowledgment.
    pub(crate) interactive: bool,
    /// Segments below full size, which likely end a write, since the last acknowledgment: none, one, more.
    pub(crate) small: u8,
    /// How long an acknowledgment may wait, microseconds; zero before any data came.
    ato: u32,
    /// Payload of the last segment below full size that could be a full one by now.
    shorter: u32,
}

impl DelayedAck {
    /// As TCP_INFO tells it.
    pub(crate) fn ato(&self) -> Duration {
        Duration::from_micros(u64::from(self.ato.min(DELAY_MAX)))
    }

    /// The next `count` acknowledgments go at once: something is out of the ordinary.
    pub(crate) fn hurry(&mut self, count: u8) {
        self.quick = self.quick.max(count);
    }

    /// The peer's stream ended: ours likely follows, and its FIN carries the acknowledgment. False: no data came
    /// before, so nothing is known of the application.
    pub(crate) fn expect_close(&mut self) -> bool {
        self.interactive = true;
        self.ato != 0
    }

    /// The application does not answer what comes, or is not expected to for now.
    pub(crate) fn leave_conversation(&mut self) {
        self.interactive = false;
        self.ato = DELAY_MIN;
    }

    /// Whether data that is sent `gap` nanoseconds after some was received is an answer to it.
    #[inline]
    pub(crate) fn is_answer(&self, gap: u64) -> bool {
        gap < u64::from(self.ato) * 1000
    }

    /// An acknowledgment left. `owed`: data waited for it.
    #[inline]
    pub(crate) fn on_sent(&mut self, owed: bool) {
        self.small = 0;
        if owed && self.quick > 0 {
            self.quick -= 1;
            if self.quick == 0 {
                self.ato = DELAY_MIN;
            }
        }
    }
}

impl<F: Frame> Tcb<F> {
    /// Data came in order: learns its pace.
    #[inline]
    pub(crate) fn pace_acks(&mut self, now: Instant) {
        let gap = now.nanos_since(self.last_data_received) / 1000;
        let ato = u64::from(self.acks.ato);
        if ato == 0 {
            self.acks.ato = DELAY_MIN;
            self.acks.hurry(self.quick_acks());
        } else if gap <= u64::from(DELAY_MIN / 2) {
            self.acks.ato = self.acks.ato / 2 + DELAY_MIN / 2;
        } else if gap < ato {
            self.acks.ato = (ato / 2 + gap).min(self.rtt.rto_ns() / 1000) as u32;
        } else if gap > self.rtt.rto_ns() / 1000 {
            // After a pause the peer is in slow start again.
            self.acks.hurry(self.quick_acks());
        }
    }

    /// Learns what a full-sized segment of this peer is, which the options in its headers make smaller than the MSS,
    /// and notes those that likely end a write (Linux's tcp_measure_rcv_mss).
    #[inline]
    pub(crate) fn measure_segment(&mut self, seg: &Segment) {
        let ends = seg.has(Flags::PSH);
        if seg.len >= self.rcv_mss {
            if seg.len <= u32::from(self.adv_mss) {
                self.rcv_mss = seg.len;
            }
            if ends {
                self.acks.small = self.acks.small.max(1);
            }
            return;
        }
        if seg.len >= MSS_DEFAULT || (seg.len >= MSS_MIN && !ends) {
            // Two of one size: the path or the peer has come down to it.
            if seg.len == core::mem::replace(&mut self.acks.shorter, seg.len) {
                self.rcv_mss = seg.len;
                return;
            }
        }
        self.acks.small = (self.acks.small + 1).min(2);
    }

    /// Acknowledgments at once that a peer in slow start is good for: half of the window's segments.
    fn quick_acks(&self) -> u8 {
        let window = self.rcv_adv.distance_from(self.rcv_nxt).max(0) as u32;
        match window / (2 * self.rcv_mss) {
            0 => 2,
            segments => segments.min(QUICK_ACKS) as u8,
        }
    }

    /// Sends the acknowledgment that is due at once, or sees that the delayed one comes.
    pub(crate) fn acknowledge<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) {
        if !self.ack_owed {
            return;
        }
        if self.ack_now {
            return self.send_ack(cx);
        }
        let mut delay = u64::from(self.acks.ato.clamp(DELAY_MIN, DELAY_MAX)) * 1000;
        if self.rtt.known() {
            delay = delay.min(self.rtt.srtt_ns().max(u64::from(DELAY_MIN) * 1000));
        }
        let (due, at) = (self.deadline[Timer::DelayedAck as usize], Instant(cx.now.0 + delay));
        if due <= Instant(cx.now.0 + delay / 4) {
            // About to go anyway.
            self.send_ack(cx);
        } else if at < due && !planted!(NoDelayedAckTimer) {
            debug_assert!(due == NEVER || due > cx.now);
            self.set_timer(cx, Timer::DelayedAck, at);
        }
    }

    /// The delayed acknowledgment's time is over.
    pub(crate) fn on_delayed_ack_timer<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) {
        if !self.ack_owed {
            return;
        }
        if self.acks.interactive {
            // Nobody answered in time: this is not a conversation.
            self.acks.leave_conversation();
        } else {
            self.acks.ato = (u64::from(self.acks.ato) * 2).min(self.rtt.rto_ns() / 1000) as u32;
        }
        self.send_ack(cx);
    }

    /// Whether the application has yet to read so much that an acknowledgment would hardly move the window: its next
    /// read sends one that does (Linux's __tcp_ack_snd_check).
    #[inline]
    pub(crate) fn reader_is_behind(&self) -> bool {
        2 * self.rx.len() > self.rx_capacity as usize && self.is_readable()
    }

    /// Whether reading gives an acknowledgment to a peer that sends little and waits: the application has everything,
    /// and will hardly follow by data (Linux's tcp_cleanup_rbuf).
    #[inline]
    pub(crate) fn reading_acknowledges(&self) -> bool {
        self.rx.len() == 0 && (self.acks.small > 1 || (self.acks.small == 1 && !self.acks.interactive))
    }
}

/// Linux's TCP_ATO_MIN and TCP_DELACK_MIN, and TCP_DELACK_MAX; microseconds.
const DELAY_MIN: u32 = 40_000;
const DELAY_MAX: u32 = 200_000;
/// Acknowledgments sent at once at the beginning (Linux: TCP_MAX_QUICKACKS).
const QUICK_ACKS: u32 = 16;
