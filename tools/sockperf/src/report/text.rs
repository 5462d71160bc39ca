//! The text on the screen. Lines of the original are kept letter for letter, because scripts read them; what we
//! add stands in lines of its own that no known script's pattern matches.

use std::fmt::Write;

use crate::client::{Distribution, Outcome};
use crate::clock::Rate;
use crate::histogram::Histogram;
use crate::message::HEADER;
use crate::report::{alarm, bright, say};
use crate::settings::{Bins, Endpoint, Mode, Pace, Settings, Span};
use crate::statistics;

/// Percentiles of the original's list.
pub const PERCENTILES: [f64; 8] = [99.999, 99.99, 99.9, 99.0, 90.0, 75.0, 50.0, 25.0];

/// The version line every run begins with.
pub fn version_line() -> String {
    format!("sockperf: {}", bright(&format!("== version #{} == ", env!("CARGO_PKG_VERSION"))))
}

/// One line of the banner's address list.
pub fn endpoint_line(index: usize, endpoint: &Endpoint) -> String {
    let protocol = if endpoint.tcp { "TCP" } else { "UDP" };
    match endpoint.address.ip() {
        Some(ip) => {
            format!("[{index:2}] IP = {:<15} PORT = {:>5} # {protocol}", ip.ip().to_string(), ip.port())
        }
        None => format!("[{index:2}] ADDR = {} # {protocol}", endpoint.address),
    }
}

/// The lines between the test and its numbers.
pub fn ending(s: &Settings, outcome: &Outcome) {
    if outcome.interrupted {
        say("sockperf: Test end (interrupted by user)");
    } else if let Span::Messages(_) = s.span {
        say("sockperf: Test end (reached packet number)");
    } else if s.mode != Mode::Playback {
        say("sockperf: Test end (interrupted by timer)");
    }
    say("sockperf: Test ended");
}

/// Prints one outcome; `true` when the test was valid.
pub fn print(s: &Settings, o: &Outcome) -> bool {
    if s.mode == Mode::Throughput {
        throughput(s, o);
        return o.sent > 0;
    }
    if s.mode == Mode::UnderLoad && o.sent < s.reply_every {
        say("sockperf: No messages were received from the server. Is the server down?");
        say(&format!(
            "sockperf: [Answers] none was asked for: {} messages, --reply-every {}",
            o.sent, s.reply_every
        ));
        return true;
    }
    let (lines, valid) = latency_lines(s, o);
    lines.iter().for_each(|line| say(line));
    if valid {
        schedule(s, o).iter().for_each(|line| say(line));
    }
    if let Some(bins) = s.bins.filter(|_| valid) {
        for server in &o.servers {
            histogram_lines(&server.plain, o.rate, factor(s), bins).iter().for_each(|line| say(line));
        }
    }
    extras(s, o);
    valid
}

/// Ticks of a round trip to the microseconds shown.
pub fn factor(s: &Settings) -> f64 {
    if s.full_rtt { 1.0 } else { 0.5 }
}

/// The statistics as the original prints them; also part of the full log.
pub fn latency_lines(s: &Settings, o: &Outcome) -> (Vec<String>, bool) {
    let mut lines = Vec::new();
    if o.received == 0 {
        lines.push(String::from("sockperf: No messages were received from the server. Is the server down?"));
        return (lines, false);
    }
    let skipped = if o.skipped > 0 { format!("; SkippedMessages={}", o.skipped) } else { String::new() };
    let warm_up = match s.span {
        Span::Messages(_) => String::from("Warm up packets=8000"),
        Span::Seconds(_) => String::from("Warm up time=400 msec"),
    };
    lines.push(format!(
        "sockperf: [Total Run] RunTime={:.3} sec; {warm_up}; SentMessages={}; ReceivedMessages={}{skipped}",
        o.rate.sec(o.total_ticks),
        o.sent,
        o.received
    ));
    if o.received_valid == 0 {
        lines.push(String::from(
            "sockperf: No valid observations found. Try tune parameters: --time/--mps/--reply-every",
        ));
        return (lines, false);
    }
    for (index, server) in o.servers.iter().enumerate() {
        one_server(s, o, index, server, &mut lines);
    }
    (lines, true)
}

