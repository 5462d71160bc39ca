//! Strangers who know of a connection but do not see it (class C of the checklist).

use super::*;
use crate::SocketError;
use crate::icmp::{IcmpError, Kind};
use crate::tcp::icmp;

#[test]
fn blind_reset_in_the_window_is_challenged_and_only_the_exact_number_resets() {
    // 26
    let mut world = World::new();
    let (a, _b) = world.pair();
    world.run(MS * 100);
    let n = numbers(&world, a);
    for offset in [1, 100, 60_000] {
        inject(&mut world, &n, n.rcv_nxt.wrapping_add(offset), 0, Flags::RST, &[], &[]);
        assert_eq!(answers(&mut world).len(), 1, "offset {offset}");
        world.run(MS * 600);
    }
    for offset in [-1i32, -5000, 10_000_000] {
        inject(&mut world, &n, n.rcv_nxt.wrapping_add_signed(offset), 0, Flags::RST, &[], &[]);
        assert_eq!(answers(&mut world).len(), 0, "offset {offset}");
    }
    assert_eq!(world.state(0, a), Some(State::Established));
    inject(&mut world, &n, n.rcv_nxt, 0, Flags::RST, &[], &[]);
    assert_eq!(world.state(0, a), Some(State::Closed));
}

#[test]
fn syn_in_an_established_connection_is_challenged_and_changes_nothing() {
    // 26
    let mut world = World::new();
    let (a, b) = world.pair();
    world.run(MS * 100);
    let n = numbers(&world, a);
    for seq in [n.rcv_nxt, n.rcv_nxt.wrapping_add(50), n.rcv_nxt.wrapping_sub(999_999)] {
        inject(&mut world, &n, seq, n.snd_nxt, Flags::SYN, &[], &[]);
        let answers = answers(&mut world);
        assert_eq!((answers.len(), answers[0].flags, answers[0].ack), (1, Flags::ACK, n.rcv_nxt));
        world.run(MS * 600);
    }
    world.transfer(1, b, a, 10_000);
}

#[test]
fn challenges_come_twice_a_second_at_most_for_each_connection() {
    // 27, 39
    let mut world = World::new();
    let (a, _b) = world.pair();
    world.run(MS * 100);
    let n = numbers(&world, a);
    for _ in 0..1000 {
        inject(&mut world, &n, n.rcv_nxt.wrapping_add(7), 0, Flags::RST, &[], &[]);
    }
    assert_eq!(answers(&mut world).len(), 1);
}

#[test]
fn data_with_an_acknowledgment_far_in_the_past_is_not_taken() {
    // 26: blind data injection needs both numbers.
    let mut world = World::new();
    let (a, _b) = world.pair();
    world.run(MS * 100);
    let n = numbers(&world, a);
    for ack in [n.snd_nxt.wrapping_sub(100_000_000), n.snd_nxt ^ 0x8000_0000] {
        inject(&mut world, &n, n.rcv_nxt, ack, Flags::ACK, &[], b"evil");
        assert_eq!(world.recv(0, a, 10), Err(RecvError::WouldBlock));
    }
}

#[test]
fn an_old_timestamp_is_an_old_duplicate() {
    // 24: PAWS
    let mut world = World::new();
    let (a, b) = world.pair();
    world.transfer(1, b, a, 1000);
    world.run(MS * 100);
    let mut n = numbers(&world, a);
    n.stamp = n.stamp.wrapping_sub(1);
    inject(&mut world, &n, n.rcv_nxt, n.snd_nxt, Flags::ACK, &[], b"old");
    assert_eq!(world.recv(0, a, 10), Err(RecvError::WouldBlock));
    n.stamp = n.stamp.wrapping_add(1);
    inject(&mut world, &n, n.rcv_nxt, n.snd_nxt, Flags::ACK, &[], b"new");
    assert_eq!(world.recv(0, a, 10).unwrap(), b"new");
}

#[test]
fn initial_numbers_of_many_connections_share_no_visible_order() {
    // 22
    let mut world = World::new();
    let options = world.options();
    let mut bits = [0u32; 32];
    let mut last = 0u32;
    let count = 2000;
    for port in 0..count {
        let a = world.connect(0, 10_000 + port, 80, &options);
        let iss = world.hosts[0].stack.tcb(a).unwrap().iss.0;
        for (i, ones) in bits.iter_mut().enumerate() {
            *ones += ((iss ^ last) >> i) & 1;
        }
        last = iss;
        world.abort(0, a);
    }
    for ones in bits {
        assert!((800..1200).contains(&ones), "{bits:?}");
    }
}

#[test]
fn an_acknowledgment_without_cookie_or_handshake_is_reset() {
    // 31
    let mut world = World::new();
    let listener = world.listen(1, 80, 16);
    let fields =
        Fields { src: 1234, dst: 80, seq: 5, ack: 6, flags: Flags::ACK, window: 99, ..Fields::default() };
    let now = world.now;
    world.hosts[1].receive(now, forge(0, &fields, &OptionsWriter::new(), b"data"));
    let answer = seen(&(now, 1, world.hosts[1].out.frames.pop_front().unwrap()));
    assert_eq!((answer.flags, answer.seq), (Flags::RST, 6));
    assert_eq!(world.hosts[1].stack.tcp_accept(listener), None);
}

