//! Sending: the message buffer, the sockets in turn, sizes, and what a failed send means.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use libc::{MSG_NOSIGNAL, sockaddr, socklen_t};

use crate::address::Address;
use crate::calls::{Calls, calls};
use crate::client::Test;
use crate::clock::Clock;
use crate::exit::{Code, Failure, Result};
use crate::message::{FROM_CLIENT, HEADER, Header, MAX_STREAM, Random, WANTS_REPLY, WARM_UP, fill_payload};
use crate::signals;
use crate::stream;
use crate::tls::{Outgoing, Session};

/// Flag by which an accelerator knows a message that must not really leave (MSG_SYN).
const DUMMY: i32 = 0x400;

/// The message's place in memory: within one page if it fits, and at the beginning of a cache line. The kernel's copy
/// takes 0.6 % more of a whole send when 1472 bytes cross a page, and 1.8 % more when they begin a few bytes below the
/// place that they are copied to, counted within pages (4 KiB aliasing). Packets begin with a page or half of one, and
/// headers come first; so here something else does.
#[repr(C, align(4096))]
struct Page {
    _distance: [u8; 512],
    message: [u8; MAX_STREAM + 1],
}

/// Where one socket sends.
struct Link {
    fd: i32,
    tcp: bool,
    address: Address,
    session: Option<Arc<Session>>,
}

impl Link {
    /// The address for a send call: none on a connection, which knows its peer.
    #[inline]
    fn name(&self) -> (*const sockaddr, socklen_t) {
        if self.tcp { (std::ptr::null(), 0) } else { (self.address.as_ptr(), self.address.len()) }
    }

    #[cold]
    fn closed(&self) -> Failure {
        Failure::new(Code::Socket, format!("{} closed the connection", self.address))
    }
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It left, with so many bytes.
    Whole(usize),
    /// It would have blocked, or the run is stopping; nothing left.
    Skipped,
}

/// The sending half of the client.
pub struct Outbox {
    calls: &'static Calls,
    links: Vec<Link>,
    at: usize,
    page: Box<Page>,
    size: usize,
    low: usize,
    high: usize,
    random: Random,
    /// A message inside of TLS.
    records: Outgoing,
    flags: i32,
    skip: bool,
    clock: Clock,
    deadline: u64,
}

impl Outbox {
    /// An outbox over the sockets of `test`.
    pub fn new(test: &Test) -> Outbox {
        let s = test.s;
        let links = test.sockets.iter().zip(&s.endpoints).map(|(socket, e)| Link {
            fd: socket.fd,
            tcp: e.tcp,
            address: e.address,
            session: socket.session.clone(),
        });
        // SAFETY: a page is bytes, and zero is one.
        let mut page = unsafe { Box::<Page>::new_zeroed().assume_init() };
        fill_payload(&mut page.message[HEADER..s.largest().max(HEADER)], s.seed);
        Outbox {
            calls: calls(),
            links: links.collect(),
            at: 0,
            page,
            size: s.msg_size,
            low: s.msg_size.saturating_sub(s.range).max(HEADER),
            high: s.msg_size + s.range,
            random: Random::new(s.seed ^ 0x5151),
            records: Outgoing::default(),
            flags: MSG_NOSIGNAL | if s.skip_blocking_send { libc::MSG_DONTWAIT } else { 0 },
            skip: s.skip_blocking_send,
            clock: test.clock,
            deadline: test.deadline,
        }
    }

    /// The payload every message carries.
    pub fn payload(&self) -> &[u8] {
        &self.page.message[HEADER..self.high]
    }

    /// Size of the next message.
    pub fn set_size(&mut self, size: usize) {
        self.size = size.clamp(HEADER, MAX_STREAM);
    }

    /// Picks the next size.
    #[inline(never)]
    fn vary(&mut self) {
        let span = (self.high - self.low + 1) as u64;
        self.size = self.low + (self.random.next() % span) as usize;
    }

