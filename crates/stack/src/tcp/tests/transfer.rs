//! Data both ways, windows, acknowledgments, small segments.

use super::*;
use crate::Ready;
use wire::tcp::Flags;

#[test]
fn urgent_data_has_no_pointer_while_it_is_further_ahead_than_one_reaches() {
    let mut world = World::new();
    let (a, b) = world.pair();
    let bytes: Vec<u8> = (0..400_000).map(byte).collect();
    let (mut sent, mut read) = (0, 0);
    let mut urgent = Vec::new();
    while read < bytes.len() - 1 {
        if sent < bytes.len() {
            sent += world.send_as(0, a, &bytes[sent..], Push::Urgent).unwrap_or(0);
        }
        world.run(MS);
        if let Ok(byte) = world.recv_as(1, b, 1, Take::Urgent) {
            urgent.extend(byte);
        }
        while let Ok(part) = world.recv(1, b, 50_000) {
            assert_eq!(part, bytes[read..read + part.len()], "at {read}");
            read += part.len();
        }
    }
    assert_eq!(urgent, [*bytes.last().unwrap()]);
}

#[test]
fn a_stream_arrives_whole_both_ways() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.transfer(0, a, b, 3_000_000);
    world.transfer(1, b, a, 3_000_000);
    assert_eq!(world.hosts[0].stack.tcp_info(world.now, a).unwrap().total_retrans, 0);
}

#[test]
fn ping_pong_acknowledgments_ride_on_data() {
    let mut world = World::new();
    let (a, b) = world.pair();
    let ping = |world: &mut World| {
        world.send(0, a, &[1; 64]).unwrap();
        world.run(MS / 5);
        assert_eq!(world.recv(1, b, 100).unwrap().len(), 64);
        world.send(1, b, &[2; 64]).unwrap();
        world.run(MS / 5);
        assert_eq!(world.recv(0, a, 100).unwrap().len(), 64);
    };
    for _ in 0..5 {
        ping(&mut world);
    }
    world.log.clear();
    for _ in 0..100 {
        ping(&mut world);
    }
    assert_eq!(world.log.len(), 200);
}

#[test]
fn every_second_full_segment_is_acknowledged_and_a_lone_one_within_40_ms() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.transfer(0, a, b, 100_000);
    world.run(MS * 100);
    world.log.clear();
    world.send(0, a, &[0; 100]).unwrap();
    world.run(MS * 39);
    assert_eq!(world.log.iter().filter(|e| e.1 == 1).count(), 0);
    world.run(MS * 5);
    assert_eq!(world.log.iter().filter(|e| e.1 == 1).count(), 1);
}

#[test]
fn what_a_reader_that_is_behind_gets_is_acknowledged_when_it_reads() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.transfer(0, a, b, 100_000);
    world.run(MS * 100);
    let capacity = world.hosts[1].stack.tcp_info(world.now, b).unwrap().rcv_ssthresh as usize;
    let sent = world.send(0, a, &vec![0; capacity * 3 / 4]).unwrap();
    assert_eq!(sent, capacity * 3 / 4);
    world.run(MS);
    let unacknowledged = |world: &World| world.hosts[0].stack.tcp_queued(a).unwrap().send;
    assert!((sent / 4..=sent / 3 + 3000).contains(&unacknowledged(&world)), "{}", unacknowledged(&world));
    world.log.clear();
    assert_eq!(world.recv(1, b, sent).unwrap().len(), sent);
    world.run(MS);
    assert_eq!((unacknowledged(&world), world.log.iter().filter(|e| e.1 == 1).count()), (0, 1));
}

#[test]
fn nagle_holds_a_second_small_segment_and_nodelay_does_not() {
    for nodelay in [false, true] {
        let mut world = World::new();
        let mut options = world.options();
        options.nodelay = nodelay;
        let (a, _b) = world.pair_with(&options);
        world.run(MS * 100);
        world.log.clear();
        for _ in 0..4 {
            world.send(0, a, &[0; 10]).unwrap();
        }
        world.run(MS / 20);
        assert_eq!(world.log.len(), if nodelay { 4 } else { 1 });
    }
}

#[test]
fn cork_and_more_hold_partial_segments_for_200_ms_at_most() {
    for cork in [false, true] {
        let mut world = World::new();
        let (a, b) = world.pair();
        if cork {
            let now = world.now;
            let host = &mut world.hosts[0];
            host.stack.tcp_configure(now, a, |o| o.cork = true, &mut host.out);
        }
        let push = if cork { Push::Now } else { Push::More };
        // What follows a full segment goes with the acknowledgment of that one, unless it is corked.
        let full = if cork { 1448 } else { 0 };
        world.send_as(0, a, &vec![0; full + 552], push).unwrap();
        world.run(MS * 150);
        assert_eq!(world.recv(1, b, 5000).map_or(0, |read| read.len()), full);
        world.run(MS * 100);
        assert_eq!(world.recv(1, b, 5000).unwrap().len(), 552);
        world.send_as(0, a, &[0; 20], push).unwrap();
        if cork {
            let now = world.now;
            let host = &mut world.hosts[0];
            host.stack.tcp_configure(now, a, |o| o.cork = false, &mut host.out);
        } else {
            world.send(0, a, &[0; 20]).unwrap();
        }
        world.run(MS);
        assert_eq!(world.recv(1, b, 5000).unwrap().len(), if cork { 20 } else { 40 });
    }
}

