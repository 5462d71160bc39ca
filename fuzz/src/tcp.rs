//! A live connection whose peer, network and application do what the input says.
//!
//! What must hold, beside `victim`: the application reads exactly the stream that the peer wrote; what is sent is the
//! stream that the application wrote, inside of windows that were offered; what is acknowledged was sent, and
//! acknowledgments do not go back; a reset is never answered with one; a segment that finds nothing to send is answered
//! with two segments at most; queues stay within their buffers.

use crate::input::Input;
use crate::segment::{Forged, icmp};
use crate::victim::{ME, PEER, Victim};
use sim::packet::{ACK, Body, FIN, PSH, RST, SYN, Tcp, URG};
use stack::tcp::{Close, Congestion, Options, Push, State, Take};
use stack::{Duration, Endpoint, Path, Query, RecvError, SocketError, SocketId};

/// Ports of the engine's and of the peer's end.
const PORTS: (u16, u16) = (5000, 80);
/// The peer's first sequence number: the stream crosses the wrap early.
const IRS: u32 = u32::MAX - 2000;
const RECEIVE_MAX: u32 = 65_536;
/// Operations in one conversation.
const STEPS_MAX: usize = 300;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let Some(mut talk) = Talk::begin(&mut input) else { return };
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        talk.step(&mut input);
        talk.look();
    }
    let how = if input.flag() { Close::Orderly } else { Close::Abort };
    talk.close(how);
    talk.look();
    talk.victim.must_be_empty_in_the_end();
}

struct Talk {
    victim: Victim,
    id: SocketId,
    /// The application closed it.
    closed: bool,
    /// The engine's first sequence number.
    iss: u32,
    /// What it sent up to, from `iss`.
    sent: u32,
    /// Its newest acknowledgment.
    acked: u32,
    /// Sequence ranges of all segments of the peer.
    ranges: Vec<(u32, u32)>,
    /// The right edge of the widest window that was ever offered, from `iss`.
    edge: u64,
    /// Shift of the peer's windows.
    scale: u8,
    /// Shift of the engine's windows, and the right edge of the last one, from `IRS`.
    own_scale: u8,
    own_edge: u32,
    timestamps: bool,
    /// The engine's newest timestamp.
    echo: u32,
    /// Bytes that the application wrote and read.
    wrote: u32,
    read: u32,
    /// False once bytes may have been taken out of the stream as urgent, or the handshake was not ours alone.
    content_is_known: bool,
}

/// The peer's byte at an offset of its stream, and the application's of its own.
fn theirs(offset: u32) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9) >> 13) as u8
}
fn ours(offset: u32) -> u8 {
    (offset.wrapping_mul(0x85eb_ca6b) >> 11) as u8
}

