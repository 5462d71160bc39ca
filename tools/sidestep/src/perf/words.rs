//! What the two ends of a measurement tell each other: lines of fixed length, on the connection that is measured, so
//! that one port and one rule are enough.
//!
//! ```text
//!   client -> server   sidestep-perf 1 TEST REQUEST RESPONSE     first
//!   server -> client   ready RECEIVE_BUFFER SEND_BUFFER
//!   ... the test; the client ends its stream ...
//!   server -> client   done BYTES TRANSACTIONS PROCESSOR_NS
//! ```
//!
//! With a connection for each request the lines go by the first one, which stays open, and each other one begins with
//! [`NEXT`] as the first byte of its request, or is [`LAST`].

use super::connection::Stream;

/// Bytes of each line.
const LINE: usize = 128;
const GREETING: &str = "sidestep-perf 1";

/// The largest message that a client can ask for.
pub(super) const MESSAGE_MAX: u64 = 16 << 20;

/// First byte of each request that has a connection of its own.
pub(super) const NEXT: u8 = b'.';
/// No more of these.
pub(super) const LAST: u8 = b'!';

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    Stream,
    Requests,
    Connections,
}

impl Test {
    const ALL: [(Test, &'static str); 3] =
        [(Test::Stream, "stream"), (Test::Requests, "rr"), (Test::Connections, "crr")];

    pub(super) fn named(name: &str) -> Option<Test> {
        Test::ALL.into_iter().find(|(_, known)| *known == name).map(|(test, _)| test)
    }

    pub(super) fn name(self) -> &'static str {
        Test::ALL.into_iter().find(|(test, _)| *test == self).map_or("", |(_, name)| name)
    }
}

/// A measurement that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) test: Test,
    /// Bytes of a request, or of each send of a stream.
    pub(super) request: usize,
    pub(super) response: usize,
}

/// Buffers of the kernel's socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SocketSizes {
    pub(super) receive: u64,
    pub(super) send: u64,
}

/// What the server counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) bytes: u64,
    pub(super) transactions: u64,
    pub(super) processor_ns: u64,
}

pub(super) fn ask(stream: &mut Stream, asked: Asked) -> std::io::Result<()> {
    send(stream, format!("{GREETING} {} {} {}", asked.test.name(), asked.request, asked.response))
}

/// `begun`: bytes of the line that were read already.
pub(super) fn hear(stream: &mut Stream, begun: &[u8]) -> Result<Asked, String> {
    let line = receive(stream, begun).map_err(|error| error.to_string())?;
    let mut words = line.strip_prefix(GREETING).unwrap_or_default().split_whitespace();
    let test = words.next().and_then(Test::named);
    let mut size = |least: u64| {
        let size = words.next().and_then(|word| word.parse().ok());
        size.filter(|size| (least..=MESSAGE_MAX).contains(size)).map(|size: u64| size as usize)
    };
    let least = u64::from(test != Some(Test::Stream));
    match (test, size(1), size(least)) {
        (Some(test), Some(request), Some(response)) => Ok(Asked { test, request, response }),
        _ => Err(format!("a client that is no `sidestep perf` of this version said {:?}", line.trim_end())),
    }
}

pub(super) fn tell_ready(stream: &mut Stream, sizes: SocketSizes) -> std::io::Result<()> {
    send(stream, format!("ready {} {}", sizes.receive, sizes.send))
}

pub(super) fn hear_ready(stream: &mut Stream) -> Result<SocketSizes, String> {
    let [receive, send, _] = numbers(stream, "ready")?;
    Ok(SocketSizes { receive, send })
}

pub(super) fn tell_done(stream: &mut Stream, counted: Counted) -> std::io::Result<()> {
    send(stream, format!("done {} {} {}", counted.bytes, counted.transactions, counted.processor_ns))
}

pub(super) fn hear_done(stream: &mut Stream) -> Result<Counted, String> {
    let [bytes, transactions, processor_ns] = numbers(stream, "done")?;
    Ok(Counted { bytes, transactions, processor_ns })
}

fn send(stream: &mut Stream, text: String) -> std::io::Result<()> {
    let mut line = [b' '; LINE];
    let length = text.len().min(LINE);
    line[..length].copy_from_slice(&text.as_bytes()[..length]);
    stream.send(&line)
}

fn receive(stream: &mut Stream, begun: &[u8]) -> std::io::Result<String> {
    let mut line = [0; LINE];
    line[..begun.len()].copy_from_slice(begun);
    stream.receive(&mut line[begun.len()..])?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// The numbers behind a word; those that are not there are 0.
fn numbers(stream: &mut Stream, word: &str) -> Result<[u64; 3], String> {
    let line = receive(stream, &[]).map_err(|error| format!("the server does not answer: {error}"))?;
    let mut words = line.split_whitespace();
    if words.next() != Some(word) {
        return Err(format!(
            "a server that is no `sidestep perf` of this version said {:?}",
            line.trim_end()
        ));
    }
    Ok([(); 3].map(|()| words.next().and_then(|number| number.parse().ok()).unwrap_or(0)))
}
