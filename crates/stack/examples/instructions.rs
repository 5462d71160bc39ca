//! The fast paths without any device, for an instruction counter: `instructions PATH SIZE PACKETS`, where PATH is
//! `udp-receive`, `udp-send`, `tcp-receive`, `tcp-send`, `tcp-receive-apart` or `tcp-receive-joined`. All packets are
//! made before; only what `measured` calls is to be counted. `cargo x bench instructions` runs this under callgrind.

mod frames;

use core::net::Ipv4Addr;
use frames::Static;
use stack::tcp::{Push, Take};
use stack::udp::MtuDiscover;
use stack::{Endpoint, Frame, Instant, MacAddr, Outlet, Path, Query, SocketId, Stack};
use std::hint::black_box;
use wire::checksum::Sum;
use wire::tcp::{Fields, Flags, HEADER_LEN, OptionsWriter};
use wire::{ethernet, ipv4, tcp, udp};

/// Room for one frame, written again and again.
struct Slot {
    bytes: Vec<u8>,
    frames: usize,
    len: usize,
}

impl Outlet for Slot {
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        self.bytes.get_mut(..len)
    }
    fn commit(&mut self, len: usize) {
        self.frames += 1;
        self.len = len;
    }
}

struct Host {
    stack: Stack<Static>,
    out: Slot,
    /// So that `on_frame` has nothing to allocate for.
    none: Vec<Static>,
}

const HERE: Endpoint = Endpoint::new(Ipv4Addr::new(10, 0, 0, 1), 1000);
const THERE: Endpoint = Endpoint::new(Ipv4Addr::new(10, 0, 0, 2), 2000);
const NOW: Instant = Instant(1_000_000_000);
/// The peer's first sequence number.
const IRS: u32 = 5_000;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [path, size, packets] = &words[..] else { panic!("instructions PATH SIZE PACKETS") };
    let (size, packets) = (size.parse().expect("a size"), packets.parse().expect("a number of packets"));
    match path.as_str() {
        "udp-receive" => udp_receive(size, packets),
        "udp-send" => udp_send(size, packets),
        "tcp-receive" => tcp_receive(size, packets),
        "tcp-receive-apart" => tcp_receive_four(size, packets, false),
        "tcp-receive-joined" => tcp_receive_four(size, packets, true),
        "tcp-send" => tcp_send(size, packets),
        other => panic!("no path {other}"),
    }
}

/// The counter's mark: everything in here, and nothing else. The first packets warm up what is allocated once.
#[inline(never)]
fn measured(packets: usize, mut each: impl FnMut(usize)) {
    for packet in 0..packets {
        each(packet);
    }
}

const WARM_UP: usize = 64;
/// Payload of a full segment on Ethernet, with timestamps.
const FULL: usize = 1448;

fn udp_receive(size: usize, packets: usize) {
    let (mut host, id) = datagrams();
    let data = vec![0x5a; size];
    let len = udp::HEADER_LEN + size;
    let mut header = udp::Header { src: THERE.port(), dst: HERE.port(), len, checksum: 0 };
    let pseudo = Sum::pseudo(*THERE.ip(), *HERE.ip(), ipv4::UDP, len);
    header.checksum = pseudo.bytes(&header.emit()).bytes(&data).finish();
    let frame = leaked(ipv4::UDP, &[&header.emit()[..], &data].concat());
    let mut copy = vec![0; size];
    let mut each = |_| {
        host.stack.on_frame(NOW, Static(frame), &mut host.none, &mut host.out);
        black_box(host.stack.take_event());
        let datagram = host.stack.udp_recv(id).expect("a datagram for each frame");
        let at = usize::from(datagram.range.0);
        copy.copy_from_slice(&datagram.head.bytes()[at..at + datagram.len]);
        black_box(&copy);
    };
    (0..WARM_UP).for_each(&mut each);
    measured(packets, each);
}

fn udp_send(size: usize, packets: usize) {
    let (mut host, id) = datagrams();
    let data = vec![0x5a; size];
    let mut each = |_| {
        let sent = host.stack.udp_send(NOW, id, None, THERE, &mut black_box(&data[..]), &mut host.out);
        assert_eq!(sent, Ok(size));
    };
    (0..WARM_UP).for_each(&mut each);
    measured(packets, each);
    assert_eq!(host.out.frames, WARM_UP + packets);
}

