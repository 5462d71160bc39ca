//! Reads a connection out of the kernel's socket by TCP_REPAIR, which sends nothing and changes nothing.
//!
//! The send queue is chosen last, and stays chosen. While it is, the kernel sends nothing new, though its softirqs (TCP
//! small queues, timers) go on: else it could send what was read out as unsent, and no acknowledgment of that would
//! ever be accepted by who goes on with the connection.
//!
//! What TCP_REPAIR cannot tell keeps a connection in the kernel, where it could matter: urgent data, ends that are
//! under way, options of the socket that have no form here.

use super::to_wire::Refusal;
use libc::{IPPROTO_IP, IPPROTO_TCP, SOL_SOCKET, c_int};
use stack::tcp::{Congestion, Handover, Options, Pace, State};
use stack::{Duration, Endpoint, Instant};
use stats::Verdict;
use sys::linux::{
    SIOCATMARK, SIOCOUTQNSD, SO_BUF_LOCK, TCP_NOTSENT_LOWAT, TCP_RECV_QUEUE, TCP_REPAIR_WINDOW,
    TCP_SEND_QUEUE,
};
use sys::socket::{option, receive, set_option};

/// The first bytes of struct tcp_info, as far as kernels from 4.6 on have them (include/uapi/linux/tcp.h).
const INFO_LEN: usize = 152;
/// TCPI_OPT_*.
const OPT_TIMESTAMPS: u8 = 1;
const OPT_SACK: u8 = 2;
const OPT_WSCALE: u8 = 4;
const OPT_ECN: u8 = 8;
const OPT_USEC_TS: u8 = 64;
/// tcp_info says this where there is no slow start threshold yet.
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;
/// Timestamps and padding in each header.
const TIMESTAMPS_LEN: u16 = 12;

/// The connection behind `fd`, which is in repair mode.
pub(super) fn read_out(fd: c_int, local: Endpoint, remote: Endpoint) -> Result<Handover, Refusal> {
    let info: [u8; INFO_LEN] = option(fd, IPPROTO_TCP, libc::TCP_INFO, [0; INFO_LEN])?;
    let word = |at: usize| u32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
    let state = match info[0] {
        1 => State::Established,
        8 => State::CloseWait,
        _ => return Err(Refusal::Never(Verdict::NotEstablished)),
    };
    let agreed = info[5];
    if agreed & OPT_USEC_TS != 0 {
        return Err(Refusal::Never(Verdict::MicrosecondClock));
    }
    // Before the kernel's clock is asked: see Handover.
    let asked_at = Instant(sys::clock::now());
    let timestamp = match agreed & OPT_TIMESTAMPS {
        0 => None,
        // The lowest bit is a flag, so the number may be one less than the last one that was sent.
        _ => Some((option(fd, IPPROTO_TCP, libc::TCP_TIMESTAMP, 0u32)?.wrapping_add(1), asked_at)),
    };
    let (receive_seq, unread) = unread(fd, state)?;
    let (send_seq, sent, unsent) = unacknowledged(fd)?;
    // snd_wl1, snd_wnd, max_window, rcv_wnd, rcv_wup.
    let [send_wl1, send_window, send_window_max, receive_window, acknowledged] =
        option(fd, IPPROTO_TCP, TCP_REPAIR_WINDOW, [0u32; 5])?;
    let next = receive_seq.wrapping_add(unread.len() as u32 + u32::from(state == State::CloseWait));
    let segment = word(16).max(1);
    Ok(Handover {
        local,
        remote,
        state,
        send_seq,
        sent,
        sent_at: None,
        unsent,
        receive_seq,
        unread,
        send_window,
        send_wl1,
        send_window_max,
        receive_window: receive_window.saturating_sub(next.wrapping_sub(acknowledged)),
        acknowledged,
        mss: option(fd, IPPROTO_TCP, libc::TCP_MAXSEG, 0 as c_int)?.clamp(88, 65_535) as u16,
        advertised_mss: (word(84).min(65_000) as u16).saturating_add(if timestamp.is_some() {
            TIMESTAMPS_LEN
        } else {
            0
        }),
        scales: (agreed & OPT_WSCALE != 0).then_some((info[6] & 15, info[6] >> 4)),
        sack: agreed & OPT_SACK != 0,
        fin_sent: false,
        timestamp,
        timestamp_recent: None,
        ecn: agreed & OPT_ECN != 0,
        read_shut: false,
        pace: (word(68) > 0).then(|| Pace {
            window: word(80).saturating_mul(segment),
            threshold: match word(76) {
                INFINITE_SSTHRESH.. => u32::MAX,
                segments => segments.saturating_mul(segment),
            },
            srtt: Duration::from_micros(u64::from(word(68))),
            rttvar: Duration::from_micros(u64::from(word(72))),
            // All ones, if it was never measured.
            least: Duration::from_micros(u64::from(word(148))),
        }),
    })
}

/// The number behind the last byte that came in order, and the peer's FIN: changes when the kernel takes something in.
pub(super) fn received(fd: c_int) -> sys::Result<u32> {
    choose_queue(fd, TCP_RECV_QUEUE)?;
    option(fd, IPPROTO_TCP, libc::TCP_QUEUE_SEQ, 0u32)
}

/// What waits to be read, and the number of its first byte.
fn unread(fd: c_int, state: State) -> Result<(u32, Vec<u8>), Refusal> {
    let next = received(fd)?;
    // In line, all of it counts, and a mark shows.
    let inline = option(fd, SOL_SOCKET, libc::SO_OOBINLINE, 0 as c_int)?;
    if inline == 0 {
        set_option(fd, SOL_SOCKET, libc::SO_OOBINLINE, &(1 as c_int))?;
    }
    let shown = shown(fd);
    if inline == 0 {
        set_option(fd, SOL_SOCKET, libc::SO_OOBINLINE, &(0 as c_int))?;
    }
    let bytes = shown?;
    // A segment may have passed the filter before that was there.
    if received(fd)? != next {
        return Err(Refusal::Later(Verdict::Changing));
    }
    let end = next.wrapping_sub(u32::from(state == State::CloseWait));
    Ok((end.wrapping_sub(bytes.len() as u32), bytes))
}

