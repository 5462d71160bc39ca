//! Whole conversations under one fault each, small buffers, idle connections, spurious timeouts.

use super::*;

/// A request, an answer, and an orderly close from both sides; `false`: it did not end.
fn conversation(world: &mut World) -> bool {
    let (a, b) = world.pair();
    world.transfer(0, a, b, 3000);
    world.transfer(1, b, a, 20_000);
    world.close(0, a);
    world.run(MS);
    world.close(1, b);
    world.run(Duration::from_secs(130));
    world.state(0, a).is_none() && world.state(1, b).is_none()
}

#[test]
fn the_loss_of_any_single_packet_of_a_conversation_is_survived() {
    // 40: SYN, SYN-ACK, third ACK, data, ACK, FIN, last ACK.
    for lost in 0..45 {
        let mut world = World::new();
        world.fault = Box::new(move |_, n, _| if n == lost { Fault::Lose } else { Fault::Deliver });
        assert!(conversation(&mut world), "packet {lost}");
    }
}

#[test]
fn any_single_packet_may_come_twice_or_late() {
    for fault in [Fault::Twice, Fault::Late(MS * 3), Fault::Late(MS * 500)] {
        for n in 0..45 {
            let mut world = World::new();
            world.fault = Box::new(move |_, i, _| if i == n { fault } else { Fault::Deliver });
            assert!(conversation(&mut world), "packet {n} {:?}", fault == Fault::Twice);
        }
    }
}

#[test]
fn small_buffers_under_loss_still_deliver_everything() {
    for seed in 1..8u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut world = World::new();
        world.fault =
            Box::new(move |_, _, _| if random.below(100) < 4 { Fault::Lose } else { Fault::Deliver });
        let mut options = world.options();
        options.receive_buffer = Some(4096);
        options.send_buffer = Some(3000);
        let (a, b) = world.pair_with(&options);
        world.transfer(0, a, b, 60_000);
        world.transfer(1, b, a, 60_000);
    }
}

#[test]
fn a_buffer_smaller_than_the_unit_of_its_window_is_opened_again() {
    // A small SO_RCVBUF where the largest buffer of the system asks for a large scale.
    let mut world = World::with(|config| config.tcp.window_scale = Some(14));
    let mut options = world.options();
    options.receive_buffer = Some(4096);
    // Full segments fill the window to its last byte.
    options.mss_max = 1024 + 12;
    let (a, b) = world.pair_with(&options);
    for size in [4096, 1, 1024, 60_000] {
        world.transfer(0, a, b, size);
        world.transfer(1, b, a, size);
    }
    let told = |world: &World| world.hosts[1].stack.tcp_info(world.now, b).unwrap().rcv_wnd;
    while told(&world) > 0 {
        let segment = fills(&world, b, told(&world));
        world.hosts[1].receive(world.now, segment);
    }
    assert!(world.hosts[1].stack.tcp_queued(b).unwrap().unread < 4096 + (1 << 14));
    while world.recv(1, b, 100_000).is_ok() {}
    assert!(told(&world) > 0);
}

/// The next segment of host 0 to host 1, as much as fits.
fn fills(world: &World, b: SocketId, room: u32) -> Vec<u8> {
    let tcb = world.hosts[1].stack.tcb(b).unwrap();
    let mut options = wire::tcp::OptionsWriter::new();
    options.timestamps(tcb.ts_recent, tcb.stamp(world.now));
    let fields = wire::tcp::Fields {
        src: tcb.remote.port(),
        dst: tcb.local.port(),
        seq: tcb.rcv_nxt.0,
        ack: tcb.snd_nxt.0,
        flags: wire::tcp::Flags::ACK,
        window: 100,
        ..Default::default()
    };
    forge(0, &fields, &options, &vec![7; room.min(1024) as usize])
}

