//! Judges each message, counts it, and answers when asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::address::Address;
use crate::calls::calls;
use crate::clock::{Clock, Rate};
use crate::cpu::Usage;
use crate::message::{
    FROM_CLIENT, Framer, HEADER, Header, MAX_DATAGRAM, WANTS_REPLY, WARM_UP, in_datagram,
    is_byte_swapped_dummy, turn_into_reply,
};
use crate::peer::{self, Counters};
use crate::report::progress::Activity;
use crate::server::Listener;
use crate::server::peers::Peers;
use crate::settings::Settings;
use crate::sockets::Socket;
use crate::stream::{self, PATIENCE};
use crate::tls::Outgoing;

/// What each thread has counted, for the side channel and the last line.
pub struct Totals {
    threads: Vec<PerThread>,
}

#[derive(Default)]
#[repr(align(64))]
struct PerThread {
    messages: AtomicU64,
    bytes: AtomicU64,
    malformed: AtomicU64,
}

impl Totals {
    /// Counters for so many threads.
    pub fn new(threads: usize) -> Totals {
        Totals { threads: (0..threads.max(1)).map(|_| PerThread::default()).collect() }
    }

    fn sum(&self, field: impl Fn(&PerThread) -> &AtomicU64) -> u64 {
        self.threads.iter().map(|t| field(t).load(Ordering::Relaxed)).sum()
    }

    /// Messages of all threads.
    pub fn messages(&self) -> u64 {
        self.sum(|t| &t.messages)
    }

    /// Refused datagrams and streams of all threads.
    pub fn malformed(&self) -> u64 {
        self.sum(|t| &t.malformed)
    }
}

