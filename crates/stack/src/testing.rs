//! For tests of this crate and others: a frame over a `Vec`, an outlet that collects, and a wire between two stacks.

use crate::{Config, Duration, Frame, Instant, MacAddr, Outlet, Path, Request, Stack, tcp, udp};
use core::net::Ipv4Addr;
use core::ops::Range;
use std::collections::VecDeque;

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
    reserved: Vec<u8>,
}

impl Default for VecOutlet {
    fn default() -> Self {
        VecOutlet { frames: VecDeque::new(), room: usize::MAX, reserved: Vec::new() }
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
}

/// An ordinary configuration: MTU 1500, checksums verified in full, Linux's defaults.
pub fn config(mac: MacAddr) -> Config {
    Config {
        seed: [7; 32],
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
        options: tcp::Options {
            nodelay: false,
            cork: false,
            quickack: false,
            keepalive: false,
            keepalive_idle: Duration::from_secs(7200),
            keepalive_interval: Duration::from_secs(75),
            keepalive_count: 9,
            user_timeout: Duration::ZERO,
            mss_max: 0,
            receive_buffer: None,
            send_buffer: None,
            receive_low_water: 1,
            not_sent_low_water: u32::MAX,
            congestion: tcp::Congestion::Cubic,
            urgent_inline: false,
            tos: 0,
            ttl: 64,
            discover_mtu: true,
        },
        syn_retries: 6,
        synack_retries: 5,
        retries2: 15,
        fin_timeout: Duration::from_secs(60),
        time_wait: Duration::from_secs(60),
        sack: true,
        timestamps: true,
        window_scaling: true,
        time_wait_max: 8192,
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
        stack.set_addresses(&[address]);
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
                Request::Path(to) => {
                    self.stack.set_path(now, to, Ok(Path { next_hop: to, mtu: 65_535 }), &mut self.out);
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
