//! What a TCP segment costs: two stacks in memory, 64-byte ping-pong and bulk, nanoseconds for each segment.
//!
//! `cargo run --release -p stack --features testing --example tcp_cost`; with `ping-pong [ROUNDS]` only that; with
//! `many` among 10 and among 100 000 connections, one at random each time, and what a connection holds in memory.

use stack::tcp::{Push, Take};
use stack::testing::{config, tcp_settings};
use stack::{Endpoint, Frame, Instant, MacAddr, Outlet, Path, Request, SocketId, Stack};
use std::time::Instant as Clock;

const FRAME: usize = 2048;

/// A pool of frames without an allocator in the loop: what an arena costs.
#[derive(Default)]
struct Memory {
    free: Vec<Block>,
}

/// Moves by its pointer.
type Block = Box<[u8; FRAME]>;

struct Lent {
    bytes: Option<Block>,
    start: usize,
    end: usize,
    home: std::rc::Rc<std::cell::RefCell<Memory>>,
}

impl Frame for Lent {
    fn bytes(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], |b| &b[self.start..self.end])
    }
    fn detach(&mut self) {}
    fn is_attached(&self) -> bool {
        true
    }
    fn narrow(&mut self, keep: core::ops::Range<usize>) {
        self.end = self.start + keep.end;
        self.start += keep.start;
    }
    fn duplicate(&self) -> Lent {
        Lent { bytes: self.bytes.clone(), start: self.start, end: self.end, home: self.home.clone() }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(bytes) = self.bytes.take() {
            self.home.borrow_mut().free.push(bytes);
        }
    }
}

struct Wire {
    home: std::rc::Rc<std::cell::RefCell<Memory>>,
    reserved: Option<Block>,
    sent: std::collections::VecDeque<Lent>,
}

impl Outlet for Wire {
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.reserved.is_none() {
            let block = self.home.borrow_mut().free.pop();
            self.reserved = Some(block.unwrap_or_else(|| Box::new([0; FRAME])));
        }
        self.reserved.as_mut().map(|b| &mut b[..len])
    }
    fn commit(&mut self, len: usize) {
        let home = self.home.clone();
        self.sent.push_back(Lent { bytes: self.reserved.take(), start: 0, end: len, home });
    }
}

struct Side {
    stack: Stack<Lent>,
    wire: Wire,
}

fn side(n: u8) -> Side {
    let mut config = config(MacAddr([2, 0, 0, 0, 0, n]));
    config.seed[0] = n;
    let mut stack = Stack::new(config, Instant::ZERO);
    stack.set_addresses(&[[10, 0, 0, n].into()], &[]);
    let wire = Wire { home: Default::default(), reserved: None, sent: Default::default() };
    Side { stack, wire }
}

fn answer(side: &mut Side, now: Instant) {
    while let Some(request) = side.stack.take_request() {
        match request {
            Request::Path(query) => {
                let to = query.to;
                side.stack.set_path(
                    now,
                    query,
                    Ok(Path { next_hop: to, mtu: 1500, elsewhere: false }),
                    &mut side.wire,
                );
            }
            Request::Neighbour(hop) => {
                // 10.0.0.n, and 10.0.1.0/24 for the many addresses of the first.
                let host = if hop.octets()[2] == 1 { 1 } else { hop.octets()[3] };
                let mac = MacAddr([2, 0, 0, 0, 0, host]);
                side.stack.set_neighbour(now, hop, Some(mac), &mut side.wire);
            }
        }
    }
}

/// Carries what is on the wire; answers how many frames.
fn carry(now: Instant, a: &mut Side, b: &mut Side, none: &mut Vec<Lent>) -> usize {
    let mut frames = 0;
    while let Some(frame) = a.wire.sent.pop_front() {
        b.stack.on_frame(now, frame, none, &mut b.wire);
        frames += 1;
    }
    frames
}

fn pair(a: &mut Side, b: &mut Side) -> (SocketId, SocketId) {
    let options = stack::tcp::Options { nodelay: true, ..tcp_settings().options };
    let (local, remote) =
        (Endpoint::new([10, 0, 0, 1].into(), 5000), Endpoint::new([10, 0, 0, 2].into(), 80));
    let listener = b.stack.tcp_listen(remote, 8, &options, 0).unwrap();
    let x = a.stack.tcp_connect(Instant::ZERO, local, remote, &options, 0, &mut a.wire).unwrap();
    let mut none = Vec::new();
    for _ in 0..20 {
        answer(a, Instant::ZERO);
        answer(b, Instant::ZERO);
        carry(Instant::ZERO, a, b, &mut none);
        carry(Instant::ZERO, b, a, &mut none);
    }
    (x, b.stack.tcp_accept(listener).unwrap())
}