impl Talk {
    fn begin(input: &mut Input) -> Option<Talk> {
        let (bits, more) = (input.u8(), input.u8());
        let mut victim = Victim::new(|config| {
            config.tcp.sack = bits & 1 == 0;
            config.tcp.timestamps = bits & 2 == 0;
            config.tcp.window_scaling = bits & 4 == 0;
            config.tcp.rmem = [2048, 16_384, RECEIVE_MAX];
            config.tcp.wmem = [2048, 16_384, 65_536];
            config.tcp.time_wait_max = 4;
        });
        let options = options(bits, more);
        let (local, remote) = (Endpoint::new(ME, PORTS.0), Endpoint::new(PEER, PORTS.1));
        let mut talk = Talk {
            id: victim.stack.tcp_listen(local, 1, &options, 0).ok()?,
            victim,
            closed: false,
            iss: 0,
            sent: 0,
            acked: IRS,
            ranges: Vec::new(),
            edge: 0,
            scale: if bits & 4 == 0 { input.u8() % 16 } else { 0 },
            own_scale: 0,
            own_edge: 0,
            timestamps: bits & 2 == 0 && input.flag(),
            echo: 0,
            wrote: 0,
            read: 0,
            content_is_known: true,
        };
        let listener = talk.id;
        let mut syn = talk.segment(SYN);
        syn.seq = IRS;
        syn.window = input.one_of(&[65_535, 0, 1, 1460, 20_000]);
        let mss = input.one_of(&[1460u16, 0, 1, 64, 536, 8960, 65_535]);
        syn.options.extend([&[2, 4][..], &mss.to_be_bytes()].concat());
        if bits & 4 == 0 {
            syn.options.extend([3, 3, talk.scale]);
            talk.scale = talk.scale.min(14);
        }
        if input.flag() {
            syn.options.extend([4, 2]);
        }
        match more >> 6 {
            // It connects, and the peer is honest.
            0 => {
                talk.victim.stack.tcp_close(talk.victim.now, listener, Close::Orderly, &mut talk.victim.out);
                talk.connect(local, remote, &options)?;
                syn.flags = SYN | ACK;
                syn.ack = talk.iss.wrapping_add(1);
                talk.acked = IRS.wrapping_add(1);
                talk.offer(&syn);
            }
            // It connects, and what the peer answers is up to the input.
            1 => {
                talk.victim.stack.tcp_close(talk.victim.now, listener, Close::Orderly, &mut talk.victim.out);
                talk.connect(local, remote, &options)?;
                talk.content_is_known = false;
                talk.edge = u64::MAX;
            }
            // It accepts.
            _ => {
                talk.offer(&syn);
                let frame = talk.victim.sent().into_iter().next()?;
                talk.first(&frame);
                let mut third = talk.segment(ACK);
                third.window = syn.window;
                talk.offer(&third);
                let accepted = talk.victim.stack.tcp_accept(listener);
                talk.victim.stack.tcp_close(talk.victim.now, listener, Close::Orderly, &mut talk.victim.out);
                talk.id = accepted.expect("an honest handshake is accepted");
            }
        }
        talk.look();
        Some(talk)
    }

    fn connect(&mut self, local: Endpoint, remote: Endpoint, options: &Options) -> Option<()> {
        let victim = &mut self.victim;
        self.id = victim.stack.tcp_connect(victim.now, local, remote, options, 0, &mut victim.out).ok()?;
        victim.settle();
        let frame = victim.sent().into_iter().next()?;
        self.first(&frame);
        Some(())
    }

    /// Learns the engine's numbers from its SYN.
    fn first(&mut self, frame: &[u8]) {
        let Ok(Some(packet)) = sim::packet::parse(frame) else { return };
        let Body::Tcp(tcp) = packet.body else { return };
        self.iss = tcp.seq;
        self.sent = 1;
        if tcp.has(ACK) {
            self.acked = tcp.ack;
        }
        if let Some((value, _)) = tcp.options.timestamps {
            self.echo = value;
        } else {
            self.timestamps = false;
        }
        match tcp.options.window_scale {
            Some(shift) => self.own_scale = shift,
            None => self.scale = 0,
        }
    }

    /// What an honest peer would send now.
    fn segment(&self, flags: u8) -> Forged {
        let mut options = Vec::new();
        if self.timestamps {
            let clock = (self.victim.now.0 / 1_000_000) as u32;
            options.extend([1, 1, 8, 10]);
            options.extend(clock.to_be_bytes());
            options.extend(self.echo.to_be_bytes());
        }
        Forged {
            src: PORTS.1,
            dst: PORTS.0,
            seq: self.acked,
            ack: self.iss.wrapping_add(self.sent),
            flags,
            window: 0xffff,
            urgent: 0,
            options,
            payload: Vec::new(),
        }
    }

    /// Fills in the peer's stream.
    fn fill(&self, segment: &mut Forged, len: usize) {
        let syn = u32::from(segment.flags & SYN != 0);
        let start = segment.seq.wrapping_add(syn).wrapping_sub(IRS.wrapping_add(1));
        segment.payload = (0..len as u32).map(|at| theirs(start.wrapping_add(at))).collect();
    }

    /// A segment of the peer arrives.
    fn offer(&mut self, segment: &Forged) {
        self.offer_in_pieces(segment, 0);
    }

