//! Listeners: the SYN queue of half-open connections and the accept queue of those that stand.
//!
//! A half-open connection is a small type of its own in the table of sockets, found by its flow. The backlog means
//! what it means to Linux: the accept queue takes one more than the backlog; a SYN that comes while it is full is
//! dropped, and so is the third segment of a handshake, which the peer's data or our SYN-ACK repeats.

use super::control_block::{Fate, Tcb};
use super::open::{Handshake, announced_mss, receive_space};
use super::options::{SynOptions, window_scale_for};
use super::rtt::Rtt;
use super::segment::{self, Segment};
use super::seq::Seq;
use super::shared::RateLimit;
use super::{Options, Settings, cookie, ecn};
use crate::ingress::IpMeta;
use crate::mutation::planted;
use crate::net::{Ip, Route};
use crate::stack::Socket;
use crate::{Duration, Endpoint, Frame, Instant, Outlet, Ready, SocketError, SocketId, Stack};
use core::ops::Range;
use std::collections::VecDeque;
use std::sync::Arc;
use wire::ipv4;
use wire::tcp::{Fields, Flags, HEADER_LEN, OptionsWriter};

/// A listening socket.
pub(crate) struct Listener {
    pub(crate) local: Endpoint,
    pub(crate) options: Arc<Options>,
    backlog: u32,
    accept: VecDeque<SocketId>,
    /// Half-open connections.
    half_open: u32,
    error: Option<SocketError>,
    /// When a cookie was sent last: an ACK of no connection is only believed to answer one for a while after.
    cookies_sent: Option<Instant>,
    /// How many SYNs it takes in a second, if that has a limit.
    rate: Option<RateLimit>,
}

impl Listener {
    pub(crate) fn new(local: Endpoint, backlog: u32, options: &Options, syn_rate_max: u32) -> Listener {
        Listener {
            local,
            options: Arc::new(options.clone()),
            backlog,
            accept: VecDeque::new(),
            half_open: 0,
            error: None,
            cookies_sent: None,
            rate: (syn_rate_max > 0).then(|| RateLimit::new(Instant::ZERO, syn_rate_max)),
        }
    }

    pub(crate) fn ready(&self) -> Ready {
        let mut ready = Ready::default();
        if !self.accept.is_empty() {
            ready |= Ready::IN;
        }
        if self.error.is_some() {
            ready |= Ready::ERR | Ready::IN;
        }
        ready
    }

    pub(crate) fn take_error(&mut self) -> Option<SocketError> {
        self.error.take()
    }

    pub(crate) fn abandon(&mut self, why: SocketError) {
        self.error = Some(why);
    }

    pub(crate) fn set_backlog(&mut self, backlog: u32) {
        self.backlog = backlog;
    }

    pub(crate) fn next_accepted(&mut self) -> Option<SocketId> {
        self.accept.pop_front()
    }

    fn accept_is_full(&self) -> bool {
        self.accept.len() > self.backlog as usize
    }

    fn syn_queue_is_full(&self) -> bool {
        self.half_open >= self.backlog.max(SYN_QUEUE_MIN)
    }
}

/// A connection in SYN-RECEIVED that a listener began.
pub(crate) struct HalfOpen {
    pub(crate) local: Endpoint,
    pub(crate) remote: Endpoint,
    pub(crate) listener: SocketId,
    route: Route,
    irs: Seq,
    iss: Seq,
    peer: SynOptions,
    adv_mss: u16,
    window: u16,
    rcv_wscale: u8,
    ts_offset: u32,
    ts_recent: u32,
    ttl: u8,
    tos: u8,
    retries: u8,
    begun: Instant,
    last_reply: Instant,
}

/// The listener that a SYN to `local` belongs to. Several at one endpoint (SO_REUSEPORT) share by flow.
pub(crate) fn find<F: Frame>(stack: &Stack<F>, local: Endpoint, remote: Endpoint) -> Option<SocketId> {
    match stack.demux.tcp.best(local) {
        [] => None,
        [only] => Some(*only),
        many => {
            let hash = stack.tcp.hash(3, local, remote) % many.len() as u64;
            Some(many[hash as usize])
        }
    }
}

