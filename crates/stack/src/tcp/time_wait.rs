//! TIME-WAIT: what remains of a connection so that its last acknowledgment can be repeated and old duplicates do not
//! meet a successor (RFC 9293, 3.10.7.4 and 3.6.1; RFC 1337; RFC 6191). A type of its own, a tenth of a connection.

use super::control_block::Tcb;
use super::segment::{self, Segment};
use super::seq::Seq;
use super::{Settings, cookie, listen};
use crate::ingress::IpMeta;
use crate::mutation::planted;
use crate::net::Ip;
use crate::stack::Socket;
use crate::{Duration, Endpoint, Frame, Instant, Outlet, SocketId, Stack};
use wire::ipv4;
use wire::tcp::{Fields, Flags, HEADER_LEN, OptionsWriter};

pub(crate) struct TimeWait {
    pub(crate) local: Endpoint,
    pub(crate) remote: Endpoint,
    snd_nxt: Seq,
    rcv_nxt: Seq,
    window: u16,
    rcv_window: u32,
    timestamps: Option<(u32, u32)>,
    until: Instant,
    span: Duration,
    tos: u8,
    ttl: u8,
    last_reply: Instant,
}

/// What a segment to a connection in TIME-WAIT leads to.
pub(crate) enum Outcome {
    Done,
    /// The connection may be replaced by a new one, for which a listener must be asked.
    Reopen,
}

impl TimeWait {
    pub(crate) fn of<F: Frame>(tcb: &Tcb<F>, now: Instant, settings: &Settings) -> TimeWait {
        let rcv_window = tcb.rcv_adv.distance_from(tcb.rcv_nxt).max(0) as u32;
        TimeWait {
            local: tcb.local,
            remote: tcb.remote,
            snd_nxt: tcb.snd_nxt,
            rcv_nxt: tcb.rcv_nxt,
            // What was told once is not taken back: rounded up.
            window: rcv_window.div_ceil(1 << tcb.rcv_wscale).min(65_535) as u16,
            rcv_window,
            timestamps: tcb.ts_ok.then_some((tcb.ts_offset, tcb.ts_recent)),
            until: now + settings.time_wait,
            span: settings.time_wait,
            tos: tcb.options.tos & !super::ecn::ECN_MASK,
            ttl: tcb.options.ttl,
            last_reply: Instant::ZERO,
        }
    }

    /// Whether our side may begin anew from here (RFC 6191), where the program chose the port: old duplicates can be
    /// recognized by the peer's timestamps.
    pub(crate) fn may_connect_again(&self) -> bool {
        self.timestamps.is_some()
    }

    /// Whether the port may be chosen for a program (Linux's tcp_tw_reuse): the peer's clock has moved since, too.
    pub(crate) fn may_be_chosen_again(&self, now: Instant) -> bool {
        self.may_connect_again() && now + self.span >= self.until + Duration::from_secs(1)
    }

    /// An initial sequence number beyond everything that this connection sent.
    pub(crate) fn next_isn(&self, isn: Seq) -> Seq {
        let beyond = self.snd_nxt + 65_535 + 2;
        if isn.before(beyond) { beyond } else { isn }
    }
}

impl<F: Frame> Stack<F> {
    pub(crate) fn keep_time_wait(&mut self, rest: TimeWait) {
        let (local, remote, until) = (rest.local, rest.remote, rest.until);
        while self.tcp.time_wait.len() >= self.tcp.settings.time_wait_max as usize {
            let Some(oldest) = self.tcp.time_wait.pop_front() else { break };
            self.end_time_wait(oldest);
        }
        if self.tcp.settings.time_wait_max == 0 {
            return;
        }
        let Some(id) = self.open(Socket::TimeWait(Box::new(rest)), 0) else { return };
        self.demux.tcp.insert_flow(local, remote, id);
        if !planted!(NoTimeWaitTimer) {
            self.timers.set(id, Some(until));
        }
        self.tcp.time_wait.push_back(id);
    }

    /// Ends a TIME-WAIT, if `id` is one.
    pub(crate) fn end_time_wait(&mut self, id: SocketId) {
        if let Some(Socket::TimeWait(rest)) = self.sockets.get(id) {
            let (local, remote) = (rest.local, rest.remote);
            self.demux.tcp.remove_flow(local, remote, id);
            self.forget(id);
        }
    }

    /// The timer of a TIME-WAIT fired.
    pub(crate) fn expire_time_wait(&mut self, id: SocketId) {
        self.end_time_wait(id);
        // Those at the front that are gone need no place in the count any more.
        while let Some(&first) = self.tcp.time_wait.front() {
            if matches!(self.sockets.get(first), Some(Socket::TimeWait(_))) {
                break;
            }
            self.tcp.time_wait.pop_front();
        }
    }

