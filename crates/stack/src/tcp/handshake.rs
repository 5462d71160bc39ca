//! SYN-SENT, and the SYN-RECEIVED of a simultaneous open (RFC 9293, 3.5 and 3.10.7.3).

use super::control_block::{Awaits, Cx, Fate, Tcb, Timer};
use super::open::{announced_mss, initial_window, scale_to_offer};
use super::options::SynOptions;
use super::rtt::Rtt;
use super::segment::{self, Segment};
use super::time_wait::TimeWait;
use super::{ConnectError, Ecn, Options, State, ecn};
use crate::net::{Ip, Sent};
use crate::stack::Socket;
use crate::{Duration, Endpoint, Frame, Instant, Outlet, Ready, SocketError, SocketId, Stack};
use std::sync::Arc;
use wire::ipv4;
use wire::tcp::{Fields, Flags, HEADER_LEN};

#[allow(missing_docs)]
impl<F: Frame> Stack<F> {
    /// Whether [`Stack::tcp_connect`] can use this pair: no connection has it, and no rest of a recent one.
    pub fn tcp_can_connect(&self, local: Endpoint, remote: Endpoint) -> bool {
        self.tcp_pair_is_free(local, remote, TimeWait::may_connect_again)
    }

    /// As [`Stack::tcp_can_connect`], of a port that the program did not choose: it does not ask for one whose rest is
    /// younger than a second.
    pub fn tcp_can_choose(&self, now: Instant, local: Endpoint, remote: Endpoint) -> bool {
        self.tcp_pair_is_free(local, remote, |rest| rest.may_be_chosen_again(now))
    }

    fn tcp_pair_is_free(
        &self,
        local: Endpoint,
        remote: Endpoint,
        may_follow: impl FnOnce(&TimeWait) -> bool,
    ) -> bool {
        match self.demux.tcp.flow(local, remote).map(|old| self.sockets.get(old)) {
            None => true,
            Some(Some(Socket::TimeWait(rest))) => may_follow(rest),
            Some(_) => false,
        }
    }

    /// Whether connections that ended here still keep their pairs of endpoints.
    pub fn tcp_has_time_wait(&self) -> bool {
        !self.tcp.time_wait.is_empty()
    }

    /// Begins a connection; the SYN leaves as soon as the path is known. Success or failure is an event.
    pub fn tcp_connect(
        &mut self,
        now: Instant,
        local: Endpoint,
        remote: Endpoint,
        options: &Options,
        token: u64,
        out: &mut impl Outlet,
    ) -> Result<SocketId, ConnectError> {
        let now = self.reach(now);
        let mut iss = self.tcp.isn(now, local, remote);
        if let Some(old) = self.demux.tcp.flow(local, remote) {
            match self.sockets.get(old) {
                Some(Socket::TimeWait(rest)) if rest.may_connect_again() => iss = rest.next_isn(iss),
                _ => return Err(ConnectError::InUse),
            }
            self.end_time_wait(old);
        }
        let ts_offset = self.tcp.timestamp_offset(local, remote);
        let options = Arc::new(options.clone());
        let tcb = Tcb::new(now, local, remote, &options, &self.tcp.settings, iss, ts_offset);
        let id = self.open(Socket::Tcp(tcb), token).ok_or(ConnectError::Full)?;
        self.demux.tcp.insert_flow(local, remote, id);
        self.with_tcp(now, id, out, |tcb, cx| {
            tcb.stuck_since = Some(cx.now);
            tcb.retry_syn(cx)
        });
        Ok(id)
    }
}

