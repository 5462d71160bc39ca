//! A connection that another TCP began goes on here: with its numbers, windows and options, what waits to be read, to
//! be acknowledged and to be sent. The other side notices no more than a lost segment at most.
//!
//! What is unknown is taken for what cannot do harm: segments on their way count as sent now and more than once, so
//! that they give no round trip (Karn), and a timestamp of the peer that is not known passes for older than all.

use super::congestion::Control;
use super::control_block::{Awaits, Cx, Fate, TS_RECENT_UNKNOWN, Tcb, Timer};
use super::handover::{Handover, Pace};
use super::options::SynOptions;
use super::receive::Hold;
use super::seq::Seq;
use super::state::Phase;
use super::{ConnectError, Options, Settings, State};
use crate::mutation::planted;
use crate::stack::Socket;
use crate::{Frame, Instant, Outlet, SocketId, Stack};
use std::sync::Arc;

impl<F: Frame> Stack<F> {
    /// Goes on with a connection that stands elsewhere, which is silent about it from now on. Edges tell what it is
    /// ready for. `Err`: the pair of endpoints is in use here, or the engine is full; nothing has happened.
    pub fn tcp_take_over(
        &mut self,
        now: Instant,
        from: &Handover,
        options: &Options,
        token: u64,
        out: &mut impl Outlet,
    ) -> Result<SocketId, ConnectError> {
        let now = self.reach(now);
        if let Some(old) = self.demux.tcp.flow(from.local, from.remote) {
            match self.sockets.get(old) {
                // It went from here, and comes back.
                None => self.tcp_forget_flow(old, from.local, from.remote),
                // A connection that stands is younger than what is left of one that ended.
                Some(Socket::TimeWait(_)) => self.end_time_wait(old),
                Some(_) => return Err(ConnectError::InUse),
            }
        }
        let options = Arc::new(options.clone());
        let tcb = Tcb::taken_over(now, from, &options, &self.tcp.settings);
        let id = self.open(Socket::Tcp(tcb), token).ok_or(ConnectError::Full)?;
        self.demux.tcp.insert_flow(from.local, from.remote, id);
        self.with_tcp(now, id, out, |tcb, cx| {
            // Nothing that it says may be lost for want of a way: a reset is said once.
            let _ = cx.net.way(cx.now, cx.id, &mut tcb.route);
            let mtu = cx.net.path_mtu(cx.now, &mut tcb.route);
            tcb.set_mtu(mtu);
            tcb.rx.restore(&mut Hold { budget: cx.budget, pool: &mut cx.shared.pool }, &from.unread);
            for mut bytes in [&from.sent[..], if planted!(MoveLosesUnsent) { &[] } else { &from.unsent[..] }]
            {
                let len = bytes.len();
                tcb.tx.append(&mut bytes, len, &mut cx.shared.pool);
            }
            tcb.count_as_sent(cx.now, from);
            tcb.starved = !tcb.is_writable();
            tcb.start_keepalive(cx);
            cx.events.raise(cx.id, tcb.ready());
            tcb.output(cx);
            tcb.resume_timer(cx, from);
            tcb.acknowledge(cx);
            Fate::Stays
        });
        Ok(id)
    }
}

