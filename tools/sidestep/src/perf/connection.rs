//! A stream socket of TCP or AF_UNIX, used by blocking calls or by calls that do not block, in a loop.

use super::PORT;
use super::words::SocketSizes;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Internet(SocketAddr),
    Path(PathBuf),
}

impl Address {
    /// A path has a slash; whatever else is an IP address, with or without a port.
    pub(super) fn parse(text: &str) -> std::result::Result<Address, String> {
        if text.contains('/') {
            return Ok(Address::Path(text.into()));
        }
        let alone = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let whole = alone.map(|ip| SocketAddr::new(ip, PORT)).or_else(|_| text.parse());
        whole.map(Address::Internet).map_err(|_| {
            format!("'{text}' is no IP address with or without :PORT, and no path of an AF_UNIX socket (with a slash)")
        })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Internet(address) => address.fmt(f),
            Address::Path(path) => path.display().fmt(f),
        }
    }
}

pub(super) enum Listener {
    Tcp(TcpListener),
    /// The file is removed with the listener.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    pub(super) fn bind(address: &Address) -> Result<Listener> {
        match address {
            Address::Internet(address) => TcpListener::bind(address).map(Listener::Tcp),
            Address::Path(path) => {
                UnixListener::bind(path).map(|listener| Listener::Unix(listener, path.clone()))
            }
        }
    }

    /// Where it listens: the port, too, that the kernel chose for 0.
    pub(super) fn address(&self) -> Result<Address> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map(Address::Internet),
            Listener::Unix(_, path) => Ok(Address::Path(path.clone())),
        }
    }

    pub(super) fn accept(&self, spins: bool) -> Result<Stream> {
        match self {
            Listener::Tcp(listener) => Stream::tcp(listener.accept()?.0, spins),
            Listener::Unix(listener, _) => Stream::unix(listener.accept()?.0, spins),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

pub(super) struct Stream {
    socket: Socket,
    spins: bool,
}

impl Stream {
    pub(super) fn connect(to: &Address, spins: bool) -> Result<Stream> {
        match to {
            Address::Internet(address) => Stream::tcp(TcpStream::connect(address)?, spins),
            Address::Path(path) => Stream::unix(UnixStream::connect(path)?, spins),
        }
    }

    fn tcp(socket: TcpStream, spins: bool) -> Result<Stream> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(spins)?;
        Ok(Stream { socket: Socket::Tcp(socket), spins })
    }

    fn unix(socket: UnixStream, spins: bool) -> Result<Stream> {
        socket.set_nonblocking(spins)?;
        Ok(Stream { socket: Socket::Unix(socket), spins })
    }

    /// Who says nothing for so long is given up (EAGAIN); `None`: nobody is.
    pub(super) fn set_patience(&self, patience: Option<Duration>) -> Result<()> {
        match &self.socket {
            Socket::Tcp(socket) => socket.set_read_timeout(patience),
            Socket::Unix(socket) => socket.set_read_timeout(patience),
        }
    }

    /// The receive and the send buffer of the kernel's socket.
    pub(super) fn sizes(&self) -> SocketSizes {
        let size =
            |name| sys::socket::option(self.fd(), libc::SOL_SOCKET, name, 0i32).unwrap_or(0).max(0) as u64;
        SocketSizes { receive: size(libc::SO_RCVBUF), send: size(libc::SO_SNDBUF) }
    }

    /// Bytes that the kernel's TCP has carried in both directions; `None`: it is not TCP.
    pub(super) fn carried_by_kernel(&self) -> Option<u64> {
        /// Words of `struct tcp_info`: tcpi_bytes_acked, tcpi_bytes_received.
        const ACKED: usize = 15;
        const RECEIVED: usize = 16;
        let Socket::Tcp(_) = self.socket else { return None };
        let info =
            sys::socket::option(self.fd(), libc::IPPROTO_TCP, libc::TCP_INFO, [0u64; RECEIVED + 1]).ok()?;
        Some(info[ACKED] + info[RECEIVED])
    }

    fn fd(&self) -> RawFd {
        match &self.socket {
            Socket::Tcp(socket) => socket.as_raw_fd(),
            Socket::Unix(socket) => socket.as_raw_fd(),
        }
    }

    /// All of it.
    pub(super) fn send(&mut self, mut data: &[u8]) -> Result<()> {
        while !data.is_empty() {
            let sent = match &mut self.socket {
                Socket::Tcp(socket) => socket.write(data),
                Socket::Unix(socket) => socket.write(data),
            };
            data = &data[self.count(sent)?..];
        }
        Ok(())
    }

    /// As much as fills `into`; an end before that is an error.
    pub(super) fn receive(&mut self, into: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < into.len() {
            match self.receive_some(&mut into[done..])? {
                0 => return Err(Error::new(ErrorKind::UnexpectedEof, "the other end has ended")),
                count => done += count,
            }
        }
        Ok(())
    }

    /// What there is, after waiting for it; 0: the end.
    pub(super) fn receive_some(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            let got = match &mut self.socket {
                Socket::Tcp(socket) => socket.read(into),
                Socket::Unix(socket) => socket.read(into),
            };
            match got {
                Ok(count) => return Ok(count),
                Err(error) => self.count(Err(error))?,
            };
        }
    }

    /// A call that has to be made again has moved nothing.
    fn count(&self, result: Result<usize>) -> Result<usize> {
        match result {
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(0),
            Err(error) if error.kind() == ErrorKind::WouldBlock && self.spins => {
                std::hint::spin_loop();
                Ok(0)
            }
            other => other,
        }
    }

    /// No more from here.
    pub(super) fn end(&self) -> Result<()> {
        match &self.socket {
            Socket::Tcp(socket) => socket.shutdown(Shutdown::Write),
            Socket::Unix(socket) => socket.shutdown(Shutdown::Write),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_paths_or_internet_addresses_with_netperfs_port() {
        let internet = |text: &str| Ok(Address::Internet(text.parse().unwrap()));
        assert_eq!(Address::parse("127.0.0.1"), internet("127.0.0.1:12865"));
        assert_eq!(Address::parse("127.0.0.1:0"), internet("127.0.0.1:0"));
        assert_eq!(Address::parse("::1"), internet("[::1]:12865"));
        assert_eq!(Address::parse("[::1]"), internet("[::1]:12865"));
        assert_eq!(Address::parse("[::1]:7"), internet("[::1]:7"));
        assert_eq!(Address::parse("./here"), Ok(Address::Path("./here".into())));
        let error = Address::parse("localhost").unwrap_err();
        assert!(error.contains("'localhost' is no IP address"), "{error}");
    }
}