impl<F: Frame> Stack<F> {
    /// A segment for a listener (RFC 9293, 3.10.7.2).
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn on_listener_segment(
        &mut self,
        now: Instant,
        listener_id: SocketId,
        meta: &IpMeta,
        seg: &Segment,
        local: Endpoint,
        remote: Endpoint,
        isn: Option<Seq>,
        out: &mut impl Outlet,
    ) {
        let Some(Socket::Listener(listener)) = self.sockets.get_mut(listener_id) else { return };
        if seg.has(Flags::RST) || seg.has(Flags::SYN | Flags::FIN) {
            return;
        }
        if seg.has(Flags::ACK) {
            return self.on_stray_ack(now, listener_id, meta, seg, local, remote, out);
        }
        if !seg.has(Flags::SYN) || listener.accept_is_full() || listener.error.is_some() {
            return;
        }
        if listener.rate.as_mut().is_some_and(|rate| !rate.allow(now)) {
            // Without an answer, so that the peer tries again in a second.
            self.tcp.refused.syns += 1;
            return;
        }
        let cookie = listener.syn_queue_is_full();
        if cookie {
            listener.cookies_sent = Some(now);
        }
        let options = Arc::clone(&listener.options);
        let settings = &self.tcp.settings;
        let mut route = Route::new(*remote.ip());
        let mtu = self.net.path_mtu(now, &mut route);
        let space = receive_space(&options, settings);
        let mut half = HalfOpen {
            local,
            remote,
            listener: listener_id,
            route,
            irs: seg.seq,
            iss: isn.unwrap_or_else(|| self.tcp.isn(now, local, remote)),
            peer: seg.syn,
            adv_mss: announced_mss(mtu, &options),
            window: space.min(65_535) as u16,
            rcv_wscale: window_scale_for(space.max(settings.rmem[2])),
            ts_offset: self.tcp.timestamp_offset(local, remote),
            ts_recent: seg.syn.timestamps.map_or(0, |(value, _)| value),
            ttl: options.ttl,
            tos: options.tos,
            retries: 0,
            begun: now,
            last_reply: now,
        };
        if cookie {
            return self.send_cookie(now, &mut half, meta, out);
        }
        if let Some(Socket::Listener(listener)) = self.sockets.get_mut(listener_id) {
            listener.half_open += 1;
        }
        let Some(id) = self.open(Socket::HalfOpen(Box::new(half)), 0) else {
            self.leave_syn_queue(listener_id);
            return;
        };
        self.demux.tcp.insert_flow(local, remote, id);
        self.timers.set(id, Some(now + SYN_ACK_TIMEOUT));
        self.send_syn_ack(now, id, out);
    }

    fn leave_syn_queue(&mut self, listener: SocketId) {
        if let Some(Socket::Listener(listener)) = self.sockets.get_mut(listener) {
            listener.half_open -= 1;
        }
    }

    pub(crate) fn send_syn_ack(&mut self, now: Instant, id: SocketId, out: &mut impl Outlet) {
        let Stack { sockets, net, tcp, .. } = self;
        let Some(Socket::HalfOpen(half)) = sockets.get_mut(id) else { return };
        let (fields, options) = half.syn_ack(now, &tcp.settings);
        let ip = half.ip();
        let (src, dst) = (*half.local.ip(), *half.remote.ip());
        let len = HEADER_LEN + options.bytes().len();
        net.send(now, id, &mut half.route, &ip, len, out, |bytes| {
            segment::write(bytes, src, dst, &fields, &options, |_| {});
        });
    }

