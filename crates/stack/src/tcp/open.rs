//! How a control block begins: for a connect, or from what a listener's handshake found out; and what both sides offer
//! at that time.

use super::congestion::Control;
use super::control_block::{
    Awaits, Counts, MSS_DEFAULT, MSS_MIN, NEVER, Recovery, Reduction, TIMERS, Tcb, Timer, Tuning, Urgent,
    WindowUse,
};
use super::delayed_ack::DelayedAck;
use super::ecn::Ecn;
use super::limits::Limits;
use super::options::{SynOptions, window_scale_for};
use super::rack::Rack;
use super::receive::ReceiveQueue;
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use super::segment::Segment;
use super::send_buffer::SendBuffer;
use super::seq::Seq;
use super::state::Phase;
use super::{Options, Settings, State};
use crate::net::Route;
use crate::{Duration, Endpoint, Frame, Instant};
use std::sync::Arc;

/// Everything a connection needs to know of its handshake.
pub(crate) struct Handshake {
    pub(crate) irs: Seq,
    pub(crate) iss: Seq,
    pub(crate) peer: SynOptions,
    pub(crate) adv_mss: u16,
    pub(crate) window: u16,
    pub(crate) rcv_wscale: u8,
    pub(crate) ts_offset: u32,
    pub(crate) ts_recent: u32,
    /// Round trip of SYN-ACK and ACK, if the SYN-ACK was sent once.
    pub(crate) rtt: Option<Duration>,
}

impl<F: Frame> Tcb<F> {
    /// A block in SYN-SENT with nothing sent.
    pub(crate) fn new(
        now: Instant,
        local: Endpoint,
        remote: Endpoint,
        options: &Arc<Options>,
        settings: &Settings,
        iss: Seq,
        ts_offset: u32,
    ) -> Box<Tcb<F>> {
        let mut board = Scoreboard::default();
        board.reset(iss);
        let mss = MSS_DEFAULT;
        let mut tcb = Box::new(Tcb {
            local,
            remote,
            route: Route::new(options.way(local, remote)),
            phase: Phase::begin(State::SynSent),
            options: Arc::clone(options),
            iss,
            snd_una: iss,
            snd_nxt: iss,
            snd_wnd: 0,
            snd_wl1: Seq(0),
            snd_wl2: iss,
            snd_wnd_max: 0,
            snd_wscale: 0,
            snd_up: None,
            small_end: iss,
            tx: SendBuffer::default(),
            mss,
            peer_mss: mss,
            search: None,
            fin_queued: false,
            fin_sent: false,
            forced: false,
            pushed: false,
            more: false,
            later: false,
            tx_limit: 0,
            starved: false,
            irs: Seq(0),
            rcv_nxt: Seq(0),
            rcv_adv: Seq(0),
            last_ack_sent: Seq(0),
            rcv_wscale: 0,
            rx: ReceiveQueue::new(),
            rx_capacity: 0,
            rcv_mss: mss,
            adv_mss: MSS_DEFAULT as u16,
            fin_at: None,
            fin_received: false,
            urgent: Urgent::default(),
            read_shut: false,
            tuning: Tuning::default(),
            sack_ok: false,
            ts_ok: false,
            ts_recent: 0,
            ts_recent_at: now,
            ts_offset,
            dsack: None,
            ack_owed: false,
            ack_now: false,
            acks: DelayedAck::default(),
            board,
            rack: Rack::default(),
            rtt: Rtt::new(),
            control: Control::new(options.congestion, mss),
            recovery: Recovery::Open,
            reduction: Reduction::default(),
            dup_acks: 0,
            backoff: 0,
            probes: 0,
            stuck_since: None,
            tlp: None,
            usage: WindowUse { limited: false, most: 0, until: iss },
            ecn: Ecn::default(),
            deadline: [NEVER; TIMERS],
            awaits: Awaits::Nothing,
            keepalive_probes: 0,
            orphan: false,
            error: None,
            soft_error: None,
            last_invalid_reply: Instant::ZERO,
            counts: Counts::default(),
            limits: Limits::default(),
            seldom: None,
            last_sent: now,
            last_data_received: now,
            last_ack_received: now,
        });
        tcb.size_buffers(settings);
        tcb
    }

