//! TCP (RFC 9293).
//!
//! Reading order: [`State`] and its diagram below, `control_block` (what a connection is), `input` (a segment
//! arrives), `ack`, `text`, `receive`, `output` (what to send next), `recovery`,
//! `retransmit`. The rest is what its name says.
//!
//! ```text
//!             connect / SYN                        listen
//!   SynSent <---------------- Closed --------------> Listen
//!      | SYN,ACK / ACK   \ SYN / SYN,ACK              | SYN / SYN,ACK   (HalfOpen, or nothing: a cookie)
//!      |                  `--> SynReceived             v
//!      |                          | ACK           HalfOpen
//!      v                          v                    | ACK
//!   Established <-----------------'--------------------'
//!      | shutdown, close / FIN             | FIN / ACK
//!      v                                   v
//!   FinWait1 -- FIN / ACK --> Closing   CloseWait
//!      | ACK                     | ACK     | shutdown, close / FIN
//!      v                         v         v
//!   FinWait2 -- FIN / ACK --> TimeWait  LastAck -- ACK --> Closed
//! ```
//!
//! The diagram as a table that every change is held against is in `state`.
//!
//! Which RFC is answered where: 9293 input, text, output, handshake, half_open, close; 7323 options, input (PAWS),
//! time_wait; 2018 and 2883 scoreboard, receive; 5681, 6582, 6675, 6937 recovery; 8985 rack, recovery, retransmit;
//! 9438 congestion/cubic; 6298 rtt, retransmit; 3168 ecn; 5961 input; 6528 shared; 4987 cookie, listen, half_open;
//! 5927 icmp; 4821 mtu_probe; 6191 and 1337 time_wait; 6093 read.

mod ack;
mod close;
mod commands;
mod congestion;
pub(crate) mod control_block;
mod cookie;
mod delayed_ack;
mod ecn;
mod half_open;
mod handover;
mod handshake;
pub(crate) mod icmp;
pub(crate) mod input;
mod keepalive;
mod large;
mod lend;
mod limits;
mod listen;
mod mtu_probe;
mod open;
mod options;
pub(crate) mod output;
mod pacing;
mod rack;
mod read;
mod readiness;
mod receive;
mod records;
mod recovery;
mod rehearse;
mod retransmit;
mod rtt;
mod scoreboard;
mod segment;
mod seldom;
mod send;
mod send_buffer;
mod seq;
mod shared;
mod state;
mod table;
mod takeover;
mod text;
mod time_wait;
pub(crate) mod timers;

pub use handover::{Handover, Pace};

pub(crate) use control_block::{Fate, Tcb as Connection};
pub(crate) use half_open::HalfOpen;
pub(crate) use listen::Listener;
pub use mtu_probe::{MtuProbes, MtuProbing};
pub use receive::Piece;
pub(crate) use shared::Shared;
pub(crate) use time_wait::TimeWait;

use crate::{Duration, Endpoint, Query};

/// Bytes of a connection's block (for measurements).
#[cfg(any(test, feature = "testing"))]
pub const CONNECTION_SIZE: usize = size_of::<Connection<crate::testing::VecFrame>>();

/// Defaults and limits of TCP, from the host's sysctls and the parameters.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Receive buffer: least, initial, largest (tcp_rmem), bytes.
    pub rmem: [u32; 3],
    /// Send buffer: least, initial, largest (tcp_wmem), bytes.
    pub wmem: [u32; 3],
    /// What new sockets start with.
    pub options: Options,
    /// SYN retransmissions of a connect (tcp_syn_retries) and of a listener's SYN-ACK (tcp_synack_retries).
    pub syn_retries: u8,
    /// See `syn_retries`.
    pub synack_retries: u8,
    /// Retransmissions before an established connection gives up (tcp_retries2).
    pub retries2: u8,
    /// Time in FIN-WAIT-2 of a closed socket (tcp_fin_timeout).
    pub fin_timeout: Duration,
    /// Time in TIME-WAIT (Linux: 60 s).
    pub time_wait: Duration,
    /// Offer SACK, timestamps, window scaling (the sysctls of these names).
    pub sack: bool,
    /// See `sack`.
    pub timestamps: bool,
    /// See `sack`.
    pub window_scaling: bool,
    /// The window scale to offer; `None`: what the largest receive buffer needs.
    pub window_scale: Option<u8>,
    /// Explicit congestion notification (tcp_ecn).
    pub ecn: Ecn,
    /// Connections in TIME-WAIT at most, beyond which the oldest are dropped (tcp_max_tw_buckets).
    pub time_wait_max: u32,
    /// Closed sockets that TCP has not finished with at most (tcp_max_orphans); one more is reset when it is closed.
    pub orphans_max: u32,
    /// Retransmissions and window probes of a closed socket without an answer (tcp_orphan_retries); zero stands for 8.
    pub orphan_retries: u8,
    /// Connection requests that one listener takes in a second (VMA_TCP_MAX_SYN_RATE); zero: no limit.
    pub syn_rate_max: u32,
    /// Path MTU discovery without ICMP.
    pub mtu_probing: MtuProbing,
}

