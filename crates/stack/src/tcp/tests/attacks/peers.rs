//! Peers of a connection that say what cannot be: in options, flags, acknowledgments (classes A, B and E).

use super::*;

#[test]
fn tiny_mss_of_a_peer_is_not_believed() {
    // 3: CVE-2019-11479
    let mut world = World::new();
    let listener = world.listen(1, 80, 16);
    let now = world.now;
    let mut options = OptionsWriter::new();
    options.mss(1);
    let syn = Fields { src: 1234, dst: 80, seq: 5, flags: Flags::SYN, window: 60_000, ..Fields::default() };
    world.hosts[1].receive(now, forge(0, &syn, &options, &[]));
    world.hosts[1].answer(now);
    let answer = seen(&(now, 1, world.hosts[1].out.frames.pop_front().unwrap()));
    let ack = Fields { seq: 6, ack: answer.seq.wrapping_add(1), flags: Flags::ACK, ..syn };
    world.hosts[1].receive(now, forge(0, &ack, &OptionsWriter::new(), &[]));
    let b = world.hosts[1].stack.tcp_accept(listener).unwrap();
    assert!(world.hosts[1].stack.tcp_info(now, b).unwrap().snd_mss >= 88);
}

#[test]
fn urgent_pointers_beyond_and_behind_do_no_harm() {
    // 5
    let mut world = World::new();
    let (a, _b) = world.pair();
    world.run(MS * 100);
    let n = numbers(&world, a);
    for urgent in [0u16, 1, 5, 6, 100, 65_535] {
        let n = numbers(&world, a);
        let mut options = OptionsWriter::new();
        options.timestamps(n.stamp, n.echo);
        let fields = Fields {
            src: 80,
            dst: 5000,
            seq: n.rcv_nxt,
            ack: n.snd_nxt,
            flags: Flags::ACK | Flags::URG,
            window: 1000,
            urgent,
            ..Fields::default()
        };
        let now = world.now;
        world.hosts[0].receive(now, forge(1, &fields, &options, b"hello"));
        let _ = world.recv_as(0, a, 1, Take::Urgent);
        while world.recv(0, a, 3).is_ok() {}
    }
    let _ = n;
    assert_eq!(world.state(0, a), Some(State::Established));
}

#[test]
fn strange_flag_combinations_open_nothing() {
    // 32: SYN with FIN, everything, nothing.
    let mut world = World::new();
    let listener = world.listen(1, 80, 16);
    let now = world.now;
    for flags in [0u8, 0x3, 0x3f, 0xff, 0x29, 0x1, 0x20, 0x6] {
        let fields = Fields { src: 1234, dst: 80, seq: 5, flags: Flags(flags), ..Fields::default() };
        world.hosts[1].receive(now, forge(0, &fields, &OptionsWriter::new(), &[]));
    }
    assert_eq!(world.hosts[1].stack.tcp_accept(listener), None);
    assert_eq!(world.hosts[1].stack.sockets.len(), 1);
    let synacks =
        world.hosts[1].out.frames.drain(..).filter(|f| seen(&(now, 1, f.clone())).flags.has(Flags::SYN));
    assert_eq!(synacks.count(), 0);
}

#[test]
fn acknowledgment_of_what_was_never_sent_is_not_believed() {
    // 20, 21
    let mut world = World::new();
    let (a, b) = world.pair();
    world.run(MS * 100);
    let n = numbers(&world, a);
    let before = world.hosts[0].stack.tcp_info(world.now, a).unwrap().snd_cwnd;
    inject(&mut world, &n, n.rcv_nxt, n.snd_nxt.wrapping_add(1000), Flags::ACK, &[], b"evil");
    assert_eq!(answers(&mut world).len(), 1);
    assert_eq!(world.recv(0, a, 10), Err(RecvError::WouldBlock));
    assert_eq!(world.hosts[0].stack.tcp_info(world.now, a).unwrap().snd_cwnd, before);
    world.transfer(0, a, b, 10_000);
}

#[test]
fn acknowledgments_in_many_small_pieces_grow_the_window_by_bytes() {
    // 20: ACK splitting
    let mut world = World::new();
    let (a, _b) = world.pair();
    world.run(MS * 100);
    world.fault = Box::new(|_, _, _| Fault::Lose);
    world.send(0, a, &[5; 14_480]).unwrap();
    world.run(MS / 100);
    let n = numbers(&world, a);
    let una = n.snd_nxt.wrapping_sub(14_480);
    let before = world.hosts[0].stack.tcb(a).unwrap().control.cwnd;
    for i in 1..=100 {
        inject(&mut world, &n, n.rcv_nxt, una.wrapping_add(14 * i), Flags::ACK, &[], &[]);
    }
    let after = world.hosts[0].stack.tcb(a).unwrap().control.cwnd;
    assert!(after <= before + 1448, "{before} -> {after}");
}

