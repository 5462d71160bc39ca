//! Receiving: one read, or one wait on many sockets and their reads, cut into messages and stamped.

use std::io::{Error, ErrorKind};

use crate::address::Address;
use crate::calls::calls;
use crate::client::{Test, is_direct};
use crate::clock::Clock;
use crate::exit::{Code, Failure, Result};
use crate::extra_api::{Completions, ZeroCopy};
use crate::iomux::{Kind, Mux};
use crate::message::{Framer, HEADER, Header, MAX_DATAGRAM, in_datagram};
use crate::stream::Reader;

/// One message that arrived.
pub struct Arrival<'a> {
    /// Its header.
    pub header: Header,
    /// All of it.
    pub message: &'a [u8],
    /// Who sent it, as [`Address::key`]; 0 unless several servers are expected.
    pub from: u64,
    /// When the read returned.
    pub rx: u64,
}

struct Link {
    fd: i32,
    /// A connection's bytes on the way to messages.
    stream: Option<(Reader, Framer)>,
}

/// The receiving half of the client.
pub struct Inbox {
    clock: Clock,
    links: Vec<Link>,
    by_fd: Vec<usize>,
    mux: Option<Mux>,
    ready: Vec<i32>,
    timeout_ms: i32,
    /// Reads per ready socket.
    loops: u32,
    buffer: Vec<u8>,
    limit: usize,
    ask_source: bool,
    zero_copy: Option<ZeroCopy>,
    completions: Option<Completions>,
    /// Datagrams and streams that were no messages.
    pub malformed: u64,
}

impl Inbox {
    /// An inbox over the sockets of `test`. Reads end after `patience_ms` without data, unless `interrupted` says
    /// that signals will end them: a receive time-out costs the kernel a timer for each message.
    pub fn new(test: &Test, patience_ms: u32, interrupted: bool) -> Result<Inbox> {
        let s = test.s;
        let limit = s.largest().max(MAX_DATAGRAM);
        let mut links = Vec::new();
        let mut mux = if is_direct(s) { None } else { Some(Mux::new(s.mux)?) };
        let mut by_fd = Vec::new();
        for (socket, endpoint) in test.sockets.iter().zip(&s.endpoints) {
            if !interrupted {
                socket.receive_timeout(patience_ms.max(1))?;
            }
            let fd = socket.fd as usize;
            if by_fd.len() <= fd {
                by_fd.resize(fd + 1, 0);
            }
            by_fd[fd] = links.len();
            if let Some(mux) = &mut mux {
                mux.add(socket.fd)?;
            }
            let stream = endpoint.tcp.then(|| (Reader::new(socket), Framer::new(limit)));
            links.push(Link { fd: socket.fd, stream });
        }
        let completions =
            if s.mux == Kind::Socketxtreme { Some(Completions::of(&test.sockets)?) } else { None };
        // A wait without end would never see that a message is overdue.
        let timeout_ms = if s.mux_timeout_ms < 0 { patience_ms as i32 } else { s.mux_timeout_ms };
        Ok(Inbox {
            clock: test.clock,
            links,
            by_fd,
            mux,
            ready: Vec::new(),
            timeout_ms,
            loops: s.recv_looping.unwrap_or(u32::MAX),
            buffer: vec![0; MAX_DATAGRAM + 1],
            limit,
            ask_source: s.servers > 1,
            zero_copy: if s.zcopy_read { Some(ZeroCopy::new()?) } else { None },
            completions,
            malformed: 0,
        })
    }

    /// Waits once and hands every message that came to `handle`. False when nothing came.
    #[inline]
    pub fn receive(&mut self, handle: &mut impl FnMut(&Arrival)) -> Result<bool> {
        if self.mux.is_none() && self.loops == 1 && self.zero_copy.is_none() && self.completions.is_none() {
            return self.read(0, handle);
        }
        self.receive_many(handle)
    }

    fn receive_many(&mut self, handle: &mut impl FnMut(&Arrival)) -> Result<bool> {
        if self.completions.is_some() {
            return self.poll_completions(handle);
        }
        let Some(mux) = &mut self.mux else { return self.read_repeatedly(0, handle) };
        let mut ready = std::mem::take(&mut self.ready);
        mux.wait(self.timeout_ms, &mut ready)?;
        let mut any = false;
        for fd in &ready {
            let index = self.by_fd[*fd as usize];
            any |= self.read_repeatedly(index, handle)?;
        }
        self.ready = ready;
        Ok(any)
    }

    fn read_repeatedly(&mut self, index: usize, handle: &mut impl FnMut(&Arrival)) -> Result<bool> {
        let mut any = false;
        for _ in 0..self.loops {
            if !self.read(index, handle)? {
                break;
            }
            any = true;
        }
        Ok(any)
    }

