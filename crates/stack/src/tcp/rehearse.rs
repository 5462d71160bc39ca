//! A send that stops before the outlet: the segment is written as the next one would be, and nothing remembers it.

use super::control_block::{Cx, Fate, Tcb};
use super::output::Prepared;
use super::{State, segment};
use crate::{Frame, Instant, Outlet, SendError, SocketId, Source, Stack};
use wire::tcp::{Flags, HEADER_LEN};

impl<F: Frame> Stack<F> {
    /// Writes the segment that all of `data` would be now to an outlet that sends nothing. `WouldBlock`: it would not
    /// go at once and whole.
    pub fn tcp_rehearse(
        &mut self,
        now: Instant,
        id: SocketId,
        data: &mut impl Source,
        out: &mut impl Outlet,
    ) -> Result<usize, SendError> {
        let now = self.reach(now);
        let mut answer = Err(SendError::NoSocket);
        self.with_tcp(now, id, out, |tcb, cx| {
            answer = tcb.rehearse(cx, data);
            Fate::Stays
        });
        answer
    }
}

impl<F: Frame> Tcb<F> {
    #[cold]
    fn rehearse<O: Outlet>(
        &mut self,
        cx: &mut Cx<'_, O>,
        data: &mut impl Source,
    ) -> Result<usize, SendError> {
        match self.state() {
            State::SynSent | State::SynReceived => return Err(SendError::WouldBlock),
            State::Closed => return Err(SendError::NotConnected),
            _ if !self.can_send() => return Err(SendError::Closed),
            _ => {}
        }
        let len = data.remaining();
        let window = (self.snd_una + self.snd_wnd).distance_from(self.snd_nxt).max(0) as usize;
        if self.unsent() > 0 || len > window || len > self.payload_max() as usize {
            return Err(SendError::WouldBlock);
        }
        let Ok(hop) = cx.net.hop(cx.now, &mut self.route) else { return Err(SendError::WouldBlock) };
        let flags = Flags::ACK | Flags::PSH;
        let Prepared { fields, options, stamps, plain, ip, rcv_adv, .. } =
            self.prepare(cx.now, self.snd_nxt, len as u32, flags);
        self.rcv_adv = rcv_adv;
        let total = HEADER_LEN + fields.options_len + len;
        if wire::ipv4::HEADER_LEN + total > hop.mtu as usize {
            return Err(SendError::WouldBlock);
        }
        let (local, remote) = (*self.local.ip(), *self.remote.ip());
        let (fragment, ident) = cx.net.whole(&hop, &ip);
        let written = cx.net.emit(&hop, remote, &ip, ident, fragment, total, cx.out, |bytes| {
            let fill = |payload: &mut [u8]| data.copy_to(payload);
            if plain {
                segment::write_stamped(bytes, local, remote, &fields, stamps, fill);
            } else {
                segment::write(bytes, local, remote, &fields, &options, fill);
            }
        });
        if written { Ok(len) } else { Err(SendError::WouldBlock) }
    }
}