#[test]
fn many_small_sends_with_later_leave_as_full_segments_on_flush() {
    let mut world = World::new();
    let mut options = world.options();
    options.nodelay = true;
    let (a, b) = world.pair_with(&options);
    world.log.clear();
    for i in 0..100 {
        world.send_as(0, a, &[i; 100], Push::Later).unwrap();
        assert!(i > 13 || world.hosts[0].stack.wants_flush());
    }
    world.run(MS);
    assert_eq!(world.recv(1, b, 20_000).unwrap().len(), 10_000);
    let segments = world.log.iter().filter(|e| e.1 == 0 && payload_len(&e.2) > 0).count();
    assert_eq!(segments, 7);
    assert!(!world.hosts[0].stack.wants_flush());
}

#[test]
fn a_closed_window_is_probed_and_opens_when_the_reader_reads() {
    let mut world = World::new();
    let (a, b) = world.pair();
    let mut sent = 0;
    let bytes: Vec<u8> = (0..1_000_000).map(byte).collect();
    for _ in 0..2000 {
        match world.send(0, a, &bytes[sent..]) {
            Ok(n) => sent += n,
            Err(SendError::WouldBlock) => world.run(MS),
            Err(why) => panic!("{why:?}"),
        }
    }
    world.log.clear();
    world.run(Duration::from_secs(30));
    let probes: Vec<Seen> = world.log.iter().map(seen).filter(|s| s.from == 0).collect();
    assert!(probes.len() >= 4 && probes.len() < 30, "{}", probes.len());
    let mut got = 0;
    while got < sent {
        match world.recv(1, b, 65_536) {
            Ok(part) => {
                assert!(part.iter().enumerate().all(|(i, x)| *x == byte(got + i)));
                got += part.len();
            }
            Err(RecvError::WouldBlock) => world.run(MS),
            Err(why) => panic!("{why:?}"),
        }
    }
}

#[test]
fn window_probes_wait_twice_as_long_each_time_up_to_two_minutes() {
    let mut world = World::new();
    let (a, _b) = world.pair();
    let mut sent = 0;
    while let Ok(n) = world.send(0, a, &vec![7; 2_000_000][sent..]) {
        sent += n;
        world.run(MS * 3);
    }
    world.run(MS * 20);
    world.log.clear();
    world.run(Duration::from_secs(1500));
    let probes: Vec<Instant> = world.log.iter().map(seen).filter(|s| s.from == 0).map(|s| s.at).collect();
    let waits: Vec<f64> = probes.windows(2).map(|two| two[1].since(two[0]).as_secs_f64()).collect();
    assert!(waits.len() > 10 && waits[0] < 1.0, "{waits:?}");
    for two in waits.windows(2) {
        let expected = (two[0] * 2.0).min(120.0);
        assert!((two[1] - expected).abs() < expected / 50.0, "{waits:?}");
    }
    assert_eq!(world.state(0, a), Some(State::Established));
}

#[test]
fn a_lost_window_update_is_made_up_by_the_probe() {
    let mut world = World::new();
    let (a, b) = world.pair();
    let mut sent = 0;
    while let Ok(n) = world.send(0, a, &vec![7; 300_000][sent..]) {
        sent += n;
        world.run(MS * 3);
    }
    world.run(Duration::from_secs(1));
    world.fault = Box::new(|from, _, _| if from == 1 { Fault::Lose } else { Fault::Deliver });
    let mut got = 0;
    while let Ok(part) = world.recv(1, b, 65_536) {
        got += part.len();
    }
    world.run(MS);
    world.fault = Box::new(|_, _, _| Fault::Deliver);
    world.run_until(Duration::from_secs(20), |w| {
        got += w.recv(1, b, 65_536).map_or(0, |p| p.len());
        got == sent
    });
}