impl<F: Frame> Tcb<F> {
    /// A block with the numbers of `from`, and empty buffers.
    fn taken_over(now: Instant, from: &Handover, options: &Arc<Options>, settings: &Settings) -> Box<Tcb<F>> {
        let offset = from.timestamp.map_or(0, |(stamp, at)| stamp.wrapping_sub((at.0 / 1_000_000) as u32));
        let mut tcb =
            Tcb::new(now, from.local, from.remote, options, settings, Seq(from.send_seq) - 1, offset);
        tcb.enter(from.state);
        tcb.adv_mss = from.advertised_mss;
        tcb.rcv_wscale = from.scales.map_or(0, |(_, ours)| ours.min(14));
        let agreed = SynOptions {
            mss: Some(from.mss),
            window_scale: from.scales.map(|(theirs, _)| theirs),
            sack_permitted: from.sack,
            timestamps: from.timestamp.map(|(stamp, _)| (stamp, 0)),
            ecn: from.ecn,
        };
        tcb.negotiate(now, &agreed, settings, u32::from(u16::MAX));
        // What was agreed stays, whatever is offered to new connections.
        tcb.snd_wscale = from.scales.map_or(0, |(theirs, _)| theirs.min(14));
        tcb.rcv_wscale = from.scales.map_or(0, |(_, ours)| ours.min(14));
        tcb.sack_ok = from.sack;
        tcb.ts_ok = from.timestamp.is_some();
        tcb.ecn.ok = from.ecn;
        tcb.ts_recent = from.timestamp_recent.unwrap_or(TS_RECENT_UNKNOWN);

        let receive = Seq(from.receive_seq);
        tcb.irs = receive - 1;
        tcb.rcv_nxt = receive
            + from.unread.len() as u32
            + u32::from(from.is_fin_received() && !planted!(MoveForgetsFin));
        tcb.rcv_adv = tcb.rcv_nxt + if planted!(MoveShrinksWindow) { 0 } else { from.receive_window };
        tcb.last_ack_sent = Seq(from.acknowledged).min(tcb.rcv_nxt);
        tcb.ack_owed = tcb.last_ack_sent != tcb.rcv_nxt;
        tcb.fin_received = from.is_fin_received();
        tcb.fin_at = tcb.fin_received.then(|| tcb.rcv_nxt - 1);
        tcb.read_shut = from.read_shut;

        let send = Seq(from.send_seq);
        tcb.snd_una = send;
        tcb.snd_nxt = send;
        tcb.usage.until = send;
        tcb.small_end = send;
        tcb.board.reset(send);
        tcb.snd_wnd = from.send_window;
        tcb.snd_wnd_max = from.send_window_max.max(from.send_window);
        tcb.snd_wl1 = Seq(from.send_wl1);
        tcb.snd_wl2 = send;
        if let Some(pace) = &from.pace {
            tcb.keep_pace(now, pace);
        }
        tcb
    }

    /// The state of `from`, by a way that a connection made here could have gone.
    fn enter(&mut self, state: State) {
        use State::*;
        self.phase = Phase::begin(SynReceived);
        let way: &[State] = match state {
            FinWait1 => &[Established, FinWait1],
            FinWait2 => &[Established, FinWait1, FinWait2],
            Closing => &[Established, FinWait1, Closing],
            CloseWait => &[Established, CloseWait],
            LastAck => &[Established, CloseWait, LastAck],
            _ => &[Established],
        };
        way.iter().for_each(|next| self.set_state(*next));
    }

    fn keep_pace(&mut self, now: Instant, pace: &Pace) {
        self.rtt.resume(now, pace.srtt, pace.rttvar, pace.least);
        self.control = Control::new(self.options.congestion, self.payload_max());
        self.control.resume(pace.window, pace.threshold);
    }

    /// What is on its way was sent.
    fn count_as_sent(&mut self, now: Instant, from: &Handover) {
        let at = from.sent_at.unwrap_or(now).min(now);
        let whole = self.payload_max();
        let mut left = from.sent.len() as u32;
        while left > 0 {
            let len = left.min(whole);
            self.board.push_doubtful(self.snd_nxt, len, at);
            self.snd_nxt += len;
            left -= len;
        }
        self.fin_queued = from.is_write_ended();
        self.fin_sent = from.fin_sent;
        if self.fin_sent && self.state() != State::FinWait2 {
            self.board.push_doubtful(self.snd_nxt, 1, now);
            self.snd_nxt += 1;
        }
        if self.outstanding() > 0 {
            self.stuck_since = Some(now);
        }
    }

    /// The retransmission timer goes on.
    fn resume_timer<O>(&mut self, cx: &mut Cx<'_, O>, from: &Handover) {
        let Some(at) = from.sent_at.filter(|_| self.outstanding() > 0) else { return };
        let due = Instant(at.0 + self.rtt.rto_ns()).max(cx.now);
        if due < self.deadline[Timer::Retransmit as usize] && !planted!(NoRetransmissionTimer) {
            self.await_at(cx, Awaits::Rto, due);
        }
    }
}
