//! Explicit congestion notification (RFC 3168): routers mark instead of dropping, the receiver echoes the mark, the
//! sender answers as to a loss and says so.
//!
//! ```text
//!  data, ECT(0) ──► router: CE ──► receiver: ECE on all it sends ──► sender: window reduced, CWR on new data ─┐
//!                                            ▲ until CWR arrives ─────────────────────────────────────────────┘
//! ```
//! Only new data is ECT (RFC 3168, 6.1.4 to 6.1.6): no SYN, no pure ACK, no probe, nothing that is sent again.

use super::control_block::Tcb;
use super::segment::Segment;
use super::seq::Seq;
use crate::Frame;
use wire::tcp::{Flags, Header};

/// The two bits of IP's type of service.
pub(crate) const ECN_MASK: u8 = 3;
const ECT_0: u8 = 2;
const CE: u8 = 3;

/// Flags of a SYN that asks.
pub(crate) const ASKS: Flags = Flags(Flags::ECE.0 | Flags::CWR.0);

/// What a connection knows of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ecn {
    /// Both sides speak it.
    pub(crate) ok: bool,
    /// The peer's packets came marked as ECN-capable.
    pub(crate) seen: bool,
    /// CE arrived, and no CWR since: what we send says ECE.
    echo: bool,
    /// The window was reduced: the next new data says CWR.
    reduced: bool,
    /// What was outstanding when the window was reduced last; until more than that is acknowledged, further marks and
    /// losses are of the same window.
    high: Option<Seq>,
}

/// Whether a SYN asks. Of a packet that is ECT itself the network or the peer is not to be trusted with it, unless the
/// peer speaks AccECN, which is allowed to (the bit before CWR; we answer it with what we speak).
pub(crate) fn is_asked(header: &Header<'_>, ip_ecn: u8) -> bool {
    header.flags().has(ASKS) && (ip_ecn == 0 || header.reserved() & 1 != 0)
}

impl Ecn {
    /// Whether the window was reduced already for what a mark told now can be about (RFC 3168, 6.1.2: once a window).
    #[inline]
    pub(crate) fn covers_marks(&self) -> bool {
        self.high.is_some()
    }

    /// Whether it was for what is found lost now.
    pub(crate) fn covers_losses(&self, snd_una: Seq) -> bool {
        self.high.is_some_and(|high| snd_una.before(high))
    }

    #[inline]
    pub(crate) fn on_advance(&mut self, snd_una: Seq) {
        if self.high.is_some_and(|high| snd_una.after(high)) {
            self.high = None;
        }
    }

    /// The window was reduced, for a mark or for a loss.
    pub(crate) fn on_reduction(&mut self, snd_nxt: Seq) {
        if self.ok {
            self.high = Some(snd_nxt);
            self.reduced = true;
        }
    }

    /// What a segment says: flags, and the bits of its packet.
    #[inline]
    pub(crate) fn of_segment(&self, new_data: bool) -> (Flags, u8) {
        if !self.ok {
            return (Flags(0), 0);
        }
        let echo = if self.echo { Flags::ECE } else { Flags(0) };
        if !new_data {
            return (echo, 0);
        }
        (if self.reduced { echo | Flags::CWR } else { echo }, ECT_0)
    }

    /// A segment with new data left.
    #[inline]
    pub(crate) fn on_new_data_sent(&mut self) {
        self.reduced = false;
    }
}

impl<F: Frame> Tcb<F> {
    /// An acceptable segment of a connection that speaks ECN: CWR, and the mark of its packet.
    #[inline]
    pub(crate) fn take_marks(&mut self, seg: &Segment) {
        if seg.ip_ecn == CE || seg.has(Flags::CWR) || !self.ecn.seen {
            self.take_rare_marks(seg);
        }
    }

    fn take_rare_marks(&mut self, seg: &Segment) {
        if seg.has(Flags::CWR) {
            self.ecn.echo = false;
            // The peer's window may be a single segment: it must not wait for a delayed ACK.
            if seg.len > 0 {
                self.ack_owed = true;
                self.ack_now = true;
            }
        }
        // Not of what came before: a copy of it says nothing of the network now (RFC 3168, 6.1.5).
        if seg.len == 0 || !(seg.seq + seg.len).after(self.rcv_nxt) {
            return;
        }
        self.ecn.seen |= seg.ip_ecn != 0;
        if seg.ip_ecn == CE && !self.ecn.echo {
            self.ecn.echo = true;
            self.acks.leave_conversation();
            self.acks.hurry(2);
            self.ack_owed = true;
            self.ack_now = true;
        }
    }

    /// The peer says that our packets were marked: as a loss, without one (RFC 3168, 6.1.2). Answers whether the
    /// window must not grow by this acknowledgment.
    pub(crate) fn on_echo(&mut self, seg: &Segment, advanced: bool) -> bool {
        if self.ecn.covers_marks() {
            return true;
        }
        if !seg.has(Flags::ECE) || !(advanced || self.outstanding() > 0) {
            return false;
        }
        self.control.on_loss();
        self.control.cwnd = self.control.cwnd.min(self.control.ssthresh);
        self.usage.limited = false;
        // What proves an earlier recovery needless does not take this back.
        self.reduction.saved = None;
        self.ecn.on_reduction(self.snd_nxt);
        true
    }
}
