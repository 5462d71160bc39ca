//! The machine without its card: TCP over loopback, and memory. Where these are slow, no card will be fast.

use super::{percentile, rounded};
use crate::host::facts::Loopback;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const EACH: Duration = Duration::from_millis(400);
const CHUNK: usize = 128 << 10;

pub(crate) fn measure() -> std::io::Result<Loopback> {
    let mut trips = round_trips()?;
    Ok(Loopback {
        round_trip_us: percentile(&mut trips, 50.0),
        round_trip_99_us: percentile(&mut trips, 99.0),
        stream_gbit: rounded(stream()?),
        memory_gib: rounded(memory()),
    })
}

/// A listener of loopback and a connection to it; `serve` has the other end in a thread of its own.
fn connection(serve: impl FnOnce(TcpStream) + Send + 'static) -> std::io::Result<TcpStream> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        if let Ok((peer, _)) = listener.accept() {
            serve(peer);
        }
    });
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A message of 64 bytes there and back, again and again.
fn round_trips() -> std::io::Result<Vec<Duration>> {
    let mut stream = connection(|mut peer| {
        let _ = peer.set_nodelay(true);
        let mut message = [0; 64];
        while peer.read_exact(&mut message).is_ok() && peer.write_all(&message).is_ok() {}
    })?;
    let (begun, mut trips, mut message) = (Instant::now(), Vec::new(), [0; 64]);
    while begun.elapsed() < EACH {
        let sent = Instant::now();
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        trips.push(sent.elapsed());
    }
    Ok(trips)
}

/// Gbit/s of one connection.
fn stream() -> std::io::Result<f64> {
    let mut stream = connection(|mut peer| {
        let chunk = vec![0; CHUNK];
        while peer.write_all(&chunk).is_ok() {}
    })?;
    let (begun, mut bytes, mut chunk) = (Instant::now(), 0, vec![0; CHUNK]);
    while begun.elapsed() < EACH {
        bytes += stream.read(&mut chunk)?;
    }
    Ok(bytes as f64 * 8.0 / begun.elapsed().as_secs_f64() / 1e9)
}

/// GiB/s that one processor copies, from memory that no cache holds.
fn memory() -> f64 {
    const SIZE: usize = 64 << 20;
    let (from, mut to) = (vec![1u8; SIZE], vec![0u8; SIZE]);
    // The first copy maps the pages.
    to.copy_from_slice(&from);
    let (begun, mut copies) = (Instant::now(), 0);
    while begun.elapsed() < EACH {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
        copies += 1;
    }
    copies as f64 * SIZE as f64 / begun.elapsed().as_secs_f64() / f64::from(1 << 30)
}
