//! Bulk: one side writes as fast as it can on several connections, the other reads and counts.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use rig::{Context, Result};

use super::{Epoll, NO_EVENT, check};

/// Takes `flows` connections and reads each to its end: prints the bytes, and the nanoseconds from the first of them to
/// the last.
pub(super) fn sink(address: SocketAddrV4, flows: usize) -> Result<()> {
    let listener = TcpListener::bind(address).context(address)?;
    println!("ready");
    let mut streams = Vec::new();
    let epoll = Epoll::new().context("epoll")?;
    for word in 0..flows {
        let stream = listener.accept().context("accept")?.0;
        stream.set_nonblocking(true).context("O_NONBLOCK")?;
        epoll.add(&stream, libc::EPOLLIN, word as u64).context("epoll_ctl")?;
        streams.push(Some(stream));
    }
    let mut buffer = vec![0; 1 << 18];
    let (mut bytes, mut open, mut events) = (0u64, flows, [NO_EVENT; 64]);
    let mut first: Option<Instant> = None;
    while open > 0 {
        for word in epoll.wait(&mut events, -1).context("epoll_wait")? {
            let Some(slot) = streams.get_mut(word as usize) else { continue };
            while let Some(stream) = slot {
                match stream.read(&mut buffer) {
                    Ok(0) => {
                        *slot = None;
                        open -= 1;
                    }
                    Ok(count) => {
                        first.get_or_insert_with(Instant::now);
                        bytes += count as u64;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error).context("read"),
                }
            }
        }
    }
    println!("bytes {bytes} ns {}", first.map_or(0, |first| first.elapsed().as_nanos()));
    Ok(())
}

/// Writes on `flows` connections, by CUBIC, until `milliseconds` have passed or (`mib` > 0) that much was written.
pub(super) fn source(address: SocketAddrV4, flows: usize, milliseconds: usize, mib: usize) -> Result<()> {
    let epoll = Epoll::new().context("epoll")?;
    let mut streams = Vec::new();
    for word in 0..flows {
        let stream = TcpStream::connect(address).context(address)?;
        use_cubic(&stream).context("TCP_CONGESTION")?;
        stream.set_nonblocking(true).context("O_NONBLOCK")?;
        epoll.add(&stream, libc::EPOLLOUT, word as u64).context("epoll_ctl")?;
        streams.push(stream);
    }
    let data = vec![0x5a; 1 << 17];
    let mut left = if mib > 0 { (mib as u64) << 20 } else { u64::MAX };
    let end = Instant::now() + Duration::from_millis(milliseconds as u64);
    let mut events = [NO_EVENT; 64];
    while left > 0 && (mib > 0 || Instant::now() < end) {
        for word in epoll.wait(&mut events, 100).context("epoll_wait")? {
            let now = left.min(data.len() as u64) as usize;
            match streams[word as usize].write(&data[..now]) {
                Ok(count) => left -= count as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context("write"),
            }
        }
    }
    for stream in &mut streams {
        stream.shutdown(Shutdown::Write).context("shutdown")?;
        stream.set_nonblocking(false).context("O_NONBLOCK")?;
    }
    for stream in &mut streams {
        // Until the peer has everything and closes.
        let _ = stream.read(&mut [0]);
    }
    Ok(())
}

fn use_cubic(stream: &TcpStream) -> std::io::Result<()> {
    const NAME: &[u8] = b"cubic";
    // SAFETY: the name and its length.
    check(unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            NAME.as_ptr().cast(),
            NAME.len() as u32,
        )
    })
    .map(|_| ())
}
