//! The transmission control block: what a connection is, in the RFC's names, grouped.
//!
//! ```text
//!  send:     snd_una ────── snd_nxt ────────── snd_una + snd_wnd
//!            │ in flight    │ may be sent      │
//!            ├── tx: bytes kept ─── ... ── end of what the application wrote
//!
//!  receive:  ── rx.ready ── rcv_nxt ── holes, rx.later ── rcv_adv
//!             for the       │          (right edge that we told)
//!             application
//! ```

use super::congestion::{Control, Saved};
use super::delayed_ack::DelayedAck;
use super::ecn::Ecn;
use super::limits::Limits;
use super::mtu_probe::Search;
use super::rack::Rack;
use super::receive::ReceiveQueue;
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use super::seldom::Seldom;
use super::send_buffer::SendBuffer;
use super::seq::Seq;
use super::shared::Shared;
use super::state::Phase;
use super::{Options, State};
use crate::budget::Budget;
use crate::event_queue::Events;
use crate::net::{Net, Route};
use crate::timers::Timers;
use crate::{Endpoint, Frame, Instant, SocketError, SocketId};
use std::sync::Arc;

/// A moment that never comes: the timer is off.
pub(crate) const NEVER: Instant = Instant(u64::MAX);

/// What a connection's methods work with, beside the connection itself.
pub(crate) struct Cx<'a, O> {
    pub(crate) now: Instant,
    pub(crate) id: SocketId,
    pub(crate) net: &'a mut Net,
    pub(crate) events: &'a mut Events,
    pub(crate) timers: &'a mut Timers,
    pub(crate) budget: &'a mut Budget,
    pub(crate) shared: &'a mut Shared,
    pub(crate) out: &'a mut O,
}

/// What becomes of the connection's place in the table after a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Stays,
    /// It is over; the application still holds it. Its flow is free.
    Closed,
    /// It is over and the application is done with it: remove it.
    Ends,
    /// Both sides closed in order: TIME-WAIT takes its place.
    TimeWait,
}

/// The timers of a connection. The wheel knows the earliest only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Retransmission, tail loss probe, RACK's reordering window or the window probe: see [`Awaits`].
    Retransmit,
    DelayedAck,
    Keepalive,
    /// FIN-WAIT-2 of a closed socket.
    Linger,
    /// Data waits for its turn (`pacing.rs`).
    Pacing,
}

pub(crate) const TIMERS: usize = 5;

/// What `Timer::Retransmit` is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    Nothing,
    /// RFC 6298.
    Rto,
    /// RFC 8985, 7.
    TailLoss,
    /// RFC 8985, 6.2: the reordering window of some segment.
    Reordering,
    /// Nothing is in flight and something waits: for the peer's window (RFC 9293, 3.8.6.1), or held back by TCP_CORK or
    /// MSG_MORE.
    Persist,
}

/// How far loss recovery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// Nothing is thought lost.
    Open,
    /// Fast recovery (RFC 6675, 6582) until `high` is acknowledged.
    Fast { high: Seq },
    /// After a timeout, until `high` is acknowledged.
    Timeout { high: Seq },
}

/// Proportional rate reduction (RFC 6937) and what may be undone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reduction {
    /// prr_delivered, prr_out and RecoverFS of the RFC, bytes.
    pub(crate) delivered: u32,
    pub(crate) sent: u32,
    pub(crate) flight: u32,
    /// Windows from before, as long as this recovery may prove spurious.
    pub(crate) saved: Option<Saved>,
    /// Segments sent again in this recovery that no DSACK reported as needless.
    pub(crate) resent: u32,
    /// Timestamp of the first retransmission (Eifel, RFC 3522); 0: none yet.
    pub(crate) stamp: u32,
}

/// How much of the congestion window is in use, by round trip (what RFC 7661 asks; Linux's tcp_cwnd_validate).
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowUse {
    /// The window held data back, or had no room for another segment.
    pub(crate) limited: bool,
    /// The most segments that were outstanding.
    pub(crate) most: u16,
    /// When this is acknowledged the round trip is over.
    pub(crate) until: Seq,
}

