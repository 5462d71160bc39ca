//! TCP. The contract in signatures; see the crate's page.

pub(crate) mod icmp;
pub(crate) mod input;
pub(crate) mod output;
mod state;
pub(crate) mod timers;

pub(crate) use state::{Connection, Listener, Shared, TimeWait};

use crate::{
    Duration, Endpoint, Frame, Instant, Outlet, RecvError, SendError, Sink, SocketId, Source, Stack,
};

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
    /// Connections in TIME-WAIT at most, beyond which the oldest are dropped (tcp_max_tw_buckets).
    pub time_wait_max: u32,
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
}

/// Whether data should leave at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// By Nagle's rule and the socket's options.
    Now,
    /// Full segments by the rules; a partial one waits for `flush`, for more data or for `Push::Now`. The owner uses
    /// it while frames of this stack wait in the transmit ring (as Linux's tcp_autocorking does).
    Later,
    /// MSG_MORE: as TCP_CORK for this call; leaves when full, on a later call without it, or after 200 ms.
    More,
    /// MSG_OOB: the last byte is urgent.
    Urgent,
}

/// How to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Bytes leave the queue.
    Consume,
    /// MSG_PEEK.
    Peek,
    /// MSG_OOB.
    Urgent,
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

#[allow(unused_variables, missing_docs)] // the contract in signatures; bodies follow
impl<F: Frame> Stack<F> {
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
        todo!()
    }
    /// Listens on `local`, whose address may be unspecified (every address of the interface).
    pub fn tcp_listen(
        &mut self,
        local: Endpoint,
        backlog: u32,
        options: &Options,
        token: u64,
    ) -> Result<SocketId, ConnectError> {
        todo!()
    }
    /// listen(2) again on a listener.
    pub fn tcp_set_backlog(&mut self, id: SocketId, backlog: u32) {
        todo!()
    }
    /// The oldest established connection that waits. Set its token next; edges that came before are reported again
    /// by `ready`.
    pub fn tcp_accept(&mut self, listener: SocketId) -> Option<SocketId> {
        todo!()
    }
    /// Takes as many bytes as there is room for, and sends what the windows allow.
    pub fn tcp_send(
        &mut self,
        now: Instant,
        id: SocketId,
        data: &mut impl Source,
        push: Push,
        out: &mut impl Outlet,
    ) -> Result<usize, SendError> {
        todo!()
    }
    /// `Ok(0)` with room in the sink: end of stream.
    pub fn tcp_recv(
        &mut self,
        now: Instant,
        id: SocketId,
        into: &mut impl Sink,
        take: Take,
        out: &mut impl Outlet,
    ) -> Result<usize, RecvError> {
        todo!()
    }
    /// shutdown(SHUT_WR): FIN after the data.
    pub fn tcp_shutdown_write(
        &mut self,
        now: Instant,
        id: SocketId,
        out: &mut impl Outlet,
    ) -> Result<(), SendError> {
        todo!()
    }
    /// shutdown(SHUT_RD): as Linux: reads end, what still comes is taken and thrown away.
    pub fn tcp_shutdown_read(&mut self, now: Instant, id: SocketId) -> Result<(), RecvError> {
        todo!()
    }
    /// The application is done with it. With unread data: RST, as Linux. A listener resets what was not accepted.
    pub fn tcp_close(&mut self, now: Instant, id: SocketId, how: Close, out: &mut impl Outlet) {
        todo!()
    }
    /// Whether a closed id still delivers data or waits for its FIN to be acknowledged (not TIME-WAIT).
    pub fn tcp_closing(&self, id: SocketId) -> bool {
        todo!()
    }
    pub fn tcp_options(&self, id: SocketId) -> Option<&Options> {
        todo!()
    }
    /// Changes options and acts on the change (uncorking sends, keepalive starts, ...).
    pub fn tcp_configure(
        &mut self,
        now: Instant,
        id: SocketId,
        change: impl FnOnce(&mut Options),
        out: &mut impl Outlet,
    ) {
        todo!()
    }
    pub fn tcp_state(&self, id: SocketId) -> Option<State> {
        todo!()
    }
    pub fn tcp_info(&self, now: Instant, id: SocketId) -> Option<Info> {
        todo!()
    }
    /// Bytes that can be received (SIOCINQ), bytes not yet acknowledged (SIOCOUTQ), bytes not yet sent (SIOCOUTQNSD).
    pub fn tcp_queued(&self, id: SocketId) -> Option<Queued> {
        todo!()
    }
    /// Whether the read position is at the urgent mark (sockatmark).
    pub fn tcp_at_mark(&self, id: SocketId) -> bool {
        todo!()
    }
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
    pub send: usize,
    pub unsent: usize,
}

/// What TCP_INFO tells (struct tcp_info by the kernel's names; the socket layer lays it out).
#[allow(missing_docs)]
#[derive(Clone, Debug, Default)]
pub struct Info {
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    pub timestamps: bool,
    pub sack: bool,
    pub ecn: bool,
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
    pub snd_ssthresh: u32,
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
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
}