    fn offer_in_pieces(&mut self, segment: &Forged, piece: usize) {
        let before = self.state();
        let beyond_all = self.ranges.iter().all(|range| segment.seq.wrapping_sub(range.1) as i32 > 0);
        self.deliver(segment, piece);
        let proves_nothing = segment.flags & RST != 0 && beyond_all || segment.flags & (RST | SYN) == SYN;
        if self.content_is_known && proves_nothing && before.is_some_and(|state| state == State::Established)
        {
            assert_eq!(self.state(), before, "a blind segment changed the state");
        }
    }

    fn state(&self) -> Option<State> {
        self.victim.stack.tcp_state(self.id)
    }

    fn deliver(&mut self, segment: &Forged, piece: usize) {
        self.ranges.push((segment.seq, segment.seq.wrapping_add(segment.span())));
        let acked = segment.ack.wrapping_sub(self.iss);
        if segment.flags & ACK != 0 && acked <= self.sent {
            let scale = if segment.flags & SYN != 0 { 0 } else { self.scale };
            self.edge = self.edge.max(u64::from(acked) + (u64::from(segment.window) << scale));
        } else if segment.flags & SYN != 0 {
            self.edge = self.edge.max(1 + u64::from(segment.window));
        }
        let idle = self.queued().is_none_or(|queued| queued.send == 0);
        let before = self.victim.out.frames.len();
        self.victim.receive(&segment.frame(PEER, ME), piece);
        let answers = self.victim.out.frames.len() - before;
        assert!(!idle || answers <= 2, "{answers} answers to one segment");
        if segment.flags & RST != 0 {
            let resets = self.victim.out.frames.range(before..).filter(|frame| frame[47] & RST != 0);
            assert_eq!(resets.count(), 0, "a reset was answered with a reset");
        }
    }

    fn queued(&self) -> Option<stack::tcp::Queued> {
        self.victim.stack.tcp_queued(self.id)
    }

    /// Looks at what the engine sent and holds.
    fn look(&mut self) {
        for frame in self.victim.sent() {
            let Ok(Some(packet)) = sim::packet::parse(&frame) else { continue };
            if let Body::Tcp(tcp) = packet.body {
                self.judge(&tcp);
            }
        }
        if let Some(queued) = self.queued() {
            assert!(queued.receive <= 4 * RECEIVE_MAX as usize, "{} bytes wait to be read", queued.receive);
            assert!(queued.send <= 1 << 20, "{} bytes wait to be sent", queued.send);
        }
        let bytes = self.victim.books.bytes.get();
        assert!(bytes <= 8 * RECEIVE_MAX as usize, "{bytes} bytes of frames are held");
    }

    fn judge(&mut self, tcp: &Tcp) {
        assert_eq!((tcp.source, tcp.destination), PORTS, "ports of nobody");
        assert!(!tcp.has(SYN) || !tcp.has(FIN), "SYN with FIN");
        if tcp.has(RST) {
            return;
        }
        let start = tcp.seq.wrapping_sub(self.iss);
        let end = start.wrapping_add(tcp.span());
        // A keepalive or a probe of a window may repeat the last byte that was acknowledged.
        if end != u32::MAX && tcp.span() > 0 {
            assert!(end <= self.wrote + 2, "sent {start}..{end}, but only {} were written", self.wrote);
            self.sent = self.sent.max(end);
            let fin = u32::from(tcp.has(FIN));
            assert!(
                u64::from(end - fin) <= self.edge.max(1).saturating_add(1),
                "{end} is beyond the window at {}",
                self.edge
            );
        }
        if !tcp.has(SYN) {
            for (at, byte) in tcp.payload.iter().enumerate() {
                let offset = start.wrapping_sub(1).wrapping_add(at as u32);
                assert_eq!(*byte, ours(offset), "the byte at {offset} is not what was written");
            }
        }
        if let Some((value, _)) = tcp.options.timestamps {
            self.echo = value;
        }
        let covered = |number: u32| {
            self.ranges.iter().any(|(from, to)| number.wrapping_sub(*from) <= to.wrapping_sub(*from))
        };
        for (left, right) in &tcp.options.sacks[..tcp.options.sack_count] {
            assert!(covered(*left) && covered(*right), "SACKs {left:#x}..{right:#x}, which was never sent");
        }
        if tcp.has(ACK) {
            assert!(covered(tcp.ack), "acknowledges {:#x}, which was never sent", tcp.ack);
            if self.content_is_known {
                let forward = tcp.ack.wrapping_sub(self.acked) as i32;
                assert!(forward >= 0, "acknowledgment went back by {}", -i64::from(forward));
                if !tcp.has(SYN) {
                    let edge = tcp.ack.wrapping_sub(IRS) + (u32::from(tcp.window) << self.own_scale);
                    // A scaled window cannot say each edge: less than a unit is what that takes (RFC 7323, 2.4).
                    let told = edge + (1 << self.own_scale);
                    assert!(told > self.own_edge, "the window went back from {} to {edge}", self.own_edge);
                    self.own_edge = self.own_edge.max(edge);
                }
            }
            self.acked = tcp.ack;
        }
    }