    #[inline]
    fn read(&mut self, index: usize, handle: &mut impl FnMut(&Arrival)) -> Result<bool> {
        if self.zero_copy.is_some() {
            return self.read_zero_copy(index, handle);
        }
        let link = &mut self.links[index];
        if let Some((reader, framer)) = &mut link.stream {
            let read = reader.read(framer.space());
            let rx = self.clock.now();
            return match read {
                Ok(0) => Err(closed()),
                Ok(n) => {
                    framer.filled(n);
                    stream(framer, 0, rx, handle)
                }
                Err(error) => no_data(&error),
            };
        }
        let mut from = Address::default_if(self.ask_source);
        let (address, len) =
            from.as_mut().map_or((std::ptr::null_mut(), std::ptr::null_mut()), Address::as_out);
        let space = &mut self.buffer[..];
        // SAFETY: `space` is writable for its length; the address pointers are null or into `from`.
        let n =
            unsafe { (calls().recvfrom)(link.fd, space.as_mut_ptr().cast(), space.len(), 0, address, len) };
        let rx = self.clock.now();
        if n < 0 {
            return no_data(&Error::last_os_error());
        }
        let from = from.map_or(0, |a| a.key());
        self.malformed += datagram(&self.buffer[..n as usize], self.limit, from, rx, handle);
        Ok(true)
    }

    fn read_zero_copy(&mut self, index: usize, handle: &mut impl FnMut(&Arrival)) -> Result<bool> {
        let Some(zero_copy) = &mut self.zero_copy else { return Ok(false) };
        let link = &mut self.links[index];
        let (clock, limit) = (self.clock, self.limit);
        let mut malformed = 0;
        let mut broken = Ok(true);
        let read = zero_copy.read(link.fd, &mut |piece, from| {
            let rx = clock.now();
            match &mut link.stream {
                None => malformed += datagram(piece, limit, from.key(), rx, handle),
                Some((_, framer)) => broken = append(framer, piece, rx, handle),
            }
        });
        self.malformed += malformed;
        match read {
            n if n < 0 => no_data(&Error::last_os_error()),
            0 if link.stream.is_some() => Err(closed()),
            _ => broken,
        }
    }

    fn poll_completions(&mut self, handle: &mut impl FnMut(&Arrival)) -> Result<bool> {
        let Some(completions) = &mut self.completions else { return Ok(false) };
        let (clock, limit, links, by_fd) = (self.clock, self.limit, &mut self.links, &self.by_fd);
        let mut malformed = 0;
        let mut outcome = Ok(false);
        completions.poll(&mut |event| {
            let rx = clock.now();
            let Some(link) = by_fd.get(event.fd as usize).and_then(|i| links.get_mut(*i)) else { return };
            if outcome.is_err() {
                return;
            }
            outcome = match &mut link.stream {
                Some(_) if event.closed => Err(closed()),
                Some((_, framer)) => append(framer, event.bytes, rx, handle),
                None => {
                    malformed += datagram(event.bytes, limit, event.from.key(), rx, handle);
                    Ok(true)
                }
            };
        });
        self.malformed += malformed;
        outcome
    }
}

/// Hands on the messages of one datagram; returns how many pieces of it were none.
#[inline]
fn datagram(bytes: &[u8], limit: usize, from: u64, rx: u64, handle: &mut impl FnMut(&Arrival)) -> u64 {
    let mut rest = bytes;
    loop {
        let Ok(header) = in_datagram(rest, limit) else { return 1 };
        let (message, tail) = rest.split_at(header.length as usize);
        handle(&Arrival { header, message, from, rx });
        if tail.len() < HEADER {
            return u64::from(!tail.is_empty());
        }
        rest = tail;
    }
}

fn stream(framer: &mut Framer, from: u64, rx: u64, handle: &mut impl FnMut(&Arrival)) -> Result<bool> {
    loop {
        match framer.next() {
            Ok(Some((header, message))) => handle(&Arrival { header, message, from, rx }),
            Ok(None) => return Ok(true),
            Err(bad) => {
                let text = format!("the server sent a message of impossible length ({bad:?})");
                return Err(Failure::new(Code::Malformed, text));
            }
        }
    }
}

fn append(framer: &mut Framer, bytes: &[u8], rx: u64, handle: &mut impl FnMut(&Arrival)) -> Result<bool> {
    for piece in bytes.chunks(16 * 1024) {
        framer.append(piece).map_err(|_| closed())?;
        stream(framer, 0, rx, handle)?;
    }
    Ok(true)
}

fn closed() -> Failure {
    Failure::new(Code::Socket, "the server closed the connection")
}

/// Nothing to read is an answer; other errors end the run, except those about earlier sends.
#[cold]
fn no_data(error: &Error) -> Result<bool> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionRefused => Ok(false),
        _ => Err(Failure::new(Code::Socket, format!("cannot receive: {error}"))),
    }
}
