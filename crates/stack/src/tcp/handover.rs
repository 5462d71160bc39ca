//! A connection goes over from one TCP to another while it lives: what the other one needs to know, in the terms of the
//! kernel's TCP_REPAIR, and the silent end of the one that leaves this engine. How one that comes goes on: `takeover`.

use super::control_block::Tcb;
use super::segment;
use super::{Fate, State};
use crate::{Duration, Endpoint, Frame, Instant, Outlet, SocketId, Stack};
use wire::ipv4;
use wire::tcp::{Fields, Flags, HEADER_LEN, OptionsWriter};

/// A connection as it stands. What came out of order is not among it: the peer sends that again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// Our side.
    pub local: Endpoint,
    /// The peer.
    pub remote: Endpoint,
    /// ESTABLISHED, or a later state that is not over: it tells which side's FIN was sent, came or was acknowledged.
    pub state: State,
    /// Sequence number of the first byte of `sent`.
    pub send_seq: u32,
    /// Bytes on their way, not acknowledged yet.
    pub sent: Vec<u8>,
    /// When the first of `sent` left, as far as is known. The retransmission timer goes on from there: moves that come
    /// more often than it expires would else put it off for ever.
    pub sent_at: Option<Instant>,
    /// Bytes of the application that were not sent yet.
    pub unsent: Vec<u8>,
    /// Sequence number of the first byte of `unread`.
    pub receive_seq: u32,
    /// Bytes that the application did not read yet.
    pub unread: Vec<u8>,
    /// The peer's window, the segment that told it (SND.WL1), and the largest that it ever told.
    pub send_window: u32,
    /// See `send_window`.
    pub send_wl1: u32,
    /// See `send_window`.
    pub send_window_max: u32,
    /// What we let the peer send.
    pub receive_window: u32,
    /// Behind the last byte that we acknowledged.
    pub acknowledged: u32,
    /// MSS that the peer announced.
    pub mss: u16,
    /// MSS that we announced.
    pub advertised_mss: u16,
    /// Window scales: the peer's, and ours.
    pub scales: Option<(u8, u8)>,
    /// SACK was agreed.
    pub sack: bool,
    /// Our FIN was sent, behind all of `sent`, and may be acknowledged (FIN-WAIT-2).
    pub fin_sent: bool,
    /// Our clock of timestamps, if they were agreed: what it says, milliseconds, and when. A moment too early makes the
    /// clock of the other TCP run ahead by as much, one too late would turn it back.
    pub timestamp: Option<(u32, Instant)>,
    /// The peer's latest timestamp (TS.Recent of RFC 7323); `None`: unknown, as TCP_REPAIR does not tell it.
    pub timestamp_recent: Option<u32>,
    /// ECN was agreed.
    pub ecn: bool,
    /// The application reads no further (SHUT_RD).
    pub read_shut: bool,
    /// What was learned of the path; `None`: nothing yet.
    pub pace: Option<Pace>,
}

/// What a connection learned of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Congestion window, bytes.
    pub window: u32,
    /// Slow start threshold, bytes; `u32::MAX`: none yet.
    pub threshold: u32,
    /// Smoothed round trip (RFC 6298).
    pub srtt: Duration,
    /// Its mean deviation.
    pub rttvar: Duration,
    /// The least round trip: an acknowledgment that comes sooner is not of what was sent last.
    pub least: Duration,
}

/// No socket's.
const NOBODY: SocketId = SocketId { index: u32::MAX, generation: u32::MAX };

impl Handover {
    /// Our side of the stream ends behind `unsent`.
    pub fn is_write_ended(&self) -> bool {
        matches!(self.state, State::FinWait1 | State::FinWait2 | State::Closing | State::LastAck)
    }

    /// The peer's FIN came, behind `unread`.
    pub fn is_fin_received(&self) -> bool {
        matches!(self.state, State::CloseWait | State::Closing | State::LastAck)
    }

    /// The number that the peer sends next (RCV.NXT).
    pub fn receive_next(&self) -> u32 {
        self.receive_seq
            .wrapping_add(self.unread.len() as u32)
            .wrapping_add(u32::from(self.is_fin_received()))
    }

    /// The packet by which the peer acknowledges all before `sent`, as of a segment that left the mean round trip ago:
    /// who hears it knows that. `None`: nobody knows, or there is no timestamp to tell it by.
    pub fn acknowledgment(&self, now: Instant) -> Option<Vec<u8>> {
        let ((stamp, at), pace) = self.timestamp.zip(self.pace)?;
        // Never rounded up: it would grow with each move.
        let round_trip = (pace.srtt.as_millis() as u32).max(1);
        let echo = stamp.wrapping_add(now.since(at).as_millis() as u32).wrapping_sub(round_trip);
        let mut options = OptionsWriter::new();
        // Zero is older than none and younger than none: as if it had not been told.
        options.timestamps(self.timestamp_recent.unwrap_or(0), echo);
        let (src, dst) = (*self.remote.ip(), *self.local.ip());
        let fields = Fields {
            src: self.remote.port(),
            dst: self.local.port(),
            seq: self.receive_next(),
            ack: self.send_seq,
            flags: Flags::ACK,
            window: (self.send_window >> self.scales.map_or(0, |(theirs, _)| theirs)).min(0xffff) as u16,
            urgent: 0,
            options_len: options.bytes().len(),
        };
        let payload_len = HEADER_LEN + fields.options_len;
        let header = ipv4::Fields {
            src,
            dst,
            protocol: ipv4::TCP,
            tos: 0,
            ttl: 64,
            ident: 0,
            fragment: ipv4::Fragment::DONT,
            payload_len,
        };
        let mut packet = header.emit().to_vec();
        packet.resize(ipv4::HEADER_LEN + payload_len, 0);
        segment::write(&mut packet[ipv4::HEADER_LEN..], src, dst, &fields, &options, |_| {});
        Some(packet)
    }
}

