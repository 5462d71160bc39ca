//! Fragments in any order, overlapping or not, of datagrams to an open port.
//!
//! What must hold, beside `victim`: what is delivered is what was sent, byte for byte, unless fragments disagreed; the
//! datagrams in the making are bounded, and in the end none is left.

use crate::input::Input;
use crate::victim::{ME, Victim};
use stack::udp::{MtuDiscover, Options};
use stack::{Duration, Endpoint, Frame, SocketId};
use std::net::Ipv4Addr;
use wire::ipv4::{Fragment, UDP};

const PORT: u16 = 53;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut victim = Victim::new(|_| {});
    let id = open(&mut victim);
    for _ in 0..250 {
        if input.is_empty() {
            break;
        }
        match input.u8() % 8 {
            0 => victim.pass(Duration::from_millis(u64::from(input.u16()))),
            1 => victim.pass_to_timer(),
            2 => read(&mut victim, id),
            // One whole datagram in pieces of a size, some of them missing.
            3 => {
                let (host, ident) = (input.u8() % 4, u16::from(input.u8()));
                let (len, piece) = (usize::from(input.u16()), 8 * (1 + usize::from(input.u8())));
                let (missing, backwards) = (usize::from(input.u8()), input.flag());
                let count = len.div_ceil(piece);
                for index in (0..count).filter(|index| *index != missing) {
                    let at = if backwards { count - 1 - index } else { index } * piece;
                    offer(&mut victim, host, ident, at, piece.min(len - at), at + piece < len);
                }
            }
            _ => {
                let (host, ident) = (input.u8() % 4, u16::from(input.u8()));
                let (at, len) = (usize::from(input.u16()) * 8 % 65_536, usize::from(input.u16() % 1481));
                let twist = input.u8();
                offer(&mut victim, host, ident, at, len, twist & 1 != 0);
            }
        }
        assert!(victim.stack.census().reassemblies <= 64, "datagrams in the making without bound");
        let bytes = victim.books.bytes.get();
        assert!(bytes <= 8 << 20, "{bytes} bytes of fragments are held");
    }
    read(&mut victim, id);
    victim.stack.udp_close(id);
    victim.must_be_empty_in_the_end();
}

fn open(victim: &mut Victim) -> SocketId {
    let options = Options {
        receive_buffer: 1 << 20,
        tos: 0,
        ttl: 64,
        multicast_ttl: 1,
        multicast_all: true,
        mtu_discover: MtuDiscover::Want,
        bound_to_interface: false,
    };
    victim.stack.udp_open(Endpoint::new(ME, PORT), &options, 0).expect("room for a socket")
}

/// Byte `at` of the IP payload of the datagram `ident` from `host`: a UDP header whose length fits 1000 bytes of
/// payload per step of the identification, then a pattern.
fn byte(host: u8, ident: u16, at: usize) -> u8 {
    let len = length(ident).to_be_bytes();
    let source = (1000 + ident).to_be_bytes();
    match at {
        0 | 1 => source[at],
        2 => 0,
        3 => PORT as u8,
        4 | 5 => len[at - 4],
        6 | 7 => 0,
        _ => (at as u32)
            .wrapping_mul(0x9e37_79b9)
            .wrapping_add(u32::from(ident) * 7 + u32::from(host))
            .to_be_bytes()[1],
    }
}

/// What the UDP header says of its length: up to the largest that there is.
fn length(ident: u16) -> u16 {
    8 + (ident % 65) * 1000
}

fn offer(victim: &mut Victim, host: u8, ident: u16, at: usize, len: usize, more: bool) {
    let payload: Vec<u8> = (at..at + len).map(|at| byte(host, ident, at)).collect();
    let from = Ipv4Addr::new(10, 0, 0, 3 + host);
    let part = (ident, Fragment::part(at & 0xfff8, more));
    victim.receive(&stack::testing::fragment_frame(from, ME, UDP, part, &payload), 0);
    assert!(victim.sent().is_empty(), "a fragment was answered");
}

fn read(victim: &mut Victim, id: SocketId) {
    while let Ok(datagram) = victim.stack.udp_recv(id) {
        let ident = datagram.from.port().wrapping_sub(1000);
        let host = datagram.from.ip().octets()[3] - 3;
        assert_eq!(datagram.len, usize::from(length(ident)) - 8, "of another length");
        let start = usize::from(datagram.range.0);
        let head = &datagram.head.bytes()[start..start + usize::from(datagram.range.1)];
        let tail = datagram.tail.iter().flat_map(|frame| frame.bytes());
        let got: Vec<u8> = head.iter().chain(tail).copied().take(datagram.len).collect();
        assert_eq!(got.len(), datagram.len, "frames are shorter than the datagram");
        let wrong = got.iter().enumerate().find(|(at, got)| **got != byte(host, ident, at + 8));
        assert_eq!(wrong, None, "joined wrongly");
    }
}