#[test]
fn sack_blocks_that_cannot_be_are_ignored() {
    // 16, 17: reversed, outside, empty, below, wrapping.
    let mut world = World::new();
    let (a, b) = world.pair();
    world.run(MS * 100);
    world.fault = Box::new(|_, _, _| Fault::Lose);
    world.send(0, a, &[5; 10_000]).unwrap();
    world.run(MS / 100);
    let n = numbers(&world, a);
    let una = n.snd_nxt.wrapping_sub(10_000);
    let bad = [
        (una + 3000, una + 2000),
        (n.snd_nxt.wrapping_add(10), n.snd_nxt.wrapping_add(20)),
        (una + 5000, una + 5000),
        (una.wrapping_sub(0x8000_0000), n.snd_nxt),
        (una + 9000, n.snd_nxt.wrapping_add(1)),
        (una.wrapping_sub(2000), una + 1448),
    ];
    for block in bad {
        inject(&mut world, &n, n.rcv_nxt, una, Flags::ACK, &[block], &[]);
        let info = world.hosts[0].stack.tcp_info(world.now, a).unwrap();
        assert_eq!((info.sacked, info.lost, info.retrans), (0, 0, 0), "{block:?}");
    }
    world.fault = Box::new(|_, _, _| Fault::Deliver);
    world.run(Duration::from_secs(2));
    assert_eq!(world.recv(1, b, 20_000).unwrap(), vec![5; 10_000]);
}

#[test]
fn thousands_of_alternating_sack_blocks_split_nothing() {
    // 16, 17: CVE-2019-11478 made the retransmission queue long by pieces.
    let mut world = World::new();
    let mut options = world.options();
    options.send_buffer = Some(1_000_000);
    let (a, b) = world.pair_with(&options);
    world.transfer(0, a, b, 1_000_000);
    world.fault = Box::new(|_, _, _| Fault::Lose);
    world.send(0, a, &vec![5; 60_000]).unwrap();
    world.run(MS / 100);
    let n = numbers(&world, a);
    let una = world.hosts[0].stack.tcb(a).unwrap().snd_una.0;
    let before = world.hosts[0].stack.tcb(a).unwrap().board.count();
    for i in 0..5000u32 {
        let at = una.wrapping_add(1 + (i * 16) % 50_000);
        inject(&mut world, &n, n.rcv_nxt, una, Flags::ACK, &[(at, at + 8)], &[]);
        world.hosts[0].out.frames.clear();
    }
    let tcb = world.hosts[0].stack.tcb(a).unwrap();
    assert!(tcb.board.count() <= before + 50, "{} segments of {before}", tcb.board.count());
    assert_eq!(tcb.board.sacked(), 0);
}

#[test]
fn a_peer_that_takes_back_what_it_sacked_still_gets_it() {
    // 17: reneging
    let mut world = World::new();
    let (a, b) = world.pair();
    world.run(MS * 100);
    world.fault = Box::new(|from, _, _| if from == 0 { Fault::Lose } else { Fault::Deliver });
    world.send(0, a, &[5; 10_000]).unwrap();
    world.run(MS / 100);
    let n = numbers(&world, a);
    let una = n.snd_nxt.wrapping_sub(10_000);
    inject(&mut world, &n, n.rcv_nxt, una, Flags::ACK, &[(una + 1448, n.snd_nxt)], &[]);
    assert!(world.hosts[0].stack.tcp_info(world.now, a).unwrap().sacked > 0);
    world.run(MS * 50);
    world.fault = Box::new(|_, _, _| Fault::Deliver);
    world.run(Duration::from_secs(10));
    assert_eq!(world.recv(1, b, 20_000).unwrap(), vec![5; 10_000]);
}

#[test]
fn a_window_with_a_remainder_of_its_unit_is_not_refilled_for_ever() {
    // 18: the unit of a scaled window is more than the remainder that is left of a full buffer.
    for old in [0, 1] {
        let mut world = World::new();
        let mut options = world.options();
        options.receive_buffer = Some(4096);
        let (a, _b) = world.pair_with(&options);
        world.run(MS * 100);
        let (capacity, unit) = {
            let tcb = world.hosts[0].stack.tcb(a).unwrap();
            (tcb.rx_capacity as usize, 1 << tcb.rcv_wscale)
        };
        assert!(unit > 1);
        for _ in 0..2000 {
            let n = numbers(&world, a);
            let tcb = world.hosts[0].stack.tcb(a).unwrap();
            let room = tcb.rcv_adv.distance_from(tcb.rcv_nxt).max(1) as usize;
            let len = if room > 1 { room - 1 } else { 1 };
            inject(&mut world, &n, n.rcv_nxt, n.snd_nxt, Flags::ACK, &[], &vec![7; len]);
            // An old byte is answered at once, beside one that is next in order.
            let n = numbers(&world, a);
            inject(&mut world, &n, n.rcv_nxt.wrapping_sub(1), n.snd_nxt, Flags::ACK, &[], &vec![7; 1 + old]);
            let _ = answers(&mut world);
        }
        let unread = world.hosts[0].stack.tcp_queued(a).unwrap().unread;
        assert!(unread >= capacity / 2 && unread < capacity + unit, "{unread} bytes in {capacity}");
    }
}
