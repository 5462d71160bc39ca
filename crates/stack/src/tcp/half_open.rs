//! Half-open connections: SYN-RECEIVED as a listener knows it (RFC 9293, 3.10.7.4 for that state). A small type of its
//! own in the table of sockets, found by its flow; or nothing at all, when a cookie is sent instead.

use super::control_block::Tcb;
use super::open::{Handshake, announced_mss, initial_window, receive_space, scale_to_offer};
use super::options::SynOptions;
use super::rtt::Rtt;
use super::segment::{self, Segment};
use super::seq::Seq;
use super::{Options, Settings, cookie, ecn};
use crate::ingress::IpMeta;
use crate::mutation::planted;
use crate::net::{Ip, Route};
use crate::stack::Socket;
use crate::{Duration, Endpoint, Frame, Instant, Outlet, SocketId, Stack};
use core::ops::Range;
use std::sync::Arc;
use wire::ipv4;
use wire::tcp::{Fields, Flags, HEADER_LEN, OptionsWriter};

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
    /// When a SYN-ACK was sent last.
    last_reply: Instant,
    /// When a suspicious segment was answered last.
    challenged: Option<Instant>,
}

impl<F: Frame> Stack<F> {
    /// What is remembered of a SYN.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn half_open(
        &mut self,
        now: Instant,
        listener: SocketId,
        options: &Options,
        seg: &Segment,
        local: Endpoint,
        remote: Endpoint,
        isn: Option<Seq>,
    ) -> HalfOpen {
        let settings = &self.tcp.settings;
        let mut route = Route::new(options.way(local, remote));
        let mtu = self.net.path_mtu(now, &mut route);
        let adv_mss = announced_mss(mtu, options);
        let stamps = if settings.timestamps && seg.syn.timestamps.is_some() { 12 } else { 0 };
        HalfOpen {
            local,
            remote,
            listener,
            route,
            irs: seg.seq,
            iss: isn.unwrap_or_else(|| self.tcp.isn(now, local, remote)),
            peer: seg.syn,
            adv_mss,
            window: initial_window(receive_space(options, settings), u32::from(adv_mss) - stamps),
            rcv_wscale: scale_to_offer(options, settings),
            ts_offset: self.tcp.timestamp_offset(local, remote),
            ts_recent: seg.syn.timestamps.map_or(0, |(value, _)| value),
            ttl: options.ttl,
            tos: options.tos,
            retries: 0,
            begun: now,
            last_reply: now,
            challenged: None,
        }
    }

    pub(super) fn remember_half_open(&mut self, now: Instant, half: HalfOpen, out: &mut impl Outlet) {
        let (local, remote, listener) = (half.local, half.remote, half.listener);
        let Some(id) = self.open(Socket::HalfOpen(Box::new(half)), 0) else { return };
        self.enter_syn_queue(listener);
        self.demux.tcp.insert_flow(local, remote, id);
        self.timers.set(id, Some(now + SYN_ACK_TIMEOUT));
        self.send_syn_ack(now, id, out);
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
    pub(super) fn send_cookie(
        &mut self,
        now: Instant,
        half: &mut HalfOpen,
        meta: &IpMeta,
        out: &mut impl Outlet,
    ) {
        half.iss = cookie::make(&self.tcp, now, half.local, half.remote, half.irs, half.peer.mss);
        // What the cookie has no room for rides in the timestamp, if there is one.
        let stamped = half.peer.timestamps.is_some() && self.tcp.settings.timestamps;
        half.peer.ecn &= stamped;
        let (mut fields, _) = half.syn_ack(now, &self.tcp.settings);
        let offer = half.offer(now, &self.tcp.settings);
        let offer = if stamped {
            let stamp = cookie::stamp(now, half.ts_offset, &half.peer);
            SynOptions { timestamps: Some((stamp, half.ts_recent)), ..offer }
        } else {
            SynOptions { window_scale: None, sack_permitted: false, ..offer }
        };
        let options = offer.write();
        fields.options_len = options.bytes().len();
        let ip = half.ip();
        let (src, dst) = (*half.local.ip(), *half.remote.ip());
        self.net.reply(meta, &ip, HEADER_LEN + options.bytes().len(), out, |bytes| {
            segment::write(bytes, src, dst, &fields, &options, |_| {});
        });
    }

    /// Answers what cannot be right with our numbers (RFC 9293, 3.10.7.4; RFC 5961, 3), twice a second at most.
    fn challenge_half_open(&mut self, now: Instant, id: SocketId, meta: &IpMeta, out: &mut impl Outlet) {
        let Some(Socket::HalfOpen(half)) = self.sockets.get_mut(id) else { return };
        if half.challenged.is_some_and(|at| now.since(at) < CHALLENGES_APART) {
            return;
        }
        half.challenged = Some(now);
        let (fields, options) = half.challenge(now, &self.tcp.settings);
        let ip = half.ip();
        let (src, dst) = (*half.local.ip(), *half.remote.ip());
        self.net.reply(meta, &ip, HEADER_LEN + options.bytes().len(), out, |bytes| {
            segment::write(bytes, src, dst, &fields, &options, |_| {});
        });
    }

    /// A segment for a half-open connection.
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
        if seg.has(Flags::RST) && seg.seq == rcv_nxt {
            return self.drop_half_open(id);
        }
        if !in_window || old || seg.flags.any(Flags::SYN | Flags::RST) {
            // An RST outside of the window is nobody's.
            if in_window || !seg.has(Flags::RST) {
                self.challenge_half_open(now, id, meta, out);
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

    pub(super) fn drop_half_open(&mut self, id: SocketId) {
        if let Some(Socket::HalfOpen(half)) = self.sockets.get(id) {
            let (local, remote, listener) = (half.local, half.remote, half.listener);
            self.demux.tcp.remove_flow(local, remote, id);
            self.leave_syn_queue(listener);
            self.forget(id);
        }
    }

    /// The SYN-ACK was not answered in time.
    pub(crate) fn expire_half_open(&mut self, now: Instant, id: SocketId, out: &mut impl Outlet) {
        let Some(Socket::HalfOpen(half)) = self.sockets.get(id) else { return };
        let retries_max = match self.sockets.get(half.listener) {
            Some(Socket::Listener(listener)) if listener.options.syn_retries > 0 => {
                listener.options.syn_retries
            }
            _ => self.tcp.settings.synack_retries,
        };
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

    /// An ACK with the numbers that the peer should have.
    fn challenge(&self, now: Instant, settings: &Settings) -> (Fields, OptionsWriter) {
        let offer = self.offer(now, settings);
        let mut options = OptionsWriter::new();
        if let Some((value, echo)) = offer.timestamps {
            options.timestamps(value, echo);
        }
        let fields = Fields {
            src: self.local.port(),
            dst: self.remote.port(),
            seq: (self.iss + 1).0,
            ack: (self.irs + 1).0,
            flags: Flags::ACK,
            window: self.window >> offer.window_scale.unwrap_or(0),
            urgent: 0,
            options_len: options.bytes().len(),
        };
        (fields, options)
    }
}

/// Linux's tcp_invalid_ratelimit.
const CHALLENGES_APART: Duration = Duration::from_millis(500);
const SYN_ACK_TIMEOUT: Duration = Duration::from_secs(1);