fn one_server(s: &Settings, o: &Outcome, index: usize, server: &Distribution, lines: &mut Vec<String>) {
    let us = |ticks: f64| ticks * 1e6 / o.rate.per_sec * factor(s);
    let of = |ticks: u64| us(ticks as f64);
    let h = &server.plain;
    lines.push(format!("sockperf: ========= Printing statistics for Server No: {index}"));
    lines.push(format!(
        "sockperf: [Valid Duration] RunTime={:.3} sec; SentMessages={}; ReceivedMessages={}",
        o.rate.sec(o.valid_ticks),
        o.sent_valid,
        server.received
    ));
    let (word, summary) = if s.full_rtt { ("rtt", "Round trip") } else { ("latency", "Latency") };
    let (mean, deviation) = (us(h.mean()), us(h.deviation()));
    let more = s.confidence.map_or_else(String::new, |level| later_statistics(h, level, &us));
    lines.push(format!(
        "sockperf: {}",
        bright(&format!("====> avg-{word}={mean:.3} (std-dev={deviation:.3}{more})"))
    ));
    let counted = |what: &str, n: u64| {
        let text = format!("# {what} messages = {n}");
        if n > 0 { alarm(&text) } else { text }
    };
    lines.push(format!(
        "sockperf: {}; {}; {}",
        counted("dropped", server.dropped),
        counted("duplicated", server.duplicates),
        counted("out-of-order", server.out_of_order)
    ));
    let burst = if s.burst > 1 { format!(" of burst of {} messages", s.burst) } else { String::new() };
    lines.push(format!("sockperf: Summary: {summary}{burst} is {mean:.3} usec"));
    lines.push(format!(
        "sockperf: {}; each percentile contains {:.2} observations",
        bright(&format!("Total {} observations", h.len())),
        h.len() as f64 / 100.0
    ));
    lines.push(format!("sockperf: ---> <MAX> observation = {:8.3}", of(h.max())));
    for p in PERCENTILES {
        if let Some(value) = h.percentile(p) {
            lines.push(format!("sockperf: ---> percentile {p:6.3} = {:8.3}", of(value)));
        }
    }
    lines.push(format!("sockperf: ---> <MIN> observation = {:8.3}", of(h.min())));
}

fn later_statistics(h: &Histogram, level: u32, us: &dyn Fn(f64) -> f64) -> String {
    let (mean_ad, median_ad) = h.absolute_deviations();
    let quartile = |p| h.percentile(p).unwrap_or(0) as f64;
    let siqr = (quartile(75.0) - quartile(25.0)) / 2.0;
    let cv = if h.mean() > 0.0 { h.deviation() / h.mean() } else { 0.0 };
    let error = h.deviation() / (h.len().max(1) as f64).sqrt();
    let half = statistics::normal_quantile(f64::from(level) / 100.0) * error;
    format!(
        ", mean-ad={:.3}, median-ad={:.3}, siqr={:.3}, cv={cv:.3}, std-error={:.3}, {:.1}% ci=[{:.3}, {:.3}]",
        us(mean_ad),
        us(median_ad),
        us(siqr),
        us(error),
        f64::from(level),
        us(h.mean() - half),
        us(h.mean() + half)
    )
}

/// Percentiles from the moment the schedule named, with losses counted in.
fn schedule(s: &Settings, o: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    for server in &o.servers {
        let Some(h) = &server.schedule else { continue };
        let us = |ticks: u64| o.rate.us(ticks) * factor(s);
        let mut line = String::from("sockperf: [By schedule]");
        for p in [50.0, 90.0, 99.0, 99.9, 99.99] {
            if let Some(value) = h.percentile(p) {
                let _ = write!(line, " p{p}={:.3}", us(value));
            }
        }
        let _ = write!(line, " max={:.3} usec; sends over 50 usec late: {}", us(h.max()), o.late_sends);
        if server.dropped > 0 {
            let _ = write!(line, "; {} lost messages counted at their age", server.dropped);
        }
        lines.push(line);
    }
    lines
}

fn extras(s: &Settings, o: &Outcome) {
    if o.late_answers + o.stray > 0 {
        say(&format!(
            "sockperf: [Arrivals] late answers (in the statistics): {}; strays and malformed (ignored): {}",
            o.late_answers, o.stray
        ));
    }
    cost(o);
    if s.debug {
        say(&format!(
            "sockperf: +INFO: clock {:.6} MHz over the run; pacing used a rate {:+.3} ppm off",
            o.rate.per_sec / 1e6,
            o.drift_ppm
        ));
    }
}

fn cost(o: &Outcome) {
    let per = |us: u64, n: u64| us as f64 / n.max(1) as f64;
    let mut line = format!(
        "sockperf: [CPU] client {:.3} usec/msg (user {:.0}%, system {:.0}%)",
        per(o.cpu.total_us(), o.sent),
        o.cpu.user_us as f64 / 1e4 / o.rate.sec(o.total_ticks).max(1e-9),
        o.cpu.system_us as f64 / 1e4 / o.rate.sec(o.total_ticks).max(1e-9)
    );
    match &o.peer {
        Some(peer) => {
            let _ = write!(line, "; server {:.3} usec/msg", per(peer.cpu.total_us(), peer.messages));
        }
        None => line.push_str("; server unknown (the peer does not tell)"),
    }
    say(&line);
}

