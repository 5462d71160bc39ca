//! The commands of the application that are short: listen, accept, options, and the answers about a connection.

use super::control_block::{Fate, Recovery, Tcb};
use super::listen::Listener;
use super::{ConnectError, Info, Options, Queued, Refused, State};
use crate::stack::Socket;
use crate::{Duration, Endpoint, Frame, Instant, Outlet, SocketId, Stack};
use std::sync::Arc;

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

    /// The options of a connection or listener.
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
            if before.cork && !tcb.options.cork {
                tcb.more = false;
                tcb.pushed |= tcb.options.nodelay;
                tcb.output(cx);
            }
            if tcb.options.max_pacing_rate != before.max_pacing_rate {
                tcb.change_pace(cx);
            }
            tcb.tell_room(cx);
            Fate::Stays
        });
    }

    /// The state, also of what is not a connection yet or no longer; `None`: nothing of TCP has this id.
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

    /// Bytes that can be received (SIOCINQ) and all that arrived in order, bytes not yet acknowledged (SIOCOUTQ), bytes
    /// not yet sent (SIOCOUTQNSD).
    pub fn tcp_queued(&self, id: SocketId) -> Option<Queued> {
        let tcb = self.tcb(id)?;
        // A FIN that is queued or unacknowledged counts, as the kernel's write_seq - snd_una does.
        let fin = usize::from(
            tcb.fin_queued && tcb.state() != State::Closed && !(tcb.fin_sent && tcb.outstanding() == 0),
        );
        Some(Queued {
            receive: tcb.before_mark(),
            unread: tcb.readable(),
            send: tcb.tx.len() + fin,
            unsent: tcb.unsent() as usize + usize::from(tcb.fin_queued && !tcb.fin_sent),
        })
    }

    /// What the limits of all sockets together refused.
    pub fn tcp_refused(&self) -> Refused {
        self.tcp.refused
    }

    /// What TCP_INFO tells of a connection.
    pub fn tcp_info(&self, now: Instant, id: SocketId) -> Option<Info> {
        self.tcb(id).map(|tcb| tcb.info(now))
    }
}

impl<F: Frame> Tcb<F> {
    fn info(&self, now: Instant) -> Info {
        let mss = self.payload_max();
        let segments = |bytes: u32| bytes.div_ceil(mss);
        let scaled = self.snd_wscale > 0 || self.rcv_wscale > 0;
        let seldom = self.seldom.as_deref();
        let [busy_time, rwnd_limited, sndbuf_limited] = self.limit_times(now);
        Info {
            ca_state: self.ca_state(),
            retransmits: self.timeouts(),
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
            snd_ssthresh: self.control.threshold().map(|bytes| bytes / mss),
            snd_cwnd: (self.control.cwnd / mss).max(1),
            advmss: u32::from(self.adv_mss),
            reordering: seldom.map_or(0, |seldom| seldom.reordering).max(REORDERING_MIN),
            rcv_rtt: Duration::from_nanos(self.tuning.rtt),
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
            max_pacing_rate: self.options.max_pacing_rate,
            snd_wnd: self.snd_wnd,
            rcv_wnd: self.rcv_adv.distance_from(self.rcv_nxt).max(0) as u32,
            busy_time,
            rwnd_limited,
            sndbuf_limited,
            total_rto: seldom.map_or(0, |seldom| seldom.total_rto),
            total_rto_recoveries: seldom.map_or(0, |seldom| seldom.total_rto_recoveries),
            total_rto_time: seldom.map_or(Duration::ZERO, |seldom| {
                let unfinished = seldom.timeouts_since.map_or(Duration::ZERO, |at| now.since(at));
                seldom.total_rto_time + unfinished
            }),
        }
    }

    /// Linux's TCP_CA_*.
    fn ca_state(&self) -> u8 {
        match self.recovery {
            Recovery::Timeout { .. } => 4,
            Recovery::Fast { .. } => 3,
            Recovery::Open if self.ecn.covers_losses(self.snd_una) => 2,
            Recovery::Open => {
                u8::from(self.board.sacked() > 0 || self.dup_acks > 0 || self.board.resent() > 0)
            }
        }
    }
}

/// Linux's tcp_reordering.
const REORDERING_MIN: u32 = 3;
