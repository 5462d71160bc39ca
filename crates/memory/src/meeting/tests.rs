//! Two ends of real TCP connections that meet, change over, and part, in every order.

use super::*;
use crate::joined::{End as Ended, Source};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

enum State {
    Socket,
    Meeting(Meeting),
    Joined(Box<Joined>),
    Apart(Apart),
}

/// One end, used as the socket layer would.
struct Side {
    tcp: TcpStream,
    state: State,
    paid: u64,
    sent: usize,
    got: usize,
    ended: Option<Ended>,
}

fn byte(at: usize) -> u8 {
    (at ^ at >> 8 ^ at >> 16) as u8
}

impl Side {
    fn new(tcp: TcpStream) -> Side {
        tcp.set_nonblocking(true).unwrap();
        Side { tcp, state: State::Socket, paid: 0, sent: 0, got: 0, ended: None }
    }

    fn fd(&self) -> i32 {
        self.tcp.as_raw_fd()
    }

    fn go_on(&mut self) {
        let fd = self.fd();
        self.state = match core::mem::replace(&mut self.state, State::Socket) {
            State::Meeting(meeting) => match meeting.go_on(fd) {
                Progress::Waiting(meeting) => State::Meeting(meeting),
                Progress::Joined(joined) => State::Joined(joined),
                Progress::Apart(why) => State::Apart(why),
            },
            State::Joined(mut joined) => {
                joined.hear(fd);
                joined.take_in();
                self.pay(&mut joined);
                State::Joined(joined)
            }
            other => other,
        };
    }

