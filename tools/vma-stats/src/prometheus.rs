//! `--prometheus ADDRESS`: serves the counters of all programs as Prometheus reads them (its text format 0.0.4), over
//! HTTP. Each request is answered from what the programs' files say at that moment; nothing is kept between requests.
//!
//! Anybody who reaches the port may ask, and nobody is believed: a request has a bound on its length and on its time,
//! and so many may be under way.

use crate::cli::Options;
use crate::{attach, print};
use stats::Kind;
use stats::report::{carrier, end, fd, has, interface, protocol, why};
use stats::{Column, Lane, Process, Snapshot, Socket, Verdict, Why, flag};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use vma_stats::Failure;

/// Requests under way at a time; further ones are closed.
const REQUESTS_MAX: usize = 16;
/// Bytes of a request.
const REQUEST_MAX: usize = 8192;
/// A whole exchange, however slow the other side is.
const PATIENCE: Duration = Duration::from_secs(5);
/// After an accept that failed, for want of descriptors say.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until it is ended.
pub(crate) fn serve(options: &Options, address: SocketAddr) -> Result<(), Failure> {
    let told = |error: std::io::Error| Failure::Told(format!("cannot serve at {address}: {error}"));
    let listener = TcpListener::bind(address).map_err(told)?;
    print(&format!("vmastat: serving http://{}/metrics\n", listener.local_addr().map_err(told)?))?;
    let options = Arc::new(options.clone());
    let under_way = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(PAUSE);
            continue;
        };
        if under_way.load(Ordering::Acquire) >= REQUESTS_MAX {
            continue;
        }
        under_way.fetch_add(1, Ordering::AcqRel);
        let (options, one) = (options.clone(), under_way.clone());
        let spawned = std::thread::Builder::new().spawn(move || {
            // Who asked and went away is nobody's trouble.
            let _ = answer(stream, &options);
            one.fetch_sub(1, Ordering::AcqRel);
        });
        if spawned.is_err() {
            under_way.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn answer(mut stream: TcpStream, options: &Options) -> std::io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let request = read(&mut stream, until)?;
    let line = request.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let path = match words.next() {
        Some(b"GET") => words.next().unwrap_or_default(),
        _ => return write(&mut stream, until, "405 Method Not Allowed", "only GET\n"),
    };
    match path.split(|byte| *byte == b'?').next() {
        Some(b"/metrics") => write(&mut stream, until, "200 OK", &metrics(&snapshots(options))),
        Some(b"/") => write(&mut stream, until, "200 OK", "the counters are at /metrics\n"),
        _ => write(&mut stream, until, "404 Not Found", "the counters are at /metrics\n"),
    }
}

/// What is left of an exchange's time; none is an error.
fn left(until: Instant) -> std::io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(std::io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The head of a request.
fn read(stream: &mut TcpStream, until: Instant) -> std::io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut chunk = [0; 1024];
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        stream.set_read_timeout(Some(left(until)?))?;
        match stream.read(&mut chunk)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            got => request.extend_from_slice(&chunk[..got]),
        }
        if request.len() > REQUEST_MAX {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
    }
    Ok(request)
}

fn write(stream: &mut TcpStream, until: Instant, status: &str, body: &str) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let bytes = [head.as_bytes(), body.as_bytes()].concat();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        let sent = stream.write(rest)?;
        rest = &rest[sent..];
    }
    Ok(())
}

fn snapshots(options: &Options) -> Vec<Snapshot> {
    let programs = attach::all(options).unwrap_or_default();
    programs.iter().filter_map(|program| program.look().ok()).collect()
}

/// Columns that describe a block stand in its labels.
const LABELS: [&str; 14] = [
    "interface",
    "name_low",
    "name_high",
    "fd",
    "generation",
    "flags",
    "why",
    "carrier",
    "verdict",
    "local",
    "remote",
    "inode",
    "lane",
    "tcp_state",
];

