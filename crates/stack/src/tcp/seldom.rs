//! What most connections never need: it comes with its first use, so that the others do not carry it.

use super::control_block::Tcb;
use super::records::Records;
use super::seq::Seq;
use crate::{Duration, Instant};

/// See the module's page.
#[derive(Default)]
pub(crate) struct Seldom {
    pub(crate) records: Records,
    /// The largest distance by which a segment came too late, in segments (Linux's tp->reordering).
    pub(crate) reordering: u32,
    /// Retransmission timeouts, and how often one came after progress.
    pub(crate) total_rto: u16,
    pub(crate) total_rto_recoveries: u16,
    /// Time from the first timeout to the next acknowledgment.
    pub(crate) total_rto_time: Duration,
    /// When the first timeout of those fired after which nothing was acknowledged.
    pub(crate) timeouts_since: Option<Instant>,
    /// How many there were since.
    pub(crate) timeouts: u8,
    /// Time limited by the peer's window and by the send buffer, ns.
    pub(crate) limited: [u64; 2],
    /// When all that was sent is paid for (`pacing.rs`).
    pub(crate) paid_at: Instant,
    /// The owner's filter of what arrives (`lend.rs`).
    pub(crate) filter: Option<Filter>,
    /// Payload that was taken out whole and did not come back.
    pub(crate) lent: u32,
}

/// See `lend.rs`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Filter {
    /// Bytes at the front of the queue that it let pass.
    pub(crate) passed: u32,
    /// The owner looks at a piece, which is out of the queue meanwhile: who read on would read past it, and who
    /// described the connection would leave it out.
    pub(crate) looks: bool,
    /// The filter is gone once the owner has looked.
    pub(crate) ends: bool,
}

impl<F> Tcb<F> {
    pub(crate) fn seldom(&mut self) -> &mut Seldom {
        self.seldom.get_or_insert_default()
    }

    /// How much of the `len` bytes from `snd_nxt` on belongs to one record (MSG_EOR).
    #[inline]
    pub(super) fn within_record(&mut self, snd_nxt: Seq, len: u32) -> u32 {
        self.seldom.as_mut().map_or(len, |seldom| seldom.records.within(snd_nxt, len))
    }

    pub(crate) fn count_timeout(&mut self, now: Instant) {
        let seldom = self.seldom();
        seldom.total_rto = seldom.total_rto.saturating_add(1);
        if seldom.timeouts_since.is_none() {
            seldom.timeouts_since = Some(now);
            seldom.timeouts = 0;
            seldom.total_rto_recoveries = seldom.total_rto_recoveries.saturating_add(1);
        }
        seldom.timeouts = seldom.timeouts.saturating_add(1);
    }

    /// Timeouts since something was acknowledged; the timeout itself may have been doubled for longer.
    pub(crate) fn timeouts(&self) -> u8 {
        let seldom = self.seldom.as_ref().filter(|seldom| seldom.timeouts_since.is_some());
        seldom.map_or(0, |seldom| seldom.timeouts)
    }

    /// Something was acknowledged, perhaps after timeouts.
    #[inline]
    pub(crate) fn end_timeouts(&mut self, now: Instant) {
        if let Some(seldom) = &mut self.seldom
            && let Some(since) = seldom.timeouts_since.take()
        {
            seldom.total_rto_time += now.since(since);
        }
    }
}
