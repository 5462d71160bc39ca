//! Everything the command line decides, checked and in one place. Nothing here changes once the run begins.

use crate::address::Address;
use crate::iomux::Kind;
use crate::tls::Tls;

/// Subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Sends at a rate, receives in a second thread.
    UnderLoad,
    /// One message (or burst) out, its answer back, the next.
    PingPong,
    /// Sends only.
    Throughput,
    /// Under load, by a file of times and sizes.
    Playback,
    /// Answers.
    Server,
}

/// One line of a feed file, or the single address of the command line.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// Where to listen or send.
    pub address: Address,
    /// Stream instead of datagrams.
    pub tcp: bool,
    /// Only this source may send to the group.
    pub source: Option<Address>,
}

/// Messages per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as the mode allows.
    Max,
    /// So many messages per second.
    PerSecond(u32),
}

/// When the client stops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Span {
    /// After so many seconds of measurement.
    Seconds(u32),
    /// After so many measured messages.
    Messages(u64),
}

/// Bins of the text histogram, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bins {
    /// Width of a bin.
    pub size: u32,
    /// Lower edge of the shown range.
    pub low: u32,
    /// Upper edge of the shown range.
    pub high: u32,
}

/// The checked command line.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // each field carries its option's name; the help table says what it means
pub struct Settings {
    pub mode: Mode,
    pub endpoints: Vec<Endpoint>,
    pub from_feed: bool,
    pub mux: Kind,
    pub mux_timeout_ms: i32,
    /// Messages between two marks, and whether the mark is a table row.
    pub activity: Option<(u64, bool)>,
    pub tcp_avoid_nodelay: bool,
    pub skip_blocking_send: bool,
    pub tos: Option<i32>,
    pub mc_rx_if: Option<String>,
    pub mc_tx_if: Option<String>,
    pub mc_loopback: bool,
    pub mc_ttl: u8,
    pub mc_source: Option<Address>,
    pub reuse_address: bool,
    pub busy_poll_us: Option<i32>,
    pub buffer_size: Option<i32>,
    pub nonblocked: bool,
    /// Reads per wake-up; `None` is until the socket is empty.
    pub recv_looping: Option<u32>,
    pub warm_up: bool,
    pub pre_warm_up_sec: u32,
    pub zcopy_read: bool,
    pub daemonize: bool,
    pub no_rdtsc: bool,
    pub load: Option<String>,
    pub rate_limit: Option<u32>,
    pub sock_accl: bool,
    pub tls: Option<Tls>,
    pub debug: bool,

    pub sender_cpus: Vec<usize>,
    pub receiver_cpus: Vec<usize>,
    pub full_log: Option<String>,
    pub full_rtt: bool,
    pub giga: bool,
    pub precise: bool,
    /// Dummy sends per second.
    pub dummy_send: Option<Pace>,
    pub connect_timeout_ms: u32,
    pub servers: usize,
    pub span: Span,
    pub burst: u32,
    pub pace: Pace,
    pub reply_every: u64,
    /// Client: size of a message. Server: largest accepted.
    pub msg_size: usize,
    pub range: usize,
    pub data_integrity: bool,
    pub client_port: u16,
    pub client_ip: Option<Address>,
    /// Seconds from the start and message size.
    pub playback: Vec<(f64, usize)>,
    /// Confidence level in percent when the newest dialect's statistics were asked for.
    pub confidence: Option<u32>,
    pub bins: Option<Bins>,

    pub threads: usize,
    pub cpus: Vec<usize>,
    pub rx_filter: bool,
    pub unicast_reply: bool,
    pub dont_reply: bool,
    pub gaps: bool,

    pub repeat: u32,
    pub reply_timeout_ms: u32,
    pub compat_timing: bool,
    pub ask_peer: bool,
    pub json: Option<String>,
    pub csv: Option<String>,
    pub report: Option<String>,
    /// Name of this run in reports.
    pub label: Option<String>,
    /// JSON files of earlier runs to show beside this one.
    pub compare: Vec<String>,
    /// Seconds between two progress lines; `None` lets the terminal decide.
    pub progress: Option<f64>,
    pub color: Option<bool>,
    pub seed: u64,
}

impl Settings {
    /// What the original does when no option is given.
    pub fn defaults(mode: Mode) -> Settings {
        let seed = std::env::var("SEED").ok().and_then(|s| s.trim().parse().ok()).unwrap_or(1);
        Settings {
            mode,
            endpoints: Vec::new(),
            from_feed: false,
            mux: Kind::Recvfrom,
            mux_timeout_ms: 10,
            activity: None,
            tcp_avoid_nodelay: false,
            skip_blocking_send: false,
            tos: None,
            mc_rx_if: None,
            mc_tx_if: None,
            mc_loopback: false,
            mc_ttl: 2,
            mc_source: None,
            reuse_address: false,
            busy_poll_us: None,
            buffer_size: None,
            nonblocked: false,
            recv_looping: Some(1),
            warm_up: true,
            pre_warm_up_sec: 0,
            zcopy_read: false,
            daemonize: false,
            no_rdtsc: false,
            load: None,
            rate_limit: None,
            sock_accl: false,
            tls: None,
            debug: false,
            sender_cpus: Vec::new(),
            receiver_cpus: Vec::new(),
            full_log: None,
            full_rtt: false,
            giga: false,
            precise: false,
            dummy_send: None,
            connect_timeout_ms: 5000,
            servers: 1,
            span: Span::Seconds(1),
            burst: 1,
            pace: if matches!(mode, Mode::UnderLoad | Mode::Playback) {
                Pace::PerSecond(10_000)
            } else {
                Pace::Max
            },
            reply_every: if matches!(mode, Mode::PingPong) { 1 } else { 100 },
            msg_size: if mode == Mode::Server {
                crate::message::MAX_DATAGRAM
            } else {
                crate::message::HEADER
            },
            range: 0,
            data_integrity: false,
            client_port: 0,
            client_ip: None,
            playback: Vec::new(),
            confidence: None,
            bins: None,
            threads: 1,
            cpus: Vec::new(),
            rx_filter: false,
            unicast_reply: false,
            dont_reply: false,
            gaps: false,
            repeat: 1,
            reply_timeout_ms: 1000,
            compat_timing: false,
            ask_peer: true,
            json: None,
            csv: None,
            report: None,
            label: None,
            compare: Vec::new(),
            progress: None,
            color: None,
            seed,
        }
    }

    /// True when Nagle's algorithm is to be switched off: always, except in throughput; the option turns it over.
    pub fn no_delay(&self) -> bool {
        (self.mode == Mode::Throughput) == self.tcp_avoid_nodelay
    }

    /// Largest message this side can meet.
    pub fn largest(&self) -> usize {
        let played = self.playback.iter().map(|r| r.1).max().unwrap_or(0);
        (self.msg_size + self.range).max(played)
    }
}