/// Small segments are a write each, full ones parts of a long write, which only its last says. The application reads at
/// once, so each small one is acknowledged, as by Linux, and every second full one.
fn tcp_receive(size: usize, packets: usize) {
    let flags = if size < FULL { Flags::ACK.with(Flags::PSH) } else { Flags::ACK };
    let (mut host, id, iss, clock) = connection();
    let data = vec![0x5a; size];
    let segment = |packet: usize| {
        let seq = (IRS + 1).wrapping_add((packet * size) as u32);
        segment(seq, iss.wrapping_add(1), flags, clock, &data)
    };
    let frames: Vec<&'static [u8]> = (0..WARM_UP + packets).map(segment).collect();
    let mut copy = vec![0; size];
    let mut each = |packet: usize| {
        host.stack.on_frame(NOW, Static(frames[packet]), &mut host.none, &mut host.out);
        black_box(host.stack.take_event());
        let got = host.stack.tcp_recv(NOW, id, &mut &mut copy[..], Take::Consume, &mut host.out);
        assert_eq!(got, Ok(size));
    };
    (0..WARM_UP).for_each(&mut each);
    measured(packets, |packet| each(WARM_UP + packet));
}

/// Four segments a turn, then one read; joined to one packet, as receive merging would, or not. (Counted by hand: what
/// `VMA_GRO_STREAMS_MAX` could gain. A packet here is four segments.)
fn tcp_receive_four(size: usize, packets: usize, is_joined: bool) {
    const TURN: usize = 4;
    let (mut host, id, iss, clock) = connection();
    let data = vec![0x5a; size * TURN];
    let pieces = |turn: usize| -> Vec<&'static [u8]> {
        let at = |n: usize| (IRS + 1).wrapping_add(((turn * TURN + n) * size) as u32);
        let make =
            |n: usize, len: usize| segment(at(n), iss.wrapping_add(1), Flags::ACK, clock, &data[..len]);
        match is_joined {
            false => (0..TURN).map(|n| make(n, size)).collect(),
            true => {
                let whole = make(0, size * TURN);
                let head = whole.len() - size * (TURN - 1);
                let mut all = vec![&whole[..head]];
                all.extend(whole[head..].chunks(size));
                all
            }
        }
    };
    let turns: Vec<Vec<&'static [u8]>> = (0..WARM_UP + packets).map(pieces).collect();
    let mut copy = vec![0; size * TURN];
    let mut tail = Vec::with_capacity(8);
    let mut each = |turn: usize| {
        if is_joined {
            tail.extend(turns[turn][1..].iter().map(|piece| Static(piece)));
            host.stack.on_frame(NOW, Static(turns[turn][0]), &mut tail, &mut host.out);
            tail.clear();
        } else {
            for piece in &turns[turn] {
                host.stack.on_frame(NOW, Static(piece), &mut host.none, &mut host.out);
            }
        }
        while black_box(host.stack.take_event()).is_some() {}
        let got = host.stack.tcp_recv(NOW, id, &mut &mut copy[..], Take::Consume, &mut host.out);
        assert_eq!(got, Ok(size * TURN));
    };
    (0..WARM_UP).for_each(&mut each);
    measured(packets, |turn| each(WARM_UP + turn));
}

/// Every second segment is acknowledged, as peers do.
fn tcp_send(size: usize, packets: usize) {
    let (mut host, id, iss, clock) = connection();
    let data = vec![0x5a; size];
    let acknowledgment = |pair: usize| {
        let ack = iss.wrapping_add(1).wrapping_add((2 * (pair + 1) * size) as u32);
        segment(IRS + 1, ack, Flags::ACK, clock, &[])
    };
    let frames: Vec<&'static [u8]> = (0..(WARM_UP + packets).div_ceil(2)).map(acknowledgment).collect();
    let before = host.out.frames;
    let mut each = |packet: usize| {
        let mut data = black_box(&data[..]);
        let sent = host.stack.tcp_send(NOW, id, &mut data, Push::Now, &mut host.out);
        assert_eq!(sent, Ok(size));
        if packet % 2 == 1 {
            host.stack.on_frame(NOW, Static(frames[packet / 2]), &mut host.none, &mut host.out);
            black_box(host.stack.take_event());
        }
    };
    (0..WARM_UP).for_each(&mut each);
    measured(packets, |packet| each(WARM_UP + packet));
    assert_eq!(host.out.frames - before, WARM_UP + packets, "a segment for each send");
}