#[test]
fn writable_means_a_third_free_and_the_edge_comes_after_there_was_none() {
    let mut world = World::new();
    let mut options = world.options();
    options.send_buffer = Some(30_000);
    let (a, b) = world.pair_with(&options);
    world.edges(0, a);
    world.fault = Box::new(|_, _, _| Fault::Lose);
    assert_eq!(world.send(0, a, &[0; 19_000]), Ok(19_000));
    assert!(world.hosts[0].stack.ready(a).has(Ready::OUT));
    assert_eq!(world.send(0, a, &[0; 2000]), Ok(2000));
    assert!(!world.hosts[0].stack.ready(a).has(Ready::OUT));
    assert_eq!(world.send(0, a, &[0; 20_000]), Ok(9000));
    assert_eq!(world.send(0, a, &[0; 1]), Err(SendError::WouldBlock));
    assert_eq!(world.edges(0, a), Ready::default());
    world.fault = Box::new(|_, _, _| Fault::Deliver);
    world.run(Duration::from_secs(3));
    assert_eq!(world.recv(1, b, 50_000).unwrap().len(), 30_000);
    assert!(world.edges(0, a).has(Ready::OUT));
}

#[test]
fn receive_low_water_delays_readiness() {
    let mut world = World::new();
    let mut options = world.options();
    options.receive_low_water = 100;
    let (a, b) = world.pair_with(&options);
    world.edges(1, b);
    world.send(0, a, &[0; 60]).unwrap();
    world.run(MS);
    assert!(!world.hosts[1].stack.ready(b).has(Ready::IN));
    assert_eq!(world.edges(1, b), Ready::default());
    world.send(0, a, &[0; 60]).unwrap();
    world.run(MS * 50);
    assert!(world.hosts[1].stack.ready(b).has(Ready::IN));
    assert!(world.edges(1, b).has(Ready::IN));
}

#[test]
fn peek_and_discard_do_what_they_say() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.send(0, a, b"hello world").unwrap();
    world.run(MS);
    assert_eq!(world.recv_as(1, b, 5, Take::Peek(0)).unwrap(), b"hello");
    assert_eq!(world.recv_as(1, b, 50, Take::Peek(6)).unwrap(), b"world");
    assert_eq!(world.recv_as(1, b, 50, Take::Peek(11)), Err(RecvError::WouldBlock));
    assert_eq!(world.recv_as(1, b, 6, Take::Discard).unwrap().len(), 6);
    assert_eq!(world.recv(1, b, 50).unwrap(), b"world");
    assert_eq!(world.recv(1, b, 50), Err(RecvError::WouldBlock));
}

#[test]
fn an_outlet_that_is_full_loses_nothing() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.hosts[0].out.room = 1;
    world.hosts[1].out.room = 1;
    world.transfer(0, a, b, 200_000);
    assert_eq!(world.hosts[0].stack.tcp_info(world.now, a).unwrap().total_retrans, 0);
}

#[test]
fn urgent_byte_is_taken_out_of_line_and_marks_its_place() {
    let mut world = World::new();
    let (a, b) = world.pair();
    world.send(0, a, b"abc").unwrap();
    world.send_as(0, a, b"d!", Push::Urgent).unwrap();
    world.send(0, a, b"ef").unwrap();
    world.run(MS * 200);
    assert!(world.log.iter().map(seen).any(|s| s.flags.has(Flags::URG)));
    assert!(world.hosts[1].stack.ready(b).has(Ready::PRI));
    assert_eq!(world.recv_as(1, b, 1, Take::Urgent).unwrap(), b"!");
    assert_eq!(world.recv_as(1, b, 50, Take::Peek(1)).unwrap(), b"bcd");
    assert_eq!(world.recv_as(1, b, 50, Take::Peek(4)).unwrap(), b"ef");
    assert_eq!(world.recv(1, b, 50).unwrap(), b"abcd");
    assert!(world.hosts[1].stack.tcp_at_mark(b));
    assert_eq!(world.recv(1, b, 50).unwrap(), b"ef");
    assert!(!world.hosts[1].stack.tcp_at_mark(b));
    assert_eq!(world.recv_as(1, b, 1, Take::Urgent), Err(RecvError::NoUrgentData));
}

#[test]
fn buffers_grow_with_the_path() {
    let mut world = World::new();
    world.delay = MS * 20;
    let (a, b) = world.pair();
    let took = world.transfer(0, a, b, 30_000_000);
    // 64 KiB per 40 ms would take 18 seconds.
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn not_sent_low_water_limits_what_waits_and_tells_when_it_left() {
    let mut world = World::new();
    let mut options = world.options();
    options.not_sent_low_water = 5000;
    let (a, b) = world.pair_with(&options);
    let mut sent = 0;
    while let Ok(n) = world.send(0, a, &[3; 1000]) {
        sent += n;
        // To the end of the packet that reaches it: half of the window of a SYN.
        assert!(world.hosts[0].stack.tcp_queued(a).unwrap().unsent <= 65_535 / 2);
    }
    assert!(world.hosts[0].stack.tcp_queued(a).unwrap().unsent >= 5000);
    assert!(!world.hosts[0].stack.ready(a).has(Ready::OUT));
    world.edges(0, a);
    world.run(MS * 100);
    assert_eq!(world.recv(1, b, 100_000).unwrap().len(), sent);
    assert!(world.edges(0, a).has(Ready::OUT));
}