    /// What the peer did not read, as far as the socket takes it.
    fn pay(&mut self, joined: &mut Joined) {
        let mut buffer = [0; 3000];
        loop {
            let count = joined.owed(self.paid, &mut buffer);
            if count == 0 {
                return;
            }
            match self.tcp.write(&buffer[..count]) {
                Ok(written) => self.paid += written as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn give_up(&mut self) {
        let fd = self.fd();
        self.state = match core::mem::replace(&mut self.state, State::Socket) {
            State::Meeting(meeting) => match meeting.give_up(fd) {
                Some(mut joined) => {
                    joined.leave();
                    State::Joined(joined)
                }
                None => State::Apart(Apart::HungUp),
            },
            State::Joined(mut joined) => {
                joined.leave();
                State::Joined(joined)
            }
            other => other,
        };
    }

    fn part(&mut self) {
        if let State::Joined(joined) = &mut self.state {
            joined.part();
        }
    }

    fn send(&mut self, count: usize) {
        let data: Vec<u8> = (self.sent..self.sent + count).map(byte).collect();
        let by_socket = match &mut self.state {
            State::Joined(joined) if joined.sends_by_segment() => {
                self.sent += joined.send(&data);
                false
            }
            State::Joined(joined) => joined.has_left() && joined.owed(self.paid, &mut [0]) == 0,
            _ => true,
        };
        if by_socket {
            match self.tcp.write(&data) {
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn by_socket(&mut self, buffer: &mut [u8]) -> usize {
        match self.tcp.read(buffer) {
            Ok(0) if !buffer.is_empty() => {
                // The bell may say that there is more, elsewhere.
                let fd = self.fd();
                if let State::Joined(joined) = &mut self.state {
                    let before = joined.source();
                    joined.hear(fd);
                    joined.take_in();
                    if joined.source() != before {
                        return 0;
                    }
                }
                self.ended = Some(Ended::Eof);
                0
            }
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                self.ended = Some(Ended::Reset);
                0
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn receive(&mut self, most: usize) {
        let mut buffer = vec![0; most];
        let source = match &mut self.state {
            State::Joined(joined) => {
                joined.take_in();
                joined.source()
            }
            _ => Source::Socket(u64::MAX),
        };
        let got = match source {
            Source::Socket(left) => {
                let got = self.by_socket(&mut buffer[..most.min(left as usize)]);
                if let State::Joined(joined) = &mut self.state {
                    joined.received_by_socket(got as u64);
                }
                got
            }
            Source::Segment => {
                let State::Joined(joined) = &mut self.state else { unreachable!() };
                let got = joined.receive(&mut buffer);
                if got == 0 {
                    self.ended = joined.ended();
                }
                got
            }
        };
        for (index, got) in buffer[..got].iter().enumerate() {
            assert_eq!(*got, byte(self.got + index), "byte {}", self.got + index);
        }
        self.got += got;
    }

    fn is_joined(&self) -> bool {
        matches!(self.state, State::Joined(_))
    }

    fn joined(&mut self) -> &mut Joined {
        match &mut self.state {
            State::Joined(joined) => joined,
            State::Apart(why) => panic!("{why:?}"),
            _ => panic!("not yet"),
        }
    }
}

/// Repeats until it is so. The kernel may keep bytes for a delayed acknowledgment, or for a busy processor.
fn until(mut it_is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !it_is_so() {
        assert!(begun.elapsed().as_secs() < 60, "bytes are missing");
        std::thread::yield_now();
    }
}

/// The side that connected, and the one that accepted.
fn sides(address: &str) -> (Side, Side) {
    let listener = TcpListener::bind(address).unwrap();
    let connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (Side::new(connected), Side::new(listener.accept().unwrap().0))
}

fn offer(side: &mut Side) {
    side.state = State::Meeting(Meeting::offer(side.fd()).unwrap());
}

fn call(side: &mut Side) {
    side.state = State::Meeting(Meeting::call(side.fd()).unwrap());
}

/// Both ends, met.
fn met(address: &str) -> (Side, Side) {
    let (mut c, mut s) = sides(address);
    offer(&mut c);
    call(&mut s);
    for _ in 0..3 {
        c.go_on();
        s.go_on();
    }
    assert!(c.is_joined() && s.is_joined());
    (c, s)
}

#[test]
fn two_ends_meet_and_each_byte_comes_once_and_in_order() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (mut c, mut s) = sides(address);
        c.send(5000);
        s.send(70_000);
        s.receive(1234);
        offer(&mut c);
        c.receive(1);
        c.send(10);
        call(&mut s);
        c.go_on();
        c.send(100);
        s.send(100);
        s.go_on();
        c.go_on();
        assert!(c.is_joined() && !s.is_joined());
        // From here on by the segment on one side, by the socket on the other.
        c.send(200);
        s.send(20_000);
        s.receive(6000);
        s.go_on();
        assert!(s.is_joined());
        c.go_on();
        c.send(30_000);
        s.send(30_000);
        s.go_on();
        until(|| {
            c.receive(4000);
            s.receive(4000);
            (c.got, s.got) == (s.sent, c.sent)
        });
        assert_eq!((c.got, s.got), (s.sent, c.sent));
        // The segment carried what came last.
        assert!(c.joined().source() == Source::Segment && s.joined().source() == Source::Segment);
        assert_eq!((c.joined().distrust(), s.joined().distrust()), (None, None));
    }
}

#[test]
fn where_nobody_offers_nobody_is_called() {
    let (_c, s) = sides("127.0.0.1:0");
    assert_eq!(Meeting::call(s.fd()).err(), Some(libc::ECONNREFUSED));
}

#[test]
fn who_has_another_connection_is_not_believed_and_the_peer_may_still_come() {
    let (mut c, mut s) = sides("127.0.0.1:0");
    let (other, _other_end) = sides("127.0.0.1:0");
    offer(&mut c);
    let (own, peer) = sys::socket::ends(c.fd()).unwrap();
    let place = name_of(own, peer);
    let (_segment, file) = Segment::make().unwrap();
    let descriptors = [
        vec![other.fd(), file.raw()],
        vec![c.fd(), file.raw()],
        vec![file.raw(), file.raw()],
        vec![s.fd()],
        vec![s.fd(); 16],
        vec![],
    ];
    for descriptors in descriptors {
        let mut liar = liar_at(&place);
        c.go_on();
        assert!(matches!(hear(&liar), Heard::News((ANSWERS, _), _)));
        sys::socket::send_descriptors(liar.raw(), &news(SHOWS, 0), &descriptors).unwrap();
        c.go_on();
        assert!(matches!(c.state, State::Apart(_)));
        liar = packets().unwrap();
        assert_eq!(sys::socket::connect(liar.raw(), &place), Err(libc::ECONNREFUSED));
        offer(&mut c);
    }
    let with_descriptors = packets().unwrap();
    sys::socket::connect(with_descriptors.raw(), &place).unwrap();
    sys::socket::send_descriptors(with_descriptors.raw(), &news(CALLS, 0), &[s.fd()]).unwrap();
    c.go_on();
    assert!(matches!(hear(&with_descriptors), Heard::End), "it was hung up on");
    for said in [&b"r"[..], b"", &[0; 9], &[b'c', VERSION + 1, 0, 0, 0, 0, 0, 0, 0, 0], &[0; 500]] {
        let liar = packets().unwrap();
        sys::socket::connect(liar.raw(), &place).unwrap();
        sys::socket::send(liar.raw(), said, 0).unwrap();
        c.go_on();
        assert!(matches!(c.state, State::Meeting(Meeting { stage: Stage::Offered { .. } })));
    }
    call(&mut s);
    for _ in 0..4 {
        c.go_on();
        s.go_on();
    }
    assert!(c.is_joined() && s.is_joined());
}

/// Somebody calls, who has no connection.
fn liar_at(place: &libc::sockaddr_un) -> Fd {
    let liar = packets().unwrap();
    sys::socket::connect(liar.raw(), place).unwrap();
    sys::socket::send(liar.raw(), &news(CALLS, 0), 0).unwrap();
    liar
}

/// A socket that is on its way to somebody lives as long as it is not taken in: nobody who does not listen may get one.
#[test]
fn an_offer_that_nobody_looks_after_keeps_no_connection_alive() {
    let (mut c, mut s) = sides("127.0.0.1:0");
    offer(&mut c);
    call(&mut s);
    s.go_on();
    drop(s);
    until(|| {
        c.receive(10);
        c.ended.is_some()
    });
    assert_eq!(c.ended, Some(Ended::Eof));
}

#[test]
fn a_segment_that_could_shrink_keeps_the_connection_with_the_socket() {
    let (mut c, s) = sides("127.0.0.1:0");
    offer(&mut c);
    let (own, peer) = sys::socket::ends(c.fd()).unwrap();
    let caller = liar_at(&name_of(own, peer));
    c.go_on();
    // SAFETY: a C string.
    let open = unsafe { libc::memfd_create(c"sidestep-test".as_ptr(), libc::MFD_ALLOW_SEALING) };
    let open = Fd::adopt(open as usize);
    sys::socket::send_descriptors(caller.raw(), &news(SHOWS, 0), &[s.fd(), open.raw()]).unwrap();
    c.go_on();
    assert!(matches!(c.state, State::Apart(Apart::BadSegment)));
}

#[test]
fn a_peer_that_answers_and_ends_at_once_is_heard_to_its_end() {
    for read_all in [false, true] {
        let (mut c, mut s) = sides("127.0.0.1:0");
        offer(&mut c);
        call(&mut s);
        c.go_on();
        c.send(100);
        s.receive(100);
        s.go_on();
        c.go_on();
        s.go_on();
        s.send(5000);
        if !read_all {
            s.joined().shut();
        }
        // Its end of everything, before the other side has heard that it began.
        drop(s);
        c.go_on();
        assert!(c.is_joined());
        for _ in 0..10 {
            c.go_on();
            c.receive(1000);
        }
        assert_eq!((c.got, c.ended), (5000, Some(Ended::Eof)));
    }
}

#[test]
fn the_end_of_a_peer_that_had_not_read_everything_is_a_reset() {
    let (mut c, mut s) = met("127.0.0.1:0");
    c.send(10);
    s.send(5);
    drop(s);
    c.go_on();
    c.receive(100);
    assert_eq!((c.got, c.ended), (5, None));
    c.receive(100);
    assert_eq!(c.ended, Some(Ended::Reset));
    assert!(!c.joined().sends_by_segment());
}

#[test]
fn floods_of_rings_and_nonsense_are_contained() {
    let (mut c, mut s) = met("127.0.0.1:0");
    let bell = s.joined().descriptor();
    while sys::socket::send(bell, b"r", libc::MSG_DONTWAIT).is_ok() {}
    // One look takes a bounded number.
    c.go_on();
    assert!(sys::poll::readable(c.joined().descriptor()));
    while sys::poll::readable(c.joined().descriptor()) {
        c.go_on();
    }
    assert_eq!(c.joined().distrust(), None);
    sys::socket::send(bell, &news(BEGINS, 7), 0).unwrap();
    c.go_on();
    assert!(c.joined().distrust().is_some());
    c.receive(10);
    assert_eq!(c.ended, Some(Ended::Reset));
}

/// Random steps of both sides: sends, receives, meeting, giving up, leaving.
#[test]
fn in_whatever_order_two_sides_meet_and_part_no_byte_is_lost_repeated_or_out_of_place() {
    let (mut met, mut parted, mut kept) = (0, 0, 0);
    for seed in 1..=400u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |bound: u64| {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
        };
        let (mut c, mut s) = sides("127.0.0.1:0");
        let mut was_met = false;
        let mut offered = false;
        let part_at = 20 + below(300);
        for step in 0..300 {
            let side = if below(2) == 0 { &mut c } else { &mut s };
            match below(8) {
                0 => side.send(1 + below(300) as usize),
                1 => side.send(1 + below(50_000) as usize),
                2..=4 => side.receive(1 + below(20_000) as usize),
                5 if step > 5 && !offered => {
                    offered = true;
                    offer(&mut c);
                    call(&mut s);
                }
                _ if step >= part_at && below(4) == 0 => side.give_up(),
                6 if below(8) == 0 => side.part(),
                _ => side.go_on(),
            }
            was_met |= c.is_joined() && s.is_joined();
        }
        until(|| {
            for side in [&mut c, &mut s] {
                side.go_on();
                side.receive(100_000);
            }
            (c.got, s.got) == (s.sent, c.sent)
        });
        assert_eq!((c.got, s.got), (s.sent, c.sent), "seed {seed}");
        assert_eq!((c.ended, s.ended), (None, None), "seed {seed}");
        let left = |side: &Side| matches!(&side.state, State::Joined(joined) if joined.has_left());
        met += u32::from(was_met);
        parted += u32::from(left(&c) && left(&s));
        kept += u32::from(matches!(c.state, State::Apart(_)));
    }
    assert!(met > 100 && parted > 100 && kept > 5, "met {met}, parted {parted}, gave up before {kept}");
}