/// All families, each with its samples together, as the format demands.
fn metrics(snapshots: &[Snapshot]) -> String {
    let mut out = String::new();
    family(&mut out, "process", Process::COLUMNS, snapshots, |snapshot| {
        vec![(of(snapshot), snapshot.process.words())]
    });
    out += "# HELP sidestep_left_to_kernel_total Sockets left to the kernel, by reason.\n# TYPE sidestep_left_to_kernel_total counter\n";
    for snapshot in snapshots {
        for (why, count) in &snapshot.left {
            let labels = format!("{},reason={}", of(snapshot), quoted(why.name()));
            out += &format!("sidestep_left_to_kernel_total{{{labels}}} {count}\n");
        }
    }
    family(&mut out, "lane", Lane::COLUMNS, snapshots, |snapshot| {
        // Several lanes of an interface are several series.
        let labels = |number: usize, lane: &Lane| {
            format!("{},interface={},lane=\"{number}\"", of(snapshot), quoted(&interface(lane)))
        };
        snapshot.lanes.iter().map(|(number, lane)| (labels(*number, lane), lane.words())).collect()
    });
    family(&mut out, "socket", Socket::COLUMNS, snapshots, |snapshot| {
        snapshot.sockets.iter().map(|socket| (of_socket(snapshot, socket), socket.words())).collect()
    });
    out +=
        "# HELP sidestep_socket_info What carries a socket, and why: 1.\n# TYPE sidestep_socket_info gauge\n";
    for snapshot in snapshots {
        for socket in &snapshot.sockets {
            let labels = format!("{},{}", of_socket(snapshot, socket), state_of(socket));
            out += &format!("sidestep_socket_info{{{labels}}} 1\n");
        }
    }
    out
}

/// One family for each column of a kind of block.
fn family(
    out: &mut String,
    kind: &str,
    columns: &[Column],
    snapshots: &[Snapshot],
    blocks: impl Fn(&Snapshot) -> Vec<(String, Vec<u64>)>,
) {
    let blocks: Vec<(String, Vec<u64>)> = snapshots.iter().flat_map(blocks).collect();
    for (place, column) in columns.iter().enumerate().filter(|(_, column)| !LABELS.contains(&column.name)) {
        let (kind_of, end) = if column.kind == Kind::Count { ("counter", "_total") } else { ("gauge", "") };
        let name = format!("sidestep_{kind}_{}{end}", column.name);
        let help = column.doc.split_whitespace().collect::<Vec<_>>().join(" ").replace('\\', "\\\\");
        *out += &format!("# HELP {name} {help}\n# TYPE {name} {kind_of}\n");
        for (labels, words) in &blocks {
            *out += &format!("{name}{{{labels}}} {}\n", words.get(place).copied().unwrap_or(0));
        }
    }
}

fn of(snapshot: &Snapshot) -> String {
    format!("pid=\"{}\",program={}", snapshot.pid, quoted(&snapshot.program))
}

/// Which socket: what is the same for all of its life, so that a counter goes on when the socket moves.
fn of_socket(snapshot: &Snapshot, socket: &Socket) -> String {
    format!(
        "{},fd=\"{}\",protocol=\"{}\",local=\"{}\",remote=\"{}\"",
        of(snapshot),
        fd(socket),
        protocol(socket),
        end(socket.local.value()),
        end(socket.remote.value()),
    )
}

/// What changes with it.
fn state_of(socket: &Socket) -> String {
    let verdict = Verdict::from_number(socket.verdict.value()).unwrap_or(Verdict::Undecided);
    format!(
        "accelerated=\"{}\",why=\"{}\",carrier=\"{}\",verdict=\"{}\"",
        has(socket, flag::ACCELERATED),
        why(socket).map_or("", Why::name),
        carrier(socket).name().unwrap_or(""),
        verdict.name(),
    )
}

/// A label's value.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