#[test]
fn two_confused_peers_fall_silent() {
    // 39: each side sees the other's numbers as old duplicates.
    let mut world = World::new();
    let (a, b) = world.pair();
    world.run(MS * 100);
    if let Some(crate::stack::Socket::Tcp(tcb)) = world.hosts[0].stack.sockets.get_mut(a) {
        tcb.rcv_nxt += 900_000;
        tcb.rcv_adv += 900_000;
        tcb.last_ack_sent += 900_000;
        tcb.snd_una += 700_000;
        tcb.snd_nxt += 700_000;
        tcb.board.reset(tcb.snd_nxt);
    }
    world.log.clear();
    world.send(0, a, b"x").unwrap();
    let _ = b;
    world.run(Duration::from_secs(2));
    assert!(world.log.len() < 60, "{} packets in two seconds", world.log.len());
}

#[test]
fn icmp_errors_are_hints_for_a_connection_and_final_for_a_connect() {
    // 28
    let mut world = World::new();
    let (a, b) = world.pair();
    world.run(MS * 100);
    world.fault = Box::new(|_, _, _| Fault::Lose);
    world.send(0, a, &[0; 100]).unwrap();
    let n = numbers(&world, a);
    let now = world.now;
    let hard = Kind::Unreachable { why: SocketError::Refused, hard: true };
    let host = &mut world.hosts[0];
    for seq in [n.snd_nxt.wrapping_sub(50), n.snd_nxt.wrapping_add(5000)] {
        icmp::on_error(&mut host.stack, now, a, IcmpError { kind: hard, seq }, &mut host.out);
    }
    assert_eq!(world.state(0, a), Some(State::Established));
    world.fault = Box::new(|_, _, _| Fault::Deliver);
    world.run(Duration::from_secs(1));
    world.transfer(0, a, b, 1000 - 1000);
    let options = world.options();
    world.fault = Box::new(|_, _, _| Fault::Lose);
    let c = world.connect(0, 6000, 81, &options);
    let iss = world.hosts[0].stack.tcb(c).unwrap().iss.0;
    let now = world.now;
    let host = &mut world.hosts[0];
    let blind = IcmpError { kind: hard, seq: iss.wrapping_add(77) };
    icmp::on_error(&mut host.stack, now, c, blind, &mut host.out);
    assert_eq!(world.state(0, c), Some(State::SynSent));
    let host = &mut world.hosts[0];
    icmp::on_error(&mut host.stack, now, c, IcmpError { kind: hard, seq: iss }, &mut host.out);
    assert_eq!(world.hosts[0].stack.take_error(c), Some(SocketError::Refused));
}

#[test]
fn path_mtu_by_icmp_is_believed_only_for_what_is_in_flight() {
    // 28
    let mut world = World::new();
    let (a, b) = world.pair();
    world.transfer(0, a, b, 10_000);
    world.run(MS * 100);
    let now = world.now;
    let n = numbers(&world, a);
    let too_big = |seq| IcmpError { kind: Kind::TooBig(1000), seq };
    let host = &mut world.hosts[0];
    icmp::on_error(&mut host.stack, now, a, too_big(n.snd_nxt), &mut host.out);
    assert_eq!(world.hosts[0].stack.tcp_info(now, a).unwrap().snd_mss, 1448);
    world.fault = Box::new(|_, _, frame| if frame.len() > 1014 { Fault::Lose } else { Fault::Deliver });
    world.send(0, a, &[9; 5000]).unwrap();
    world.run(MS / 100);
    let now = world.now;
    let host = &mut world.hosts[0];
    icmp::on_error(&mut host.stack, now, a, too_big(n.snd_nxt), &mut host.out);
    assert_eq!(world.hosts[0].stack.tcp_info(now, a).unwrap().snd_mss, 948);
    world.run(MS * 100);
    assert_eq!(world.recv(1, b, 10_000).unwrap(), vec![9; 5000]);
}

#[test]
fn path_mtu_that_one_connection_learned_shrinks_what_another_has_in_flight() {
    let mut world = World::new();
    let options = world.options();
    let listener = world.listen(1, 80, 16);
    let ours = [5000, 5001].map(|port| world.connect(0, port, 80, &options));
    world.run(MS * 100);
    let theirs = [(); 2].map(|()| world.hosts[1].stack.tcp_accept(listener).unwrap());
    world.fault = Box::new(|_, _, frame| if frame.len() > 1014 { Fault::Lose } else { Fault::Deliver });
    for id in ours {
        world.send(0, id, &[9; 5000]).unwrap();
    }
    world.run(MS / 100);
    let now = world.now;
    for id in ours {
        let error =
            IcmpError { kind: Kind::TooBig(1000), seq: world.hosts[0].stack.tcb(id).unwrap().snd_una.0 };
        let host = &mut world.hosts[0];
        icmp::on_error(&mut host.stack, now, id, error, &mut host.out);
        assert_eq!(world.hosts[0].stack.tcp_info(now, id).unwrap().snd_mss, 948);
    }
    // Well before any retransmission timeout.
    world.run(MS * 20);
    for id in theirs {
        assert_eq!(world.recv(1, id, 10_000).unwrap(), vec![9; 5000]);
    }
}
