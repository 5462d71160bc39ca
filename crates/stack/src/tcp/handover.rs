//! A connection leaves the engine for another TCP, which goes on with it: what that one needs to know (the kernel's
//! TCP_REPAIR takes it), and its silent end here.

use super::State;
use super::control_block::Tcb;
use crate::{Endpoint, Frame, Instant, SocketId, Stack};

/// A connection as it stands. What came out of order is not among it: the peer sends that again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// Our side.
    pub local: Endpoint,
    /// The peer.
    pub remote: Endpoint,
    /// Sequence number of the first byte of `sent`.
    pub send_seq: u32,
    /// Bytes on their way, not acknowledged yet.
    pub sent: Vec<u8>,
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
    /// MSS that the peer announced.
    pub mss: u16,
    /// Window scales: the peer's, and ours.
    pub scales: Option<(u8, u8)>,
    /// SACK was agreed.
    pub sack: bool,
    /// Our clock of timestamps, milliseconds, if they were agreed.
    pub timestamp: Option<u32>,
    /// Our side of the stream ends behind `unsent`. A FIN that the peer acknowledged already is to be sent again: its
    /// place is the end of `sent`.
    pub write_ended: bool,
    /// The peer's side ends behind `unread`, or the application reads no further.
    pub read_ended: bool,
}

impl<F: Frame> Stack<F> {
    /// What another TCP needs to go on with a connection. `None`: it is not established, or over.
    pub fn tcp_describe(&self, now: Instant, id: SocketId) -> Option<Handover> {
        let tcb = self.tcb(id)?;
        match tcb.state() {
            State::Listen | State::SynSent | State::SynReceived | State::TimeWait | State::Closed => None,
            _ => Some(tcb.describe(now)),
        }
    }

    /// Another TCP goes on with the connection: it ends here without a word to the peer. What still comes for its flow is
    /// dropped unanswered, until [`Stack::tcp_forget_flow`].
    pub fn tcp_handed_over(&mut self, id: SocketId) {
        self.drop_tcb(id);
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
        let fin_acknowledged = self.fin_sent && self.outstanding() == 0;
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
            send_seq: (self.snd_una - u32::from(fin_acknowledged)).0,
            sent,
            unsent,
            receive_seq: (self.rcv_nxt - unread.len() as u32).0,
            unread,
            send_window: self.snd_wnd,
            send_wl1: self.snd_wl1.0,
            send_window_max: self.snd_wnd_max.max(self.snd_wnd),
            receive_window: self.rcv_adv.distance_from(self.rcv_nxt).max(0) as u32,
            mss: self.peer_mss.min(u32::from(u16::MAX)) as u16,
            scales: (self.snd_wscale > 0 || self.rcv_wscale > 0)
                .then_some((self.snd_wscale, self.rcv_wscale)),
            sack: self.sack_ok,
            timestamp: self.ts_ok.then(|| self.stamp(now)),
            write_ended: self.fin_queued,
            read_ended: self.fin_received || self.read_shut,
        }
    }
}
