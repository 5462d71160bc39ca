//! From options to checked settings: values in range, conflicts named, files read.

use crate::address::resolve;
use crate::cli::lexer::Given;
use crate::cli::values;
use crate::exit::{Code, Failure, Result};
use crate::iomux::Kind;
use crate::message::{HEADER, MAX_DATAGRAM, MAX_STREAM};
use crate::settings::{Endpoint, Mode, Pace, Settings, Span};
use crate::tls::{DEFAULT_CIPHER, Tls};
use crate::{feed, playback_file};

const DEFAULT_PORT: u16 = 11111;

/// What cannot be settled before all options are seen.
#[derive(Default)]
struct Pending {
    host: Option<String>,
    port: Option<u16>,
    feed: Option<String>,
    tcp: bool,
    source: Option<String>,
    client_host: Option<String>,
    playback: Option<String>,
    cipher: Option<String>,
}

fn wrong(text: impl Into<String>) -> Failure {
    Failure::new(Code::Argument, text)
}

/// Settings for `mode` from the given options.
pub fn settings(mode: Mode, given: &[Given]) -> Result<Settings> {
    let mut s = Settings::defaults(mode);
    let mut pending = Pending::default();
    for g in given {
        let text = g.value.as_deref();
        let known = common(&mut s, &mut pending, g, text)?
            || client(&mut s, &mut pending, g, text)?
            || server(&mut s, g, text)?
            || ours(&mut s, g, text)?;
        debug_assert!(known, "{} is in the table but not applied", g.spelling);
    }
    let has = |name: &str| given.iter().any(|g| g.option.name() == name);
    conflicts(&s, &pending, &has)?;
    endpoints(&mut s, &pending, has("iomux-type"))?;
    sizes(&s, &pending)?;
    if let Some(cipher) = &pending.cipher {
        if s.endpoints.iter().any(|e| !e.tcp) {
            return Err(wrong("--tls needs TCP: give --tcp, or a feed file of T: lines only"));
        }
        s.tls = Some(Tls::new(mode, cipher)?);
    }
    if let Some(path) = &pending.playback {
        s.playback = playback_file::read(path)?;
    }
    Ok(s)
}

fn common(s: &mut Settings, p: &mut Pending, g: &Given, text: Option<&str>) -> Result<bool> {
    let name = g.spelling.as_str();
    let value = text.unwrap_or("");
    let int = |low: i64, high: i64| values::number(name, value, low, high);
    match g.option.name() {
        "tcp" => p.tcp = true,
        "ip" => p.host = Some(value.to_string()),
        "port" => p.port = Some(values::digits(name, value, 1, 65535)? as u16),
        "file" => p.feed = Some(value.to_string()),
        "iomux-type" => {
            s.mux = Kind::parse(value).ok_or_else(|| wrong(format!("'{name}' does not know '{value}'")))?
        }
        "timeout" => s.mux_timeout_ms = int(-1, i32::MAX.into())? as i32,
        "activity" => s.activity = Some((int(1, i64::MAX)? as u64, false)),
        "Activity" => s.activity = Some((int(1, i64::MAX)? as u64, true)),
        "tcp-avoid-nodelay" => s.tcp_avoid_nodelay = true,
        "tcp-skip-blocking-send" => s.skip_blocking_send = true,
        "tos" => s.tos = Some(int(0, 255)? as i32),
        "mc-rx-if" => s.mc_rx_if = Some(value.to_string()),
        "mc-tx-if" => s.mc_tx_if = Some(value.to_string()),
        "mc-loopback-enable" => s.mc_loopback = true,
        "mc-ttl" => s.mc_ttl = int(0, 255)? as u8,
        "mc-source-filter" => p.source = Some(value.to_string()),
        "uc-reuseaddr" => s.reuse_address = true,
        "lls" => s.busy_poll_us = Some(int(0, i32::MAX.into())? as i32),
        "buffer-size" => s.buffer_size = Some(int(1, i32::MAX.into())? as i32),
        "nonblocked" => s.nonblocked = true,
        "recv_looping_num" => {
            let n = int(-1, i32::MAX.into())?;
            if n == 0 {
                return Err(wrong(format!(
                    "'{name}' wants a positive number, or =-1 until the socket is empty"
                )));
            }
            s.recv_looping = u32::try_from(n).ok();
        }
        "dontwarmup" => s.warm_up = false,
        "pre-warmup-wait" => s.pre_warm_up_sec = int(1, i32::MAX.into())? as u32,
        "zcopyread" => s.zcopy_read = true,
        "daemonize" => s.daemonize = true,
        "no-rdtsc" => s.no_rdtsc = true,
        "load-vma" => s.load = Some(text.unwrap_or("libvma.so").to_string()),
        "load-xlio" => s.load = Some(text.unwrap_or("libxlio.so").to_string()),
        "rate-limit" => s.rate_limit = Some(int(1, u32::MAX.into())? as u32),
        "set-sock-accl" => s.sock_accl = true,
        "tls" => p.cipher = Some(text.unwrap_or(DEFAULT_CIPHER).to_string()),
        "debug" => s.debug = true,
        _ => return Ok(false),
    }
    Ok(true)
}