/// Request and answer over connections chosen at random, with the acknowledgment of the answer in a packet of its own.
fn many(count: usize) {
    let (mut a, mut b) = (side(1), side(2));
    let options = stack::tcp::Options { nodelay: true, ..tcp_settings().options };
    let remote = Endpoint::new([10, 0, 0, 2].into(), 80);
    a.stack.set_addresses(&[0, 1, 2, 3].map(|n| [10, 0, 1, n].into()), &[]);
    let listener = b.stack.tcp_listen(remote, 4096, &options, 0).unwrap();
    let (mut none, mut pairs, before) = (Vec::new(), Vec::with_capacity(count), resident());
    let mut now = Instant(1_000_000);
    for n in 0..count {
        now = Instant(now.0 + 20_000);
        let local = Endpoint::new([10, 0, 1, (n / 30_000) as u8].into(), 20_000 + (n % 30_000) as u16);
        let x = a.stack.tcp_connect(now, local, remote, &options, 0, &mut a.wire).unwrap();
        let y = loop {
            answer(&mut a, now);
            answer(&mut b, now);
            carry(now, &mut a, &mut b, &mut none);
            carry(now, &mut b, &mut a, &mut none);
            if let Some(y) = b.stack.tcp_accept(listener) {
                break y;
            }
        };
        pairs.push((x, y));
    }
    // Everyone has been of use once.
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut buffer = [0; 256];
    let mut request = |a: &mut Side, b: &mut Side, (x, y), now: &mut Instant| {
        *now = Instant(now.0 + 5_000);
        a.stack.tcp_send(*now, x, &mut &[1u8; 64][..], Push::Now, &mut a.wire).unwrap();
        carry(*now, a, b, &mut none);
        b.stack.tcp_recv(*now, y, &mut &mut buffer[..], Take::Consume, &mut b.wire).unwrap();
        b.stack.tcp_send(*now, y, &mut &[1u8; 64][..], Push::Now, &mut b.wire).unwrap();
        carry(*now, b, a, &mut none);
        a.stack.tcp_recv(*now, x, &mut &mut buffer[..], Take::Consume, &mut a.wire).unwrap();
        carry(*now, a, b, &mut none);
        a.stack.on_time(*now, &mut a.wire);
        b.stack.on_time(*now, &mut b.wire);
        while a.stack.take_event().is_some() || b.stack.take_event().is_some() {}
    };
    for pair in &pairs {
        request(&mut a, &mut b, *pair, &mut now);
    }
    let bytes = (resident() - before) as f64 / count as f64 / 2.0;
    let (clock, rounds) = (Clock::now(), 500_000u64);
    for _ in 0..rounds {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        request(&mut a, &mut b, pairs[(random % count as u64) as usize], &mut now);
    }
    let ns = clock.elapsed().as_nanos() as f64 / rounds as f64;
    println!("{count} connections: {:.0} ns for one side of a request, {bytes:.0} bytes each", ns / 2.0);
}

/// Bytes of memory of this process.
fn resident() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<i64>().ok()).unwrap_or(0) * 4096
}

fn main() {
    if std::env::args().nth(1).is_some_and(|arg| arg == "many") {
        for count in [10, 100_000, 10, 100_000] {
            many(count);
        }
        return;
    }
    let bulk = std::env::args().nth(1).is_none_or(|arg| arg != "ping-pong");
    let (mut a, mut b) = (side(1), side(2));
    let (x, y) = pair(&mut a, &mut b);
    let mut none = Vec::new();
    let mut now = Instant(1_000_000);
    let mut buffer = vec![0; 65_536];
    for _ in 0..3 {
        let rounds: u64 = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
        let clock = Clock::now();
        let mut frames = 0;
        for _ in 0..rounds {
            now = Instant(now.0 + 5_000);
            a.stack.tcp_send(now, x, &mut &[1u8; 64][..], Push::Now, &mut a.wire).unwrap();
            frames += carry(now, &mut a, &mut b, &mut none);
            b.stack.tcp_recv(now, y, &mut &mut buffer[..], Take::Consume, &mut b.wire).unwrap();
            b.stack.take_event();
            b.stack.tcp_send(now, y, &mut &[1u8; 64][..], Push::Now, &mut b.wire).unwrap();
            frames += carry(now, &mut b, &mut a, &mut none);
            a.stack.tcp_recv(now, x, &mut &mut buffer[..], Take::Consume, &mut a.wire).unwrap();
            a.stack.take_event();
            a.stack.on_time(now, &mut a.wire);
            b.stack.on_time(now, &mut b.wire);
        }
        let ns = clock.elapsed().as_nanos() as f64 / rounds as f64;
        println!(
            "ping-pong 64 B: {:.0} ns for a segment in and the reply out (one side), {:.2} frames a round",
            ns / 2.0,
            frames as f64 / rounds as f64
        );
    }
    for _ in 0..if bulk { 3 } else { 0 } {
        let (mut bytes, mut segments) = (0usize, 0usize);
        let data = vec![7u8; 65_536];
        let clock = Clock::now();
        while bytes < 2_000_000_000 {
            now = Instant(now.0 + 2_000);
            let _ = a.stack.tcp_send(now, x, &mut &data[..], Push::Now, &mut a.wire);
            segments += carry(now, &mut a, &mut b, &mut none);
            while let Ok(n) = b.stack.tcp_recv(now, y, &mut &mut buffer[..], Take::Consume, &mut b.wire) {
                bytes += n;
            }
            b.stack.take_event();
            carry(now, &mut b, &mut a, &mut none);
            a.stack.take_event();
            a.stack.on_time(now, &mut a.wire);
            b.stack.on_time(now, &mut b.wire);
        }
        let took = clock.elapsed();
        println!(
            "bulk: {:.0} ns a segment (both sides), {:.2} GB/s",
            took.as_nanos() as f64 / segments as f64,
            bytes as f64 / took.as_nanos() as f64
        );
    }
    println!("a connection is {} bytes", stack::tcp::CONNECTION_SIZE);
}
