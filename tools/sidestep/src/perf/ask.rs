//! The end that measures.

use super::connection::{Address, Stream};
use super::figures::{End, Figures, Trips};
use super::times::Times;
use super::words::{self, Asked, LAST, NEXT, Test};
use std::io::Result;
use std::time::{Duration, Instant};

/// Bytes of a stream between two looks at the clock, so that short messages are not measured with it.
const LOOK_EVERY: usize = 1 << 16;

/// Measures for `seconds`.
pub(super) fn measure(
    to: &Address,
    asked: Asked,
    seconds: Duration,
    spins: bool,
) -> std::result::Result<Figures, String> {
    let text = |error: std::io::Error| format!("{to}: {error}");
    let mut stream = Stream::connect(to, spins).map_err(text)?;
    words::ask(&mut stream, asked).map_err(text)?;
    let remote_sizes = words::hear_ready(&mut stream)?;
    let (begun, used) = (Instant::now(), sys::clock::process_time());
    let end = begun + seconds;
    let mut times = Times::new();
    let measured = match asked.test {
        Test::Stream => send_until(&mut stream, asked, end),
        Test::Requests => ask_until(&mut stream, asked, end, &mut times),
        Test::Connections => connect_until(to, spins, asked, end, &mut times),
    };
    measured.and_then(|()| stream.end()).map_err(text)?;
    let counted = words::hear_done(&mut stream)?;
    let elapsed = begun.elapsed();
    let local = End { processor_ns: sys::clock::process_time() - used, sizes: stream.sizes() };
    if asked.test != Test::Stream && counted.transactions != times.count() {
        return Err(format!(
            "the server has seen {} requests of {}: bytes were lost, or another client was there",
            counted.transactions,
            times.count()
        ));
    }
    let answers = counted.transactions * asked.response as u64;
    let is_one_connection = asked.test != Test::Connections;
    Ok(Figures {
        asked,
        elapsed,
        bytes: counted.bytes,
        transactions: counted.transactions,
        local,
        remote: End { processor_ns: counted.processor_ns, sizes: remote_sizes },
        trips: (asked.test != Test::Stream).then(|| Trips::of(&times)),
        kernel_part: stream
            .carried_by_kernel()
            .filter(|_| is_one_connection && counted.bytes > 0)
            .map(|bytes| (bytes as f64 / (counted.bytes + answers) as f64).min(1.0)),
    })
}

fn send_until(stream: &mut Stream, asked: Asked, end: Instant) -> Result<()> {
    let message = vec![b's'; asked.request];
    while Instant::now() < end {
        for _ in 0..(LOOK_EVERY / message.len()).max(1) {
            stream.send(&message)?;
        }
    }
    Ok(())
}

fn ask_until(stream: &mut Stream, asked: Asked, end: Instant, times: &mut Times) -> Result<()> {
    let (request, mut response) = (vec![b'r'; asked.request], vec![0; asked.response]);
    let mut asked_at = Instant::now();
    while asked_at < end {
        stream.send(&request)?;
        stream.receive(&mut response)?;
        let now = Instant::now();
        times.add((now - asked_at).as_nanos() as u64);
        asked_at = now;
    }
    Ok(())
}

/// The server closes each connection first, so that no port of this side stays in TIME-WAIT.
fn connect_until(to: &Address, spins: bool, asked: Asked, end: Instant, times: &mut Times) -> Result<()> {
    let (request, mut response) = (vec![NEXT; asked.request], vec![0; asked.response]);
    let mut asked_at = Instant::now();
    while asked_at < end {
        let mut stream = Stream::connect(to, spins)?;
        stream.send(&request)?;
        stream.receive(&mut response)?;
        while stream.receive_some(&mut response)? > 0 {}
        drop(stream);
        let now = Instant::now();
        times.add((now - asked_at).as_nanos() as u64);
        asked_at = now;
    }
    Stream::connect(to, spins)?.send(&[LAST])
}