    pub(crate) fn on_time_wait_segment(
        &mut self,
        now: Instant,
        id: SocketId,
        meta: &IpMeta,
        seg: &Segment,
        out: &mut impl Outlet,
    ) -> Outcome {
        let Some(Socket::TimeWait(rest)) = self.sockets.get_mut(id) else { return Outcome::Done };
        let newer_stamp = match (rest.timestamps, seg.options.timestamps.or(seg.syn.timestamps)) {
            (Some((_, recent)), Some((value, _))) => Some(value.wrapping_sub(recent) as i32),
            _ => None,
        };
        if seg.has(Flags::SYN) && !seg.flags.any(Flags::ACK | Flags::RST) {
            let fresh = seg.seq.after(rest.rcv_nxt) || newer_stamp.is_some_and(|d| d > 0);
            if fresh && newer_stamp.is_none_or(|d| d >= 0) {
                return Outcome::Reopen;
            }
        }
        // RFC 1337: a reset ends nothing here.
        if seg.has(Flags::RST) {
            return Outcome::Done;
        }
        let old = newer_stamp.is_some_and(|d| d < 0);
        let end = seg.seq + seg.space();
        let in_window = !end.before(rest.rcv_nxt) && !seg.seq.after(rest.rcv_nxt + rest.rcv_window);
        if !old && in_window && seg.has(Flags::ACK) && seg.space() == 0 && seg.seq == rest.rcv_nxt {
            return Outcome::Done;
        }
        // Only from what could be the peer's: a guess must not make the peer's own segments look old.
        let credible = !old && in_window && !seg.seq.after(rest.rcv_nxt) && seg.ack == rest.snd_nxt;
        if credible
            && let (Some((_, recent)), Some((value, _))) = (&mut rest.timestamps, seg.options.timestamps)
        {
            *recent = value;
        }
        let mut restart = None;
        if seg.has(Flags::FIN) && !old {
            rest.until = now + rest.span;
            restart = Some(rest.until);
        }
        // Two confused peers must not answer each other for ever: only a FIN is answered every time.
        if restart.is_some() || now.since(rest.last_reply) >= Duration::from_millis(500) {
            rest.last_reply = now;
            let mut options = OptionsWriter::new();
            if let Some((offset, recent)) = rest.timestamps {
                options.timestamps(((now.0 / 1_000_000) as u32).wrapping_add(offset), recent);
            }
            let fields = Fields {
                src: rest.local.port(),
                dst: rest.remote.port(),
                seq: rest.snd_nxt.0,
                ack: rest.rcv_nxt.0,
                flags: Flags::ACK,
                window: rest.window,
                urgent: 0,
                options_len: options.bytes().len(),
            };
            let (src, dst) = (*rest.local.ip(), *rest.remote.ip());
            let ip = Ip { src, protocol: ipv4::TCP, tos: rest.tos, ttl: rest.ttl, dont_fragment: true };
            let len = HEADER_LEN + options.bytes().len();
            self.net.reply(meta, &ip, len, out, |bytes| {
                segment::write(bytes, src, dst, &fields, &options, |_| {});
            });
        }
        if let Some(until) = restart {
            self.timers.set(id, Some(until));
        }
        Outcome::Done
    }

    /// Whether a segment is the answer to a cookie, of a connection that stands at the peer since. A late segment of
    /// the old one, which a cookie may have begun, too, is not behind its end.
    pub(crate) fn follows_time_wait(
        &self,
        now: Instant,
        id: SocketId,
        seg: &Segment,
        local: Endpoint,
        remote: Endpoint,
    ) -> bool {
        let Some(Socket::TimeWait(rest)) = self.sockets.get(id) else { return false };
        let listener = listen::find(self, local, remote).and_then(|id| self.sockets.get(id));
        let Some(Socket::Listener(listener)) = listener else { return false };
        seg.has(Flags::ACK)
            && !seg.flags.any(Flags::SYN | Flags::RST)
            && seg.seq.after(rest.rcv_nxt)
            && self.expects_proof(now, listener)
            && cookie::check(&self.tcp, now, local, remote, seg.seq - 1, seg.ack - 1).is_some()
    }

    /// A SYN that may replace a TIME-WAIT: only if somebody listens.
    #[allow(clippy::too_many_arguments)] // a segment with its addresses, and where answers go
    pub(crate) fn reopen_from_time_wait(
        &mut self,
        now: Instant,
        id: SocketId,
        meta: &IpMeta,
        seg: &Segment,
        local: Endpoint,
        remote: Endpoint,
        out: &mut impl Outlet,
    ) {
        let Some(listener) = listen::find(self, local, remote) else { return };
        let isn = self.tcp.isn(now, local, remote);
        let isn = match self.sockets.get(id) {
            Some(Socket::TimeWait(rest)) => rest.next_isn(isn),
            _ => isn,
        };
        self.end_time_wait(id);
        self.on_listener_segment(now, listener, meta, seg, local, remote, Some(isn), out);
    }
}
