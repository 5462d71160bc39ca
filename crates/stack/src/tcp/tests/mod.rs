//! Two stacks on one wire in virtual time.

mod attacks;
mod checklist;
mod closing;
mod ecn;
mod handshake;
mod large;
mod lend;
mod loss;
mod mtu_probe;
mod pacing;
mod path_mtu;
mod robust;
mod takeover;
mod transfer;

use crate::tcp::{Options, Push, State, Take};
use crate::testing::{Host, Random};
use crate::{Duration, Endpoint, Instant, RecvError, SendError, SocketId};
use std::collections::BTreeMap;

pub(super) const MS: Duration = Duration::from_millis(1);

/// What the wire does to a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Deliver,
    Lose,
    Twice,
    Late(Duration),
    /// Marked by a router that is congested, if it is ECN-capable; else delivered.
    Mark,
    /// Marked although it may not be.
    MarkAnyway,
}

/// Sets the ECN bits of the packet in a frame.
pub(super) fn set_ecn(frame: &mut [u8], ecn: u8) {
    frame[15] = frame[15] & !3 | ecn;
    frame[24..26].fill(0);
    let sum = wire::checksum::Sum::default().bytes(&frame[14..34]).finish();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// What happens to a frame: by sender, its number, its bytes.
type Decide = Box<dyn FnMut(usize, u64, &[u8]) -> Fault>;

/// Host 0 is 10.0.0.1, host 1 is 10.0.0.2.
pub(super) struct World {
    pub(super) now: Instant,
    pub(super) hosts: [Host; 2],
    pub(super) delay: Duration,
    wire: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    count: u64,
    pub(super) fault: Decide,
    /// All frames that were put on the wire: time, sender, bytes.
    pub(super) log: Vec<(Instant, usize, Vec<u8>)>,
}

impl World {
    pub(super) fn new() -> World {
        World::with(|_| {})
    }

    pub(super) fn with(change: impl Fn(&mut crate::Config)) -> World {
        World {
            now: Instant(1_000_000_000),
            hosts: [Host::with(1, &change), Host::with(2, &change)],
            delay: MS / 10,
            wire: BTreeMap::new(),
            count: 0,
            fault: Box::new(|_, _, _| Fault::Deliver),
            log: Vec::new(),
        }
    }

    pub(super) fn endpoint(host: usize, port: u16) -> Endpoint {
        Endpoint::new([10, 0, 0, host as u8 + 1].into(), port)
    }

    pub(super) fn options(&self) -> Options {
        crate::testing::tcp_settings().options
    }

    /// Puts what the hosts sent on the wire.
    fn collect(&mut self) {
        for from in 0..2 {
            let host = &mut self.hosts[from];
            host.answer(self.now);
            host.stack.flush(self.now, &mut host.out);
            while let Some(frame) = host.out.frames.pop_front() {
                self.log.push((self.now, from, frame.clone()));
                let fault = (self.fault)(from, self.count, &frame);
                let at = self.now + self.delay;
                let mut put = |at: Instant, frame: Vec<u8>| {
                    self.count += 1;
                    self.wire.insert((at, self.count), (1 - from, frame));
                };
                match fault {
                    Fault::Deliver => put(at, frame),
                    Fault::Lose => self.count += 1,
                    Fault::Twice => {
                        put(at, frame.clone());
                        put(at, frame);
                    }
                    Fault::Late(by) => put(at + by, frame),
                    Fault::Mark | Fault::MarkAnyway => {
                        let mut frame = frame;
                        if frame[15] & 3 != 0 || fault == Fault::MarkAnyway {
                            set_ecn(&mut frame, 3);
                        }
                        put(at, frame);
                    }
                }
            }
        }
    }

    /// Goes to the next moment at which something happens, at most until `end`; `false`: it is `end`.
    pub(super) fn step(&mut self, end: Instant) -> bool {
        self.collect();
        let arrival = self.wire.first_key_value().map(|(key, _)| key.0);
        let timers = self.hosts.iter().filter_map(|h| h.stack.next_timer());
        let next = timers.chain(arrival).min().filter(|at| *at <= end);
        let Some(next) = next else {
            self.now = self.now.max(end);
            return false;
        };
        self.now = self.now.max(next);
        while let Some(entry) = self.wire.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let (to, frame) = entry.remove();
            self.hosts[to].receive(self.now, frame);
        }
        for host in &mut self.hosts {
            host.stack.on_time(self.now, &mut host.out);
        }
        self.collect();
        true
    }

    pub(super) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        let mut steps = 0;
        while self.step(end) {
            steps += 1;
            assert!(steps < 2_000_000, "the stacks never fall silent");
        }
    }

    pub(super) fn run_until(&mut self, span: Duration, mut done: impl FnMut(&mut World) -> bool) {
        let end = self.now + span;
        while !done(self) {
            assert!(self.step(end), "not within {span:?}");
        }
    }

    pub(super) fn listen(&mut self, host: usize, port: u16, backlog: u32) -> SocketId {
        let options = self.options();
        self.hosts[host].stack.tcp_listen(World::endpoint(host, port), backlog, &options, 77).unwrap()
    }

    pub(super) fn connect(&mut self, host: usize, from: u16, to: u16, options: &Options) -> SocketId {
        let (local, remote) = (World::endpoint(host, from), World::endpoint(1 - host, to));
        let host = &mut self.hosts[host];
        host.stack.tcp_connect(self.now, local, remote, options, 1, &mut host.out).unwrap()
    }

    /// An established connection: the ids at host 0 (which connected) and host 1 (which accepted).
    pub(super) fn pair(&mut self) -> (SocketId, SocketId) {
        let options = self.options();
        self.pair_with(&options)
    }

    pub(super) fn pair_with(&mut self, options: &Options) -> (SocketId, SocketId) {
        let listener = self.hosts[1].stack.tcp_listen(World::endpoint(1, 80), 16, options, 77).unwrap();
        let a = self.connect(0, 5000, 80, options);
        let mut accepted = None;
        self.run_until(Duration::from_secs(100), |w| {
            accepted = accepted.or(w.hosts[1].stack.tcp_accept(listener));
            accepted.is_some() && w.state(0, a) == Some(State::Established)
        });
        self.hosts[1].stack.tcp_close(self.now, listener, crate::tcp::Close::Orderly, &mut self.hosts[1].out);
        (a, accepted.unwrap())
    }

    pub(super) fn state(&self, host: usize, id: SocketId) -> Option<State> {
        self.hosts[host].stack.tcp_state(id)
    }

    pub(super) fn send(&mut self, host: usize, id: SocketId, bytes: &[u8]) -> Result<usize, SendError> {
        self.send_as(host, id, bytes, Push::Now)
    }

    pub(super) fn send_as(
        &mut self,
        host: usize,
        id: SocketId,
        mut bytes: &[u8],
        push: Push,
    ) -> Result<usize, SendError> {
        let host = &mut self.hosts[host];
        host.stack.tcp_send(self.now, id, &mut bytes, push, &mut host.out)
    }

    pub(super) fn recv(&mut self, host: usize, id: SocketId, max: usize) -> Result<Vec<u8>, RecvError> {
        self.recv_as(host, id, max, Take::Consume)
    }

    pub(super) fn recv_as(
        &mut self,
        host: usize,
        id: SocketId,
        max: usize,
        take: Take,
    ) -> Result<Vec<u8>, RecvError> {
        let mut bytes = vec![0; max];
        let host = &mut self.hosts[host];
        let n = host.stack.tcp_recv(self.now, id, &mut &mut bytes[..], take, &mut host.out)?;
        bytes.truncate(n);
        Ok(bytes)
    }

    pub(super) fn close(&mut self, host: usize, id: SocketId) {
        let host = &mut self.hosts[host];
        host.stack.tcp_close(self.now, id, crate::tcp::Close::Orderly, &mut host.out);
    }

    pub(super) fn abort(&mut self, host: usize, id: SocketId) {
        let host = &mut self.hosts[host];
        host.stack.tcp_close(self.now, id, crate::tcp::Close::Abort, &mut host.out);
    }

    pub(super) fn shutdown(&mut self, host: usize, id: SocketId) -> Result<(), SendError> {
        let host = &mut self.hosts[host];
        host.stack.tcp_shutdown_write(self.now, id, &mut host.out)
    }

    /// Moves `total` bytes from one end to the other and compares them; answers how long it took.
    pub(super) fn transfer(&mut self, from: usize, tx: SocketId, rx: SocketId, total: usize) -> Duration {
        let start = self.now;
        let end = self.now + Duration::from_secs(4000);
        let (mut sent, mut got) = (0usize, 0usize);
        while got < total {
            while sent < total {
                let chunk: Vec<u8> = (sent..(sent + 8192).min(total)).map(byte).collect();
                match self.send(from, tx, &chunk) {
                    Ok(n) => sent += n,
                    Err(SendError::WouldBlock) => break,
                    Err(why) => panic!("send: {why:?}"),
                }
            }
            loop {
                match self.recv(1 - from, rx, 65_536) {
                    Ok(bytes) => {
                        assert!(!bytes.is_empty(), "stream ended at {got}");
                        for b in &bytes {
                            assert_eq!(*b, byte(got), "at {got}");
                            got += 1;
                        }
                    }
                    Err(RecvError::WouldBlock) => break,
                    Err(why) => panic!("recv: {why:?}"),
                }
            }
            assert!(got == total || self.step(end), "stuck at {got} of {total}, {sent} sent");
        }
        self.now.since(start)
    }

    /// Edges since the last call.
    pub(super) fn edges(&mut self, host: usize, id: SocketId) -> crate::Ready {
        let mut edges = crate::Ready::default();
        while let Some(event) = self.hosts[host].stack.take_event() {
            if event.id == id {
                edges |= event.edges;
            }
        }
        edges
    }
}