/// A connection in any state but LISTEN, passive SYN-RECEIVED and TIME-WAIT, which have smaller types.
pub(crate) struct Tcb<F> {
    // Identity.
    pub(crate) local: Endpoint,
    pub(crate) remote: Endpoint,
    pub(crate) route: Route,
    pub(crate) phase: Phase,
    /// Those of its listener, until they are changed.
    pub(crate) options: Arc<Options>,

    // Send sequence space.
    pub(crate) iss: Seq,
    pub(crate) snd_una: Seq,
    pub(crate) snd_nxt: Seq,
    /// Peer's window, scaled, and the segment that told it (RFC 9293, 3.10.7.4).
    pub(crate) snd_wnd: u32,
    pub(crate) snd_wl1: Seq,
    pub(crate) snd_wl2: Seq,
    /// Largest window the peer ever offered.
    pub(crate) snd_wnd_max: u32,
    pub(crate) snd_wscale: u8,
    /// End of urgent data to send.
    pub(crate) snd_up: Option<Seq>,
    /// End of the last segment smaller than the MSS (Minshall's variant of Nagle's rule).
    pub(crate) small_end: Seq,
    pub(crate) tx: SendBuffer,
    /// Largest payload with no options but timestamps counted in: bytes of header + payload beyond 20.
    pub(crate) mss: u32,
    /// MSS that the peer announced.
    pub(crate) peer_mss: u32,
    /// The search for the path's MTU, while there is one.
    pub(crate) search: Option<Box<Search>>,
    /// FIN was asked for, and was sent.
    pub(crate) fin_queued: bool,
    pub(crate) fin_sent: bool,
    /// The persist timer sends what was held back, and into a window that is too small to be worth it otherwise.
    pub(crate) forced: bool,
    /// What waits goes as soon as windows allow, whatever holds it back (`tcp_push`); until the next send.
    pub(crate) pushed: bool,
    /// Push::More holds a partial segment back.
    pub(crate) more: bool,
    /// Push::Later does, until `flush`.
    pub(crate) later: bool,
    /// Payload bytes that the send buffer takes.
    pub(crate) tx_limit: u32,
    /// The application found no room, and is owed an edge.
    pub(crate) starved: bool,

    // Receive sequence space.
    pub(crate) irs: Seq,
    pub(crate) rcv_nxt: Seq,
    /// Right edge of the window that the peer was told.
    pub(crate) rcv_adv: Seq,
    /// `rcv_nxt` of the last acknowledgment sent (RFC 7323's Last.ACK.sent, Linux's rcv_wup).
    pub(crate) last_ack_sent: Seq,
    pub(crate) rcv_wscale: u8,
    pub(crate) rx: ReceiveQueue<F>,
    /// Payload bytes that we let the peer send ahead; half of the receive buffer, as Linux has it.
    pub(crate) rx_capacity: u32,
    /// Payload of the peer's full-sized segments as far as known (`delayed_ack`).
    pub(crate) rcv_mss: u32,
    /// MSS that we announced.
    pub(crate) adv_mss: u16,
    /// Where the peer's FIN is, once seen.
    pub(crate) fin_at: Option<Seq>,
    pub(crate) fin_received: bool,
    pub(crate) urgent: Urgent,
    /// The application reads no more: SHUT_RD or close.
    pub(crate) read_shut: bool,
    pub(crate) tuning: Tuning,

    // Options of the connection.
    pub(crate) sack_ok: bool,
    pub(crate) ts_ok: bool,
    /// The peer's latest timestamp, or `TS_RECENT_UNKNOWN`: compare by `is_older_timestamp`.
    pub(crate) ts_recent: u32,
    pub(crate) ts_recent_at: Instant,
    pub(crate) ts_offset: u32,
    /// Range to be reported as duplicate with the next acknowledgment (RFC 2883), stream offsets.
    pub(crate) dsack: Option<(u64, u64)>,