    /// Sends message `seq` on the next socket. In line, so that its result never passes through memory.
    #[inline(always)]
    pub fn send(&mut self, seq: u64, wants_reply: bool) -> Result<Sent> {
        if self.low != self.high {
            self.vary();
        }
        let flags = if wants_reply { FROM_CLIENT | WANTS_REPLY } else { FROM_CLIENT };
        Header { seq, flags, length: self.size as u32 }.write(&mut self.page.message);
        let sent = self.put(self.at)?;
        if sent != Sent::Skipped {
            self.at = if self.at + 1 == self.links.len() { 0 } else { self.at + 1 };
        }
        Ok(sent)
    }

    /// Sends two warm-up messages on socket `index`.
    pub fn warm_up(&mut self, index: usize, extra_flags: u16) -> Result<()> {
        Header { seq: 0, flags: FROM_CLIENT | WARM_UP | extra_flags, length: self.size as u32 }
            .write(&mut self.page.message);
        for _ in 0..2 {
            self.put(index)?;
        }
        Ok(())
    }

    /// Walks the send path without letting a message out; needs an accelerator that knows the flag.
    #[inline]
    pub fn dummy(&mut self) {
        Header { seq: 0, flags: 0, length: self.size as u32 }.write(&mut self.page.message);
        self.call(&self.links[self.at], &self.page.message[..self.size], self.flags | DUMMY);
    }

    #[inline(always)]
    fn put(&mut self, index: usize) -> Result<Sent> {
        let link = &self.links[index];
        if link.session.is_some() {
            return self.put_sealed(index);
        }
        let bytes = &self.page.message[..self.size];
        let n = self.call(link, bytes, self.flags);
        if n as usize == bytes.len() { Ok(Sent::Whole(bytes.len())) } else { self.unfinished(link, bytes, n) }
    }

    #[inline(never)]
    fn put_sealed(&mut self, index: usize) -> Result<Sent> {
        let link = &self.links[index];
        // Records that are made must leave, so the question comes before.
        if self.skip && !stream::wait(link.fd, libc::POLLOUT, Duration::ZERO) {
            return Ok(Sent::Skipped);
        }
        let mut records = std::mem::take(&mut self.records);
        let bytes = stream::wire(link.session.as_deref(), &self.page.message[..self.size], &mut records);
        let bytes = bytes.ok_or_else(|| link.closed())?;
        let n = self.call(link, bytes, self.flags);
        let whole = n as usize == bytes.len() || self.unfinished(link, bytes, n)? != Sent::Skipped;
        if let (false, Some(session)) = (whole, &link.session) {
            session.abandon();
        }
        self.records = records;
        Ok(if whole { Sent::Whole(self.size) } else { Sent::Skipped })
    }

    /// One system call: `bytes`, or as many as the socket takes, on `link`.
    #[inline]
    fn call(&self, link: &Link, bytes: &[u8], flags: i32) -> isize {
        let (address, len) = link.name();
        // SAFETY: `bytes` and the address outlive the call.
        unsafe { (self.calls.sendto)(link.fd, bytes.as_ptr().cast(), bytes.len(), flags, address, len) }
    }

    /// The rest of a partial send, and the meaning of errors.
    #[cold]
    fn unfinished(&self, link: &Link, bytes: &[u8], first: isize) -> Result<Sent> {
        let mut done = 0;
        let mut n = first;
        loop {
            if n >= 0 {
                done += n as usize;
                if done >= bytes.len() {
                    return Ok(Sent::Whole(bytes.len()));
                }
            } else {
                let error = std::io::Error::last_os_error();
                match error.kind() {
                    ErrorKind::WouldBlock if done == 0 && self.skip && link.session.is_none() => {
                        return Ok(Sent::Skipped);
                    }
                    ErrorKind::WouldBlock | ErrorKind::Interrupted => {}
                    // An earlier message met no listener; this one may.
                    ErrorKind::ConnectionRefused if !link.tcp => {}
                    _ if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => return Err(link.closed()),
                    _ => {
                        return Err(Failure::new(
                            Code::Socket,
                            format!("cannot send to {}: {error}", link.address),
                        ));
                    }
                }
                // A message half out must be finished, or the stream is broken for the peer.
                if signals::stopped() && done == 0 {
                    return Ok(Sent::Skipped);
                }
            }
            n = self.call(link, &bytes[done..], self.flags);
            if signals::stopped_twice() || self.clock.now() > self.deadline {
                return Ok(Sent::Skipped);
            }
        }
    }
}