/// What the limits of a stack refused, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Closed sockets that were reset as there were too many of them.
    pub orphans: u64,
    /// SYNs beyond a listener's rate.
    pub syns: u64,
}

/// What connections do about explicit congestion notification (RFC 3168); the numbers are tcp_ecn's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// 0: nothing.
    Off,
    /// 1: ask, and accept.
    Ask,
    /// 2, Linux's default: accept if the peer asks.
    Passive,
}

/// Which congestion control a connection uses (TCP_CONGESTION).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// RFC 9438.
    Cubic,
    /// RFC 5681 and 6582 ("reno").
    NewReno,
    /// No congestion window: for private networks, as VMA_TCP_CC_ALGO=2.
    None,
}

/// Options of one socket, inherited from a listener by what it accepts. Linux's names and meaning.
#[derive(Clone, Debug)]
pub struct Options {
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// TCP_CORK.
    pub cork: bool,
    /// TCP_QUICKACK.
    pub quickack: bool,
    /// SO_KEEPALIVE.
    pub keepalive: bool,
    /// TCP_KEEPIDLE.
    pub keepalive_idle: Duration,
    /// TCP_KEEPINTVL.
    pub keepalive_interval: Duration,
    /// TCP_KEEPCNT.
    pub keepalive_count: u8,
    /// TCP_USER_TIMEOUT; zero: by retransmissions.
    pub user_timeout: Duration,
    /// TCP_SYNCNT: retransmissions of a connect's SYN, and of a listener's SYN-ACKs; zero: by the settings.
    pub syn_retries: u8,
    /// TCP_LINGER2: time in FIN-WAIT-2 of a closed socket. `None`: by the settings; zero: the peer is reset instead.
    pub fin_timeout: Option<Duration>,
    /// TCP_WINDOW_CLAMP: the largest window to tell, bytes; zero: by the buffer.
    pub window_clamp: u32,
    /// TCP_MAXSEG; zero: by the path.
    pub mss_max: u16,
    /// SO_RCVBUF as the application asked, bytes; `None`: autotuned within `rmem`.
    pub receive_buffer: Option<u32>,
    /// SO_SNDBUF as the application asked, bytes; `None`: autotuned within `wmem`.
    pub send_buffer: Option<u32>,
    /// SO_RCVLOWAT, bytes.
    pub receive_low_water: u32,
    /// TCP_NOTSENT_LOWAT, bytes.
    pub not_sent_low_water: u32,
    /// SO_MAX_PACING_RATE, bytes of payload in a second; zero: no limit.
    pub max_pacing_rate: u64,
    /// TCP_CONGESTION.
    pub congestion: Congestion,
    /// SO_OOBINLINE.
    pub urgent_inline: bool,
    /// IP_TOS.
    pub tos: u8,
    /// IP_TTL.
    pub ttl: u8,
    /// Fragmentation forbidden and the path's MTU found out (IP_MTU_DISCOVER: DONT is false).
    pub discover_mtu: bool,
    /// The socket is bound to the interface (SO_BINDTODEVICE): routing is asked for ways by it alone.
    pub bound_to_interface: bool,
}

impl Options {
    /// What the way of the segments of a connection depends on.
    pub(crate) fn way(&self, local: Endpoint, remote: Endpoint) -> Query {
        Query { from: *local.ip(), to: *remote.ip(), bound: self.bound_to_interface }
    }
}