fn host() -> Host {
    let mut host = Host {
        stack: Stack::new(stack::testing::config(MacAddr([2, 0, 0, 0, 0, 1])), NOW),
        out: Slot { bytes: vec![0; 2048], frames: 0, len: 0 },
        none: Vec::new(),
    };
    host.stack.set_addresses(&[*HERE.ip()], &[]);
    host.stack.set_path(
        NOW,
        Query::new(*HERE.ip(), *THERE.ip()),
        Ok(Path { next_hop: *THERE.ip(), mtu: 1500, elsewhere: false }),
        &mut host.out,
    );
    host.stack.set_neighbour(NOW, *THERE.ip(), Some(MacAddr([2, 0, 0, 0, 0, 2])), &mut host.out);
    host
}

fn datagrams() -> (Host, SocketId) {
    let mut host = host();
    let options = stack::udp::Options {
        receive_buffer: 212_992,
        tos: 0,
        ttl: 64,
        multicast_ttl: 1,
        multicast_all: true,
        mtu_discover: MtuDiscover::Want,
        bound_to_interface: false,
    };
    let id = host.stack.udp_open(HERE, &options, 1).expect("room for a socket");
    host.stack.udp_connect(id, HERE, Some(THERE));
    (host, id)
}

/// A connection that stands, its first sequence number, and the timestamp of its SYN.
fn connection() -> (Host, SocketId, u32, u32) {
    let mut host = host();
    let options = stack::tcp::Options { nodelay: true, ..stack::testing::tcp_settings().options };
    let id = host.stack.tcp_connect(NOW, HERE, THERE, &options, 0, &mut host.out).expect("room");
    let syn = host.out.bytes[..host.out.len].to_vec();
    let header = tcp::Header::parse(&syn[34..]).expect("a SYN");
    let clock = header.options().find_map(|option| match option {
        tcp::Opt::Timestamps(value, _) => Some(value),
        _ => None,
    });
    let (iss, clock) = (header.seq(), clock.expect("timestamps"));
    let answer = segment(IRS, iss.wrapping_add(1), Flags::SYN.with(Flags::ACK), clock, &[]);
    host.stack.on_frame(NOW, Static(answer), &mut host.none, &mut host.out);
    assert_eq!(host.stack.tcp_state(id), Some(stack::tcp::State::Established));
    while host.stack.take_event().is_some() {}
    (host, id, iss, clock)
}

/// A segment of the peer.
fn segment(seq: u32, ack: u32, flags: Flags, clock: u32, payload: &[u8]) -> &'static [u8] {
    let mut options = OptionsWriter::new();
    if flags.has(Flags::SYN) {
        options.mss(1460);
        options.sack_permitted();
        options.window_scale(7);
    }
    options.timestamps(77, clock);
    let fields = Fields {
        src: THERE.port(),
        dst: HERE.port(),
        seq,
        ack,
        flags,
        window: 60_000,
        options_len: options.bytes().len(),
        ..Fields::default()
    };
    let mut bytes = [&fields.emit()[..], options.bytes(), payload].concat();
    debug_assert_eq!(fields.emit().len(), HEADER_LEN);
    let sum = Sum::pseudo(*THERE.ip(), *HERE.ip(), ipv4::TCP, bytes.len()).bytes(&bytes).finish();
    bytes[16..18].copy_from_slice(&sum.to_be_bytes());
    leaked(ipv4::TCP, &bytes)
}

/// A frame of the peer that lives as long as the program.
fn leaked(protocol: u8, payload: &[u8]) -> &'static [u8] {
    let ip = ipv4::Fields {
        src: *THERE.ip(),
        dst: *HERE.ip(),
        protocol,
        tos: 0,
        ttl: 64,
        ident: 0,
        fragment: ipv4::Fragment::DONT,
        payload_len: payload.len(),
    };
    let ether = ethernet::Header::ipv4(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    [&ether[..], &ip.emit(), payload].concat().leak()
}