    /// A SYN-ACK by which nothing is remembered (RFC 4987, 3.6).
    fn send_cookie(&mut self, now: Instant, half: &mut HalfOpen, meta: &IpMeta, out: &mut impl Outlet) {
        half.iss = cookie::make(&self.tcp, now, half.local, half.remote, half.irs, half.peer.mss);
        // What the cookie has no room for rides in the timestamp, if there is one.
        let stamped = half.peer.timestamps.is_some() && self.tcp.settings.timestamps;
        half.peer.ecn &= stamped;
        let (mut fields, mut options) = half.syn_ack(now, &self.tcp.settings);
        if stamped {
            let stamp = cookie::stamp(now, half.ts_offset, &half.peer);
            let offered = SynOptions {
                timestamps: Some((stamp, half.ts_recent)),
                ..half.offer(now, &self.tcp.settings)
            };
            options = offered.write();
        } else {
            let offered = SynOptions {
                window_scale: None,
                sack_permitted: false,
                ..half.offer(now, &self.tcp.settings)
            };
            options = {
                let _ = &options;
                offered.write()
            };
        }
        fields.options_len = options.bytes().len();
        let ip = half.ip();
        let (src, dst) = (*half.local.ip(), *half.remote.ip());
        self.net.reply(meta, &ip, HEADER_LEN + options.bytes().len(), out, |bytes| {
            segment::write(bytes, src, dst, &fields, &options, |_| {});
        });
    }

    /// Whether cookies are out whose proof may come.
    pub(crate) fn expects_proof(&self, now: Instant, listener: &Listener) -> bool {
        let sent = listener.cookies_sent.max(self.tcp.cookies_elsewhere);
        sent.is_some_and(|at| now.since(at) < cookie::LIFETIME)
    }

    /// An ACK for a listener: the answer to a cookie, or nobody's.
    #[allow(clippy::too_many_arguments)]
    fn on_stray_ack(
        &mut self,
        now: Instant,
        listener_id: SocketId,
        meta: &IpMeta,
        seg: &Segment,
        local: Endpoint,
        remote: Endpoint,
        out: &mut impl Outlet,
    ) {
        let Some(Socket::Listener(listener)) = self.sockets.get(listener_id) else { return };
        let expected = self.expects_proof(now, listener);
        let believed = expected && !seg.has(Flags::SYN) && !listener.accept_is_full();
        let mss = believed
            .then(|| cookie::check(&self.tcp, now, local, remote, seg.seq - 1, seg.ack - 1))
            .flatten();
        let Some(mss) = mss else {
            // While the accept queue was full the third segment was dropped; what came behind it is not the proof, but its
            // retransmission from the beginning will be. So it gets no answer, if the number may be a cookie's.
            let early = cookie::may_be_recent(now, seg.ack - 1);
            if !(expected && (listener.accept_is_full() || early)) {
                self.reply_reset(now, meta, seg, local, remote, out);
            }
            return;
        };
        let options = Arc::clone(&listener.options);
        let settings = &self.tcp.settings;
        let ts_offset = self.tcp.timestamp_offset(local, remote);
        let mut peer = SynOptions { mss: Some(mss), ..SynOptions::default() };
        if let Some((value, echo)) = seg.options.timestamps
            && settings.timestamps
        {
            peer.timestamps = Some((value, 0));
            cookie::read_stamp(echo, ts_offset, &mut peer);
        }
        let mut route = Route::new(*remote.ip());
        let mtu = self.net.path_mtu(now, &mut route);
        let space = receive_space(&options, settings);
        let shake = Handshake {
            irs: seg.seq - 1,
            iss: seg.ack - 1,
            peer,
            adv_mss: announced_mss(mtu, &options),
            window: space.min(65_535) as u16,
            rcv_wscale: window_scale_for(space.max(settings.rmem[2])),
            ts_offset,
            ts_recent: peer.timestamps.map_or(0, |(value, _)| value),
            rtt: None,
        };
        let tcb = Tcb::established(now, local, remote, &options, settings, mtu, &shake, seg);
        if let Some(id) = self.open(Socket::Tcp(tcb), 0) {
            self.demux.tcp.insert_flow(local, remote, id);
            self.enter_accept_queue(now, listener_id, id, out);
        }
    }

