//! Debian's sockperf between two hosts, and what it printed as numbers.
//!
//! sockperf's own throughput figure is the rate of *sending*; the rate here is counted by the receiver
//! ([`Throughput::received`]), which prints its count when it ends on SIGINT.

use std::path::Path;
use std::time::Duration;

use crate::{Context, Error, Host, KernelCounters, Program, Protocol, Result, TwoHosts};

const PORT: u16 = 11111;
/// sockperf waits two seconds before it starts, whatever it is asked to do.
pub(crate) const SETTLE: Duration = Duration::from_secs(2);
/// For start and end of a process on a busy machine.
const GRACE: Duration = crate::PATIENCE;

/// The way one end's packets take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side<'a> {
    /// Blocking calls into the kernel.
    Kernel,
    /// Non-blocking calls into the kernel, in a loop.
    Spinning,
    /// Under the preload with this library.
    Accelerated(&'a Path),
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// UDP or TCP.
    pub protocol: Protocol,
    /// Message size in bytes, 14 at least.
    pub size: u32,
    /// Seconds that sockperf is asked to run; ping-pong uses the last but 0.45 of them.
    pub seconds: u32,
    /// The left host's way.
    pub client: Side<'a>,
    /// The right host's way.
    pub server: Side<'a>,
}

/// One-way latency (half a round trip) in microseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
    /// Mean.
    pub average: f64,
    /// Round trips that count.
    pub observations: u64,
    /// Round trips per second in the valid part of the run.
    pub rate: f64,
    /// Asked but not answered.
    pub dropped: u64,
    /// Answered twice.
    pub duplicated: u64,
}

/// One way, as fast as it goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Throughput {
    /// Messages that the client's calls accepted.
    pub sent: u64,
    /// Messages that the server's program received.
    pub received: u64,
    /// Seconds that the client was sending.
    pub seconds: f64,
}

impl Throughput {
    /// Messages per second, counted at the receiver.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.received as f64 / self.seconds } else { 0.0 }
    }
}

/// What the kernels of both hosts counted during a run.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    /// The left host's.
    pub client: KernelCounters,
    /// The right host's.
    pub server: KernelCounters,
}

impl Witness {
    /// Datagrams or segments that passed through the two kernels' transports.
    pub fn kernel_packets(&self) -> u64 {
        self.client.transport_packets() + self.server.transport_packets()
    }

    /// Packets that the two interfaces carried.
    pub fn wire_packets(&self) -> u64 {
        self.client.wire_packets() + self.server.wire_packets()
    }
}

/// Ping-pong: latency and what the kernels saw.
pub fn ping_pong(hosts: &TwoHosts, run: &Run<'_>) -> Result<(Latency, Witness)> {
    let (client, _, witness) = between(hosts, run, "ping-pong")?;
    Ok((Latency::read(&client)?, witness))
}

/// Throughput, counted at the receiver, and what the kernels saw.
pub fn throughput(hosts: &TwoHosts, run: &Run<'_>) -> Result<(Throughput, Witness)> {
    let (client, server, witness) = between(hosts, run, "throughput")?;
    Ok((parse_throughput(&client, &server)?, witness))
}

/// Runs server and client to their end; returns what they printed.
fn between(hosts: &TwoHosts, run: &Run<'_>, mode: &str) -> Result<(String, String, Witness)> {
    let before = (hosts.left.counters()?, hosts.right.counters()?);
    let address = hosts.right.address;
    let server = program(&hosts.right, run.server, run.protocol, &format!("server -i {address} -p {PORT}"));
    let words = format!("{mode} -i {address} -p {PORT} -m {} -t {}", run.size, run.seconds);
    let client = program(&hosts.left, run.client, run.protocol, &words);
    let mut server = server.start()?;
    server.wait_for_port(run.protocol, PORT, GRACE)?;
    let length = Duration::from_secs(run.seconds.into());
    let client = client.run(SETTLE + length + GRACE)?.success()?;
    // The client's end reaches the server as a closed stream, upon which a TCP server ends by itself.
    let _ = server.signal(libc::SIGINT);
    let server = server.finish(GRACE)?;
    let witness = Witness {
        client: hosts.left.counters()?.since(&before.0),
        server: hosts.right.counters()?.since(&before.1),
    };
    Ok((client.stdout, server.stdout, witness))
}