fn client(s: &mut Settings, p: &mut Pending, g: &Given, text: Option<&str>) -> Result<bool> {
    let name = g.spelling.as_str();
    let value = text.unwrap_or("");
    let int = |low: i64, high: i64| values::number(name, value, low, high);
    match g.option.name() {
        "sender-affinity" => s.sender_cpus = values::cpus(name, value)?,
        "receiver-affinity" => s.receiver_cpus = values::cpus(name, value)?,
        "full-log" => s.full_log = Some(value.to_string()),
        "full-rtt" => s.full_rtt = true,
        "giga-size" => s.giga = true,
        "increase_output_precision" => s.precise = true,
        "dummy-send" => s.dummy_send = Some(values::pace(name, text.unwrap_or("10000"))?),
        "tcp_nb_connect_timeout_ms" => s.connect_timeout_ms = int(0, i32::MAX.into())? as u32,
        "srv-num" => s.servers = int(1, 64)? as usize,
        "time" => s.span = Span::Seconds(int(1, 36_000_000)? as u32),
        "number-of-packets" => s.span = Span::Messages(int(1, 100_000_000)? as u64),
        "burst" => s.burst = int(1, 1 << 20)? as u32,
        "mps" => s.pace = values::pace(name, value)?,
        "reply-every" => s.reply_every = int(1, 1 << 30)? as u64,
        "msg-size" if s.mode != Mode::Server => s.msg_size = int(HEADER as i64, MAX_STREAM as i64)? as usize,
        "range" => s.range = values::digits(name, value, 0, MAX_STREAM as i64)? as usize,
        "data-integrity" => s.data_integrity = true,
        "client_port" => s.client_port = values::digits(name, value, 0, 65535)? as u16,
        "client_ip" => p.client_host = Some(value.to_string()),
        "data-file" => p.playback = Some(value.to_string()),
        "ci_sig_level" => s.confidence = Some(int(1, 99)? as u32),
        "histogram" => s.bins = Some(values::bins(name, value)?),
        _ => return Ok(false),
    }
    Ok(true)
}

fn server(s: &mut Settings, g: &Given, text: Option<&str>) -> Result<bool> {
    let name = g.spelling.as_str();
    let value = text.unwrap_or("");
    match g.option.name() {
        "threads-num" => s.threads = values::number(name, value, 1, 4096)? as usize,
        "cpu-affinity" => s.cpus = values::cpus(name, value)?,
        "rxfiltercb" => s.rx_filter = true,
        "force-unicast-reply" => s.unicast_reply = true,
        "dont-reply" => s.dont_reply = true,
        "msg-size" => {
            s.msg_size = (values::digits(name, value, 0, MAX_STREAM as i64)? as usize).max(MAX_DATAGRAM)
        }
        "gap-detection" => s.gaps = true,
        _ => return Ok(false),
    }
    Ok(true)
}

