//! Loss, reordering, duplication.

use super::*;

#[test]
fn streams_survive_loss_reordering_and_duplication() {
    for seed in 1..25u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut world = World::with(|c| {
            if seed % 4 == 0 {
                c.tcp.sack = false;
            }
            if seed % 5 == 0 {
                c.tcp.timestamps = false;
            }
        });
        world.fault = Box::new(move |_, _, _| match random.below(100) {
            0..=2 => Fault::Lose,
            3..=4 => Fault::Twice,
            5..=9 => Fault::Late(MS * (1 + random.below(3) as u32) / 4),
            _ => Fault::Deliver,
        });
        let (a, b) = world.pair();
        world.transfer(0, a, b, 200_000);
        world.transfer(1, b, a, 200_000);
        world.close(0, a);
        world.close(1, b);
        world.run(Duration::from_secs(100));
        assert_eq!((world.state(0, a), world.state(1, b)), (None, None), "seed {seed}");
    }
}

#[test]
fn one_lost_segment_is_repaired_without_a_timeout() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.transfer(0, a, b, 100_000);
    let mut data = 0;
    world.fault = Box::new(move |from, _, frame| {
        if from == 0 && payload_len(frame) > 0 {
            data += 1;
            if data == 10 {
                return Fault::Lose;
            }
        }
        Fault::Deliver
    });
    let took = world.transfer(0, a, b, 100_000);
    assert!(took < MS * 20, "{took:?}");
    let info = world.hosts[0].stack.tcp_info(world.now, a).unwrap();
    assert_eq!(info.total_retrans, 1);
}

#[test]
fn a_lost_tail_is_found_by_the_probe_long_before_the_timeout() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.transfer(0, a, b, 100_000);
    world.run(MS * 300);
    let mut data = 0;
    world.fault = Box::new(move |from, _, frame| {
        if from == 0 && payload_len(frame) > 0 {
            data += 1;
            if data == 7 {
                return Fault::Lose;
            }
        }
        Fault::Deliver
    });
    let took = world.transfer(0, a, b, 7 * 1448);
    assert!(took < MS * 60, "{took:?}");
}

#[test]
fn without_sack_three_duplicates_bring_the_segment_again() {
    let mut world = World::with(|c| c.tcp.sack = false);
    let (a, b) = world.pair();
    world.transfer(0, a, b, 100_000);
    let mut data = 0;
    world.fault = Box::new(move |from, _, frame| {
        if from == 0 && payload_len(frame) > 0 {
            data += 1;
            if data == 10 || data == 12 {
                return Fault::Lose;
            }
        }
        Fault::Deliver
    });
    let took = world.transfer(0, a, b, 100_000);
    assert!(took < MS * 60, "{took:?}");
}

#[test]
fn a_dead_path_times_out_by_retries_and_by_user_timeout() {
    for user in [false, true] {
        let mut world = World::with(|c| c.tcp.retries2 = 3);
        let mut options = world.options();
        if user {
            options.user_timeout = Duration::from_secs(1);
        }
        let (a, _b) = world.pair_with(&options);
        world.fault = Box::new(|_, _, _| Fault::Lose);
        world.send(0, a, &[0; 100]).unwrap();
        world.run(Duration::from_secs(1) - MS * 20);
        assert_eq!(world.state(0, a), Some(State::Established));
        world.run(Duration::from_secs(if user { 1 } else { 20 }));
        assert_eq!(world.state(0, a), Some(State::Closed));
        assert_eq!(world.hosts[0].stack.take_error(a), Some(crate::SocketError::TimedOut));
    }
}

#[test]
fn what_is_lost_after_a_window_was_closed_for_long_is_tried_as_often_as_ever() {
    for user in [false, true] {
        let mut world = World::with(|c| c.tcp.retries2 = if user { 15 } else { 4 });
        let mut options = world.options();
        if user {
            options.user_timeout = Duration::from_secs(10);
        }
        let (a, b) = world.pair_with(&options);
        let mut sent = 0;
        while let Ok(n) = world.send(0, a, &[7; 65_536]) {
            sent += n;
            world.run(MS * 20);
        }
        world.run(Duration::from_secs(if user { 6 } else { 40 }));
        assert_eq!(world.state(0, a), Some(State::Established), "its probes are answered");
        world.fault =
            Box::new(
                |from, _, frame| {
                    if from == 0 && payload_len(frame) > 0 { Fault::Lose } else { Fault::Deliver }
                },
            );
        let mut received = 0;
        for step in 0..500 {
            if step == 250 {
                world.fault = Box::new(|_, _, _| Fault::Deliver);
            }
            received += world.recv(1, b, 65_536).map_or(0, |bytes| bytes.len());
            world.run(MS * 20);
        }
        assert_eq!(world.state(0, a), Some(State::Established), "given up at once; by user timeout: {user}");
        assert_eq!(received, sent);
    }
}

#[test]
fn a_path_that_becomes_longer_is_measured_though_everything_is_sent_twice() {
    // Karn's rule alone would leave the timeout below the round trip for ever: RFC 6298, 5 keeps what it doubled, and
    // timestamps tell the round trip of what was sent again (RFC 7323, 4).
    for timestamps in [true, false] {
        let mut world = World::with(|config| config.tcp.timestamps = timestamps);
        let (a, b) = world.pair();
        let exchange = |world: &mut World| {
            let before = world.hosts[0].stack.tcp_info(world.now, a).unwrap().total_retrans;
            world.send(0, a, &[5; 100]).unwrap();
            world.run(Duration::from_secs(4));
            assert_eq!(world.recv(1, b, 1000).unwrap().len(), 100);
            world.hosts[0].stack.tcp_info(world.now, a).unwrap().total_retrans - before
        };
        world.delay = MS;
        assert_eq!((0..10).map(|_| exchange(&mut world)).sum::<u32>(), 0);
        world.delay = MS * 500;
        let first = exchange(&mut world);
        assert!(first > 0, "the timeout was below the round trip");
        let _ = (0..10).map(|_| exchange(&mut world)).sum::<u32>();
        assert_eq!((0..10).map(|_| exchange(&mut world)).sum::<u32>(), 0, "timestamps: {timestamps}");
        let info = world.hosts[0].stack.tcp_info(world.now, a).unwrap();
        assert!(info.rto > Duration::from_secs(1) && info.backoff == 0, "{:?} {}", info.rto, info.backoff);
        assert_eq!(info.retransmits, 0);
    }
}

#[test]
fn keepalive_finds_a_dead_peer_and_leaves_a_living_one() {
    let mut world = World::new();
    let mut options = world.options();
    options.keepalive = true;
    options.keepalive_idle = Duration::from_secs(10);
    options.keepalive_interval = Duration::from_secs(2);
    options.keepalive_count = 3;
    let (a, _b) = world.pair_with(&options);
    world.run(Duration::from_secs(100));
    assert_eq!(world.state(0, a), Some(State::Established));
    world.fault = Box::new(|_, _, _| Fault::Lose);
    world.run(Duration::from_secs(20));
    assert_eq!(world.hosts[0].stack.take_error(a), Some(crate::SocketError::TimedOut));
}
