//! Segments that leave together: one header, the payload by reference, cut by the kernel or the card on the way out
//! (TSO). To the rest of the engine they are segments like others, sent at the same moment; what is lost of them is
//! sent again one by one.

use super::control_block::{Cx, Tcb};
use super::output::{Prepared, Went};
use super::scoreboard::SEGMENTS_MAX;
use super::segment;
use super::send_buffer::PIECES;
use super::seq::Seq;
use crate::{Frame, Instant, Outlet};
use wire::tcp::{Flags, HEADER_LEN, HEADER_LEN_MAX};

/// Time that the segments of one packet may take at the connection's present rate, if they are more than two. As much
/// of a burst Linux allows (tcp_tso_autosize): routers with small queues lose less.
const BURST_NS: u64 = 1_000_000;

impl<F: Frame> Tcb<F> {
    /// Full segments of `room` bytes that may leave together now, where one may leave; 1: it leaves alone.
    pub(super) fn segments_at_once<O: Outlet>(&self, cx: &mut Cx<'_, O>, unsent: u32, room: u32) -> u32 {
        let max = cx.out.large_max() as u32;
        // What is not the same in each segment leaves alone: the urgent pointer, CWR; and a fragment's identification.
        if max == 0 || self.snd_up.is_some() || self.ecn.ok || !self.options.discover_mtu {
            return 1;
        }
        if cx.net.may_cut(&self.route) {
            return 1;
        }
        let receiver = (self.snd_una + self.snd_wnd).distance_from(self.snd_nxt).max(0) as u32;
        let network = self.control.window().saturating_sub(self.in_flight());
        let srtt = self.rtt.srtt().as_nanos().max(1) as u64;
        let burst = (u64::from(self.control.window()) * BURST_NS / srtt).min(u64::from(max)) as u32;
        let bytes = unsent.min(receiver).min(network).min(burst.max(2 * room)).min(self.pace_allows(cx.now));
        let count = (bytes / room).min((SEGMENTS_MAX - self.board.count()) as u32);
        // The last segment of all goes with the FIN, alone: behind what left together it would wait for a round trip.
        let ends = self.fin_queued && count * room == self.unsent();
        (count - u32::from(ends)).max(1)
    }

    /// Sends `count` segments of `room` bytes of new data as one packet.
    pub(super) fn send_together<O: Outlet>(
        &mut self,
        cx: &mut Cx<'_, O>,
        seq: Seq,
        room: u32,
        count: u32,
    ) -> Went {
        let len = room * count;
        let last = len == self.unsent();
        let flags = if last { Flags::ACK | Flags::PSH } else { Flags::ACK };
        let Prepared { mut fields, mut options, stamps, plain, ip, rcv_adv, new_data } =
            self.prepare(cx.now, seq, len, flags);
        if plain {
            options.timestamps(stamps.0, stamps.1);
        }
        fields.options_len = options.bytes().len();
        let mut header = [0; HEADER_LEN_MAX];
        let header = &mut header[..HEADER_LEN + fields.options_len];
        let (local, remote) = (*self.local.ip(), *self.remote.ip());
        segment::write_large(header, local, remote, &fields, &options, len as usize);
        let mut pieces = [&[][..]; PIECES];
        let pieces_len = self.tx.pieces((seq - self.snd_una) as usize, len as usize, &mut pieces);
        let transport = (&*header, room as usize);
        let payload = &pieces[..pieces_len];
        let sent = cx.net.send_large(cx.now, cx.id, &mut self.route, &ip, transport, payload, cx.out);
        self.commit_sent(cx, sent, (len, count), rcv_adv, new_data)
    }

    /// Notes new data: `count` segments of equal length, or one with `space` of any kind.
    #[inline]
    pub(super) fn note_new(&mut self, now: Instant, seq: Seq, space: u32, count: u32) {
        let each = space / count;
        for index in 0..count {
            self.board.push(seq + index * each, each, now);
        }
    }
}