fn ours(s: &mut Settings, g: &Given, text: Option<&str>) -> Result<bool> {
    let name = g.spelling.as_str();
    let value = text.unwrap_or("");
    match g.option.name() {
        "repeat" => s.repeat = values::number(name, value, 1, 1000)? as u32,
        "reply-timeout" => s.reply_timeout_ms = values::number(name, value, 1, 3_600_000)? as u32,
        "compat-timing" => s.compat_timing = true,
        "no-peer-query" => s.ask_peer = false,
        "json" => s.json = Some(value.to_string()),
        "csv" => s.csv = Some(value.to_string()),
        "report" => s.report = Some(value.to_string()),
        "label" => s.label = Some(value.to_string()),
        "compare" => s.compare = value.split(',').map(str::to_string).collect(),
        "progress" => {
            let seconds: f64 = text.unwrap_or("1").parse().unwrap_or(-1.0);
            if !(0.0..=3600.0).contains(&seconds) {
                return Err(wrong(format!("'{name}' wants seconds from 0 (off) to 3600, not '{value}'")));
            }
            s.progress = Some(seconds);
        }
        "color" => {
            s.color = match value {
                "auto" => None,
                "always" => Some(true),
                "never" => Some(false),
                _ => return Err(wrong(format!("'{name}' wants auto, always or never, not '{value}'"))),
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn conflicts(s: &Settings, p: &Pending, has: &dyn Fn(&str) -> bool) -> Result<()> {
    let pairs = [
        ("file", "ip"),
        ("file", "port"),
        ("file", "tcp"),
        ("file", "client_port"),
        ("number-of-packets", "time"),
        ("number-of-packets", "mps"),
        ("data-integrity", "burst"),
        ("dont-reply", "tcp"),
        ("load-vma", "load-xlio"),
        ("tls", "load-vma"),
        ("tls", "load-xlio"),
        ("tls", "zcopyread"),
        ("tls", "rxfiltercb"),
        ("activity", "Activity"),
    ];
    for (a, b) in pairs {
        if has(a) && has(b) {
            return Err(wrong(format!("--{a} and --{b} exclude each other")));
        }
    }
    if has("compare") && !has("report") {
        return Err(wrong("--compare shows earlier results in a report: give --report too"));
    }
    if has("iomux-type") && p.feed.is_none() {
        return Err(wrong("-F needs a feed file: give one with -f"));
    }
    if has("threads-num") && p.feed.is_none() {
        return Err(wrong("--threads-num needs a feed file: give one with -f"));
    }
    if s.threads > 1 && s.mux == Kind::Recvfrom && has("iomux-type") {
        return Err(wrong("--threads-num does not go with -F r"));
    }
    if has("tls") && s.mux == Kind::Socketxtreme {
        return Err(wrong("--tls and -F x exclude each other"));
    }
    if s.rx_filter && s.mux == Kind::Socketxtreme {
        return Err(wrong("--rxfiltercb and -F x both take the packets: use one of them"));
    }
    if s.recv_looping != Some(1) && !s.nonblocked {
        return Err(wrong("--recv_looping_num other than 1 needs --nonblocked"));
    }
    if has("tcp_nb_connect_timeout_ms") && !p.tcp && p.feed.is_none() {
        return Err(wrong("--tcp_nb_connect_timeout_ms needs --tcp or -f"));
    }
    if s.mode == Mode::Playback && p.playback.is_none() {
        return Err(wrong("playback needs its times and sizes: give them with --data-file"));
    }
    if let (Some(Pace::PerSecond(dummy)), Pace::PerSecond(real)) = (s.dummy_send, s.pace)
        && dummy <= real
    {
        return Err(wrong(format!("--dummy-send ({dummy}) must be above --mps ({real})")));
    }
    if s.dummy_send.is_some() && s.pace == Pace::Max {
        return Err(wrong("--dummy-send fills the time between paced messages: give --mps below its rate"));
    }
    if let Span::Messages(n) = s.span
        && n % u64::from(s.burst) != 0
    {
        return Err(wrong(format!("-n must be a multiple of the burst ({})", s.burst)));
    }
    Ok(())
}

fn endpoints(s: &mut Settings, p: &Pending, mux_given: bool) -> Result<()> {
    s.mc_source = p.source.as_deref().map(|h| resolve(h, 0)).transpose()?;
    s.client_ip = p.client_host.as_deref().map(|h| resolve(h, 0)).transpose()?;
    if let Some(path) = &p.feed {
        s.from_feed = true;
        if !mux_given {
            s.mux = Kind::Epoll;
        }
        s.endpoints = feed::read(path, s.mode != Mode::Server)?;
        if s.threads > s.endpoints.len() {
            return Err(wrong(format!("--threads-num is {} for {} sockets", s.threads, s.endpoints.len())));
        }
        return Ok(());
    }
    let default = if s.mode == Mode::Server { "0.0.0.0" } else { "127.0.0.1" };
    let host = p.host.as_deref().unwrap_or(default);
    let mut address = resolve(host, p.port.unwrap_or(DEFAULT_PORT))?;
    if s.mode != Mode::Server && address.is_wildcard() {
        address = resolve(
            if address.family() == libc::AF_INET6 { "::1" } else { "127.0.0.1" },
            p.port.unwrap_or(DEFAULT_PORT),
        )?;
    }
    if p.tcp && address.is_multicast() {
        return Err(wrong(format!("{host} is a multicast group: TCP cannot use it")));
    }
    s.endpoints = vec![Endpoint { address, tcp: p.tcp, source: s.mc_source }];
    Ok(())
}

fn sizes(s: &Settings, p: &Pending) -> Result<()> {
    if s.mode == Mode::Server {
        return Ok(());
    }
    let limit = if p.tcp { MAX_STREAM } else { MAX_DATAGRAM };
    if s.msg_size > limit {
        return Err(wrong(format!(
            "-m {} is above the largest message of this transport ({limit})",
            s.msg_size
        )));
    }
    if s.msg_size + s.range > limit {
        return Err(wrong(format!(
            "-m {} -r {} goes above the largest message ({limit})",
            s.msg_size, s.range
        )));
    }
    if let (Some(client), Some(first)) = (&s.client_ip, s.endpoints.first())
        && client.family() != first.address.family()
    {
        return Err(wrong(format!(
            "--client_ip {client} and the server {} are of different families",
            first.address
        )));
    }
    Ok(())
}
