//! What poll says of a connection: room, data, ends, errors.

use super::State;
use super::control_block::{Cx, Tcb};
use crate::mutation::planted;
use crate::{Frame, Ready, SocketError};

impl<F: Frame> Tcb<F> {
    /// Readiness as the kernel's tcp_poll computes it.
    pub(crate) fn ready(&self) -> Ready {
        let mut ready = Ready::default();
        let closed = self.state() == State::Closed;
        let receive_end = closed || self.fin_received || self.read_shut;
        let send_end = closed || self.fin_queued;
        if closed || (receive_end && send_end) {
            ready |= Ready::HUP;
        }
        if receive_end {
            ready |= Ready::IN | Ready::RDHUP;
        }
        if !matches!(self.state(), State::SynSent | State::SynReceived) {
            if self.is_readable() {
                ready |= Ready::IN;
            }
            if send_end || self.is_writable() {
                ready |= Ready::OUT;
            }
            if self.urgent.byte.is_some() {
                ready |= Ready::PRI;
            }
        }
        if self.error.is_some() {
            ready |= Ready::ERR;
        }
        ready
    }

    #[inline]
    pub(crate) fn is_readable(&self) -> bool {
        let low_water = (self.options.receive_low_water.max(1)).min(self.rx_capacity) as usize;
        // An urgent byte that is next and is read out of line cannot be read.
        let urgent = self.urgent.mark.is_some()
            && !self.options.urgent_inline
            && self.urgent.mark == Some(self.read_offset());
        self.readable() >= low_water + usize::from(urgent)
    }

    /// Linux's sk_stream_is_writeable: free space at least a third, and unsent less than half of TCP_NOTSENT_LOWAT.
    #[inline]
    pub(crate) fn is_writable(&self) -> bool {
        let queued = self.tx.len() as u32;
        queued / 2 <= self.tx_limit.saturating_sub(queued)
            && queued < self.tx_limit
            && 2 * u64::from(self.unsent()) < u64::from(self.options.not_sent_low_water.max(1))
    }

    /// Bytes that the send buffer takes now.
    #[inline]
    pub(crate) fn send_room(&self) -> usize {
        let room = (self.tx_limit as usize).saturating_sub(self.tx.len());
        if self.options.not_sent_low_water == u32::MAX { room } else { room.min(self.unsent_room()) }
    }

    /// Bytes that TCP_NOTSENT_LOWAT lets wait: up to the end of the packet that reaches it, where a packet is half of
    /// the peer's window at most (Linux's tcp_sendmsg_locked and tcp_xmit_size_goal).
    #[cold]
    fn unsent_room(&self) -> usize {
        let mss = self.payload_max();
        let packet = (self.snd_wnd_max / 2).min(PACKET_MAX).max(mss) / mss * mss;
        let bound = u64::from(self.options.not_sent_low_water.max(1)).next_multiple_of(u64::from(packet));
        bound.saturating_sub(u64::from(self.unsent())) as usize
    }

    /// Tells the application that there is room again after there was none.
    #[inline]
    pub(crate) fn tell_room<O>(&mut self, cx: &mut Cx<'_, O>) {
        if self.starved && self.is_writable() && !planted!(NoRoomEvent) {
            self.starved = false;
            cx.events.raise(cx.id, Ready::OUT);
        }
    }

    /// Takes the pending error (SO_ERROR): the one that befell it, or else what ICMP said since the last
    /// acknowledgment.
    pub(crate) fn take_error(&mut self) -> Option<SocketError> {
        self.error.take().or_else(|| self.soft_error.take())
    }
}

/// Linux's largest packet before it is cut.
const PACKET_MAX: u32 = 65_535 - 1 - 40 - 255;