pub(super) fn byte(i: usize) -> u8 {
    (i.wrapping_mul(0x9e37_79b9) >> 11) as u8
}

/// A TCP segment read from a logged frame.
pub(super) struct Seen {
    pub(super) at: Instant,
    pub(super) from: usize,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: wire::tcp::Flags,
    pub(super) window: u16,
    pub(super) len: usize,
}

pub(super) fn seen(entry: &(Instant, usize, Vec<u8>)) -> Seen {
    let (at, from, frame) = entry;
    let ip = wire::ipv4::Header::parse(&frame[14..]).unwrap();
    let tcp = &frame[14 + ip.len()..14 + ip.total_len()];
    let header = wire::tcp::Header::parse(tcp).unwrap();
    Seen {
        at: *at,
        from: *from,
        seq: header.seq(),
        ack: header.ack(),
        flags: header.flags(),
        window: header.window(),
        len: tcp.len() - header.len(),
    }
}

pub(super) fn payload_len(frame: &[u8]) -> usize {
    seen(&(Instant::ZERO, 0, frame.to_vec())).len
}

/// A frame as a stranger would send it: from 10.0.0.`host + 1` to the other host.
pub(super) fn forge(
    from: usize,
    fields: &wire::tcp::Fields,
    options: &wire::tcp::OptionsWriter,
    payload: &[u8],
) -> Vec<u8> {
    forge_as(*World::endpoint(from, 1).ip(), from, fields, options, payload)
}

/// The same in the name of `src`.
pub(super) fn forge_as(
    src: core::net::Ipv4Addr,
    from: usize,
    fields: &wire::tcp::Fields,
    options: &wire::tcp::OptionsWriter,
    payload: &[u8],
) -> Vec<u8> {
    let dst = *World::endpoint(1 - from, 1).ip();
    let mut fields = *fields;
    fields.options_len = options.bytes().len();
    let len = 20 + fields.options_len + payload.len();
    let mut frame = Vec::new();
    let mac = |n: usize| crate::MacAddr([2, 0, 0, 0, 0, n as u8 + 1]);
    frame.extend(wire::ethernet::Header::ipv4(mac(1 - from), mac(from)));
    let ip = wire::ipv4::Fields {
        src,
        dst,
        protocol: wire::ipv4::TCP,
        tos: 0,
        ttl: 64,
        ident: 0,
        fragment: wire::ipv4::Fragment::DONT,
        payload_len: len,
    };
    frame.extend(ip.emit());
    let at = frame.len();
    frame.resize(at + len, 0);
    super::segment::write(&mut frame[at..], src, dst, &fields, options, |p| p.copy_from_slice(payload));
    frame
}
