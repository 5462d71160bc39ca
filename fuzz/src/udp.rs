//! Datagrams and frames of every kind to UDP sockets: bound, connected, sharing a port, in groups.
//!
//! What must hold, beside `victim`: queues stay within their buffers, what is delivered lies inside of its frames, and
//! nothing that arrives is answered.

use crate::input::Input;
use crate::victim::{ME, PEER, Victim};
use stack::udp::{MtuDiscover, Options, Sources};
use stack::{Duration, Endpoint, Frame, SocketId};
use std::net::Ipv4Addr;
use wire::checksum::Sum;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);
const BUFFER: u32 = 20_000;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let bits = input.u8();
    let mut victim = Victim::new(|config| config.accept_partial_checksum = bits & 1 != 0);
    let mut sockets: Vec<SocketId> = Vec::new();
    for _ in 0..250 {
        if input.is_empty() {
            break;
        }
        match input.u8() % 12 {
            0 if sockets.len() < 8 => sockets.extend(open(&mut victim, &mut input)),
            1 => {
                if let Some(id) = sockets.pop() {
                    victim.stack.udp_close(id);
                }
            }
            2..=8 => {
                // What was sent before, or waited to be, is not an answer.
                victim.sent();
                let waits = victim.stack.wants_flush() || victim.stack.holds_packets();
                let frame = frame(&mut input);
                let piece = usize::from(input.u8() & 0x70);
                victim.receive(&frame, piece);
                assert!(waits || victim.out.frames.is_empty(), "a datagram was answered");
            }
            other => command(&mut victim, &sockets, other, &mut input),
        }
        victim.settle();
        for id in &sockets {
            let queued = victim.stack.udp_queued(*id).expect("the socket is ours");
            assert!(
                queued.packets <= 64 && queued.bytes <= 200_000,
                "{queued:?} wait in a queue of {BUFFER}"
            );
        }
    }
    sockets.drain(..).for_each(|id| victim.stack.udp_close(id));
    victim.must_be_empty_in_the_end();
}

fn open(victim: &mut Victim, input: &mut Input) -> Option<SocketId> {
    let bits = input.u8();
    let options = Options {
        receive_buffer: BUFFER,
        tos: bits,
        ttl: 64,
        multicast_ttl: 1,
        multicast_all: true,
        mtu_discover: [MtuDiscover::Dont, MtuDiscover::Want, MtuDiscover::Do, MtuDiscover::Probe]
            [usize::from(bits & 3)],
        bound_to_interface: false,
    };
    let address = if bits & 4 != 0 { ME } else { Ipv4Addr::UNSPECIFIED };
    let local = Endpoint::new(address, 1000 + u16::from(bits >> 7));
    let id = victim.stack.udp_open(local, &options, 0)?;
    if bits & 8 != 0 {
        victim.stack.udp_connect(id, Endpoint::new(ME, local.port()), Some(Endpoint::new(PEER, 2000)));
    }
    if bits & 16 != 0 {
        let sources = if bits & 32 != 0 { Sources::Only(vec![PEER]) } else { Sources::ANY };
        victim.stack.udp_join(id, GROUP, sources);
    }
    Some(id)
}

/// A datagram, right or with something wrong in it.
fn frame(input: &mut Input) -> Vec<u8> {
    let twist = input.u8();
    let from = Endpoint::new(Ipv4Addr::new(10, 0, 0, 2 + (twist & 1)), 2000);
    let to = Endpoint::new(if twist & 2 != 0 { GROUP } else { ME }, 1000 + u16::from(twist & 4 != 0));
    let len = usize::from(input.u16() % 1473);
    let mut frame = stack::testing::udp_frame(from, to, &vec![twist; len]);
    if twist & 8 != 0 {
        let at = usize::from(input.u8()) % frame.len().min(64);
        frame[at] = input.u8();
        frame[24..26].fill(0);
        let header = 14 + usize::from(frame[14] & 15) * 4;
        if let Some(header) = frame.get(14..header) {
            let sum = Sum::ZERO.bytes(header).finish();
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
    }
    match twist >> 6 {
        1 => frame.truncate(usize::from(input.u16())),
        2 => frame.resize(frame.len() + usize::from(input.u8()), 0xee),
        3 => {
            // A checksum that holds, or the pseudo-header's alone.
            let len = frame.len().saturating_sub(34);
            let pseudo = Sum::pseudo(*from.ip(), *to.ip(), wire::ipv4::UDP, len);
            let sum = if twist & 16 != 0 { pseudo.partial() } else { pseudo.bytes(&frame[34..]).finish() };
            frame[40..42].copy_from_slice(&sum.to_be_bytes());
        }
        _ => {}
    }
    frame
}

fn command(victim: &mut Victim, sockets: &[SocketId], which: u8, input: &mut Input) {
    let Some(&id) = sockets.get(usize::from(input.u8()) % sockets.len().max(1)) else { return };
    match which {
        9 => {
            let Ok(datagram) = victim.stack.udp_recv(id) else { return };
            let (start, len) = (usize::from(datagram.range.0), usize::from(datagram.range.1));
            let head = datagram.head.bytes()[start..start + len].len();
            let tail: usize = datagram.tail.iter().map(|frame| frame.bytes().len()).sum();
            assert!(head + tail >= datagram.len, "{head} and {tail} bytes hold {}", datagram.len);
        }
        10 => {
            let data = vec![9; usize::from(input.u16())];
            let to = Endpoint::new(Ipv4Addr::new(10, 0, 0, input.u8()), 2000);
            let _ = victim.stack.udp_send(victim.now, id, None, to, &mut &data[..], &mut victim.out);
        }
        _ => match input.u8() % 5 {
            0 => victim.pass(Duration::from_millis(u64::from(input.u16()))),
            1 => victim.out.room = usize::from(input.u8()),
            2 => victim.stack.udp_join(id, GROUP, Sources::ANY),
            3 => victim.stack.udp_leave(id, GROUP),
            _ => victim.link_works = input.flag(),
        },
    }
}
