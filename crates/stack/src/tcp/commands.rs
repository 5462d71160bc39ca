//! The commands of the application that are short: listen, accept, options, and the answers about a connection.

use super::control_block::{Fate, Tcb};
use super::listen::Listener;
use super::{ConnectError, Info, Options, Queued, Refused, State};
use crate::stack::Socket;
use crate::{Endpoint, Frame, Instant, Outlet, SocketId, Stack};
use std::sync::Arc;

#[allow(missing_docs)]
impl<F: Frame> Stack<F> {
    /// Listens on `local`, whose address may be unspecified (every address of the interface).
    pub fn tcp_listen(
        &mut self,
        local: Endpoint,
        backlog: u32,
        options: &Options,
        token: u64,
    ) -> Result<SocketId, ConnectError> {
        let listener = Listener::new(local, backlog, options, self.tcp.settings.syn_rate_max);
        let id = self.open(Socket::Listener(Box::new(listener)), token).ok_or(ConnectError::Full)?;
        self.demux.tcp.bind(local, id);
        Ok(id)
    }

    /// listen(2) again on a listener.
    pub fn tcp_set_backlog(&mut self, id: SocketId, backlog: u32) {
        if let Some(Socket::Listener(listener)) = self.sockets.get_mut(id) {
            listener.set_backlog(backlog);
        }
    }

    /// The oldest established connection that waits. Set its token next; edges that came before are reported again
    /// by `ready`.
    pub fn tcp_accept(&mut self, listener: SocketId) -> Option<SocketId> {
        let Some(Socket::Listener(listener)) = self.sockets.get_mut(listener) else { return None };
        listener.next_accepted()
    }

    pub fn tcp_options(&self, id: SocketId) -> Option<&Options> {
        match self.sockets.get(id)? {
            Socket::Tcp(tcb) => Some(&tcb.options),
            Socket::Listener(listener) => Some(&listener.options),
            _ => None,
        }
    }

    /// Changes options and acts on the change (uncorking sends, keepalive starts, ...).
    pub fn tcp_configure(
        &mut self,
        now: Instant,
        id: SocketId,
        change: impl FnOnce(&mut Options),
        out: &mut impl Outlet,
    ) {
        let now = self.reach(now);
        if let Some(Socket::Listener(listener)) = self.sockets.get_mut(id) {
            return change(Arc::make_mut(&mut listener.options));
        }
        self.with_tcp(now, id, out, |tcb, cx| {
            let before = Arc::clone(&tcb.options);
            change(Arc::make_mut(&mut tcb.options));
            if tcb.state() == State::Closed {
                return Fate::Stays;
            }
            tcb.size_buffers(&cx.shared.settings);
            if tcb.options.congestion != before.congestion {
                tcb.control.switch(tcb.options.congestion);
            }
            if tcb.options.keepalive != before.keepalive
                || tcb.options.keepalive_idle != before.keepalive_idle
            {
                tcb.start_keepalive(cx);
            }
            if tcb.options.quickack && !before.quickack {
                tcb.acks.interactive = false;
                if tcb.ack_owed {
                    tcb.send_ack(cx);
                }
            }
            let uncorked = before.cork && !tcb.options.cork;
            if uncorked || (tcb.options.nodelay && !before.nodelay) {
                tcb.more = false;
                tcb.output(cx);
            }
            tcb.tell_room(cx);
            Fate::Stays
        });
    }

    pub fn tcp_state(&self, id: SocketId) -> Option<State> {
        match self.sockets.get(id)? {
            Socket::Tcp(tcb) => Some(tcb.state()),
            Socket::Listener(_) => Some(State::Listen),
            Socket::HalfOpen(_) => Some(State::SynReceived),
            Socket::TimeWait(_) => Some(State::TimeWait),
            Socket::Udp(_) => None,
        }
    }