    /// A connection whose handshake a listener completed; `seg` is the third segment.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn established(
        now: Instant,
        local: Endpoint,
        remote: Endpoint,
        options: &Arc<Options>,
        settings: &Settings,
        mtu: u32,
        shake: &Handshake,
        seg: &Segment,
    ) -> Box<Tcb<F>> {
        let mut tcb = Tcb::new(now, local, remote, options, settings, shake.iss, shake.ts_offset);
        tcb.phase = Phase::begin(State::SynReceived);
        tcb.set_state(State::Established);
        tcb.irs = shake.irs;
        tcb.rcv_nxt = shake.irs + 1;
        tcb.last_ack_sent = tcb.rcv_nxt;
        tcb.rcv_adv = tcb.rcv_nxt + u32::from(shake.window);
        tcb.rcv_wscale = shake.rcv_wscale;
        tcb.adv_mss = shake.adv_mss;
        tcb.negotiate(now, &shake.peer, settings, mtu);
        tcb.ecn.ok = settings.ecn != super::Ecn::Off && shake.peer.ecn;
        tcb.ts_recent = seg.options.timestamps.map_or(shake.ts_recent, |(value, _)| value);
        tcb.ts_recent_at = now;
        let next = shake.iss + 1;
        tcb.snd_una = next;
        tcb.snd_nxt = next;
        tcb.small_end = next;
        tcb.board.reset(next);
        tcb.snd_wnd = u32::from(seg.window) << tcb.snd_wscale;
        tcb.snd_wnd_max = tcb.snd_wnd;
        tcb.snd_wl1 = seg.seq;
        tcb.snd_wl2 = seg.ack;
        if let Some(rtt) = shake.rtt {
            tcb.rtt.sample(now, rtt);
        }
        tcb.awaits = Awaits::Nothing;
        debug_assert!(tcb.deadline[Timer::Retransmit as usize] == NEVER);
        tcb
    }

    /// Applies SO_SNDBUF and SO_RCVBUF, or the defaults. Buffers never shrink below what is in them; windows that
    /// were told are kept by `select_window`.
    pub(crate) fn size_buffers(&mut self, settings: &Settings) {
        self.tx_limit = match self.options.send_buffer {
            // Linux doubles what is asked, to pay for its overhead; the payload that fits is about what was asked.
            Some(asked) => asked.max(settings.wmem[0] / 2),
            None => self.tx_limit.max(settings.wmem[1]).max(SEND_BUFFER_INITIAL.min(settings.wmem[2])),
        };
        self.rx_capacity = match self.options.receive_buffer {
            Some(asked) => asked.max(settings.rmem[0] / 2),
            None => self.rx_capacity.max(settings.rmem[1] / 2),
        };
        self.rx_capacity = self.rx_capacity.min(window_max(&self.options));
    }

    /// Takes in what the peer's SYN said. `mtu` is the path's.
    pub(crate) fn negotiate(&mut self, now: Instant, syn: &SynOptions, settings: &Settings, mtu: u32) {
        self.peer_mss = syn.mss.map_or(MSS_DEFAULT, u32::from).max(MSS_MIN);
        self.ts_ok = settings.timestamps && syn.timestamps.is_some();
        self.sack_ok = settings.sack && syn.sack_permitted;
        match syn.window_scale {
            Some(shift) if settings.window_scaling => self.snd_wscale = shift.min(14),
            _ => {
                self.snd_wscale = 0;
                self.rcv_wscale = 0;
            }
        }
        self.begin_search(now, &settings.mtu_probing);
        self.set_mtu(mtu);
        self.rcv_mss = u32::from(self.adv_mss).min(self.peer_mss).clamp(MSS_MIN, MSS_DEFAULT);
        self.control.set_mss(self.payload_max(), true);
    }
}

/// The largest window that the application allows (TCP_WINDOW_CLAMP), which Linux takes for half of the least receive
/// buffer at least.
pub(crate) fn window_max(options: &Options) -> u32 {
    if options.window_clamp == 0 { u32::MAX } else { options.window_clamp.max(RECEIVE_BUFFER_MIN / 2) }
}

/// Bytes of payload that a receive buffer lets a peer send ahead.
pub(crate) fn receive_space(options: &Options, settings: &Settings) -> u32 {
    let space = options.receive_buffer.map_or(settings.rmem[1] / 2, |asked| asked.max(settings.rmem[0] / 2));
    space.min(window_max(options))
}

/// The window of a SYN: whole segments of `mss` bytes, as Linux (tcp_select_initial_window). It is never scaled.
pub(crate) fn initial_window(space: u32, mss: u32) -> u16 {
    let whole = if space > mss { space - space % mss } else { space };
    whole.min(65_535) as u16
}

/// The window scale to offer: one that the largest window of the connection's life needs.
pub(crate) fn scale_to_offer(options: &Options, settings: &Settings) -> u8 {
    if let Some(scale) = settings.window_scale {
        return scale.min(14);
    }
    let space = receive_space(options, settings).max(settings.rmem[2]);
    window_scale_for(space.min(window_max(options)))
}

/// The MSS to announce on a path of this MTU.
pub(crate) fn announced_mss(mtu: u32, options: &Options) -> u16 {
    let mss = wire::tcp::announced_mss(mtu);
    if options.mss_max == 0 { mss } else { mss.min(options.mss_max) }
}

/// What Linux's buffer has room for when a connection with ten segments of initial window stands.
const SEND_BUFFER_INITIAL: u32 = 64 * 1024;
/// Linux's SOCK_MIN_RCVBUF.
const RECEIVE_BUFFER_MIN: u32 = 2304;