    fn enter_accept_queue(
        &mut self,
        now: Instant,
        listener_id: SocketId,
        id: SocketId,
        out: &mut impl Outlet,
    ) {
        if let Some(Socket::Listener(listener)) = self.sockets.get_mut(listener_id) {
            listener.accept.push_back(id);
            self.events.raise(listener_id, Ready::IN);
        }
        self.with_tcp(now, id, out, |tcb, cx| {
            tcb.start_keepalive(cx);
            Fate::Stays
        });
    }

    /// A segment for a half-open connection. `false`: the listener is gone, answer as if nobody listened.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn on_half_open_segment(
        &mut self,
        now: Instant,
        id: SocketId,
        meta: &IpMeta,
        seg: &Segment,
        head: F,
        range: Range<usize>,
        tail: &mut Vec<F>,
        out: &mut impl Outlet,
    ) {
        let Some(Socket::HalfOpen(half)) = self.sockets.get_mut(id) else { return };
        let rcv_nxt = half.irs + 1;
        if seg.ack != half.iss + 1 && seg.has(Flags::ACK) && !seg.flags.any(Flags::SYN | Flags::RST) {
            // A stranger's SYN may sit where the proof of a cookie arrives.
            let (listener, local, remote) = (half.listener, half.local, half.remote);
            if cookie::check(&self.tcp, now, local, remote, seg.seq - 1, seg.ack - 1).is_some() {
                self.drop_half_open(id);
                return self.on_listener_segment(now, listener, meta, seg, local, remote, None, out);
            }
        }
        let end = rcv_nxt + u32::from(half.window);
        if seg.has(Flags::SYN) && !seg.has(Flags::RST) && seg.seq == half.irs {
            if now.since(half.last_reply) >= Duration::from_millis(10) || half.retries == 0 {
                half.last_reply = now;
                half.retries = half.retries.max(1);
                self.send_syn_ack(now, id, out);
            }
            return;
        }
        let old = match (half.peer.timestamps, seg.options.timestamps) {
            (Some(_), Some((value, _))) => (value.wrapping_sub(half.ts_recent) as i32) < 0,
            _ => false,
        };
        let in_window = !seg.seq.before(rcv_nxt) && seg.seq.before(end + 1);
        if seg.has(Flags::RST) {
            if seg.seq == rcv_nxt {
                self.drop_half_open(id);
            }
            return;
        }
        if !in_window || old || seg.has(Flags::SYN) {
            if now.since(half.last_reply) >= Duration::from_millis(500) {
                half.last_reply = now;
                self.send_syn_ack(now, id, out);
            }
            return;
        }
        if !seg.has(Flags::ACK) {
            return;
        }
        if seg.ack != half.iss + 1 {
            let (local, remote) = (half.local, half.remote);
            return self.reply_reset(now, meta, seg, local, remote, out);
        }
        self.establish(now, id, seg, head, range, tail, out);
    }

    /// The third segment of the handshake.
    #[allow(clippy::too_many_arguments)]
    fn establish(
        &mut self,
        now: Instant,
        id: SocketId,
        seg: &Segment,
        head: F,
        range: Range<usize>,
        tail: &mut Vec<F>,
        out: &mut impl Outlet,
    ) {
        let Some(Socket::HalfOpen(half)) = self.sockets.get(id) else { return };
        let listener_id = half.listener;
        let Some(Socket::Listener(listener)) = self.sockets.get(listener_id) else { return };
        if listener.accept_is_full() {
            return;
        }
        let options = Arc::clone(&listener.options);
        let shake = Handshake {
            irs: half.irs,
            iss: half.iss,
            peer: half.peer,
            adv_mss: half.adv_mss,
            window: half.window,
            rcv_wscale: half.rcv_wscale,
            ts_offset: half.ts_offset,
            ts_recent: half.ts_recent,
            rtt: (half.retries == 0).then(|| now.since(half.begun)),
        };
        let (local, remote, mut route) = (half.local, half.remote, half.route);
        let mtu = self.net.path_mtu(now, &mut route);
        let tcb = Tcb::established(now, local, remote, &options, &self.tcp.settings, mtu, &shake, seg);
        if let Some(slot) = self.sockets.get_mut(id) {
            *slot = Socket::Tcp(tcb);
        }
        self.timers.set(id, None);
        self.leave_syn_queue(listener_id);
        self.enter_accept_queue(now, listener_id, id, out);
        if seg.len > 0 || seg.has(Flags::FIN) {
            self.with_tcp(now, id, out, |tcb, cx| tcb.on_segment(cx, seg, head, range, tail));
        }
    }

    fn drop_half_open(&mut self, id: SocketId) {
        if let Some(Socket::HalfOpen(half)) = self.sockets.get(id) {
            let (local, remote, listener) = (half.local, half.remote, half.listener);
            self.demux.tcp.remove_flow(local, remote, id);
            self.leave_syn_queue(listener);
            self.forget(id);
        }
    }

    /// The SYN-ACK was not answered in time.
    pub(crate) fn expire_half_open(&mut self, now: Instant, id: SocketId, out: &mut impl Outlet) {
        let retries_max = self.tcp.settings.synack_retries;
        let Some(Socket::HalfOpen(half)) = self.sockets.get_mut(id) else { return };
        if planted!(NoHalfOpenTimer) {
            return;
        }
        if half.retries >= retries_max {
            return self.drop_half_open(id);
        }
        half.retries += 1;
        half.last_reply = now;
        let wait = Rtt::new().rto_backed_off(half.retries);
        self.timers.set(id, Some(now + wait));
        self.send_syn_ack(now, id, out);
    }

    /// A listener closes: what was not accepted is reset, what was half-open forgotten.
    pub(crate) fn close_listener(&mut self, now: Instant, id: SocketId, out: &mut impl Outlet) {
        let Some(Socket::Listener(listener)) = self.forget(id) else { return };
        self.demux.tcp.unbind(listener.local, id);
        for waiting in listener.accept {
            self.tcp_close(now, waiting, super::Close::Abort, out);
        }
        if listener.half_open > 0 {
            let orphans: Vec<SocketId> = self
                .sockets
                .ids()
                .filter(|other| {
                    matches!(self.sockets.get(*other), Some(Socket::HalfOpen(half)) if half.listener == id)
                })
                .collect();
            for half in orphans {
                self.drop_half_open(half);
            }
        }
    }
}