    // Acknowledgments that we owe.
    pub(crate) ack_owed: bool,
    pub(crate) ack_now: bool,
    pub(crate) acks: DelayedAck,

    // Loss.
    pub(crate) board: Scoreboard,
    pub(crate) rack: Rack,
    pub(crate) rtt: Rtt,
    pub(crate) control: Control,
    pub(crate) recovery: Recovery,
    pub(crate) reduction: Reduction,
    pub(crate) dup_acks: u32,
    pub(crate) backoff: u8,
    /// Window probes without an answer.
    pub(crate) probes: u8,
    /// Since when nothing was acknowledged though something is in flight, or, with nothing in flight, since when a
    /// closed window is probed (tcp_retries2, TCP_USER_TIMEOUT). The one never counts for the other.
    pub(crate) stuck_since: Option<Instant>,
    /// End of what the tail loss probe sent, and whether it sent that again.
    pub(crate) tlp: Option<(Seq, bool)>,
    pub(crate) usage: WindowUse,
    pub(crate) ecn: Ecn,

    // Timers.
    pub(crate) deadline: [Instant; TIMERS],
    pub(crate) awaits: Awaits,
    pub(crate) keepalive_probes: u8,

    // The application.
    /// It closed the socket; what is left is ours.
    pub(crate) orphan: bool,
    pub(crate) error: Option<SocketError>,
    /// What ICMP said last; counts if the connection gives up (RFC 1122, 4.2.3.9).
    pub(crate) soft_error: Option<SocketError>,

    /// When a suspicious segment was answered last (RFC 5961, 7).
    pub(crate) last_invalid_reply: Instant,
    pub(crate) counts: Counts,
    pub(crate) limits: Limits,
    pub(crate) seldom: Option<Box<Seldom>>,
    pub(crate) last_sent: Instant,
    pub(crate) last_data_received: Instant,
    pub(crate) last_ack_received: Instant,
}

/// Urgent data received (Linux: one byte at most).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Urgent {
    /// Stream offset of the urgent byte.
    pub(crate) mark: Option<u64>,
    /// The byte, once it came and until it is taken (out of line).
    pub(crate) byte: Option<u8>,
    /// Still to come.
    pub(crate) expected: bool,
}

/// Receive buffer autotuning: the application's appetite per round trip (Linux's tcp_rcv_space_adjust).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tuning {
    pub(crate) since: Instant,
    pub(crate) read: u32,
    pub(crate) space: u32,
    /// Round trip as the receiver sees it, ns; 0 if unknown.
    pub(crate) rtt: u64,
    pub(crate) rtt_edge: Seq,
    pub(crate) rtt_since: Instant,
}

/// What TCP_INFO counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) total_retrans: u32,
    pub(crate) bytes_acked: u64,
    pub(crate) bytes_received: u64,
    pub(crate) segs_out: u32,
    pub(crate) segs_in: u32,
    pub(crate) data_segs_in: u32,
    pub(crate) data_segs_out: u32,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_retrans: u64,
    pub(crate) dsack_dups: u32,
    pub(crate) reord_seen: u32,
}

impl<F: Frame> Tcb<F> {
    /// The path's MTU, bytes of IP packet.
    pub(crate) fn set_mtu(&mut self, mtu: u32) {
        let mut mss = self.peer_mss.min(mtu.saturating_sub(40));
        if self.options.mss_max != 0 {
            mss = mss.min(u32::from(self.options.mss_max));
        }
        if let Some(search) = &mut self.search {
            mss = mss.min(search.limit(mtu));
        }
        self.mss = mss.max(MSS_MIN);
    }

    /// Payload of a full segment with the options that every segment carries.
    #[inline]
    pub(crate) fn payload_max(&self) -> u32 {
        self.mss - if self.ts_ok { 12 } else { 0 }
    }

