//! What held a connection's data up, and for how long (TCP_INFO's busy_time, rwnd_limited and sndbuf_limited; Linux's
//! chronographs).

use super::control_block::Tcb;
use crate::{Duration, Frame, Instant};

/// Why data that the application gave is not acknowledged yet. The first two come and go with each segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd)]
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
    /// Since when it is the peer's window or the send buffer.
    since: Instant,
    /// The ends of all times with data on its way less their beginnings, modulo 2^64; ns. While there is data it lacks
    /// the end.
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
        let was = self.limits.now;
        if was == limit {
            return;
        }
        if was == Limit::Idle {
            self.limits.busy = self.limits.busy.wrapping_sub(now.0);
        } else if limit == Limit::Idle {
            self.limits.busy = self.limits.busy.wrapping_add(now.0);
        }
        if was > Limit::Network || limit > Limit::Network {
            self.limit_changes(now, was);
        }
        self.limits.now = limit;
    }

    #[inline(never)]
    fn limit_changes(&mut self, now: Instant, was: Limit) {
        let span = now.nanos_since(self.limits.since);
        match was {
            Limit::PeerWindow => self.seldom().limited[0] += span,
            Limit::SendBuffer => self.seldom().limited[1] += span,
            Limit::Idle | Limit::Network => {}
        }
        self.limits.since = now;
    }

    /// Time with data on its way, and of that the time limited by the peer's window, and by the send buffer.
    pub(super) fn limit_times(&self, now: Instant) -> [Duration; 3] {
        let [window, buffer] = self.seldom.as_ref().map_or([0; 2], |seldom| seldom.limited);
        let span = now.nanos_since(self.limits.since);
        let of = |limit| if self.limits.now == limit { span } else { 0 };
        let end = if self.limits.now == Limit::Idle { 0 } else { now.0 };
        [self.limits.busy.wrapping_add(end), window + of(Limit::PeerWindow), buffer + of(Limit::SendBuffer)]
            .map(Duration::from_nanos)
    }
}