#[test]
fn many_one_byte_messages_under_loss_arrive_in_order() {
    let mut random = Random(77);
    let mut world = World::new();
    world.fault = Box::new(move |_, _, _| if random.below(100) < 5 { Fault::Lose } else { Fault::Deliver });
    let mut options = world.options();
    options.nodelay = true;
    let (a, b) = world.pair_with(&options);
    let (mut sent, mut got) = (0, 0);
    while got < 5000 {
        for _ in 0..20 {
            if sent < 5000 && world.send(0, a, &[byte(sent)]).is_ok() {
                sent += 1;
            }
        }
        world.run(MS / 4);
        if let Ok(bytes) = world.recv(1, b, 10_000) {
            assert!(bytes.iter().enumerate().all(|(i, x)| *x == byte(got + i)));
            got += bytes.len();
        }
    }
}

#[test]
fn an_idle_connection_has_no_timer_and_less_than_a_kilobyte_and_a_half() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.transfer(0, a, b, 100_000);
    world.transfer(1, b, a, 100_000);
    world.run(Duration::from_secs(10));
    assert_eq!(world.hosts[0].stack.next_timer(), None);
    assert_eq!(world.hosts[1].stack.next_timer(), None);
    let block = crate::tcp::CONNECTION_SIZE;
    assert!(block <= 808, "{block}");
}

#[test]
fn a_timeout_without_a_loss_is_found_spurious_and_undone() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.transfer(0, a, b, 500_000);
    world.run(MS * 100);
    let before = world.hosts[0].stack.tcp_info(world.now, a).unwrap();
    let until = world.now + MS * 2;
    let mut now_of = world.now;
    world.fault = Box::new(move |from, _, _| {
        // The first flight is held up for longer than the timeout.
        now_of = now_of + MS / 100;
        if from == 0 && now_of < until { Fault::Late(MS * 400) } else { Fault::Deliver }
    });
    world.send(0, a, &[1; 20_000]).unwrap();
    world.run(Duration::from_secs(3));
    assert_eq!(world.recv(1, b, 50_000).unwrap().len(), 20_000);
    let after = world.hosts[0].stack.tcp_info(world.now, a).unwrap();
    assert!(after.total_retrans > before.total_retrans, "the timeout happened");
    assert!(
        after.snd_ssthresh.is_none_or(|after| before.snd_ssthresh.is_some_and(|before| after >= before)),
        "{:?} {:?}",
        before.snd_ssthresh,
        after.snd_ssthresh
    );
}

#[test]
fn a_hundred_connections_on_one_tick_are_all_served() {
    // 38
    let mut world = World::new();
    let listener = world.listen(1, 80, 200);
    let options = world.options();
    let ids: Vec<SocketId> = (0..100).map(|i| world.connect(0, 5000 + i, 80, &options)).collect();
    world.run(MS * 20);
    let peers: Vec<SocketId> = core::iter::from_fn(|| world.hosts[1].stack.tcp_accept(listener)).collect();
    assert_eq!(peers.len(), 100);
    world.fault = Box::new(|_, _, _| Fault::Lose);
    for id in &ids {
        world.send(0, *id, b"all at once").unwrap();
    }
    world.run(MS * 100);
    world.fault = Box::new(|_, _, _| Fault::Deliver);
    world.run(Duration::from_secs(2));
    for id in peers {
        assert_eq!(world.recv(1, id, 100).unwrap(), b"all at once");
    }
}

#[test]
fn every_congestion_control_fills_a_lossy_path() {
    use crate::tcp::Congestion;
    for congestion in [Congestion::Cubic, Congestion::NewReno, Congestion::None] {
        let mut random = Random(5);
        let mut world = World::new();
        world.delay = MS * 5;
        world.fault =
            Box::new(
                move |from, _, _| {
                    if from == 0 && random.below(500) == 0 { Fault::Lose } else { Fault::Deliver }
                },
            );
        let mut options = world.options();
        options.congestion = congestion;
        let (a, b) = world.pair_with(&options);
        let took = world.transfer(0, a, b, 3_000_000);
        assert!(took < Duration::from_secs(5), "{congestion:?} {took:?}");
    }
}
