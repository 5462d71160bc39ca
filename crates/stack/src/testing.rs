//! For tests of this crate and others: a frame over a `Vec`, an outlet that collects, and a wire between two stacks.

use crate::{
    Config, Duration, Endpoint, Frame, Instant, Large, MacAddr, Outlet, Path, Request, Stack, tcp, udp,
};
use core::net::Ipv4Addr;
use core::ops::Range;
use std::collections::VecDeque;
use wire::checksum::Sum;
use wire::tcp::Flags;
use wire::{ethernet, ipv4};

/// A frame in ordinary memory that plays one of the device until it is detached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VecFrame {
    bytes: Vec<u8>,
    attached: bool,
}

impl VecFrame {
    /// A frame that counts as the device's.
    pub fn new(bytes: impl Into<Vec<u8>>) -> VecFrame {
        VecFrame { bytes: bytes.into(), attached: true }
    }
}

impl Frame for VecFrame {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    fn detach(&mut self) {
        self.attached = false;
    }
    fn is_attached(&self) -> bool {
        self.attached
    }
    fn narrow(&mut self, keep: Range<usize>) {
        self.bytes.truncate(keep.end);
        self.bytes.drain(..keep.start);
    }
    fn duplicate(&self) -> VecFrame {
        VecFrame { bytes: self.bytes.clone(), attached: false }
    }
}

/// Collects frames; full when it holds `room`.
#[derive(Debug)]
pub struct VecOutlet {
    /// What was committed, oldest first.
    pub frames: VecDeque<Vec<u8>>,
    /// Frames it takes at most.
    pub room: usize,
    /// What [`Outlet::large_max`] says; what it takes is cut at once.
    pub large_max: usize,
    /// Payload bytes of those that it took.
    pub large: Vec<usize>,
    reserved: Vec<u8>,
}

impl Default for VecOutlet {
    fn default() -> Self {
        VecOutlet {
            frames: VecDeque::new(),
            room: usize::MAX,
            large_max: 0,
            large: Vec::new(),
            reserved: Vec::new(),
        }
    }
}

impl Outlet for VecOutlet {
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.frames.len() >= self.room {
            return None;
        }
        // Old bytes show where a writer forgot to write.
        self.reserved.clear();
        self.reserved.resize(len, 0xa5);
        Some(&mut self.reserved)
    }
    fn commit(&mut self, len: usize) {
        self.frames.push_back(self.reserved[..len].to_vec());
    }
    fn large_max(&self) -> usize {
        self.large_max
    }
    fn send_large(&mut self, packet: &Large<'_>) -> bool {
        if self.frames.len() >= self.room {
            return false;
        }
        self.large.push(packet.payload.concat().len());
        self.frames.extend(cut(packet));
        true
    }
}

/// Cuts a large packet into the segments that a card would send. Panics where one would send garbage.
pub fn cut(packet: &Large<'_>) -> Vec<Vec<u8>> {
    let payload = packet.payload.concat();
    let (headers, transport) = (packet.headers, packet.transport);
    let ip: &[u8] = &headers[ethernet::HEADER_LEN..];
    let (src, dst): ([u8; 4], [u8; 4]) = (ip[12..16].try_into().unwrap(), ip[16..20].try_into().unwrap());
    let pseudo = |len: usize| Sum::pseudo(src.into(), dst.into(), ipv4::TCP, len);
    let tcp_len = |payload: usize| headers.len() - transport + payload;
    assert_eq!(
        headers[transport + 16..transport + 18],
        pseudo(tcp_len(payload.len())).partial().to_be_bytes()
    );
    assert_eq!(
        usize::from(u16::from_be_bytes([ip[2], ip[3]])),
        headers.len() - ethernet::HEADER_LEN + payload.len()
    );
    let count = payload.len().div_ceil(packet.mss);
    let seq = u32::from_be_bytes(headers[transport + 4..transport + 8].try_into().unwrap());
    let mut frames = Vec::new();
    for (index, part) in payload.chunks(packet.mss).enumerate() {
        let mut frame = [headers, part].concat();
        let total = (frame.len() - ethernet::HEADER_LEN) as u16;
        let ip = &mut frame[ethernet::HEADER_LEN..transport];
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        ip[10..12].fill(0);
        let sum = Sum::default().bytes(ip).finish();
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let tcp = &mut frame[transport..];
        tcp[4..8].copy_from_slice(&seq.wrapping_add((index * packet.mss) as u32).to_be_bytes());
        if index + 1 < count {
            tcp[13] &= !(Flags::PSH.0 | Flags::FIN.0);
        }
        tcp[16..18].fill(0);
        let sum = pseudo(tcp.len()).bytes(tcp).finish();
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        frames.push(frame);
    }
    frames
}

/// An ordinary configuration: MTU 1500, checksums verified in full, Linux's defaults.
pub fn config(mac: MacAddr) -> Config {
    Config {
        seed: [7; 32],
        cookie_key: [9; 16],
        timestamp_key: [11; 16],
        mac,
        mtu: 1500,
        accept_partial_checksum: false,
        attached_frames_max: 1024,
        tcp: tcp_settings(),
        udp: udp::Settings { receive_buffer: 212_992 },
    }
}

