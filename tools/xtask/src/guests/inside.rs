//! The programs that run in guests, with or without the preload: a server that echoes, a client that checks what comes
//! back over many connections, and a connection of somebody else, which notices when it is disturbed.
//!
//! Times are the guest's uptime in seconds, so that the output of several programs can be put beside each other.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rig::{Context, Error, Result};

const CONNECTIONS: usize = 12;
const DATAGRAMS: usize = 30;

/// What is longer than this without an answer is told by `watch`.
const GAP: Duration = Duration::from_millis(50);

/// `xtask guest NAME ARGUMENTS`.
pub(crate) fn run(words: &[String]) -> Result<ExitCode> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", address] => serve(address.parse().context(address)?)?,
        ["talk", address, seconds, bulk] => {
            let seconds = Duration::from_secs(seconds.parse().context(seconds)?);
            talk(address.parse().context(address)?, seconds, bulk.parse().context(bulk)?)?;
        }
        ["watch", address, until] => watch(address.parse().context(address)?, Path::new(until))?,
        _ => return Err(Error::new(format!("no program {words:?} for guests"))),
    }
    Ok(ExitCode::SUCCESS)
}

/// The guest's uptime, seconds.
fn uptime() -> f64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

fn say(what: &str) {
    println!("{what} {:.2}", uptime());
}

/// Echoes TCP, and UDP on the same port, for ever.
fn serve(address: SocketAddr) -> Result<()> {
    let datagrams = UdpSocket::bind(address).context(address)?;
    let listener = TcpListener::bind(address).context(address)?;
    say("serving");
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((length, from)) = datagrams.recv_from(&mut buffer) {
            let _ = datagrams.send_to(&buffer[..length], from);
        }
    });
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || echo(stream));
    }
    Ok(())
}

fn echo(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut buffer = [0; 16 << 10];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}

/// `length` bytes that no other `seed` gives.
fn pattern(seed: usize, length: usize) -> Vec<u8> {
    let mut state = seed as u32 ^ 0x9e37_79b9;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).context("connect")?;
    stream.set_nodelay(true).context("nodelay")?;
    stream.set_read_timeout(Some(Duration::from_secs(25))).context("timeout")?;
    Ok(stream)
}

/// Many connections with a message each at a time, datagrams, and `bulk` bytes at a time: each answer must be right.
fn talk(address: SocketAddr, duration: Duration, bulk: usize) -> Result<()> {
    say("started");
    let mut streams = vec![connect(address)?];
    say("connected");
    while streams.len() < CONNECTIONS {
        streams.push(connect(address)?);
    }
    let end = Instant::now() + duration;
    let mut round = 0;
    while round < 5 || Instant::now() < end {
        for (number, stream) in streams.iter_mut().enumerate() {
            let message = pattern(round * CONNECTIONS + number, 1 + (round * 977 + number * 131) % 3000);
            stream.write_all(&message).context("send")?;
            let mut answer = vec![0; message.len()];
            stream.read_exact(&mut answer).context(format_args!("connection {number}, round {round}"))?;
            if answer != message {
                return Err(Error::new(format!("connection {number}, round {round}: wrong answer")));
            }
        }
        round += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    exchange_datagrams(address)?;
    transfer(streams.swap_remove(0), bulk)?;
    say("closing");
    Ok(())
}

/// Each is sent until it comes back.
fn exchange_datagrams(address: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0").context("bind")?;
    socket.connect(address).context("connect")?;
    socket.set_read_timeout(Some(Duration::from_millis(400))).context("timeout")?;
    for number in 0..DATAGRAMS {
        let message = pattern(number, 20 + number * 47);
        let mut buffer = [0; 2048];
        let came = (0..30).any(|_| {
            socket.send(&message).is_ok()
                && std::iter::repeat_with(|| {
                    socket.recv(&mut buffer).map(|length| buffer[..length] == message)
                })
                .map_while(std::io::Result::ok)
                .any(|is_it| is_it)
        });
        if !came {
            return Err(Error::new(format!("datagram {number} never came back")));
        }
    }
    Ok(())
}

/// Sends and receives so many bytes at the same time.
fn transfer(mut stream: TcpStream, bulk: usize) -> Result<()> {
    let data = pattern(7, bulk);
    let mut sending = stream.try_clone().context("clone")?;
    let copy = data.clone();
    let sender = std::thread::spawn(move || sending.write_all(&copy));
    let mut answer = vec![0; bulk];
    stream.read_exact(&mut answer).context("bulk")?;
    match sender.join() {
        Ok(sent) => sent.context("bulk")?,
        Err(_) => return Err(Error::new("bulk: the sender panicked")),
    }
    if answer == data { Ok(()) } else { Err(Error::new("bulk: wrong answer")) }
}

/// One connection that asks every 5 ms, until a file is there; tells each time without an answer.
fn watch(address: SocketAddr, until: &Path) -> Result<()> {
    let mut stream = connect(address)?;
    say("watching");
    let mut last = (Instant::now(), uptime());
    while !until.exists() {
        stream.write_all(b"?").context("send")?;
        stream.read_exact(&mut [0]).context("receive")?;
        let now = (Instant::now(), uptime());
        if now.0 - last.0 > GAP {
            println!("gap {:.2} {:.2}", last.1, now.1);
        }
        last = now;
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_and_server_agree_and_a_server_that_changes_bytes_is_noticed() {
        let honest = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = honest.local_addr().unwrap();
        drop(honest);
        std::thread::spawn(move || serve(address));
        let end = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(address).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        talk(address, Duration::ZERO, 100_000).unwrap();

        let liar = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = liar.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in liar.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(length @ 1..) = stream.read(&mut buffer) {
                        buffer[0] ^= 1;
                        let _ = stream.write_all(&buffer[..length]);
                    }
                });
            }
        });
        let error = talk(address, Duration::ZERO, 100).unwrap_err().to_string();
        assert!(error.contains("wrong answer"), "{error}");
    }
}