impl Default for Options {
    /// What a socket starts with on Linux, whose sysctls are at their defaults.
    fn default() -> Options {
        Options {
            nodelay: false,
            cork: false,
            quickack: false,
            keepalive: false,
            keepalive_idle: Duration::from_secs(7200),
            keepalive_interval: Duration::from_secs(75),
            keepalive_count: 9,
            user_timeout: Duration::ZERO,
            syn_retries: 0,
            fin_timeout: None,
            window_clamp: 0,
            mss_max: 0,
            receive_buffer: None,
            send_buffer: None,
            receive_low_water: 1,
            not_sent_low_water: u32::MAX,
            max_pacing_rate: 0,
            congestion: Congestion::Cubic,
            urgent_inline: false,
            tos: 0,
            ttl: 64,
            discover_mtu: true,
            bound_to_interface: false,
        }
    }
}

impl Options {
    /// TCP_LINGER2 in seconds, as Linux takes it: zero is the sysctl's value, less is none at all, and two minutes the
    /// most.
    pub fn set_linger2(&mut self, seconds: i32) {
        self.fin_timeout = (seconds != 0).then(|| Duration::from_secs(seconds.clamp(0, 120) as u64));
    }
}

/// Whether data should leave at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// By Nagle's rule and the socket's options.
    Now,
    /// Full segments by the rules; a partial one waits for `flush`, for more data or for `Push::Now`. The owner uses
    /// it while frames of this stack wait in the transmit ring (as Linux's tcp_autocorking does).
    Later,
    /// MSG_MORE: as TCP_CORK for this call; leaves when full, on a later call without it, with the next acknowledgment,
    /// or after a retransmission timeout (200 ms mostly).
    More,
    /// MSG_EOR: as `Now`, and no segment holds bytes from before and from behind its end.
    Record,
    /// MSG_OOB: the last byte is urgent.
    Urgent,
}

/// How to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Bytes leave the queue.
    Consume,
    /// The same, in a call that has taken some before: at an error or at the urgent mark it takes nothing, which leaves
    /// them to the next call (Linux's tcp_recvmsg).
    More,
    /// MSG_PEEK, so many bytes behind the next to be read (SO_PEEK_OFF).
    Peek(usize),
    /// MSG_OOB.
    Urgent,
    /// MSG_OOB with MSG_PEEK.
    PeekUrgent,
    /// MSG_TRUNC on a stream: bytes leave the queue uncopied, as many as the sink has room.
    Discard,
}

/// Why a connection cannot be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// The four-tuple is in use (EADDRNOTAVAIL).
    InUse,
    /// The engine's bound on sockets is reached.
    Full,
}

/// How a socket is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// Data and FIN go out in the background; the id lives on inside until all is done (`Stack::closing`).
    Orderly,
    /// RST now (SO_LINGER with zero, or the process was told to).
    Abort,
}

/// States of RFC 9293, 3.3.2.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Listen,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
    Closed,
}

/// See `Stack::tcp_queued`.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Queued {
    pub receive: usize,
    pub unread: usize,
    pub send: usize,
    pub unsent: usize,
}

/// What TCP_INFO tells (struct tcp_info by the kernel's names; the socket layer lays it out).
#[allow(missing_docs)]
#[derive(Clone, Debug, Default)]
pub struct Info {
    /// Linux's TCP_CA_*: Open, Disorder, CWR, Recovery, Loss.
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    pub timestamps: bool,
    pub sack: bool,
    pub ecn: bool,
    pub ecn_seen: bool,
    pub snd_wscale: Option<u8>,
    pub rcv_wscale: Option<u8>,
    pub rto: Duration,
    pub ato: Duration,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub last_data_sent: Duration,
    pub last_data_recv: Duration,
    pub last_ack_recv: Duration,
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt: Duration,
    pub rttvar: Duration,
    /// Segments; `None`: not known yet.
    pub snd_ssthresh: Option<u32>,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt: Duration,
    pub rcv_space: u32,
    pub total_retrans: u32,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    pub min_rtt: Duration,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    /// Zero: no limit.
    pub max_pacing_rate: u64,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    pub busy_time: Duration,
    pub rwnd_limited: Duration,
    pub sndbuf_limited: Duration,
    pub total_rto: u16,
    pub total_rto_recoveries: u16,
    pub total_rto_time: Duration,
}

#[cfg(test)]
mod tests;
