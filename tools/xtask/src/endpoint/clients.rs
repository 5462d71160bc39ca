//! Many clients in one process: connections from several addresses, and requests over them.

use std::io::{self, BufRead, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::FromRawFd;
use std::time::{Duration, Instant};

use rig::{Context, Error, Result};

use super::{Epoll, NO_EVENT, check};

/// Connects under way at a time: less than the backlog of std's listeners, 128.
const AT_ONCE: usize = 50;

/// Opens `count` connections from `sources` addresses (this interface's, counted up from 10.77.1.10), has each answered
/// once, then for each line on standard input makes that many requests over random connections, `burst` at a time.
pub(super) fn run(server: SocketAddrV4, count: usize, sources: usize, burst: usize) -> Result<()> {
    let began = Instant::now();
    let mut streams = Vec::with_capacity(count);
    while streams.len() < count {
        let some = AT_ONCE.min(count - streams.len());
        connect_some(server, some, sources, &mut streams)?;
    }
    println!("connected {} ns", began.elapsed().as_nanos());
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    for first in (0..count).step_by(AT_ONCE) {
        let chosen: Vec<usize> = (first..count.min(first + AT_ONCE)).collect();
        request(&mut streams, &chosen)?;
    }
    println!("served {count}");
    for line in io::stdin().lock().lines() {
        let requests: usize = line.context("stdin")?.trim().parse().context("a number of requests")?;
        let began = Instant::now();
        for _ in 0..requests / burst {
            let mut chosen = Vec::with_capacity(burst);
            while chosen.len() < burst.min(count) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let one = (random % count as u64) as usize;
                if !chosen.contains(&one) {
                    chosen.push(one);
                }
            }
            request(&mut streams, &chosen)?;
        }
        println!("answered {requests} ns {}", began.elapsed().as_nanos());
    }
    Ok(())
}

/// Sends a request on each of the chosen, then takes the answers.
fn request(streams: &mut [TcpStream], chosen: &[usize]) -> Result<()> {
    let mut buffer = [0; 64];
    for &index in chosen {
        buffer[..8].copy_from_slice(&(index as u64).to_le_bytes());
        streams[index].write_all(&buffer).context("write")?;
    }
    for &index in chosen {
        streams[index].read_exact(&mut buffer).context("read")?;
        if buffer[..8] != (index as u64).to_le_bytes() {
            return Err(Error::new("somebody else's answer"));
        }
    }
    Ok(())
}

/// Begins `count` connections and waits until they stand.
fn connect_some(
    server: SocketAddrV4,
    count: usize,
    sources: usize,
    streams: &mut Vec<TcpStream>,
) -> Result<()> {
    let epoll = Epoll::new().context("epoll")?;
    let begun = (0..count).map(|i| {
        let source = Ipv4Addr::new(10, 77, 1, 10 + ((streams.len() + i) % sources) as u8);
        begin(source, server)
    });
    let mut begun: Vec<TcpStream> = begun.collect::<io::Result<_>>().context("connect")?;
    for (word, stream) in begun.iter().enumerate() {
        epoll.add(stream, libc::EPOLLOUT | libc::EPOLLONESHOT, word as u64).context("epoll_ctl")?;
    }
    let (mut events, mut waiting) = ([NO_EVENT; AT_ONCE], count);
    while waiting > 0 {
        let ready: Vec<u64> = epoll.wait(&mut events, 30_000).context("epoll_wait")?.collect();
        if ready.is_empty() {
            let stand = streams.len() + count - waiting;
            return Err(Error::new(format!("no progress for 30 s with {stand} connections")));
        }
        for word in ready {
            if let Some(error) = begun[word as usize].take_error().context("SO_ERROR")? {
                return Err(error).context("connect");
            }
            waiting -= 1;
        }
    }
    // SAFETY: the set was made above and is used no more.
    unsafe { libc::close(epoll.0) };
    for stream in &begun {
        stream.set_nonblocking(false).context("O_NONBLOCK")?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).context("SO_RCVTIMEO")?;
    }
    streams.append(&mut begun);
    Ok(())
}

fn begin(source: Ipv4Addr, server: SocketAddrV4) -> io::Result<TcpStream> {
    // SAFETY: takes values; the descriptor is owned by the stream from here on.
    let stream = unsafe {
        let fd = check(libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0))?;
        TcpStream::from_raw_fd(fd)
    };
    let fd = std::os::fd::AsRawFd::as_raw_fd(&stream);
    let (one, size) = (1i32, size_of::<libc::sockaddr_in>() as u32);
    let (from, to) = (sockaddr(SocketAddrV4::new(source, 0)), sockaddr(server));
    // SAFETY: locals and their sizes.
    unsafe {
        // The port is chosen with the destination known, so that one port serves several.
        let option = libc::IP_BIND_ADDRESS_NO_PORT;
        check(libc::setsockopt(fd, libc::IPPROTO_IP, option, (&raw const one).cast(), 4))?;
        check(libc::bind(fd, (&raw const from).cast(), size))?;
        match check(libc::connect(fd, (&raw const to).cast(), size)) {
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            other => {
                other?;
            }
        }
    }
    Ok(stream)
}

fn sockaddr(address: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
        sin_zero: [0; 8],
    }
}

/// Connects and is answered, again and again for `milliseconds`: prints how often and the longest time that it took. A
/// client that is `new` comes from another address of 10.99.0.0/16 each time.
pub(super) fn knock(server: SocketAddrV4, milliseconds: usize, new: bool) -> Result<()> {
    println!("ready");
    let end = Instant::now() + Duration::from_millis(milliseconds as u64);
    let (mut times, mut longest) = (0u32, Duration::ZERO);
    while Instant::now() < end {
        let [high, low] = (times as u16).to_be_bytes();
        let source = if new { Ipv4Addr::new(10, 99, high, low) } else { Ipv4Addr::UNSPECIFIED };
        let began = Instant::now();
        let stream = begin(source, server).context(server)?;
        // The first write waits for the connection.
        stream.set_nonblocking(false).context("O_NONBLOCK")?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).context("SO_RCVTIMEO")?;
        request(&mut [stream], &[0])?;
        longest = longest.max(began.elapsed());
        times += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("times {times} longest {} us", longest.as_micros());
    Ok(())
}