fn throughput(s: &Settings, o: &Outcome) {
    let seconds = o.rate.sec(o.total_ticks).max(1e-9);
    let skipped = if o.skipped > 0 { format!("; {} skipped", o.skipped) } else { String::new() };
    say(&format!("sockperf: Total of {} messages sent in {seconds:.3} sec{skipped}\n", o.sent));
    const PAYLOAD_OF_A_FRAME: usize = 1472;
    let size = s.msg_size;
    if s.pace != Pace::Max || size != PAYLOAD_OF_A_FRAME {
        let note = if let Pace::PerSecond(mps) = s.pace {
            format!(
                "NOTE: test was performed, using msg-size={size}, mps={mps}. For getting maximum throughput use --mps=max (and consider --msg-size=1472 or --msg-size=4096)"
            )
        } else {
            format!(
                "NOTE: test was performed, using msg-size={size}. For getting maximum throughput consider using --msg-size=1472"
            )
        };
        say(&format!("sockperf: {}", bright(&note)));
    }
    let rate = o.sent as f64 / seconds;
    let fragments = size.div_ceil(PAYLOAD_OF_A_FRAME);
    let mut line = format!("sockperf: Summary: Message Rate is {rate:.0} [msg/sec]");
    if fragments > 1 {
        let _ = write!(
            line,
            ", Packet Rate is about {:.0} [pkt/sec] ({fragments} ip frags / msg)",
            rate.floor() * fragments as f64
        );
    }
    say(&line);
    let megabytes = o.bytes as f64 / seconds / 1024.0 / 1024.0;
    let digits = if s.precise { 9 } else { 3 };
    if s.giga {
        say(&format!(
            "sockperf: Summary: BandWidth is {:.digits$} GBps ({:.digits$} Gbps)",
            megabytes / 1000.0,
            megabytes * 8.0 / 1000.0
        ));
    } else {
        say(&format!(
            "sockperf: Summary: BandWidth is {megabytes:.digits$} MBps ({:.digits$} Mbps)",
            megabytes * 8.0
        ));
    }
    delivered(o, seconds);
    cost(o);
}

fn delivered(o: &Outcome, seconds: f64) {
    let si = |bytes: u64| bytes as f64 * 8.0 / seconds / 1e6;
    let Some(peer) = &o.peer else {
        say(&format!(
            "sockperf: [Offered] {:.3} Mbit/s (10^6) were sent; what arrived is unknown: the peer does not tell",
            si(o.bytes)
        ));
        return;
    };
    let share = peer.messages as f64 * 100.0 / o.sent.max(1) as f64;
    let whose = if peer.whole_server { " (all clients of the server)" } else { "" };
    let text = format!(
        "[Delivered] {} of {} messages ({share:.2}%){whose}: {:.0} msg/s, {:.3} Mbit/s (10^6)",
        peer.messages,
        o.sent,
        peer.messages as f64 / seconds,
        si(peer.bytes)
    );
    say(&format!("sockperf: {}", if peer.messages < o.sent { alarm(&text) } else { text }));
}

/// The text histogram of the later versions.
fn histogram_lines(h: &Histogram, rate: Rate, factor: f64, bins: Bins) -> Vec<String> {
    let rows = binned(h, rate, factor, bins);
    let most = rows.iter().map(|r| r.2).max().unwrap_or(0);
    const WIDTH: u64 = 60;
    let scale = most.div_ceil(WIDTH).max(1);
    let mut lines = vec![if scale == 1 {
        String::from("sockperf: [Histogram] Display to scale")
    } else {
        format!("sockperf: [Histogram] Display scaled to fit on screen (Key: '#' = up to {scale} samples)")
    }];
    lines.push(String::from("sockperf: bins (usec)  frequency"));
    for (label, outlier, count) in rows {
        let bar = "#".repeat(count.div_ceil(scale) as usize);
        let row = format!("{label:>14}  {count:>9} {bar}");
        lines.push(if outlier { bright(&format!("{row} (outliers)")) } else { row });
    }
    lines
}

/// Non-empty bins: label, whether it is beyond the range, count.
pub fn binned(h: &Histogram, rate: Rate, factor: f64, bins: Bins) -> Vec<(String, bool, u64)> {
    let mut rows: std::collections::BTreeMap<(u8, u64), u64> = std::collections::BTreeMap::new();
    for bucket in h.buckets() {
        let us = rate.us(bucket.low.midpoint(bucket.high)) * factor;
        let key = if us < f64::from(bins.low) {
            (0, 0)
        } else if us >= f64::from(bins.high) {
            (2, 0)
        } else {
            (1, ((us - f64::from(bins.low)) / f64::from(bins.size)) as u64)
        };
        *rows.entry(key).or_default() += bucket.count;
    }
    let edge = |n: u64| u64::from(bins.low) + n * u64::from(bins.size);
    rows.into_iter()
        .map(|((side, n), count)| match side {
            0 => (format!("<{}", bins.low), true, count),
            1 => (format!("{}-{}", edge(n), edge(n + 1).min(bins.high.into())), false, count),
            _ => (format!(">={}", bins.high), true, count),
        })
        .collect()
}

/// The parameter line of the full log.
pub fn parameters(s: &Settings) -> String {
    let mps = match s.pace {
        Pace::Max => String::from("max"),
        Pace::PerSecond(rate) => rate.to_string(),
    };
    let span = match s.span {
        Span::Seconds(seconds) => format!("--time={seconds}"),
        Span::Messages(n) => format!("--number-of-packets={n}"),
    };
    format!(
        "test was performed using the following parameters: --mps={mps} --burst={} --reply-every={} --msg-size={} {span}{}",
        s.burst,
        s.reply_every,
        s.msg_size.max(HEADER),
        if s.full_rtt { " --full-rtt" } else { "" }
    )
}
