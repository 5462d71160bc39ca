//! Listeners: how many half-open connections they have, which are in `half_open`, and the accept queue of those that
//! stand.
//!
//! The backlog means what it means to Linux: the accept queue takes one more than the backlog; a SYN that comes while
//! it is full is dropped, and so is the third segment of a handshake, which the peer's data or our SYN-ACK repeats.

use super::control_block::{Fate, Tcb};
use super::open::{Handshake, announced_mss, initial_window, receive_space, scale_to_offer};
use super::options::SynOptions;
use super::segment::Segment;
use super::seq::Seq;
use super::shared::RateLimit;
use super::{Options, cookie};
use crate::ingress::IpMeta;
use crate::net::Route;
use crate::stack::Socket;
use crate::{Endpoint, Frame, Instant, Outlet, Query, Ready, SocketError, SocketId, Stack};
use std::collections::VecDeque;
use std::sync::Arc;
use wire::tcp::Flags;

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

    pub(super) fn accept_is_full(&self) -> bool {
        self.accept.len() > self.backlog as usize
    }

    fn syn_queue_is_full(&self) -> bool {
        self.half_open >= self.backlog.max(SYN_QUEUE_MIN)
    }
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
        let mut half = self.half_open(now, listener_id, &options, seg, local, remote, isn);
        if cookie {
            return self.send_cookie(now, &mut half, meta, out);
        }
        self.remember_half_open(now, half, out);
    }

    /// What is to be known of the way back before a segment of no connection is heard: of a first one that a listener
    /// would remember. (To cookies the answer goes as the segment came, and costs nothing.)
    pub(crate) fn asks_routing(&self, seg: &Segment, local: Endpoint, remote: Endpoint) -> Option<Query> {
        let begins = seg.has(Flags::SYN) && !seg.flags.any(Flags::ACK | Flags::RST | Flags::FIN);
        let Some(Socket::Listener(listener)) =
            begins.then(|| find(self, local, remote)).flatten().and_then(|id| self.sockets.get(id))
        else {
            return None;
        };
        let remembers = !listener.accept_is_full() && !listener.syn_queue_is_full();
        remembers.then(|| listener.options.way(local, remote))
    }

    /// Whether routing would by now send a connection's segments by another interface.
    pub fn tcp_is_elsewhere(&mut self, id: SocketId) -> bool {
        let Stack { sockets, net, .. } = self;
        matches!(sockets.get(id), Some(Socket::Tcp(tcb)) if net.is_elsewhere(&tcb.route))
    }

    pub(super) fn enter_syn_queue(&mut self, listener: SocketId) {
        if let Some(Socket::Listener(listener)) = self.sockets.get_mut(listener) {
            listener.half_open += 1;
        }
    }

    pub(super) fn leave_syn_queue(&mut self, listener: SocketId) {
        if let Some(Socket::Listener(listener)) = self.sockets.get_mut(listener) {
            listener.half_open -= 1;
        }
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
            // While the accept queue was full the third segment was dropped; what came behind it is not the proof, but
            // its retransmission from the beginning will be. So it gets no answer, if the number may be a cookie's.
            if !(expected && cookie::may_be_recent(now, seg.ack - 1)) {
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
        let mut route = Route::new(options.way(local, remote));
        let mtu = self.net.path_mtu(now, &mut route);
        let adv_mss = announced_mss(mtu, &options);
        let stamps = if peer.timestamps.is_some() { 12 } else { 0 };
        let shake = Handshake {
            irs: seg.seq - 1,
            iss: seg.ack - 1,
            peer,
            adv_mss,
            window: initial_window(receive_space(&options, settings), u32::from(adv_mss) - stamps),
            rcv_wscale: scale_to_offer(&options, settings),
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

    pub(super) fn enter_accept_queue(
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

    /// Handshakes that clients have begun with a listener.
    pub fn tcp_handshakes(&self, listener: SocketId) -> u32 {
        match self.sockets.get(listener) {
            Some(Socket::Listener(listener)) => listener.half_open,
            _ => 0,
        }
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

/// Half-open connections that even the smallest backlog has room for.
const SYN_QUEUE_MIN: u32 = 8;