impl HalfOpen {
    fn ip(&self) -> Ip {
        Ip {
            src: *self.local.ip(),
            protocol: ipv4::TCP,
            tos: self.tos & !ecn::ECN_MASK,
            ttl: self.ttl,
            dont_fragment: true,
        }
    }

    /// What our SYN-ACK offers: what the peer offered and we speak.
    fn offer(&self, now: Instant, settings: &Settings) -> SynOptions {
        let stamp = ((now.0 / 1_000_000) as u32).wrapping_add(self.ts_offset);
        SynOptions {
            mss: Some(self.adv_mss),
            window_scale: (settings.window_scaling && self.peer.window_scale.is_some())
                .then_some(self.rcv_wscale),
            sack_permitted: settings.sack && self.peer.sack_permitted,
            timestamps: (settings.timestamps && self.peer.timestamps.is_some())
                .then_some((stamp, self.ts_recent)),
            ecn: settings.ecn != super::Ecn::Off && self.peer.ecn,
        }
    }

    fn syn_ack(&self, now: Instant, settings: &Settings) -> (Fields, OptionsWriter) {
        let offer = self.offer(now, settings);
        let options = offer.write();
        let accepts = if offer.ecn { Flags::ECE } else { Flags(0) };
        let fields = Fields {
            src: self.local.port(),
            dst: self.remote.port(),
            seq: self.iss.0,
            ack: (self.irs + 1).0,
            flags: Flags::SYN | Flags::ACK | accepts,
            window: self.window,
            urgent: 0,
            options_len: options.bytes().len(),
        };
        (fields, options)
    }
}

const SYN_ACK_TIMEOUT: Duration = Duration::from_secs(1);
/// Half-open connections that even the smallest backlog has room for.
const SYN_QUEUE_MIN: u32 = 8;
