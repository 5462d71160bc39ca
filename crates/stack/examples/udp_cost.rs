//! What the engine costs per UDP packet: one datagram in, taken, and one out, without any device.
//!
//! `cargo run --release -p stack --example udp_cost`. Prints nanoseconds per packet pair (in and out) by payload and
//! by kind of socket; the best of many short rounds, because the machine is shared.

mod frames;

use core::net::Ipv4Addr;
use frames::Static;
use stack::udp::{MtuDiscover, Options};
use stack::{Endpoint, Frame, Instant, MacAddr, Outlet, Path, Query, Stack};
use std::time::Instant as Clock;

/// Room for one frame, written again and again.
struct Slot {
    bytes: Vec<u8>,
    len: usize,
}

impl Outlet for Slot {
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        self.bytes.get_mut(..len)
    }
    fn commit(&mut self, len: usize) {
        self.len = len;
    }
}

const HERE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PACKETS: u32 = 5_000;

fn main() {
    println!("payload  socket       accepted      ns per packet in + out");
    for partial in [false, true] {
        for connected in [true, false] {
            for payload in [14, 64, 512, 1472] {
                let ns = (0..200).map(|_| round(payload, connected, partial)).min().unwrap_or(0);
                let (socket, checksum) = (
                    if connected { "connected" } else { "unconnected" },
                    if partial { "partial sum" } else { "full sum" },
                );
                println!(
                    "{payload:>7}  {socket:<11}  {checksum:<11}  {:>6.1}",
                    ns as f64 / f64::from(PACKETS)
                );
            }
        }
    }
}

/// Nanoseconds for all packets of one round.
fn round(payload: usize, connected: bool, partial: bool) -> u128 {
    let now = Instant(1_000_000_000);
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    let mut stack = Stack::<Static>::new(
        stack::Config { accept_partial_checksum: partial, ..stack::testing::config(mac) },
        now,
    );
    let mut out = Slot { bytes: vec![0; 2048], len: 0 };
    stack.set_addresses(&[HERE], &[]);
    stack.set_path(
        now,
        Query::new(HERE, THERE),
        Ok(Path { next_hop: THERE, mtu: 1500, elsewhere: false }),
        &mut out,
    );
    stack.set_neighbour(now, THERE, Some(MacAddr([2, 0, 0, 0, 0, 2])), &mut out);
    let options = Options {
        receive_buffer: 212_992,
        tos: 0,
        ttl: 64,
        multicast_ttl: 1,
        multicast_all: true,
        mtu_discover: MtuDiscover::Want,
        bound_to_interface: false,
    };
    let peer = Endpoint::new(THERE, 2000);
    let id =
        stack.udp_open(Endpoint::new(Ipv4Addr::UNSPECIFIED, 1000), &options, 1).expect("room for a socket");
    if connected {
        stack.udp_connect(id, Endpoint::new(HERE, 1000), Some(peer));
    }
    let data = vec![0x5a; payload];
    let frame: &'static [u8] = incoming(&data, partial).leak();
    let mut copy = vec![0; payload];
    let start = Clock::now();
    for _ in 0..PACKETS {
        stack.on_frame(now, Static(frame), &mut Vec::new(), &mut out);
        let event = stack.take_event().expect("an event per datagram");
        let datagram = stack.udp_recv(event.id).expect("a datagram per frame");
        let at = usize::from(datagram.range.0);
        copy.copy_from_slice(&datagram.head.bytes()[at..at + datagram.len]);
        stack.udp_send(now, id, None, datagram.from, &mut &copy[..], &mut out).expect("room in the outlet");
    }
    let spent = start.elapsed().as_nanos();
    assert_eq!(out.len, 42 + payload);
    spent
}

/// A frame as the peer sends it, with a full checksum or with the pseudo-header's sum only.
fn incoming(data: &[u8], partial: bool) -> Vec<u8> {
    use wire::{checksum::Sum, ethernet, ipv4, udp};
    let len = udp::HEADER_LEN + data.len();
    let mut header = udp::Header { src: 2000, dst: 1000, len, checksum: 0 };
    let pseudo = Sum::pseudo(THERE, HERE, ipv4::UDP, len);
    header.checksum =
        if partial { pseudo.partial() } else { pseudo.bytes(&header.emit()).bytes(data).finish() };
    let ip = ipv4::Fields {
        src: THERE,
        dst: HERE,
        protocol: ipv4::UDP,
        tos: 0,
        ttl: 64,
        ident: 0,
        fragment: ipv4::Fragment::DONT,
        payload_len: len,
    };
    let ether = ethernet::Header::ipv4(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    [&ether[..], &ip.emit(), &header.emit(), data].concat()
}
