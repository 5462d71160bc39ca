//! ICMP messages about flows that exist and that do not, with whole, cut and contradicting quotes.
//!
//! What must hold, beside `victim`: no message is answered with ICMP, no established connection dies of one, and the
//! path's MTU never falls below what is believed.

use crate::input::Input;
use crate::segment::{Forged, icmp};
use crate::victim::{ME, PEER, Victim};
use sim::packet::{ACK, Body, SYN};
use stack::tcp::{Close, Push, State};
use stack::udp::{MtuDiscover, Options};
use stack::{Duration, Endpoint, SocketId};
use wire::checksum::Sum;
use wire::ipv4;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut victim = Victim::new(|_| {});
    let (tcp, iss) = connection(&mut victim);
    let options = Options {
        receive_buffer: 65_536,
        tos: 0,
        ttl: 64,
        multicast_ttl: 1,
        multicast_all: true,
        mtu_discover: MtuDiscover::Want,
        bound_to_interface: false,
    };
    let udp = victim.stack.udp_open(Endpoint::new(ME, 1000), &options, 0).expect("room for a socket");
    victim.stack.udp_connect(udp, Endpoint::new(ME, 1000), Some(Endpoint::new(PEER, 2000)));
    for _ in 0..200 {
        if input.is_empty() {
            break;
        }
        step(&mut victim, (tcp, udp), iss, &mut input);
        for frame in victim.sent() {
            let Ok(Some(packet)) = sim::packet::parse(&frame) else { continue };
            assert!(!matches!(packet.body, Body::Icmp { .. }), "answered with ICMP");
        }
        let info = victim.stack.tcp_info(victim.now, tcp).expect("the connection is the application's");
        assert!(info.pmtu >= 536, "a path MTU of {} is believed", info.pmtu);
    }
    victim.stack.tcp_close(victim.now, tcp, Close::Abort, &mut victim.out);
    victim.stack.udp_close(udp);
    victim.must_be_empty_in_the_end();
}

fn connection(victim: &mut Victim) -> (SocketId, u32) {
    let options = stack::testing::tcp_settings().options;
    let (local, remote) = (Endpoint::new(ME, 5000), Endpoint::new(PEER, 80));
    let id = victim.stack.tcp_connect(victim.now, local, remote, &options, 0, &mut victim.out);
    let id = id.expect("room for a connection");
    victim.settle();
    let syn = victim.sent().remove(0);
    let iss = u32::from_be_bytes([syn[38], syn[39], syn[40], syn[41]]);
    let answer = Forged {
        src: 80,
        dst: 5000,
        seq: 9,
        ack: iss.wrapping_add(1),
        flags: SYN | ACK,
        ..Forged::default()
    };
    victim.receive(&Forged { window: 65_535, ..answer }.frame(PEER, ME), 0);
    assert_eq!(victim.stack.tcp_state(id), Some(State::Established));
    victim.sent();
    (id, iss)
}

fn step(victim: &mut Victim, (tcp, udp): (SocketId, SocketId), iss: u32, input: &mut Input) {
    let now = victim.now;
    match input.u8() % 8 {
        0 => victim.pass(Duration::from_millis(u64::from(input.u16()))),
        1 => {
            let data = vec![5; usize::from(input.u16() % 4000)];
            let _ = victim.stack.tcp_send(now, tcp, &mut &data[..], Push::Now, &mut victim.out);
            victim.settle();
        }
        2 => {
            let data = vec![5; usize::from(input.u16())];
            let _ = victim.stack.udp_send(
                now,
                udp,
                None,
                Endpoint::new(PEER, 2000),
                &mut &data[..],
                &mut victim.out,
            );
            victim.settle();
        }
        3 => {
            let _ = (victim.stack.take_error(tcp), victim.stack.udp_recv(udp));
        }
        // Anything at all behind a right checksum.
        4 => {
            let (head, rest) = ([input.u8(), input.u8()], input.u32().to_be_bytes());
            let len = usize::from(input.u8());
            let frame = icmp(PEER, ME, head, rest, input.bytes(len));
            victim.receive(&frame, 0);
            assert!(victim.out.frames.is_empty() || head[0] == 3, "answered");
        }
        _ => quote(victim, iss, input),
    }
    // Only the application, or a dead path, ends a connection that stands.
    let state = victim.stack.tcp_state(tcp);
    assert!(state == Some(State::Established) || victim.now.0 > 100_000_000_000, "ended by ICMP: {state:?}");
}

/// A message about a flow of ours, or nearly.
fn quote(victim: &mut Victim, iss: u32, input: &mut Input) {
    let head = [input.one_of(&[3, 3, 3, 11, 12, 5, 4, 8, 0]), input.u8() % 18];
    let (mtu, twist) = (input.u16().to_be_bytes(), input.u8());
    let mut quoted = if twist & 1 != 0 {
        let seq = iss.wrapping_add_signed(input.near());
        let segment = Forged { src: 5000, dst: 80, seq, flags: ACK, ..Forged::default() };
        segment.frame(ME, PEER)[14..].to_vec()
    } else {
        let datagram =
            stack::testing::udp_frame(Endpoint::new(ME, 1000), Endpoint::new(PEER, 2000), &[0; 20]);
        datagram[14..].to_vec()
    };
    if twist & 2 != 0 {
        quoted[2..4].copy_from_slice(&input.u16().to_be_bytes());
    }
    if twist & 4 != 0 {
        let at = usize::from(input.u8()) % quoted.len();
        quoted[at] = input.u8();
    }
    if twist & 8 != 0 {
        quoted.truncate(usize::from(input.u8()));
    }
    if twist & 16 != 0 && quoted.len() >= 20 {
        quoted[10..12].fill(0);
        let sum = Sum::ZERO.bytes(&quoted[..20]).finish();
        quoted[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    let frame = icmp(PEER, ME, head, [0, 0, mtu[0], mtu[1]], &quoted);
    debug_assert_eq!(frame[23], ipv4::ICMP);
    victim.receive(&frame, 0);
}
