//! A listener under load: SYNs from many addresses, answers to its SYN-ACKs and to cookies, guesses, resets, time.
//!
//! What must hold, beside `victim`: the sockets that strangers can make are bounded by the backlog; nothing is answered
//! with more than one segment, nor with one longer than what it answers by more than the options; and when the storm is
//! over, an honest client gets in.

use crate::input::Input;
use crate::segment::Forged;
use crate::victim::{ME, Victim};
use sim::packet::{ACK, Body, FIN, RST, SYN};
use stack::tcp::{Close, State};
use stack::{Duration, Endpoint, SocketId};
use std::collections::HashSet;
use std::net::Ipv4Addr;

const PORT: u16 = 80;
/// Half-open connections of a listener whose backlog is at most this.
const HALF_OPEN_MAX: usize = 8;
/// SYN-ACKs that the attacker remembers.
const REMEMBERED: usize = 32;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut storm = Storm::new(&mut input);
    for _ in 0..200 {
        if input.is_empty() {
            break;
        }
        storm.step(&mut input);
        storm.look();
    }
    storm.honest_client();
    storm.close();
}

struct Storm {
    victim: Victim,
    listener: SocketId,
    backlog: u32,
    accepted: Vec<SocketId>,
    /// Whom a SYN-ACK went to: address, port, its sequence number, what it acknowledged, its timestamp.
    answers: Vec<(Ipv4Addr, u16, u32, u32, u32)>,
    next_port: u16,
    /// Every SYN-ACK: whom it went to and its number.
    offered: HashSet<(Ipv4Addr, u16, u32)>,
    /// Who acknowledged one.
    proved: HashSet<(Ipv4Addr, u16)>,
    /// Connections that the application closed in order and TCP may still be ending.
    closed: usize,
}

impl Storm {
    fn new(input: &mut Input) -> Storm {
        let bits = input.u8();
        let backlog = u32::from(input.u8() % 4);
        let mut victim = Victim::new(|config| {
            config.tcp.sack = bits & 1 == 0;
            config.tcp.timestamps = bits & 2 == 0;
            config.tcp.window_scaling = bits & 4 == 0;
            config.tcp.time_wait_max = 8;
        });
        let options = stack::testing::tcp_settings().options;
        let listener = victim.stack.tcp_listen(Endpoint::new(ME, PORT), backlog, &options, 0);
        let listener = listener.expect("room for a listener");
        Storm {
            victim,
            listener,
            backlog,
            accepted: Vec::new(),
            answers: Vec::new(),
            next_port: 1024,
            offered: HashSet::new(),
            proved: HashSet::new(),
            closed: 0,
        }
    }

    /// A segment to the listener from one of 200 hosts.
    fn offer(&mut self, host: u8, segment: &Forged) {
        let from = Ipv4Addr::new(10, 0, 0, 3 + host % 200);
        let frame = segment.frame(from, ME);
        if segment.flags & ACK != 0
            && self.offered.contains(&(from, segment.src, segment.ack.wrapping_sub(1)))
        {
            self.proved.insert((from, segment.src));
        }
        let before = self.victim.out.frames.len();
        self.victim.receive(&frame, 0);
        let answers: Vec<usize> = self.victim.out.frames.range(before..).map(Vec::len).collect();
        assert!(answers.len() <= 1, "{} answers to one segment", answers.len());
        assert!(answers.iter().all(|len| *len <= frame.len() + 40), "amplified: {answers:?}");
    }

    fn syn(&mut self, port: u16, input: &mut Input) -> Forged {
        let mut options = vec![2, 4, 5, 180];
        let bits = input.u8();
        if bits & 1 != 0 {
            options.extend([1, 3, 3, bits >> 4]);
        }
        if bits & 2 != 0 {
            options.extend([4, 2, 8, 10, 0, 0, 0, bits, 0, 0, 0, 0]);
        }
        let flags = SYN | if bits & 4 != 0 { input.u8() } else { 0 };
        let payload = vec![7; if bits & 8 != 0 { 16 } else { 0 }];
        Forged {
            src: port,
            dst: PORT,
            seq: input.u32(),
            flags,
            window: 1000,
            options,
            payload,
            ..Forged::default()
        }
    }

    fn step(&mut self, input: &mut Input) {
        match input.u8() % 12 {
            0 | 1 => {
                let (host, port) = (input.u8(), 1024 + u16::from(input.u8()));
                let syn = self.syn(port, input);
                self.offer(host, &syn);
            }
            // A flood from ever new ports.
            2 => {
                let (host, count) = (input.u8(), u16::from(input.u8()));
                let syn = self.syn(0, input);
                for _ in 0..count {
                    self.next_port = self.next_port.wrapping_add(1).max(1024);
                    self.offer(host, &Forged { src: self.next_port, ..syn.clone() });
                    self.look();
                }
            }
            3..=5 => self.reply(input),
            6 => {
                let (host, port) = (input.u8(), 1024 + u16::from(input.u8()));
                let segment = Forged {
                    src: port,
                    dst: PORT,
                    seq: input.u32(),
                    ack: input.u32(),
                    flags: input.u8(),
                    window: input.u16(),
                    options: input.bytes(12).to_vec(),
                    ..Forged::default()
                };
                self.offer(host, &segment);
            }
            7 => self.accept(),
            8 => {
                let how = if input.flag() { Close::Abort } else { Close::Orderly };
                if let Some(id) = self.accepted.pop() {
                    self.closed += 1;
                    self.victim.stack.tcp_close(self.victim.now, id, how, &mut self.victim.out);
                    self.victim.settle();
                }
            }
            9 => {
                self.backlog = u32::from(input.u8() % 8);
                self.victim.stack.tcp_set_backlog(self.listener, self.backlog);
            }
            10 => self.victim.pass(Duration::from_millis(u64::from(input.u16()))),
            _ => self.victim.pass_to_timer(),
        }
    }