impl<F: Frame> Tcb<F> {
    /// Sends the SYN, or the SYN-ACK of a simultaneous open, for the first time or again.
    pub(crate) fn retry_syn<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) -> Fate {
        let settings = &cx.shared.settings;
        let mtu = cx.net.path_mtu(cx.now, &mut self.route);
        self.adv_mss = announced_mss(mtu, &self.options);
        let answer = self.state() == State::SynReceived;
        if !answer {
            self.rcv_wscale = scale_to_offer(&self.options, settings);
        }
        let offer = SynOptions {
            mss: Some(self.adv_mss),
            window_scale: (settings.window_scaling && (!answer || self.rcv_wscale > 0))
                .then_some(self.rcv_wscale),
            sack_permitted: if answer { self.sack_ok } else { settings.sack },
            timestamps: (if answer { self.ts_ok } else { settings.timestamps })
                .then(|| (self.stamp(cx.now), self.ts_recent)),
            ecn: if answer { self.ecn.ok } else { settings.ecn == Ecn::Ask },
        };
        let options = offer.write();
        // A network that drops what asks for ECN gets a SYN that does not, the second time.
        let asks = offer.ecn && (answer || self.backoff == 0);
        let flags = match (answer, asks) {
            (false, false) => Flags::SYN,
            (false, true) => Flags::SYN | ecn::ASKS,
            (true, false) => Flags::SYN | Flags::ACK,
            (true, true) => Flags::SYN | Flags::ACK | Flags::ECE,
        };
        let window = self.window_of_syn();
        let fields = Fields {
            src: self.local.port(),
            dst: self.remote.port(),
            seq: self.iss.0,
            ack: if answer { self.rcv_nxt.0 } else { 0 },
            flags,
            window,
            urgent: 0,
            options_len: options.bytes().len(),
        };
        let (src, dst) = (*self.local.ip(), *self.remote.ip());
        let ip = Ip {
            src,
            protocol: ipv4::TCP,
            tos: self.options.tos & !ecn::ECN_MASK,
            ttl: self.options.ttl,
            dont_fragment: self.options.discover_mtu,
        };
        let len = HEADER_LEN + options.bytes().len();
        let sent = cx.net.send(cx.now, cx.id, &mut self.route, &ip, len, cx.out, |bytes| {
            segment::write(bytes, src, dst, &fields, &options, |_| {});
        });
        if let Sent::Unreachable(why) = sent {
            return self.finish(cx, Some(why));
        }
        if sent == Sent::Done {
            self.last_sent = cx.now;
            self.counts.segs_out += 1;
            if self.snd_nxt == self.iss {
                self.snd_nxt = self.iss + 1;
                self.board.push(self.iss, 1, cx.now);
            }
            if answer {
                self.rcv_adv = self.rcv_nxt + u32::from(window);
                self.last_ack_sent = self.rcv_nxt;
            }
        }
        self.awaits = Awaits::Rto;
        let linear = if answer { 0 } else { SYN_LINEAR_TIMEOUTS };
        let wait = self.rtt.rto_backed_off(self.backoff.saturating_sub(linear));
        self.set_timer(cx, Timer::Retransmit, cx.now + wait);
        Fate::Stays
    }

    fn window_of_syn(&self) -> u16 {
        initial_window(self.rx_capacity, u32::from(self.adv_mss))
    }

    /// The SYN was not answered in time.
    pub(crate) fn on_syn_timer<O: Outlet>(&mut self, cx: &mut Cx<'_, O>) -> Fate {
        let limit = self.options.user_timeout;
        let waited = cx.now.since(self.stuck_since.unwrap_or(cx.now));
        let retries = match self.options.syn_retries {
            0 => cx.shared.settings.syn_retries,
            asked => asked,
        };
        let exhausted = match self.state() {
            State::SynSent => waited >= time_of_retries(retries),
            _ => self.backoff >= retries,
        };
        if exhausted || (!limit.is_zero() && waited >= limit) {
            let why = self.soft_error.unwrap_or(SocketError::TimedOut);
            return self.finish(cx, Some(why));
        }
        self.backoff += 1;
        self.count_timeout(cx.now);
        self.counts.total_retrans += 1;
        self.retry_syn(cx)
    }

    /// A segment in SYN-SENT (RFC 9293, 3.10.7.3).
    pub(crate) fn on_syn_sent_segment<O: Outlet>(&mut self, cx: &mut Cx<'_, O>, seg: &Segment) -> Fate {
        let acceptable = seg.has(Flags::ACK) && seg.ack == self.iss + 1 && self.snd_nxt == self.iss + 1;
        if seg.has(Flags::ACK) && !acceptable {
            if self.backoff == 0 && self.snd_nxt == self.iss + 1 {
                // The peer has a connection that we have forgotten: once it has our RST a SYN may succeed.
                self.set_timer(cx, Timer::Retransmit, cx.now + SYN_SOON);
            }
            if !seg.has(Flags::RST) {
                self.reset_at(cx, seg.ack);
            }
            return Fate::Stays;
        }
        if seg.has(Flags::RST) {
            return if acceptable { self.finish(cx, Some(SocketError::Refused)) } else { Fate::Stays };
        }
        if !seg.has(Flags::SYN) {
            return Fate::Stays;
        }
        self.irs = seg.seq;
        self.rcv_nxt = seg.seq + 1;
        self.last_ack_sent = self.rcv_nxt;
        self.rcv_adv = self.rcv_nxt + u32::from(self.window_of_syn());
        let mtu = cx.net.path_mtu(cx.now, &mut self.route);
        self.negotiate(cx.now, &seg.syn, &cx.shared.settings, mtu);
        if let (true, Some((value, _))) = (self.ts_ok, seg.syn.timestamps) {
            self.ts_recent = value;
            self.ts_recent_at = cx.now;
        }
        // Of a SYN-ACK ECE alone is consent; both bits are what some peers reflect of any SYN.
        let consents = if acceptable { seg.has(Flags::ECE) && !seg.has(Flags::CWR) } else { seg.syn.ecn };
        self.ecn.ok = cx.shared.settings.ecn == Ecn::Ask && consents;
        self.snd_wnd = u32::from(seg.window);
        self.snd_wnd_max = self.snd_wnd;
        self.snd_wl1 = seg.seq;
        if !acceptable {
            // Both sides sent SYN: ours goes again, as SYN-ACK.
            self.set_state(State::SynReceived);
            self.stop_timer(Timer::Retransmit);
            return self.retry_syn(cx);
        }
        self.syn_is_acknowledged(cx, seg);
        self.send_ack(cx);
        self.output(cx);
        Fate::Stays
    }

    /// Our SYN was acknowledged: the connection stands.
    pub(crate) fn syn_is_acknowledged<O>(&mut self, cx: &mut Cx<'_, O>, seg: &Segment) {
        let next = self.iss + 1;
        if self.backoff == 0
            && let Some(first) = self.board.first()
        {
            let rtt = cx.now.since(first.at);
            self.rtt.sample(cx.now, rtt);
        }
        self.backoff = 0;
        self.stuck_since = None;
        self.soft_error = None;
        self.snd_una = next;
        self.snd_nxt = next;
        self.small_end = next;
        self.snd_wl2 = seg.ack;
        self.board.reset(next);
        self.awaits = Awaits::Nothing;
        self.stop_timer(Timer::Retransmit);
        // Closed while both SYNs were on their way: the FIN is next.
        self.set_state(if self.fin_queued { State::FinWait1 } else { State::Established });
        self.end_timeouts(cx.now);
        self.last_sent = cx.now;
        self.last_data_received = cx.now;
        self.last_ack_received = cx.now;
        self.start_keepalive(cx);
        cx.events.raise(cx.id, Ready::OUT);
    }

    /// RST that answers an acknowledgment of what was never sent.
    pub(crate) fn reset_at<O: Outlet>(&mut self, cx: &mut Cx<'_, O>, seq: super::seq::Seq) {
        let fields = Fields {
            src: self.local.port(),
            dst: self.remote.port(),
            seq: seq.0,
            flags: Flags::RST,
            ..Fields::default()
        };
        let (src, dst) = (*self.local.ip(), *self.remote.ip());
        let ip = Ip {
            src,
            protocol: ipv4::TCP,
            tos: self.options.tos & !ecn::ECN_MASK,
            ttl: self.options.ttl,
            dont_fragment: true,
        };
        cx.net.send(cx.now, cx.id, &mut self.route, &ip, HEADER_LEN, cx.out, |bytes| {
            segment::write(bytes, src, dst, &fields, &wire::tcp::OptionsWriter::new(), |_| {});
        });
    }
}

/// As long as so many retries with doubled timeouts take, each two minutes at most (Linux's tcp_model_timeout).
fn time_of_retries(retries: u8) -> Duration {
    let doubled = u32::from(retries.min(6));
    Rtt::new().rto() * ((2 << doubled) - 1) + Duration::from_secs(120) * (u32::from(retries) - doubled)
}

/// SYNs that go again at the first timeout's distance before it doubles (Linux's tcp_syn_linear_timeouts).
const SYN_LINEAR_TIMEOUTS: u8 = 4;
/// After an ACK of what was never sent.
const SYN_SOON: Duration = Duration::from_millis(5);