    fn step(&mut self, input: &mut Input) {
        match input.u8() % 20 {
            0 | 1 => {
                let mut segment = self.segment(ACK | PSH);
                self.fill(&mut segment, usize::from(input.u8()) * 6);
                self.offer_in_pieces(&segment, 0);
            }
            2 => {
                let segment = self.segment(ACK);
                self.offer(&segment);
            }
            3 => {
                let mut segment = self.segment(ACK);
                segment.ack = segment.ack.wrapping_sub(u32::from(input.u16()));
                self.offer(&segment);
            }
            4 | 5 => self.out_of_order(input),
            6 => self.flags(input),
            7 => self.wild(input),
            8 => self.sack(input),
            9 => {
                let mut segment = self.segment(ACK);
                segment.window = input.u16();
                self.offer(&segment);
            }
            10 => self.victim.pass(Duration::from_millis(u64::from(input.u16()))),
            11 => self.victim.pass_to_timer(),
            12 | 13 => self.write(input),
            14 => self.take(input),
            15 => self.command(input),
            16 => self.icmp(input),
            17 => self.network(input),
            18 => self.urgent(input),
            _ => self.broken(input),
        }
    }

    fn out_of_order(&mut self, input: &mut Input) {
        let mut segment = self.segment(ACK);
        segment.seq = segment.seq.wrapping_add_signed(input.near());
        let (len, twist) = (input.u16() % 1461, input.u8());
        if twist & 1 != 0 {
            segment.flags |= FIN;
            // The stream's end is wherever it is believed to be.
            self.content_is_known &= twist & 2 == 0;
        }
        self.fill(&mut segment, usize::from(len));
        self.offer_in_pieces(&segment, usize::from(twist & 0xf0));
        if twist & 4 != 0 {
            self.offer(&segment);
        }
    }

    fn flags(&mut self, input: &mut Input) {
        let mut segment = self.segment(input.u8());
        segment.seq = segment.seq.wrapping_add_signed(i32::from(input.u8() as i8));
        segment.ack = segment.ack.wrapping_add_signed(i32::from(input.u8() as i8));
        let len = usize::from(input.u8() % 8);
        self.fill(&mut segment, len);
        self.content_is_known &= segment.flags & URG == 0;
        segment.urgent = input.u16();
        self.offer(&segment);
    }

    fn wild(&mut self, input: &mut Input) {
        let mut segment = self.segment(input.u8());
        (segment.seq, segment.ack, segment.window) = (input.u32(), input.u32(), input.u16());
        segment.options = input.bytes(usize::from(segment.window & 0x3f)).to_vec();
        self.content_is_known &= segment.flags & URG == 0;
        let len = usize::from(input.u8());
        self.fill(&mut segment, len);
        self.offer(&segment);
    }