    /// Bytes of the application not sent yet.
    #[inline]
    pub(crate) fn unsent(&self) -> u32 {
        let sent = (self.snd_nxt - self.snd_una).saturating_sub(u32::from(self.fin_sent));
        (self.tx.len() as u32).saturating_sub(sent)
    }

    /// Sequence space sent and not acknowledged.
    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        self.snd_nxt - self.snd_una
    }

    #[inline]
    pub(crate) fn in_flight(&self) -> u32 {
        let pipe = self.board.in_flight(self.outstanding());
        if self.sack_ok || self.dup_acks == 0 {
            return pipe;
        }
        // Without SACK each duplicate ACK says that one segment left the network.
        pipe.saturating_sub(self.dup_acks.saturating_mul(self.payload_max()))
    }

    /// Offset in the stream of a sequence number near `rcv_nxt`; `None`: before the stream's beginning.
    #[inline]
    pub(crate) fn offset_of(&self, seq: Seq) -> Option<u64> {
        self.rx.next().checked_add_signed(i64::from(seq.distance_from(self.stream_nxt())))
    }

    /// The inverse of `offset_of`, for offsets near `rcv_nxt`.
    #[inline]
    pub(crate) fn seq_of(&self, offset: u64) -> Seq {
        Seq(self.stream_nxt().0.wrapping_add(offset.wrapping_sub(self.rx.next()) as u32))
    }

    /// The number behind the last byte in order: a FIN has a number and no byte.
    #[inline]
    fn stream_nxt(&self) -> Seq {
        self.rcv_nxt - u32::from(self.fin_received)
    }

    /// Whether the application may still send.
    #[inline]
    pub(crate) fn can_send(&self) -> bool {
        matches!(self.state(), State::Established | State::CloseWait) && !self.fin_queued
    }

    #[inline]
    pub(crate) fn set_timer<O>(&mut self, cx: &mut Cx<'_, O>, timer: Timer, at: Instant) {
        self.deadline[timer as usize] = at;
        cx.timers.arm_by(cx.id, at);
    }

    #[inline]
    pub(crate) fn stop_timer(&mut self, timer: Timer) {
        self.deadline[timer as usize] = NEVER;
    }

    /// Nothing is under way in either direction: without a timer left, the wheel need not look here again. Many idle
    /// connections would keep it turning for nothing; of few each does once, and a conversation does not pay for taking
    /// out what its next message puts in.
    #[inline]
    pub(crate) fn rest<O>(&self, cx: &mut Cx<'_, O>) {
        if cx.timers.are_many() && self.deadline == [NEVER; TIMERS] {
            cx.timers.set(cx.id, None);
        }
    }

    /// Whether the peer's latest timestamp is known to be newer than `value`.
    #[inline]
    pub(crate) fn is_older_timestamp(&self, value: u32) -> bool {
        self.ts_recent != TS_RECENT_UNKNOWN && (value.wrapping_sub(self.ts_recent) as i32) < 0
    }

    /// The timestamp clock: milliseconds, with an offset that is the connection's secret (RFC 7323, 5.4).
    #[inline]
    pub(crate) fn stamp(&self, now: Instant) -> u32 {
        ((now.0 / 1_000_000) as u32).wrapping_add(self.ts_offset)
    }
}

/// TS.Recent of a connection that came from elsewhere, until its first segment; as on Linux, a peer whose clock stands
/// at this number goes unchecked for a millisecond.
pub(crate) const TS_RECENT_UNKNOWN: u32 = 0;

/// No smaller segment size is believed: a peer that announces less would multiply our packets (CVE-2019-11479).
/// Linux's tcp_min_snd_mss is 48; with 12 bytes of timestamps that leaves less payload than header.
pub(crate) const MSS_MIN: u32 = 88;
/// What a peer takes that says nothing (RFC 9293, 3.7.1).
pub(crate) const MSS_DEFAULT: u32 = 536;