/// Linux's defaults for TCP.
pub fn tcp_settings() -> tcp::Settings {
    tcp::Settings {
        rmem: [4096, 131_072, 6_291_456],
        wmem: [4096, 16_384, 4_194_304],
        options: tcp::Options::default(),
        syn_retries: 6,
        synack_retries: 5,
        retries2: 15,
        fin_timeout: Duration::from_secs(60),
        time_wait: Duration::from_secs(60),
        sack: true,
        timestamps: true,
        window_scaling: true,
        window_scale: None,
        ecn: crate::tcp::Ecn::Passive,
        time_wait_max: 8192,
        orphans_max: 8192,
        orphan_retries: 0,
        syn_rate_max: 0,
        mtu_probing: tcp::MtuProbing::default(),
    }
}

/// A stack with its outlet and addresses.
pub struct Host {
    /// The engine.
    pub stack: Stack<VecFrame>,
    /// What it sent.
    pub out: VecOutlet,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its hardware address.
    pub mac: MacAddr,
}

impl Host {
    /// 10.0.0.`n` with a configuration that `change` may alter.
    pub fn with(n: u8, change: impl FnOnce(&mut Config)) -> Host {
        let mac = MacAddr([2, 0, 0, 0, 0, n]);
        let mut config = config(mac);
        config.seed[0] = n;
        change(&mut config);
        let address = Ipv4Addr::new(10, 0, 0, n);
        let mut stack = Stack::new(config, Instant::ZERO);
        stack.set_addresses(&[address], &[]);
        Host { stack, out: VecOutlet::default(), address, mac }
    }

    /// 10.0.0.`n`.
    pub fn new(n: u8) -> Host {
        Host::with(n, |_| {})
    }

    /// Answers every question: all of 10.0.0.0/24 and every group is on the link.
    pub fn answer(&mut self, now: Instant) {
        while let Some(request) = self.stack.take_request() {
            match request {
                Request::Path(query) => {
                    let to = query.to;
                    self.stack.set_path(
                        now,
                        query,
                        Ok(Path { next_hop: to, mtu: 65_535, elsewhere: false }),
                        &mut self.out,
                    );
                }
                Request::Neighbour(hop) => {
                    let mac = MacAddr([2, 0, 0, 0, 0, hop.octets()[3]]);
                    self.stack.set_neighbour(now, hop, Some(mac), &mut self.out);
                }
            }
        }
    }

    /// Hands a frame to the stack.
    pub fn receive(&mut self, now: Instant, frame: impl Into<Vec<u8>>) {
        self.stack.on_frame(now, VecFrame::new(frame), &mut Vec::new(), &mut self.out);
    }
}

/// Carries frames both ways, and answers questions, until nobody has anything to say. Timers do not fire.
pub fn exchange(now: Instant, a: &mut Host, b: &mut Host) {
    // Two confused peers must not keep a test for ever.
    for _ in 0..100_000 {
        a.answer(now);
        b.answer(now);
        a.stack.flush(now, &mut a.out);
        b.stack.flush(now, &mut b.out);
        if let Some(frame) = a.out.frames.pop_front() {
            b.receive(now, frame);
        } else if let Some(frame) = b.out.frames.pop_front() {
            a.receive(now, frame);
        } else {
            return;
        }
    }
    panic!("the stacks never fell silent");
}

/// The hardware address of 10.0.0.`n`, of a group, or of all stations.
pub fn mac_of(address: Ipv4Addr) -> MacAddr {
    match address.octets()[3] {
        _ if address.is_multicast() => MacAddr::of_multicast(address),
        255 => MacAddr::BROADCAST,
        n => MacAddr([2, 0, 0, 0, 0, n]),
    }
}

/// A frame with one whole IP packet, as a peer on the link would send it.
pub fn ip_frame(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    fragment_frame(src, dst, protocol, (0, ipv4::Fragment::DONT), payload)
}

/// A frame with one packet of this identification that is a fragment or not.
pub fn fragment_frame(
    src: Ipv4Addr,
    dst: Ipv4Addr,
    protocol: u8,
    (ident, fragment): (u16, ipv4::Fragment),
    payload: &[u8],
) -> Vec<u8> {
    let ip =
        ipv4::Fields { src, dst, protocol, tos: 0, ttl: 64, ident, fragment, payload_len: payload.len() };
    let ether = ethernet::Header::ipv4(mac_of(dst), mac_of(src));
    [&ether[..], &ip.emit(), payload].concat()
}

/// The header and payload of a datagram without checksum.
pub fn udp_datagram(from: Endpoint, to: Endpoint, bytes: &[u8]) -> Vec<u8> {
    let len = wire::udp::HEADER_LEN + bytes.len();
    let header = wire::udp::Header { src: from.port(), dst: to.port(), len, checksum: 0 };
    [&header.emit()[..], bytes].concat()
}

/// A frame with a datagram without checksum.
pub fn udp_frame(from: Endpoint, to: Endpoint, bytes: &[u8]) -> Vec<u8> {
    ip_frame(*from.ip(), *to.ip(), ipv4::UDP, &udp_datagram(from, to, bytes))
}

/// Numbers from a seed, which must not be zero: xorshift.
pub struct Random(pub u64);

impl Random {
    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}