fn program(host: &Host, side: Side<'_>, protocol: Protocol, words: &str) -> Program {
    let program = host.program("sockperf").words(words);
    let program = if protocol == Protocol::Tcp { program.argument("--tcp") } else { program };
    match side {
        Side::Kernel => program,
        Side::Spinning => program.argument("--nonblocked"),
        Side::Accelerated(library) => program.preload(Some(library)),
    }
}

impl Latency {
    /// Of a ping-pong: what the client printed.
    pub fn read(text: &str) -> Result<Latency> {
        if text.contains("No messages were received") {
            return Err(Error::new("sockperf: no message came back from the server"));
        }
        let valid = after(text, "[Valid Duration]").ok_or_else(|| missing("valid duration", text))?;
        let seconds = number(valid, "RunTime=")?;
        let observations = number(valid, "ReceivedMessages=")? as u64;
        let percentile = |label: &str| number(text, &format!("percentile {label} ="));
        Ok(Latency {
            p50: percentile("50.000")?,
            p99: percentile("99.000")?,
            p999: percentile("99.900").or_else(|_| number(text, "<MAX> observation ="))?,
            max: number(text, "<MAX> observation =")?,
            average: number(text, "avg-latency=")?,
            observations,
            rate: if seconds > 0.0 { observations as f64 / seconds } else { 0.0 },
            dropped: number(text, "# dropped messages =")? as u64,
            duplicated: number(text, "# duplicated messages =")? as u64,
        })
    }
}

fn parse_throughput(client: &str, server: &str) -> Result<Throughput> {
    let sent = number(client, "Total of")? as u64;
    let seconds = number(client, "messages sent in")?;
    let received = if server.contains("No messages were received") { 0.0 } else { number(server, "Total")? };
    Ok(Throughput { sent, received: received as u64, seconds })
}

/// The number that follows `label`.
fn number(text: &str, label: &str) -> Result<f64> {
    let rest = after(text, label).ok_or_else(|| missing(label, text))?.trim_start();
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    rest[..end].parse().context(format_args!("sockperf: the number after {label:?}"))
}

fn after<'t>(text: &'t str, label: &str) -> Option<&'t str> {
    text.find(label).map(|at| &text[at + label.len()..])
}

fn missing(label: &str, text: &str) -> Error {
    Error::new(format!("sockperf: no {label:?} in its output:\n{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING_PONG: &str = "\
sockperf: [Total Run] RunTime=1.000 sec; Warm up time=400 msec; SentMessages=65051; ReceivedMessages=65050
sockperf: [Valid Duration] RunTime=0.500 sec; SentMessages=35392; ReceivedMessages=35000
sockperf: \x1b[2;35m====> avg-latency=7.737 (std-dev=4.762)\x1b[0m
sockperf: # dropped messages = 3; # duplicated messages = 0; # out-of-order messages = 0
sockperf: ---> <MAX> observation =  698.976
sockperf: ---> percentile 99.900 =   19.399
sockperf: ---> percentile 99.000 =   12.661
sockperf: ---> percentile 50.000 =    7.507
";

    #[test]
    fn ping_pong_report_is_read() {
        let latency = Latency::read(PING_PONG).unwrap();
        assert_eq!((latency.p50, latency.p99, latency.p999), (7.507, 12.661, 19.399));
        assert_eq!((latency.observations, latency.dropped), (35000, 3));
        assert_eq!(latency.rate, 70000.0);
    }

    #[test]
    fn too_few_observations_for_a_percentile_fall_back_to_the_maximum() {
        let text = PING_PONG.replace("percentile 99.900", "percentile 99.999");
        assert_eq!(Latency::read(&text).unwrap().p999, 698.976);
    }

    #[test]
    fn silence_from_the_server_is_an_error_not_a_zero() {
        assert!(
            Latency::read("sockperf: No messages were received from the server. Is the server down?")
                .is_err()
        );
    }

    #[test]
    fn throughput_is_counted_at_the_receiver() {
        let client = "sockperf: Total of 1000 messages sent in 2.000 sec\n";
        let server =
            "sockperf: Test end (interrupted by user)\nsockperf: Total 600 messages received and handled\n";
        let result = parse_throughput(client, server).unwrap();
        assert_eq!((result.sent, result.received, result.rate()), (1000, 600, 300.0));
        assert_eq!(parse_throughput(client, "No messages were received on the server.").unwrap().received, 0);
    }
}