impl<F: Frame> Stack<F> {
    /// Before another TCP goes on with a connection: tells the peer what it owes it, all that came and the room there
    /// is. The other one knows of no debt.
    pub fn tcp_tell_all(&mut self, now: Instant, id: SocketId, out: &mut impl Outlet) {
        let now = self.reach(now);
        self.with_tcp(now, id, out, |tcb, cx| {
            let told = tcb.rcv_adv.distance_from(tcb.rcv_nxt).max(0) as u32;
            let has_news = tcb.ack_owed || tcb.last_ack_sent != tcb.rcv_nxt || tcb.window_on_offer() > told;
            if has_news && !matches!(tcb.state(), State::SynSent | State::Closed) {
                tcb.send_ack(cx);
            }
            Fate::Stays
        });
    }

    /// What another TCP needs to go on with a connection. `None`: it is not established, or over, or a filter looks at
    /// its next piece.
    pub fn tcp_describe(&mut self, now: Instant, id: SocketId) -> Option<Handover> {
        let now = self.reach(now);
        let tcb = self.tcb(id)?;
        if tcb.is_looked_at() {
            return None;
        }
        match tcb.state() {
            State::Listen | State::SynSent | State::SynReceived | State::TimeWait | State::Closed => None,
            _ => Some(tcb.describe(now)),
        }
    }

    /// Whether urgent data is under way in either direction, or is still to be read: [`Handover`] says nothing of it.
    pub fn tcp_has_urgent(&self, id: SocketId) -> bool {
        self.tcb(id)
            .is_some_and(|tcb| tcb.urgent.mark.is_some() || tcb.urgent.expected || tcb.snd_up.is_some())
    }

    /// The kernel goes on with the connection: it ends here without a word to the peer. What still comes for its flow
    /// is passed on ([`Stack::take_for_kernel`]), until [`Stack::tcp_forget_flow`].
    pub fn tcp_handed_over(&mut self, id: SocketId) {
        self.drop_tcb(id);
    }

    /// What comes for this flow, of which the engine has no connection after all, is passed on likewise. For
    /// [`Stack::tcp_forget_flow`].
    pub fn tcp_leave_flow(&mut self, local: Endpoint, remote: Endpoint) -> SocketId {
        let known = self.demux.tcp.flow(local, remote);
        if known.is_none_or(|known| self.sockets.get(known).is_none()) {
            self.demux.tcp.insert_flow(local, remote, NOBODY);
        }
        NOBODY
    }

    /// Nothing comes any more for the flow of a connection that was handed over.
    pub fn tcp_forget_flow(&mut self, id: SocketId, local: Endpoint, remote: Endpoint) {
        self.demux.tcp.remove_flow(local, remote, id);
    }
}

impl<F: Frame> Tcb<F> {
    fn describe(&self, now: Instant) -> Handover {
        let mut sent = vec![0; self.tx.len()];
        self.tx.copy_out(0, &mut sent);
        let unsent = sent.split_off(sent.len() - self.unsent() as usize);
        let mut unread = vec![0; self.rx.len()];
        self.rx.peek(&mut &mut unread[..], 0, usize::MAX);
        if let Some(mark) = self.urgent.mark.filter(|_| !self.options.urgent_inline)
            && let Some(at) = mark.checked_sub(self.read_offset()).map(|at| at as usize)
            && at < unread.len()
        {
            // Not a part of the stream.
            unread.remove(at);
        }
        Handover {
            local: self.local,
            remote: self.remote,
            state: self.state(),
            send_seq: self.snd_una.0,
            sent_at: self.board.oldest().filter(|_| !sent.is_empty()),
            sent,
            unsent,
            receive_seq: (self.rcv_nxt - u32::from(self.fin_received) - unread.len() as u32).0,
            unread,
            send_window: self.snd_wnd,
            send_wl1: self.snd_wl1.0,
            send_window_max: self.snd_wnd_max.max(self.snd_wnd),
            receive_window: self.rcv_adv.distance_from(self.rcv_nxt).max(0) as u32,
            acknowledged: self.last_ack_sent.0,
            mss: self.peer_mss.min(u32::from(u16::MAX)) as u16,
            advertised_mss: self.adv_mss,
            scales: (self.snd_wscale > 0 || self.rcv_wscale > 0)
                .then_some((self.snd_wscale, self.rcv_wscale)),
            sack: self.sack_ok,
            fin_sent: self.fin_sent,
            timestamp: self.ts_ok.then(|| (self.stamp(now), now)),
            timestamp_recent: (self.ts_ok && self.ts_recent != 0).then_some(self.ts_recent),
            ecn: self.ecn.ok,
            read_shut: self.read_shut,
            pace: self.rtt.known().then(|| Pace {
                window: self.control.cwnd,
                threshold: self.control.ssthresh,
                srtt: Duration::from_nanos(self.rtt.srtt_ns()),
                rttvar: self.rtt.rttvar(),
                least: self.rtt.min(),
            }),
        }
    }
}