    fn sack(&mut self, input: &mut Input) {
        let mut segment = self.segment(ACK);
        let top = segment.ack;
        segment.ack = top.wrapping_sub(u32::from(input.u16()));
        let count = input.u8() % 5;
        segment.options.extend([1, 1, 5, 2 + 8 * count]);
        for _ in 0..count {
            let start = top.wrapping_add_signed(input.near());
            let end = start.wrapping_add_signed(input.near());
            segment.options.extend(start.to_be_bytes());
            segment.options.extend(end.to_be_bytes());
        }
        self.offer(&segment);
    }

    fn write(&mut self, input: &mut Input) {
        let push = input.one_of(&[Push::Now, Push::Now, Push::Later, Push::More, Push::Urgent]);
        let len = u32::from(input.u16() % 20_000);
        let data: Vec<u8> = (self.wrote..self.wrote + len).map(ours).collect();
        // The engine may send before it says how much it took.
        let before = self.wrote;
        self.wrote += len;
        let victim = &mut self.victim;
        let taken = victim.stack.tcp_send(victim.now, self.id, &mut &data[..], push, &mut victim.out);
        self.look();
        self.wrote = before + taken.map_or(0, |taken| taken as u32);
        self.victim.settle();
    }

    fn take(&mut self, input: &mut Input) {
        let mut how =
            input.one_of(&[Take::Consume, Take::Consume, Take::Peek(0), Take::Urgent, Take::Discard]);
        let mut bytes = vec![0; usize::from(input.u16())];
        let mut behind = 0;
        if let Take::Peek(place) = &mut how {
            behind = bytes.len() / 2;
            *place = behind;
        }
        let victim = &mut self.victim;
        let answer = victim.stack.tcp_recv(victim.now, self.id, &mut &mut bytes[..], how, &mut victim.out);
        victim.settle();
        let got = match answer {
            Ok(got) if how != Take::Urgent => got,
            Err(RecvError::NoSocket) if !self.closed => panic!("the socket is gone"),
            _ => return,
        };
        if self.content_is_known && how != Take::Discard {
            for (at, byte) in bytes[..got].iter().enumerate() {
                let offset = self.read + (behind + at) as u32;
                assert_eq!(*byte, theirs(offset), "the byte read at {offset} is not what the peer wrote");
            }
        }
        if !matches!(how, Take::Peek(_)) {
            self.read += got as u32;
        }
    }

    fn command(&mut self, input: &mut Input) {
        let victim = &mut self.victim;
        let (now, id) = (victim.now, self.id);
        match input.u8() % 8 {
            0 => drop(victim.stack.tcp_shutdown_write(now, id, &mut victim.out)),
            1 => drop(victim.stack.tcp_shutdown_read(now, id)),
            2 if input.u8() > 128 => return self.close(Close::Orderly),
            3 if input.u8() > 128 => return self.close(Close::Abort),
            4 => drop(victim.stack.take_error(id)),
            5 => drop((victim.stack.tcp_info(now, id), victim.stack.ready(id), victim.stack.tcp_at_mark(id))),
            _ => {
                let new = options(input.u8(), input.u8());
                // Where urgent bytes go is part of what is known of the content.
                let change = |options: &mut Options| {
                    *options = Options { urgent_inline: options.urgent_inline, ..new }
                };
                victim.stack.tcp_configure(now, id, change, &mut victim.out);
            }
        }
        self.victim.settle();
    }

    fn close(&mut self, how: Close) {
        if !self.closed {
            self.closed = true;
            let victim = &mut self.victim;
            victim.stack.tcp_close(victim.now, self.id, how, &mut victim.out);
            victim.settle();
        }
    }

    fn icmp(&mut self, input: &mut Input) {
        let (head, mtu) = ([input.one_of(&[3, 3, 11, 12, 4, 5]), input.u8() % 16], input.u16());
        let mut quoted = Forged { src: PORTS.0, dst: PORTS.1, flags: ACK, ..Forged::default() };
        quoted.seq = self.iss.wrapping_add(self.sent).wrapping_add_signed(input.near());
        let mut packet = quoted.frame(ME, PEER)[14..].to_vec();
        packet[2..4].copy_from_slice(&input.u16().to_be_bytes());
        packet[10..12].fill(0);
        let sum = wire::checksum::Sum::ZERO.bytes(&packet[..20]).finish();
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.truncate(20 + usize::from(input.u8() % 32));
        let mtu = mtu.to_be_bytes();
        self.victim.receive(&icmp(PEER, ME, head, [0, 0, mtu[0], mtu[1]], &packet), 0);
    }