fn shown(fd: c_int) -> Result<Vec<u8>, Refusal> {
    let queued = sys::socket::ask(fd, libc::FIONREAD as u32)? as usize;
    let bytes = peek(fd, queued)?;
    if bytes.len() != queued || sys::socket::ask(fd, SIOCATMARK)? != 0 {
        return Err(Refusal::Later(Verdict::Urgent));
    }
    Ok(bytes)
}

/// The number of the first byte that is not acknowledged; what was sent, and what was not.
fn unacknowledged(fd: c_int) -> Result<(u32, Vec<u8>, Vec<u8>), Refusal> {
    choose_queue(fd, TCP_SEND_QUEUE)?;
    let end = option(fd, IPPROTO_TCP, libc::TCP_QUEUE_SEQ, 0u32)?;
    let queued = sys::socket::ask(fd, libc::TIOCOUTQ as u32)? as usize;
    let not_sent = sys::socket::ask(fd, SIOCOUTQNSD)? as usize;
    let mut sent = vec![0; queued];
    let shown = peek_into(fd, &mut sent)?;
    if let Some(acknowledged) = shown.checked_sub(queued).filter(|bytes| *bytes > 0) {
        // The kernel shows the first of its pieces from its beginning, though a part of it may be acknowledged, counts
        // what there was no room for, too, and calls that no error.
        sent = vec![0; shown];
        if peek_into(fd, &mut sent)? != shown {
            return Err(Refusal::Later(Verdict::Changing));
        }
        sent.drain(..acknowledged);
    }
    if shown < queued || not_sent > queued {
        return Err(Refusal::Later(Verdict::Changing));
    }
    let unsent = sent.split_off(queued - not_sent);
    Ok((end.wrapping_sub(queued as u32), sent, unsent))
}

fn peek(fd: c_int, len: usize) -> Result<Vec<u8>, Refusal> {
    let mut bytes = vec![0; len];
    let got = peek_into(fd, &mut bytes)?;
    bytes.truncate(got);
    Ok(bytes)
}

/// How much there is, which may be more than there is room for.
fn peek_into(fd: c_int, bytes: &mut [u8]) -> Result<usize, Refusal> {
    if bytes.is_empty() {
        return Ok(0);
    }
    Ok(receive(fd, bytes, libc::MSG_PEEK | libc::MSG_DONTWAIT)?)
}

fn choose_queue(fd: c_int, queue: c_int) -> sys::Result<()> {
    set_option(fd, IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, &queue)
}

/// The options of the kernel's socket that the engine has a form for, in its form. A value that the kernel chose by
/// itself leaves what `from` says.
pub(super) fn options(fd: c_int, from: &Options) -> sys::Result<Options> {
    let of = |level: c_int, name: c_int| option(fd, level, name, 0 as c_int);
    let tcp = |name: c_int| of(IPPROTO_TCP, name);
    let seconds = |name: c_int| tcp(name).map(|value| Duration::from_secs(value.max(0) as u64));
    let locks = of(SOL_SOCKET, SO_BUF_LOCK).unwrap_or(0);
    // The kernel doubles what it was asked.
    let asked = |lock: c_int, name: c_int| match locks & lock {
        0 => Ok(None),
        _ => of(SOL_SOCKET, name).map(|size| Some((size.max(0) as u32) / 2)),
    };
    let name: [u8; 16] = option(fd, IPPROTO_TCP, libc::TCP_CONGESTION, [0; 16])?;
    Ok(Options {
        nodelay: tcp(libc::TCP_NODELAY)? != 0,
        cork: tcp(libc::TCP_CORK)? != 0,
        keepalive: of(SOL_SOCKET, libc::SO_KEEPALIVE)? != 0,
        keepalive_idle: seconds(libc::TCP_KEEPIDLE)?,
        keepalive_interval: seconds(libc::TCP_KEEPINTVL)?,
        keepalive_count: tcp(libc::TCP_KEEPCNT)? as u8,
        user_timeout: Duration::from_millis(tcp(libc::TCP_USER_TIMEOUT)?.max(0) as u64),
        send_buffer: asked(1, libc::SO_SNDBUF)?,
        receive_buffer: asked(2, libc::SO_RCVBUF)?,
        receive_low_water: of(SOL_SOCKET, libc::SO_RCVLOWAT)?.max(1) as u32,
        not_sent_low_water: match tcp(TCP_NOTSENT_LOWAT)? {
            0 => from.not_sent_low_water,
            set => set as u32,
        },
        max_pacing_rate: match option(fd, SOL_SOCKET, libc::SO_MAX_PACING_RATE, u64::MAX)? {
            u64::MAX => 0,
            rate => rate,
        },
        congestion: match name.split(|byte| *byte == 0).next() {
            Some(b"reno") => Congestion::NewReno,
            _ => from.congestion,
        },
        urgent_inline: of(SOL_SOCKET, libc::SO_OOBINLINE)? != 0,
        tos: of(IPPROTO_IP, libc::IP_TOS)? as u8,
        ttl: of(IPPROTO_IP, libc::IP_TTL)? as u8,
        discover_mtu: of(IPPROTO_IP, libc::IP_MTU_DISCOVER)? != libc::IP_PMTUDISC_DONT,
        ..from.clone()
    })
}
