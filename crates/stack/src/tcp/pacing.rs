//! SO_MAX_PACING_RATE: data leaves no faster than that, as Linux's TCP does by itself where no queueing discipline
//! does. Payload counts, headers do not. New data and what recovery sends again wait their turn; what a timer sends
//! again goes, and is charged.
//!
//! The rule is the generic cell rate algorithm (ITU-T I.371): what is sent moves `paid_at`, the moment at which all of
//! it is paid for at the rate, and data may go while that is at most `TOLERANCE` ahead. The timer fires in the middle
//! of the tolerance, and sends as much at once. A thread that is late, since others have the processor, makes up for
//! it: `paid_at` may be behind by as much as `LATE`.

use super::control_block::{Cx, NEVER, Tcb, Timer};
use crate::{Duration, Frame, Instant, Outlet};

/// How far ahead of the rate data may go: the burst after silence, and what is sent per timer.
const TOLERANCE: Duration = Duration::from_millis(2);

/// How late the timer may be without a loss of rate. A longer silence is no lateness, and saves nothing up.
const LATE: Duration = Duration::from_millis(10);

impl<F: Frame> Tcb<F> {
    /// Whether data must wait because of the rate; a timer goes on then.
    #[inline]
    pub(super) fn is_held_by_pace<O>(&mut self, cx: &mut Cx<'_, O>) -> bool {
        self.options.max_pacing_rate != 0 && self.hold_by_pace(cx)
    }

    #[cold]
    fn hold_by_pace<O>(&mut self, cx: &mut Cx<'_, O>) -> bool {
        let paid_at = self.seldom().paid_at;
        if paid_at.since(cx.now) <= TOLERANCE {
            return false;
        }
        self.set_timer(cx, Timer::Pacing, Instant(paid_at.0 - TOLERANCE.as_nanos() as u64 / 2));
        true
    }

    /// Bytes by which one packet may go ahead of the rate.
    pub(super) fn pace_allows(&self, now: Instant) -> u32 {
        let rate = self.options.max_pacing_rate;
        if rate == 0 {
            return u32::MAX;
        }
        let paid_at = self.seldom.as_ref().map_or(now, |seldom| seldom.paid_at);
        let span = (now + TOLERANCE).since(paid_from(paid_at, now)).as_nanos();
        (u128::from(rate) * span / 1_000_000_000).min(u128::from(u32::MAX)) as u32
    }

    /// `len` bytes went.
    #[cold]
    pub(super) fn charge_to_pace(&mut self, now: Instant, len: u32) {
        let took = u128::from(len) * 1_000_000_000 / u128::from(self.options.max_pacing_rate);
        let seldom = self.seldom();
        seldom.paid_at = paid_from(seldom.paid_at, now) + Duration::from_nanos(took.min(LONGEST_NS) as u64);
    }

    /// Whether data waits for its turn.
    #[inline]
    pub(super) fn awaits_turn(&self) -> bool {
        self.deadline[Timer::Pacing as usize] != NEVER
    }

    /// Another rate: what was sent is paid for, and what waits goes by the new one.
    pub(super) fn change_pace<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) {
        self.seldom().paid_at = cx.now;
        self.stop_timer(Timer::Pacing);
        self.output(cx);
    }
}

/// Where what goes now begins to be paid for.
fn paid_from(paid_at: Instant, now: Instant) -> Instant {
    if now.since(paid_at) > LATE { now } else { paid_at }
}

/// No packet waits for longer behind another one (an hour): a rate that has no use leaves a connection that still ends.
const LONGEST_NS: u128 = 3_600_000_000_000;
