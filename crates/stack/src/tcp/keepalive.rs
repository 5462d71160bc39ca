//! Keepalive (RFC 9293, 3.8.4): an idle connection asks whether the peer is still there.

use super::State;
use super::control_block::{Cx, Fate, Tcb, Timer};
use crate::{Duration, Frame, Outlet};

impl<F: Frame> Tcb<F> {
    /// Lets the timer run if SO_KEEPALIVE says so; else it stands still.
    pub(crate) fn start_keepalive<O>(&mut self, cx: &mut Cx<'_, O>) {
        self.keepalive_probes = 0;
        let alive = !matches!(self.state(), State::Closed | State::SynSent);
        if self.options.keepalive && alive {
            let heard = self.last_ack_received.max(self.last_data_received);
            let at = (heard + self.options.keepalive_idle).max(cx.now);
            self.set_timer(cx, Timer::Keepalive, at);
        } else {
            self.stop_timer(Timer::Keepalive);
        }
    }

    pub(crate) fn on_keepalive_timer<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) -> Fate {
        self.stop_timer(Timer::Keepalive);
        if !self.options.keepalive {
            return Fate::Stays;
        }
        let heard = self.last_ack_received.max(self.last_data_received);
        let quiet = cx.now.since(heard);
        if self.outstanding() > 0 || self.unsent() > 0 || quiet < self.options.keepalive_idle {
            // Retransmissions and window probes find out by themselves; the rest is not idle long enough.
            self.keepalive_probes = 0;
            let since = if quiet < self.options.keepalive_idle { heard } else { cx.now };
            let idle = self.options.keepalive_idle.max(Duration::from_millis(1));
            self.set_timer(cx, Timer::Keepalive, since + idle);
            return Fate::Stays;
        }
        let user = self.options.user_timeout;
        let over = if user.is_zero() {
            self.keepalive_probes >= self.options.keepalive_count
        } else {
            quiet >= user && self.keepalive_probes > 0
        };
        if over {
            self.send_reset(cx);
            let why = self.soft_error.unwrap_or(crate::SocketError::TimedOut);
            return self.finish(cx, Some(why));
        }
        self.send_probe(cx);
        self.keepalive_probes = self.keepalive_probes.saturating_add(1);
        self.set_timer(
            cx,
            Timer::Keepalive,
            cx.now + self.options.keepalive_interval.max(Duration::from_millis(1)),
        );
        Fate::Stays
    }
}
