//! What a segment costs, beside the kernel's loopback on the same two processors: 64-byte questions and answers,
//! spinning and sleeping, and a stream. The ways take turns, so that what else the machine does strikes all of them.
//!
//! `cargo run --release -p memory --example floor`

use memory::{Joined, Meeting, Progress, Source, Wants};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Instant;

const MESSAGE: usize = 64;
const EXCHANGES: usize = 2000;
const ROUNDS: usize = 15;
const STREAM: usize = 64 << 20;
const PIECE: usize = 64 << 10;

/// One end of a connection, used in one of four ways.
struct Side {
    tcp: TcpStream,
    joined: Option<Box<Joined>>,
    sleeps: bool,
}

impl Side {
    fn send(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let sent = match &mut self.joined {
                Some(joined) => joined.send(data),
                None => retry(self.tcp.write(data)),
            };
            data = &data[sent..];
            if sent == 0 {
                self.idle(Wants::ROOM);
            }
        }
    }

    fn receive(&mut self, into: &mut [u8]) {
        let mut done = 0;
        while done < into.len() {
            let got = match &mut self.joined {
                Some(joined) => {
                    joined.take_in();
                    joined.receive(&mut into[done..])
                }
                None => retry(self.tcp.read(&mut into[done..])),
            };
            done += got;
            if got == 0 {
                self.idle(Wants::DATA);
            }
        }
    }

    fn idle(&mut self, wants: Wants) {
        let Some(joined) = self.joined.as_mut().filter(|_| self.sleeps) else {
            return std::hint::spin_loop();
        };
        joined.want(wants);
        joined.take_in();
        let found = if wants == Wants::ROOM { joined.is_writable() } else { joined.is_readable() };
        if found {
            return joined.want_no_more(wants);
        }
        let mut fds = [libc::pollfd { fd: joined.descriptor(), events: libc::POLLIN, revents: 0 }];
        let _ = sys::poll::poll(&mut fds, None, None);
        joined.hear(self.tcp.as_raw_fd());
        joined.take_in();
    }
}

fn retry(result: std::io::Result<usize>) -> usize {
    match result {
        Ok(count) => count,
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        Err(error) => panic!("{error}"),
    }
}

fn pair(by_memory: bool, sleeps: bool) -> (Side, Side) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let connected = TcpStream::connect(listener.local_addr().expect("a name")).expect("loopback");
    let accepted = listener.accept().expect("loopback").0;
    let side = |tcp: TcpStream| {
        tcp.set_nodelay(true).expect("an option");
        tcp.set_nonblocking(by_memory || !sleeps).expect("an option");
        Side { tcp, joined: None, sleeps }
    };
    let (mut one, mut other) = (side(connected), side(accepted));
    if by_memory {
        (one.joined, other.joined) = meet(one.tcp.as_raw_fd(), other.tcp.as_raw_fd());
    }
    (one, other)
}

fn meet(connected: i32, accepted: i32) -> (Option<Box<Joined>>, Option<Box<Joined>>) {
    let offer = Meeting::offer(connected).expect("a meeting place");
    let call = Meeting::call(accepted).expect("somebody there");
    let Progress::Waiting(offer) = offer.go_on(connected) else { panic!("too early") };
    let Progress::Joined(mut other) = call.go_on(accepted) else { panic!("no answer") };
    let Progress::Joined(one) = offer.go_on(connected) else { panic!("does not begin") };
    other.hear(accepted);
    other.take_in();
    assert_eq!((one.source(), other.source()), (Source::Segment, Source::Segment));
    (Some(one), Some(other))
}

/// Nanoseconds one way, and bytes for each microsecond.
fn measure(by_memory: bool, sleeps: bool) -> (f64, f64) {
    let (mut one, mut other) = pair(by_memory, sleeps);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = sys::thread::pin(1);
            let mut message = [0; MESSAGE];
            for _ in 0..EXCHANGES {
                other.receive(&mut message);
                other.send(&message);
            }
            let mut piece = vec![0; PIECE];
            for _ in 0..STREAM / PIECE {
                other.receive(&mut piece);
            }
            other.send(&message);
        });
        let _ = sys::thread::pin(0);
        let mut message = [7; MESSAGE];
        let mut times: Vec<u64> = (0..EXCHANGES)
            .map(|_| {
                let begun = sys::clock::now();
                one.send(&message);
                one.receive(&mut message);
                sys::clock::now() - begun
            })
            .collect();
        times.sort_unstable();
        let piece = vec![7; PIECE];
        let begun = Instant::now();
        for _ in 0..STREAM / PIECE {
            one.send(&piece);
        }
        one.receive(&mut message);
        let rate = STREAM as f64 / begun.elapsed().as_micros() as f64;
        (times[EXCHANGES / 2] as f64 / 2.0, rate)
    })
}

fn main() {
    let ways = [
        ("segment, spinning", true, false),
        ("loopback, spinning", false, false),
        ("segment, sleeping", true, true),
        ("loopback, blocking", false, true),
    ];
    let mut found = [(); 4].map(|()| (Vec::new(), Vec::new()));
    for _ in 0..ROUNDS {
        for ((_, by_memory, sleeps), (times, rates)) in ways.iter().zip(&mut found) {
            let (time, rate) = measure(*by_memory, *sleeps);
            times.push(time);
            rates.push(rate);
        }
    }
    println!("{:<20} {:>16} {:>12}", "", "one way p50, ns", "MB/s");
    for ((name, ..), (times, rates)) in ways.iter().zip(&mut found) {
        times.sort_by(f64::total_cmp);
        rates.sort_by(f64::total_cmp);
        println!("{name:<20} {:>16.0} {:>12.0}", times[ROUNDS / 2], rates[ROUNDS / 2]);
    }
}