    fn network(&mut self, input: &mut Input) {
        let victim = &mut self.victim;
        let (now, word) = (victim.now, u32::from(input.u16()));
        match input.u8() % 6 {
            0 => victim.out.room = victim.out.frames.len() + (word % 4) as usize,
            1 => victim.out.room = usize::MAX,
            2 => victim.stack.set_mtu(word),
            3 => victim.stack.forget_paths(),
            4 => {
                let path = Path { next_hop: PEER, mtu: word, elsewhere: false };
                let path = if word % 8 == 0 { Err(SocketError::NetUnreachable) } else { Ok(path) };
                victim.stack.set_path(now, Query::new(ME, PEER), path, &mut victim.out);
            }
            _ => {
                victim.link_works = word & 1 != 0;
                victim.stack.set_neighbour(now, PEER, None, &mut victim.out);
            }
        }
        self.victim.settle();
    }

    fn urgent(&mut self, input: &mut Input) {
        let mut segment = self.segment(ACK | URG);
        segment.urgent = input.u16() % 2000;
        segment.seq = segment.seq.wrapping_add_signed(i32::from(input.u8() as i8));
        let len = usize::from(input.u16() % 1461);
        self.fill(&mut segment, len);
        self.content_is_known = false;
        self.offer(&segment);
    }

    /// A frame with bytes that the headers do not agree with.
    fn broken(&mut self, input: &mut Input) {
        let mut segment = self.segment(ACK);
        segment.options = input.bytes(20).to_vec();
        self.fill(&mut segment, 16);
        let mut frame = segment.frame(PEER, ME);
        let at = usize::from(input.u8()) % frame.len();
        frame[at] ^= input.u8();
        frame.truncate(usize::from(input.u8()).max(1));
        // Whatever it became, the peer may now have sent it.
        self.content_is_known = false;
        let word =
            |at: usize| frame.get(at..at + 4).map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
        self.ranges.push((word(38), word(38).wrapping_add(18)));
        self.edge = u64::MAX - 1;
        self.victim.receive(&frame, 0);
    }
}

fn options(bits: u8, more: u8) -> Options {
    Options {
        nodelay: bits & 8 != 0,
        cork: bits & 0x10 != 0,
        quickack: bits & 0x20 != 0,
        keepalive: bits & 0x40 != 0,
        urgent_inline: bits & 0x80 != 0,
        congestion: [Congestion::Cubic, Congestion::NewReno, Congestion::None][usize::from(more) % 3],
        receive_buffer: [None, Some(2048), Some(RECEIVE_MAX), Some(0)][usize::from(more >> 2) % 4],
        send_buffer: [None, Some(4096)][usize::from(more >> 4) % 2],
        user_timeout: [Duration::ZERO, Duration::from_secs(5)][usize::from(more >> 5) % 2],
        keepalive_idle: Duration::from_secs(60),
        ..stack::testing::tcp_settings().options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stands(talk: &Talk) -> bool {
        talk.victim.stack.tcp_state(talk.id) == Some(State::Established)
    }

    #[test]
    fn every_honest_beginning_makes_a_connection() {
        for more in [0, 0x80, 0xc0] {
            for bits in 0..8 {
                let talk = Talk::begin(&mut Input::new(&[bits, more, 7, 1, 0, 0, 1]));
                assert!(talk.as_ref().is_some_and(stands), "bits {bits} more {more:#x}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "is not what the peer wrote")]
    fn a_wrong_byte_would_be_seen() {
        let Some(mut talk) = Talk::begin(&mut Input::new(&[])) else { return };
        let mut segment = talk.segment(ACK | PSH);
        segment.payload = vec![1, 2, 3];
        talk.offer(&segment);
        talk.take(&mut Input::new(&[0, 1, 0]));
    }
}
