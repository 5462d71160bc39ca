//! What a segment costs, beside the kernel's loopback on the same two processors, and beside what no program can go
//! below: 64-byte questions and answers, spinning and sleeping, and a stream; a line of the cache that goes to and
//! fro, and a copy of memory. The ways take turns, so that what else the machine does strikes all of them.
//!
//! `cargo run --release -p memory --example floor [-- --words] [ROUNDS]`; with `--words` one line for each way:
//! nanoseconds, MB/s, name.

use memory::{Joined, Meeting, Progress, Source, Wants};
use std::hint::{black_box, spin_loop};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
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
            return spin_loop();
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

/// The two ends talk in turns until both have met.
fn meet(connected: i32, accepted: i32) -> (Option<Box<Joined>>, Option<Box<Joined>>) {
    let step = |progress: &mut Option<Progress>, tcp: i32| {
        if let Some(Progress::Waiting(meeting)) = progress.take_if(|was| matches!(was, Progress::Waiting(_)))
        {
            *progress = Some(meeting.go_on(tcp));
        }
    };
    let mut offer = Some(Progress::Waiting(Meeting::offer(connected).expect("a meeting place")));
    let mut call = Some(Progress::Waiting(Meeting::call(accepted).expect("somebody there")));
    loop {
        step(&mut offer, connected);
        step(&mut call, accepted);
        match (offer.take(), call.take()) {
            (Some(Progress::Joined(mut one)), Some(Progress::Joined(mut other))) => {
                for (joined, tcp) in [(&mut one, connected), (&mut other, accepted)] {
                    joined.hear(tcp);
                    joined.take_in();
                }
                assert_eq!((one.source(), other.source()), (Source::Segment, Source::Segment));
                return (Some(one), Some(other));
            }
            (Some(Progress::Apart(why)), _) | (_, Some(Progress::Apart(why))) => panic!("{why:?}"),
            (one, other) => (offer, call) = (one, other),
        }
    }
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

/// A line of the cache, alone in its pair: processors fetch two at once.
#[repr(align(128))]
struct Line(AtomicU32);

/// Nanoseconds one way of two lines that two processors write in turn, and nothing else.
fn lines() -> f64 {
    let (there, back) = (Line(AtomicU32::new(0)), Line(AtomicU32::new(0)));
    let wait_for = |line: &Line, value: u32| {
        while line.0.load(Ordering::Acquire) != value {
            spin_loop();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = sys::thread::pin(1);
            for number in 1..=EXCHANGES as u32 {
                wait_for(&there, number);
                back.0.store(number, Ordering::Release);
            }
        });
        let _ = sys::thread::pin(0);
        let mut times: Vec<u64> = (1..=EXCHANGES as u32)
            .map(|number| {
                let begun = sys::clock::now();
                there.0.store(number, Ordering::Release);
                wait_for(&back, number);
                sys::clock::now() - begun
            })
            .collect();
        times.sort_unstable();
        times[EXCHANGES / 2] as f64 / 2.0
    })
}

/// MB/s of one processor that copies pieces as large as a send of the stream from one part of memory to another.
fn copies() -> f64 {
    let (from, mut to) = (vec![7u8; PIECE], vec![0u8; PIECE]);
    let begun = Instant::now();
    for _ in 0..STREAM / PIECE {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
    }
    STREAM as f64 / begun.elapsed().as_micros().max(1) as f64
}

/// What is measured: nanoseconds and MB/s, either of which may not be.
type Way = (&'static str, fn() -> (f64, f64));

const WAYS: [Way; 6] = [
    ("two lines of the cache", || (lines(), f64::NAN)),
    ("a copy of memory", || (f64::NAN, copies())),
    ("segment, spinning", || measure(true, false)),
    ("loopback, spinning", || measure(false, false)),
    ("segment, sleeping", || measure(true, true)),
    ("loopback, blocking", || measure(false, true)),
];

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let rounds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(ROUNDS).max(1);
    let mut found = WAYS.map(|_| (Vec::new(), Vec::new()));
    for _ in 0..rounds {
        for ((_, measure), (times, rates)) in WAYS.iter().zip(&mut found) {
            let (time, rate) = measure();
            times.push(time);
            rates.push(rate);
        }
    }
    let for_programs = words.iter().any(|word| word == "--words");
    if !for_programs {
        println!("{:<24} {:>16} {:>12}", "", "one way p50, ns", "MB/s");
    }
    for ((name, _), (times, rates)) in WAYS.iter().zip(found) {
        let (time, rate) = (median(times), median(rates));
        if for_programs {
            println!("{time:.0} {rate:.0} {name}");
        } else {
            let shown = |value: f64| if value.is_nan() { "-".to_owned() } else { format!("{value:.0}") };
            println!("{name:<24} {:>16} {:>12}", shown(time), shown(rate));
        }
    }
}
