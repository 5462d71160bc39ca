//! What held a connection's data up, and for how long (TCP_INFO's busy_time, rwnd_limited and sndbuf_limited; Linux's
//! chronographs).

use super::control_block::Tcb;
use crate::{Duration, Frame, Instant};

/// Why data that the application gave is not acknowledged yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Limit {
    /// There is none.
    #[default]
    Idle,
    /// The network, as always.
    Network,
    /// The peer's window has no room for what waits.
    PeerWindow,
    /// All is sent, and the application would give more if the send buffer had room.
    SendBuffer,
}

/// The present reason, and the time for which there was one. How much of it was which is among what is seldom needed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    now: Limit,
    since: Instant,
    /// ns
    busy: u64,
}

impl<F: Frame> Tcb<F> {
    /// After sending what could be sent; `window_closed`: the peer's window was what ended it.
    #[inline]
    pub(super) fn note_limit(&mut self, now: Instant, window_closed: bool) {
        let limit = match () {
            () if self.tx.len() == 0 => Limit::Idle,
            () if window_closed => Limit::PeerWindow,
            () if self.starved && self.unsent() == 0 => Limit::SendBuffer,
            () => Limit::Network,
        };
        self.set_limit(now, limit);
    }

    #[inline]
    pub(super) fn set_limit(&mut self, now: Instant, limit: Limit) {
        let Limits { now: was, since, .. } = self.limits;
        if was == limit {
            return;
        }
        let span = now.nanos_since(since);
        if was != Limit::Idle {
            self.limits.busy += span;
        }
        match was {
            Limit::PeerWindow => self.seldom().limited[0] += span,
            Limit::SendBuffer => self.seldom().limited[1] += span,
            Limit::Idle | Limit::Network => {}
        }
        self.limits.now = limit;
        self.limits.since = now;
    }

    /// Time with data on its way, and of that the time limited by the peer's window, and by the send buffer.
    pub(super) fn limit_times(&self, now: Instant) -> [Duration; 3] {
        let [window, buffer] = self.seldom.as_ref().map_or([0; 2], |seldom| seldom.limited);
        let span = now.nanos_since(self.limits.since);
        let of = |limit| if self.limits.now == limit { span } else { 0 };
        let busy = if self.limits.now == Limit::Idle { 0 } else { span };
        [self.limits.busy + busy, window + of(Limit::PeerWindow), buffer + of(Limit::SendBuffer)]
            .map(Duration::from_nanos)
    }
}