/// How an answer travels.
#[derive(Clone, Copy)]
pub enum Route<'a> {
    /// A datagram to this address.
    Datagram(i32, &'a Address),
    /// A datagram that must leave from a given local address.
    From(i32, &'a Address, libc::in_addr),
    /// Bytes on a connection.
    Stream(&'a Socket),
}

/// One for each serving thread.
pub struct Responder {
    limit: usize,
    reply: bool,
    unicast: bool,
    gaps: bool,
    peers: Peers,
    activity: Activity,
    totals: Arc<Totals>,
    thread: usize,
    messages: u64,
    bytes: u64,
    records: Outgoing,
}

impl Responder {
    /// A responder of thread number `thread`.
    pub fn new(s: &Settings, clock: Clock, rate: Rate, totals: Arc<Totals>, thread: usize) -> Responder {
        Responder {
            limit: s.msg_size.max(MAX_DATAGRAM),
            reply: !s.dont_reply,
            unicast: s.unicast_reply,
            gaps: s.gaps,
            peers: Peers::new(s.endpoints.len() > 1),
            activity: Activity::new(s, clock, rate),
            totals,
            thread,
            messages: 0,
            bytes: 0,
            records: Outgoing::default(),
        }
    }

    /// Another responder of the same thread, with counters of its own.
    pub fn beside(&self, s: &Settings) -> Responder {
        Responder {
            peers: Peers::new(s.endpoints.len() > 1),
            activity: self.activity.clone(),
            totals: Arc::clone(&self.totals),
            thread: self.thread + s.threads,
            messages: 0,
            bytes: 0,
            records: Outgoing::default(),
            ..*self
        }
    }

    /// A framer for a new connection.
    pub fn framer(&self) -> Framer {
        Framer::new(self.limit)
    }

    /// Serves every message of one datagram that came to `listener`.
    #[inline]
    pub fn datagram(&mut self, listener: &Listener, bytes: &mut [u8], from: &Address) {
        self.datagram_by(listener, bytes, from, Route::Datagram(listener.socket.fd, from));
    }

    /// The same with a given route for the answers.
    #[inline]
    pub fn datagram_by(&mut self, listener: &Listener, bytes: &mut [u8], from: &Address, route: Route) {
        let group;
        let mut route = route;
        if listener.groups == 1 && !self.unicast && listener.endpoint.address.is_multicast() {
            group = group_with_port(&listener.endpoint.address, from);
            route = Route::Datagram(listener.socket.fd, &group);
        }
        let mut rest = bytes;
        loop {
            let Ok(header) = in_datagram(rest, self.limit) else { return self.refuse(rest) };
            let (message, tail) = rest.split_at_mut(header.length as usize);
            // A datagram's answer cannot fail in a way that matters to others.
            self.message(&header, message, from, route);
            if tail.is_empty() {
                return;
            }
            rest = tail;
        }
    }

    /// Serves every whole message in `framer`; false when the connection must be closed.
    #[inline]
    pub fn stream(&mut self, framer: &mut Framer, socket: &Socket, from: &Address) -> bool {
        loop {
            match framer.next() {
                Ok(Some((header, message))) => {
                    if !self.message(&header, message, from, Route::Stream(socket)) {
                        return false;
                    }
                }
                Ok(None) => return true,
                Err(_) => {
                    self.count_malformed();
                    return false;
                }
            }
        }
    }

    #[inline]
    fn message(&mut self, header: &Header, message: &mut [u8], from: &Address, route: Route) -> bool {
        if header.flags & (FROM_CLIENT | WARM_UP) != FROM_CLIENT {
            return self.unusual(header, message, from, route);
        }
        self.messages += 1;
        self.bytes += message.len() as u64;
        let mine = &self.totals.threads[self.thread];
        mine.messages.store(self.messages, Ordering::Relaxed);
        mine.bytes.store(self.bytes, Ordering::Relaxed);
        self.peers.count(from.key(), message.len());
        if self.gaps {
            self.peers.sequence(from, header.seq);
        }
        self.activity.one();
        if header.flags & WANTS_REPLY == 0 || !self.reply {
            return true;
        }
        turn_into_reply(message);
        send(route, message, &mut self.records)
    }

    /// Warm-up, questions of the side channel, and what is not a client's message at all.
    #[cold]
    fn unusual(&mut self, header: &Header, message: &mut [u8], from: &Address, route: Route) -> bool {
        if header.flags & FROM_CLIENT == 0 {
            return true;
        }
        if peer::is_question(header, message) {
            let counters = self.counters(from, &peer::ports_of(message));
            peer::write_answer(message, &counters);
            let route = if let Route::Datagram(fd, _) = route { Route::Datagram(fd, from) } else { route };
            return send(route, message, &mut self.records);
        }
        if self.gaps {
            self.peers.warm_up(from);
        }
        if header.flags & WANTS_REPLY == 0 || !self.reply {
            return true;
        }
        turn_into_reply(message);
        send(route, message, &mut self.records)
    }

    fn counters(&self, from: &Address, ports: &[u16]) -> Counters {
        // Threads see parts of a client only; the sum of all is the better answer then.
        let (own_messages, own_bytes) =
            if self.totals.threads.len() == 1 { self.peers.sum(from, ports) } else { (0, 0) };
        Counters {
            own_messages,
            own_bytes,
            messages: self.totals.messages(),
            bytes: self.totals.sum(|t| &t.bytes),
            cpu: Usage::now(),
            malformed: self.totals.malformed(),
        }
    }

    #[cold]
    fn refuse(&self, bytes: &[u8]) {
        // An original client's --dummy-send lets such frames out on a plain kernel: noise, not damage.
        if !is_byte_swapped_dummy(bytes) {
            self.count_malformed();
        }
    }

    /// Counts one datagram or connection that was no message of anybody.
    pub fn count_malformed(&self) {
        self.totals.threads[self.thread].malformed.fetch_add(1, Ordering::Relaxed);
    }

    /// Prints what was missing, by client.
    pub fn summary(&self) {
        if self.gaps {
            self.peers.summary();
        }
    }
}

fn group_with_port(group: &Address, from: &Address) -> Address {
    match (group.ip(), from.ip()) {
        (Some(mut ip), Some(client)) => {
            ip.set_port(client.port());
            Address::from_ip(ip)
        }
        _ => *from,
    }
}

#[inline]
fn send(route: Route, message: &[u8], records: &mut Outgoing) -> bool {
    match route {
        Route::Datagram(fd, to) => {
            send_datagram(fd, message, to);
            true
        }
        Route::From(fd, to, source) => {
            send_from(fd, message, to, source);
            true
        }
        Route::Stream(socket) => {
            let bytes = stream::wire(socket.session.as_deref(), message, records);
            bytes.is_some_and(|bytes| stream::send_all(socket.fd, bytes, PATIENCE))
        }
    }
}

/// Sends one datagram. A full buffer or an unreachable client loses it, as the network would.
#[inline]
pub fn send_datagram(fd: i32, message: &[u8], to: &Address) {
    // SAFETY: message and address outlive the call.
    unsafe {
        (calls().sendto)(
            fd,
            message.as_ptr().cast(),
            message.len(),
            libc::MSG_NOSIGNAL,
            to.as_ptr(),
            to.len(),
        )
    };
}

/// Sends one datagram from a given local address, the one the client wrote to.
fn send_from(fd: i32, message: &[u8], to: &Address, source: libc::in_addr) {
    let mut piece = libc::iovec { iov_base: message.as_ptr() as *mut _, iov_len: message.len() };
    let mut control = [0u64; 8];
    // SAFETY: the control buffer is aligned and large enough for one in_pktinfo; everything outlives the call.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_name = to.as_ptr() as *mut _;
        header.msg_namelen = to.len();
        header.msg_iov = &raw mut piece;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = libc::CMSG_SPACE(size_of::<libc::in_pktinfo>() as u32) as usize;
        let first = libc::CMSG_FIRSTHDR(&header);
        (*first).cmsg_level = libc::IPPROTO_IP;
        (*first).cmsg_type = libc::IP_PKTINFO;
        (*first).cmsg_len = libc::CMSG_LEN(size_of::<libc::in_pktinfo>() as u32) as usize;
        let info =
            libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: source, ipi_addr: libc::in_addr { s_addr: 0 } };
        libc::CMSG_DATA(first).cast::<libc::in_pktinfo>().write_unaligned(info);
        (calls().sendmsg)(fd, &header, libc::MSG_NOSIGNAL);
    }
}

/// Smallest buffer a datagram read needs: one more than the longest, so that a longer one shows.
pub fn datagram_buffer() -> Vec<u8> {
    vec![0; MAX_DATAGRAM.max(HEADER) + 1]
}

/// Makes blocking sends of an accepted connection end.
pub fn limit_sends(socket: &Socket) {
    let patience = libc::timeval { tv_sec: PATIENCE.as_secs() as i64, tv_usec: 0 };
    // An accelerator that lacks the option serves well-behaved clients all the same.
    let _ = socket.set(libc::SOL_SOCKET, libc::SO_SNDTIMEO, &patience, "the send time-out");
}