    /// Bytes that the next [`Stack::tcp_send`] takes; 0 also where it would fail.
    pub fn tcp_send_room(&self, id: SocketId) -> usize {
        let able = self.tcb(id).filter(|tcb| tcb.can_send() && tcb.error.is_none());
        able.map_or(0, |tcb| tcb.send_room())
    }

    /// Bytes that can be received (SIOCINQ), bytes not yet acknowledged (SIOCOUTQ), bytes not yet sent (SIOCOUTQNSD).
    pub fn tcp_queued(&self, id: SocketId) -> Option<Queued> {
        let tcb = self.tcb(id)?;
        // A FIN that is queued or unacknowledged counts, as the kernel's write_seq - snd_una does.
        let fin = usize::from(
            tcb.fin_queued && tcb.state() != State::Closed && !(tcb.fin_sent && tcb.outstanding() == 0),
        );
        Some(Queued {
            receive: tcb.rx.len(),
            send: tcb.tx.len() + fin,
            unsent: tcb.unsent() as usize + usize::from(tcb.fin_queued && !tcb.fin_sent),
        })
    }

    /// What the limits of all sockets together refused.
    pub fn tcp_refused(&self) -> Refused {
        self.tcp.refused
    }

    pub fn tcp_info(&self, now: Instant, id: SocketId) -> Option<Info> {
        self.tcb(id).map(|tcb| tcb.info(now))
    }
}

impl<F: Frame> Tcb<F> {
    fn info(&self, now: Instant) -> Info {
        let mss = self.payload_max();
        let segments = |bytes: u32| bytes.div_ceil(mss);
        let scaled = self.snd_wscale > 0 || self.rcv_wscale > 0;
        Info {
            retransmits: self.backoff,
            probes: self.probes.max(self.keepalive_probes),
            backoff: self.backoff.max(self.probes),
            timestamps: self.ts_ok,
            sack: self.sack_ok,
            ecn: self.ecn.ok,
            ecn_seen: self.ecn.seen,
            snd_wscale: scaled.then_some(self.snd_wscale),
            rcv_wscale: scaled.then_some(self.rcv_wscale),
            rto: self.rtt.rto_backed_off(self.backoff),
            ato: self.acks.ato(),
            snd_mss: mss,
            rcv_mss: self.rcv_mss,
            unacked: self.board.count() as u32,
            sacked: self.board.sacked_count(),
            lost: segments(self.board.lost()),
            retrans: segments(self.board.resent()),
            last_data_sent: now.since(self.last_sent),
            last_data_recv: now.since(self.last_data_received),
            last_ack_recv: now.since(self.last_ack_received),
            pmtu: self.mss + 40,
            rcv_ssthresh: self.rx_capacity,
            rtt: self.rtt.srtt(),
            rttvar: self.rtt.rttvar(),
            snd_ssthresh: self.control.ssthresh / mss,
            snd_cwnd: (self.control.cwnd / mss).max(1),
            advmss: u32::from(self.adv_mss),
            reordering: if self.rack.reordering_seen { 4 } else { 3 },
            rcv_rtt: crate::Duration::from_nanos(self.tuning.rtt),
            rcv_space: self.tuning.space,
            total_retrans: self.counts.total_retrans,
            bytes_acked: self.counts.bytes_acked,
            bytes_received: self.counts.bytes_received,
            segs_out: self.counts.segs_out,
            segs_in: self.counts.segs_in,
            notsent_bytes: self.unsent(),
            min_rtt: self.rtt.min(),
            data_segs_in: self.counts.data_segs_in,
            data_segs_out: self.counts.data_segs_out,
            bytes_sent: self.counts.bytes_sent + self.counts.bytes_retrans,
            bytes_retrans: self.counts.bytes_retrans,
            dsack_dups: self.counts.dsack_dups,
            reord_seen: self.counts.reord_seen,
            snd_wnd: self.snd_wnd,
            rcv_wnd: self.rcv_adv.distance_from(self.rcv_nxt).max(0) as u32,
        }
    }
}