    /// Answers a SYN-ACK, almost as it should be answered.
    fn reply(&mut self, input: &mut Input) {
        let which = usize::from(input.u8());
        let Some(&(host, port, seq, ack, echo)) = self.answers.get(which % self.answers.len().max(1)) else {
            return;
        };
        let twist = input.u8();
        let mut segment = Forged {
            src: port,
            dst: PORT,
            seq: ack,
            ack: seq.wrapping_add(1),
            flags: ACK,
            window: 500,
            payload: vec![3; usize::from(twist >> 4)],
            ..Forged::default()
        };
        match twist & 15 {
            0 => segment.flags = RST,
            1 => segment.flags = RST | ACK,
            2 => segment.flags |= FIN,
            3 => segment.flags |= SYN,
            4 => segment.ack = segment.ack.wrapping_add_signed(input.near()),
            5 => segment.seq = segment.seq.wrapping_add_signed(input.near()),
            6 => segment.flags = input.u8(),
            _ => {}
        }
        if echo != 0 {
            segment.options.extend([1, 1, 8, 10, 0, 0, 1, 0]);
            segment.options.extend(echo.to_be_bytes());
        }
        self.offer(host.octets()[3] - 3, &segment);
    }

    fn accept(&mut self) {
        if let Some(id) = self.victim.stack.tcp_accept(self.listener) {
            let remote = self.victim.stack.remote(id).expect("an accepted connection is a socket");
            let proved = self.proved.contains(&(*remote.ip(), remote.port()));
            assert!(proved, "{remote} was accepted and never answered a SYN-ACK");
            self.accepted.push(id);
        }
        self.victim.settle();
    }

    fn look(&mut self) {
        for frame in self.victim.sent() {
            let Ok(Some(packet)) = sim::packet::parse(&frame) else { continue };
            let Body::Tcp(tcp) = packet.body else { continue };
            if tcp.has(SYN) && tcp.has(ACK) {
                assert!(tcp.payload.is_empty(), "a SYN-ACK with data");
                if self.answers.len() == REMEMBERED {
                    self.answers.remove(0);
                }
                let echo = tcp.options.timestamps.map_or(0, |(value, _)| value);
                let to = Ipv4Addr::from(packet.destination);
                self.offered.insert((to, tcp.destination, tcp.seq));
                self.answers.push((to, tcp.destination, tcp.seq, tcp.ack, echo));
            }
        }
        let census = self.victim.stack.census();
        // Those that waited in the accept queue when the backlog was larger stay; TIME-WAIT has its own bound.
        let most = 1 + HALF_OPEN_MAX + 9 + 8 + self.accepted.len() + self.closed;
        assert!(census.sockets <= most, "{} sockets", census.sockets);
    }

    /// When the storm is over and the application has accepted everything, an honest client gets in.
    fn honest_client(&mut self) {
        for _ in 0..20 {
            self.accept();
        }
        // What strangers began and left is over after the retransmissions of a SYN-ACK.
        self.victim.pass(Duration::from_secs(300));
        self.look();
        for _ in 0..20 {
            self.accept();
        }
        let sockets = self.victim.stack.census().sockets;
        assert!(sockets <= 1 + self.accepted.len() + self.closed, "{sockets} sockets after the storm");
        self.answers.clear();
        let options = vec![2, 4, 5, 180];
        let syn =
            Forged { src: 999, dst: PORT, seq: 77, flags: SYN, window: 1000, options, ..Forged::default() };
        self.offer(0, &syn);
        self.look();
        let Some(&(_, 999, seq, 78, _)) = self.answers.last() else {
            panic!("an honest SYN was not answered")
        };
        let third = Forged { flags: ACK, seq: 78, ack: seq.wrapping_add(1), options: Vec::new(), ..syn };
        self.offer(0, &third);
        self.look();
        let id = self.victim.stack.tcp_accept(self.listener).expect("an honest client gets in");
        assert_eq!(self.victim.stack.tcp_state(id), Some(State::Established));
        self.accepted.push(id);
    }

    fn close(&mut self) {
        for id in self.accepted.drain(..) {
            self.victim.stack.tcp_close(self.victim.now, id, Close::Abort, &mut self.victim.out);
        }
        self.victim.stack.tcp_close(self.victim.now, self.listener, Close::Orderly, &mut self.victim.out);
        self.victim.must_be_empty_in_the_end();
    }
}
